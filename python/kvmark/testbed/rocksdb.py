"""Folders of embedded RocksDB: whether one is there, making one, and removing what kvmark made."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.system import Contents, Store

__all__ = ["STORE", "scratch_folder"]

_SCRATCH: Final = "scratch-"
_OWN_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|(MANIFEST|OPTIONS)-\d+(\.dbtmp)?|\d+\.(sst|log|blob)"
)


def _contents(options: Mapping[str, str], _: Secret | None) -> Contents:
    """What is in the folder of a database."""
    folder = Path(options["path"])
    return Contents(
        "a database" if (folder / "CURRENT").exists() else None,
        "remove it with --on-existing remove, name another folder, or leave load out of"
        " --workloads",
        lambda: _remove_database(folder),
    )


STORE: Final = Store("rocksdb", _contents)
"""What a folder holds, and removing it."""


def _remove_database(folder: Path) -> None:
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

    What killed commands left in `root` is removed first. The kernel tells it from what is in use:
    a command holds a lock on its folder for as long as it lives.

    Raises:
        SystemUnderTestError: the folder can't be made.
    """
    token = secrets.token_hex(4)
    hidden, folder = root / f".{_SCRATCH}{token}", root / f"{_SCRATCH}{token}"
    try:
        hidden.mkdir(parents=True)
    except OSError as problem:
        raise SystemUnderTestError(
            f"no database can be made in {root} because {problem.strerror}: name a folder with"
            " --system rocksdb:PATH"
        ) from problem
    _remove_abandoned(root)
    with _opened(hidden) as handle:
        # Under its name it is never seen without its lock.
        fcntl.flock(handle, fcntl.LOCK_EX)
        hidden.rename(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """Removes scratch folders that nobody holds a lock on."""
    for path in root.glob(f"{_SCRATCH}*"):
        with suppress(OSError), _opened(path) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
