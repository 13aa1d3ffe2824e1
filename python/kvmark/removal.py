"""Removal of files and folders, in this module only, so that no command removes a user's files.

A folder is removed only if every file in it has a name that kvmark, or a program that it started,
writes there. One other file keeps the whole folder. A test keeps `unlink` and similar calls out of
all other modules.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from kvmark.errors import ForeignFile


def remove_file(path: Path) -> None:
    """Removes a file that kvmark wrote under this name, or a link; ignores a missing one.

    Raises:
        OSError: it can't be removed.
    """
    path.unlink(missing_ok=True)


def remove_empty(folder: Path) -> None:
    """Removes an empty folder that kvmark made.

    Raises:
        OSError: it can't be removed.
    """
    folder.rmdir()


def foreign_file(folder: Path, own: re.Pattern[str]) -> Path | None:
    """The first file of a folder that isn't kvmark's by its path in the folder, if there is any.

    A link counts as a file, also if the folder itself is one.
    """
    if folder.is_symlink():
        return folder
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return next((one for one in files if not own.fullmatch(str(one.relative_to(folder)))), None)


def remove_folder(folder: Path, own: re.Pattern[str]) -> None:
    """Removes a folder if all its files are kvmark's by their paths; ignores a missing folder.

    Raises:
        ForeignFile: it contains another file; nothing is removed.
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
    """Removes a folder of a failed attempt if possible; a foreign file keeps it."""
    with suppress(ForeignFile, OSError):
        remove_folder(folder, own)
