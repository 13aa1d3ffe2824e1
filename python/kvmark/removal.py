"""Removing files and folders: the only module that may, so that no command removes a user's files.

A folder is removed only if every file in it has a name that kvmark, or a program that it started,
writes there. One other file keeps the whole folder. A test keeps `unlink` and its like out of all
other modules.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kvmark.errors import ForeignFile


def remove_file(path: Path) -> None:
    """Removes a file that kvmark wrote under this name, or a link; a missing one is no problem.

    Raises:
        OSError: it can't be removed.
    """
    path.unlink(missing_ok=True)


def remove_empty(folder: Path) -> None:
    """Removes a folder that kvmark made and that nothing is in.

    Raises:
        OSError: it can't be removed.
    """
    folder.rmdir()


def foreign_file(folder: Path, own: re.Pattern[str]) -> Path | None:
    """The first file of a folder whose path in it isn't one of kvmark's own; None without one.

    A link is a file, wherever it leads, and so is a folder that is a link.
    """
    if folder.is_symlink():
        return folder
    return next(
        (path for path in _files(folder) if not own.fullmatch(str(path.relative_to(folder)))), None
    )


def remove_folder(folder: Path, own: re.Pattern[str]) -> None:
    """Removes a folder if all its files, by their paths in it, are kvmark's own.

    A missing one is no problem.

    Raises:
        ForeignFile: it holds another file; then nothing is removed.
        OSError: it can't be removed.
    """
    foreign = foreign_file(folder, own)
    if foreign is not None:
        raise ForeignFile(
            f"{foreign} was not made by kvmark or its servers: move it away, or remove the folder"
            " yourself"
        )
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def discard_folder(folder: Path, own: re.Pattern[str]) -> None:
    """Removes a folder that came to nothing, as far as that is possible; another file keeps it."""
    with suppress(ForeignFile, OSError):
        remove_folder(folder, own)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
