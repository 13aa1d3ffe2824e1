"""Calls Cargo for the Makefile: in the shared target folder, never with another clone's code.

python3 scripts/cargo.py test --release --workspace

Tests have the product's profile, and a sum that overflows ends them. Dependencies
keep the product's, so that RocksDB and all others are compiled once for both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import progress
import rocksdb_library
import target_folder

# For the crates of the workspace; "*" are all others.
CHECKED = (
    "--config", "profile.release.overflow-checks=true",
    "--config", 'profile.release.package."*".overflow-checks=false',
)  # fmt: skip
FROZEN = {"PROPTEST_RNG_SEED": "1"}
"""The cases that property tests draw, unless another seed is given."""


def command(arguments: list[str]) -> list[str]:
    """The call of cargo with these arguments."""
    options = rocksdb_library.options(rocksdb_library.library())
    checked = CHECKED if arguments[:1] == ["test"] else ()
    # Behind the name: programs such as clippy don't get what is before it.
    return ["cargo", *arguments[:1], *options, *checked, *arguments[1:]]


def rocksdb_is_built(folder: Path) -> bool:
    """Whether RocksDB is compiled: as a library, or in this folder."""
    if os.environ.get("ROCKSDB_LIB_DIR") or rocksdb_library.library() is not None:
        return True
    return any((folder / "release" / "build").glob("librocksdb-sys-*/out/librocksdb.a"))


def announce(folder: Path) -> None:
    """Prints a message before a long build."""
    if not rocksdb_is_built(folder):
        print(
            "RocksDB's crate compiles it, once for all clones: 10 to 20 minutes on two cores.\n"
            f"Its artefacts are kept in {folder}.",
            file=sys.stderr,
            flush=True,
        )


def main(arguments: list[str]) -> int:
    """Runs cargo with the arguments and returns its exit code."""
    try:
        rocksdb_library.ensure()
    except KeyboardInterrupt:
        return 130
    with target_folder.held() as folder:
        announce(folder)
        environment = {**FROZEN, **target_folder.environment(folder)}
        return progress.run(command(arguments), cwd=target_folder.ROOT, environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
