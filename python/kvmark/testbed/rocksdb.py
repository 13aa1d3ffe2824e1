"""Folders of embedded RocksDB: whether one is there, and removing it when kvmark made it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kvmark.errors import SystemUnderTestError

__all__ = ["holds_database", "remove_database"]

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
