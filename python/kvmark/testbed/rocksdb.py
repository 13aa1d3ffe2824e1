"""Folders of embedded RocksDB: whether one is there, making one, and removing what kvmark made."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvmark.errors import SystemUnderTestError

__all__ = ["holds_database", "remove_database", "scratch_folder"]

_OWN_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|(MANIFEST|OPTIONS)-\d+(\.dbtmp)?|\d+\.(sst|log|blob)"
)


def holds_database(folder: Path) -> bool:
    """Whether the folder is a RocksDB database."""
    return (folder / "CURRENT").exists()


def remove_database(folder: Path) -> None:
    """Removes a database and its folder.

    Raises:
        SystemUnderTestError: the folder holds other files too, so that it isn't kvmark's to remove.
    """
    if not folder.exists():
        return
    for path in folder.iterdir():
        if not _OWN_FILE.fullmatch(path.name):
            raise SystemUnderTestError(
                f"{folder} holds {path.name}, which is not RocksDB's: remove the folder yourself"
                " or name another"
            )
    shutil.rmtree(folder)


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A new folder for a database, removed in the end with what is in it.

    Raises:
        SystemUnderTestError: the folder can't be made.
    """
    folder = root / f"scratch-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True)
    except OSError as problem:
        raise SystemUnderTestError(
            f"no database can be made in {root} because {problem.strerror}: name a folder with"
            " --system rocksdb:PATH"
        ) from problem
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
