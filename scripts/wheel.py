"""Builds a wheel that any Linux with glibc 2.27 installs without a compiler, and an sdist.

zig compiles RocksDB and links the engine against that old glibc, with its own C++ library.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys

import progress
import rocksdb_library
import target_folder

import setup

DIST = setup.ROOT / "dist"
LOCK = setup.ROOT / "requirements-wheel.lock"
GLIBC = "2.27"
TARGET = f"{platform.machine()}-linux-gnu.{GLIBC}"
ZIG = rocksdb_library.Compiler((str(setup.PYTHON), "-m", "ziglang", "c++", "-target", TARGET))


def build(*words: str) -> None:
    """Calls maturin with the locked tools. Raises Failed if that fails."""
    with target_folder.held() as folder:
        path = f"{setup.VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
        rocksdb = rocksdb_library.environment(ZIG)
        environment = {**target_folder.environment(folder), **rocksdb, "PATH": path}
        command = ["maturin", *words, "--out", str(DIST)]
        if progress.run(command, cwd=setup.ROOT, environment=environment) != 0:
            raise setup.Failed("the wheel can't be built, see above: fix that and try again.")


def main() -> int:
    """Builds both, prints their sizes, and returns the exit code."""
    manylinux = f"manylinux_{GLIBC.replace('.', '_')}"
    try:
        setup.pip("-r", str(LOCK))
        if rocksdb_library.is_wanted():
            rocksdb_library.compile_library(ZIG)
        shutil.rmtree(DIST, ignore_errors=True)
        build("build", "--release", "--locked", "--zig", "--compatibility", manylinux)
        build("sdist")
    except (setup.Failed, rocksdb_library.Unavailable) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for file in sorted(DIST.iterdir()):
        print(f"{file.relative_to(setup.ROOT)}: {file.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
