"""Writing of files that the user names, and of outputs in the current folder.

No partial file remains, also on a full disk. An existing page is replaced only if kvmark made it,
which is checked before the work begins; the same applies to a folder of pictures or tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from kvmark.errors import RunError, SpecError, UsageError
from kvmark.removal import remove_file

MADE_BY_KVMARK: Final = "<!-- made by kvmark -->"
"""The last line of a page in Markdown."""
HISTOGRAMS_BY_KVMARK: Final = "#[made by kvmark]"
"""The first line of a log of histograms."""
_MARKS: Final = (
    MADE_BY_KVMARK.encode(),
    HISTOGRAMS_BY_KVMARK.encode(),
    b'<meta name="generator" content="kvmark">',
    b'<testsuites name="kvmark compare"',
)
_FOLDER_MARK: Final = ".kvmark"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_PUBLIC: Final = 0o666
"""A file's permissions, before the user's mask."""
_LOOKED_AT: Final = 16 << 10
"""Bytes at a file's begin and end that can contain a mark."""


def check_output(path: Path, name: str = "", *, page: bool = True) -> None:
    """Rejects a file that can't be written; `name` precedes the reason.

    Raises:
        SpecError: its folder doesn't exist or isn't writable, it is a folder, or a page would
            replace a file that kvmark didn't make.
    """
    if not path.parent.is_dir():
        raise SpecError(f"{name}there is no folder {path.parent}; make it or name another")
    if path.is_dir():
        raise SpecError(f"{name}{path} is a folder; name a file")
    if not os.access(path.parent, os.W_OK):
        raise SpecError(f"{name}{path.parent} can't be written; name a file in another folder")
    if page and path.exists() and not path.is_file():
        raise SpecError(f"{name}{path} is no regular file; name another")
    if page and not _may_replace(path):
        raise SpecError(f"{name}{_foreign(path)}")


def refuse_existing(path: Path, name: str, *, force: bool) -> None:
    """Rejects an existing regular file without ``force``.

    Raises:
        UsageError: the file exists.
    """
    if path.is_file() and not force:
        raise UsageError(f"{name}{path} is there already; name another, or give --force")


def write_output(path: Path, content: str | bytes, *, page: bool = False) -> None:
    """Writes a temporary file and renames it; a device or a pipe is written directly.

    Raises:
        RunError: it can't be written, or a page would replace a file that kvmark didn't make.
    """
    data = content.encode() if isinstance(content, str) else content
    if page and not _may_replace(path):
        raise RunError(_foreign(path))
    # The target of a link is replaced, not the link.
    place = path.resolve() if path.is_symlink() else path
    with writing(path):
        if place.exists() and not place.is_file():
            place.write_bytes(data)
        else:
            write_whole(place, data, _PUBLIC)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Names the file or folder that can't be written.

    Raises:
        RunError: the system refused it.
    """
    try:
        yield
    except OSError as problem:
        raise RunError(f"{path} can't be written because {problem.strerror}") from problem


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Writes a temporary file, flushes it to the disk and renames it.

    Raises:
        OSError: the disk is full or the folder isn't writable; no temporary file stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(os.open(temporary, _CREATE, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        remove_file(temporary)
        raise


def append_output(path: Path) -> TextIO:
    """Opens a log for appending, also to an existing file.

    Raises:
        RunError: it can't be written.
    """
    with writing(path):
        return path.open("a", encoding="utf-8")


def own_folder(folder: Path) -> None:
    """Creates a folder for files of kvmark, or takes one of kvmark, or an empty one.

    Raises:
        RunError: it can't be created, or contains other files.
    """
    mark = folder / _FOLDER_MARK
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not mark.is_file() and any(folder.iterdir()):
            raise RunError(_foreign(folder))
        mark.write_text("made by kvmark\n", encoding="utf-8")


def _may_replace(path: Path) -> bool:
    """Whether the file is missing, empty or made by kvmark."""
    if not path.is_file():
        return True
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(_LOOKED_AT)
            file.seek(max(0, length - _LOOKED_AT))
            ends = head + b"\n" + file.read(_LOOKED_AT)
    except OSError:
        return False
    return length == 0 or any(mark in ends for mark in _MARKS)


def _foreign(path: Path) -> str:
    return f"{path} is there already and kvmark didn't make it: move it away, or name another"
