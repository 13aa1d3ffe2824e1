"""Builds a wheel that any Linux with glibc 2.27 installs without a compiler, and an sdist.

zig compiles RocksDB and links the engine against that old glibc, with its own C++ library.
"""

from __future__ import annotations

import platform
import shutil
import sys

import progress
import rocksdb_library
from rocksdb_library import CRATE

import setup

DIST = setup.ROOT / "dist"
LOCK = setup.ROOT / "requirements-wheel.lock"
GLIBC = "2.27"
TARGET = f"{platform.machine()}-linux-gnu.{GLIBC}"
ZIG = (str(setup.PYTHON), "-m", "ziglang", "c++", "-target", TARGET)


def main() -> None:
    """Builds both and prints their sizes."""
    setup.pip("-r", str(LOCK))
    linked = rocksdb_library.compile_library(ZIG) if rocksdb_library.choice() != CRATE else None
    shutil.rmtree(DIST, ignore_errors=True)
    manylinux, output = f"manylinux_{GLIBC.replace('.', '_')}", ("--out", str(DIST))
    words = ("build", "--release", "--locked", "--zig", "--compatibility", manylinux, *output)
    setup.maturin("wheel", *words, variables=rocksdb_library.environment(linked))
    setup.maturin("wheel", "sdist", *output)
    for file in sorted(DIST.iterdir()):
        print(f"{file.relative_to(setup.ROOT)}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(progress.exit_code(main, setup.Failed, rocksdb_library.Unavailable))
