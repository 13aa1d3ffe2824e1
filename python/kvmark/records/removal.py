"""Runs removed from the disk: each is there whole, or not in any list."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvmark.errors import RecordsError, RunError
from kvmark.records import files
from kvmark.records.listed import Entry
from kvmark.records.store import Records
from kvmark.records.verdicts import verdict_path
from kvmark.removal import foreign_file, remove_file, remove_folder

__all__ = ["foreign_in", "is_written", "remove", "size_bytes", "sweep"]

_LEAVING: Final = re.compile(r"\.(\d{8}-\d{6}-[a-z0-9-]+)\.removed")
"""The name of a folder that is being removed; no list shows it."""


def is_written(entry: Entry) -> bool:
    """Whether a process still writes the run: it goes, or it has ended and is being closed."""
    if entry.state == "going":
        return True
    if entry.state != "ended":
        return False
    from kvmark.records.writer import Running  # noqa: PLC0415 - few runs need their models

    try:
        return Running.read(entry.path).writer.lives()
    except RecordsError:
        return False


def foreign_in(entry: Entry) -> str | None:
    """The name of a file in a run's folder that kvmark didn't write; None without one."""
    if entry.path.is_symlink():
        # The link goes, and what it leads to stays.
        return None
    foreign = foreign_file(entry.path, files.OWN_FILES)
    return None if foreign is None else str(foreign.relative_to(entry.path))


def size_bytes(entry: Entry) -> int:
    """What the run's files take."""
    total = 0
    for path in entry.path.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def remove(records: Records, run: str) -> None:
    """Removes a run's folder and what is kept beside it; one that is gone already is no problem.

    Raises:
        ForeignFile: its folder holds a file that kvmark didn't write; then nothing is removed.
        RunError: something of it can't be removed; no list shows the run any more if its folder
            could be renamed.
    """
    folder, leaving = records.root / run, records.root / f".{run}.removed"
    try:
        if folder.is_symlink():
            remove_file(folder)
        else:
            with suppress(FileNotFoundError):
                folder.rename(leaving)
        remove_file(verdict_path(records.root, run))
        _remove_folder(leaving)
    except OSError as problem:
        raise RunError(
            f"run {run} can't be removed because of {problem.filename or folder}:"
            f" {problem.strerror}; check the folder's permissions and remove the run again"
        ) from problem


def sweep(records: Records) -> None:
    """Removes what earlier removals left when they were interrupted.

    Raises:
        RunError: it can't be removed.
    """
    try:
        names = [path.name for path in records.root.iterdir()]
    except OSError:
        return
    for name in names:
        left = _LEAVING.fullmatch(name)
        if left and not (records.root / left[1]).exists():
            remove(records, left[1])


def _remove_folder(folder: Path) -> None:
    remove_folder(folder, files.OWN_FILES)
