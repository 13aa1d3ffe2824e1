"""Builds a wheel that any Linux with glibc 2.27 installs without a compiler, and an sdist.

The engine is linked by zig against that old glibc. RocksDB's release build goes into the wheel; its
libstdc++ is what asks for 2.27.
"""

from __future__ import annotations

import os
import shutil
import sys

import progress
import rocksdb_library
import target_folder

import setup

DIST = setup.ROOT / "dist"
LOCK = setup.ROOT / "requirements-wheel.lock"
GLIBC = "manylinux_2_27"


def build(*words: str) -> None:
    """Calls maturin with the locked tools. Raises Failed when it doesn't succeed."""
    with target_folder.held() as folder:
        path = f"{setup.VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**target_folder.environment(folder), "PATH": path}
        command = ["maturin", *words, "--out", str(DIST)]
        if progress.run(command, cwd=setup.ROOT, environment=environment) != 0:
            raise setup.Failed("the wheel can't be built, see above: mend that and try again.")


def main() -> int:
    """Builds both, says how large they are, and returns the exit code."""
    if rocksdb_library.folder() is None:
        print(
            "A wheel holds RocksDB's release build, and this machine has none: run `make setup`"
            " without KVMARK_ROCKSDB=source, with Maven installed.",
            file=sys.stderr,
        )
        return 1
    try:
        setup.pip("-r", str(LOCK))
        shutil.rmtree(DIST, ignore_errors=True)
        build("build", "--release", "--locked", "--zig", "--compatibility", GLIBC)
        build("sdist")
    except setup.Failed as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for file in sorted(DIST.iterdir()):
        print(f"{file.relative_to(setup.ROOT)}: {file.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
