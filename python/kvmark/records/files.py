"""Names of a run's files and of what is in them; files and lines that are whole or not there."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from kvmark.errors import RecordsError
from kvmark.foreign_text import without_passwords
from kvmark.outputs import write_whole

RUNNING = "running.json"
MANIFEST = "manifest.json"
#: The manifest of a run whose engine has returned and whose tables are yet to be made.
ENDED = "ended.manifest.json"
#: Held by the process that writes a run, for as long as it does.
LOCK = "writer.lock"
INTERVAL_LOG = "intervals.jsonl"
INTERVALS = "intervals.parquet"
RESOURCE_LOG = "resources.jsonl"
RESOURCES = "resources.parquet"
HISTOGRAMS = "histograms.hlog"
EVENTS = "events.jsonl"
#: Only an imported run has these: the file it was made of, and that file's intervals as written.
ORIGINAL = "imported.txt"
WRITTEN = "imported.parquet"

#: What a closed run consists of. Resources are there when they were sampled.
CLOSED_FILES = (MANIFEST, INTERVALS, RESOURCES, HISTOGRAMS, EVENTS)
#: What only a run that isn't closed has.
LOGS = (RUNNING, ENDED, LOCK, INTERVAL_LOG, RESOURCE_LOG)

_NAMES = "|".join(map(re.escape, (*CLOSED_FILES, *LOGS, ORIGINAL, WRITTEN)))
OWN_FILES = re.compile(rf"{_NAMES}|\.({_NAMES})\.\d+\.tmp")
"""Every name that kvmark writes in the folder of a run."""


FORMAT: Final = 2
"""Of a run's folder; the number stands in its manifest and in ``running.json``."""
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
"""Records hold hosts, commands and, in traces, values: they are the user's alone."""
_MOST_READ: Final = 1 << 30

TimeName = Literal["service", "response", "wait"]

GENERATOR: Final = "generator"
"""What the process that generates load is called in samples; a fleet's have numbers behind it."""
COORDINATOR: Final = "coordinator"
"""What the process of the command is called in samples."""

FIXED_WORK: Final = "fixed_work_ns"
"""The column of samples that says how fast the machine was: see `run.fixed_work`."""


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file of the user's alone, whole and for good.

    Raises:
        OSError: the disk is full or the folder can't be written; nothing of the attempt stays.
    """
    write_whole(path, data, PRIVATE_FILE)
    sync_folder(path.parent)


def open_to_append(path: Path) -> BinaryIO:
    """A log, which is made where there is none.

    Raises:
        OSError: it can't be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, PRIVATE_FILE), "ab")


def read_file(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it can't be read, isn't a regular file, or is larger than any that kvmark writes.
    """
    # Nobody may ever write into a pipe that is opened without O_NONBLOCK.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if found.st_size > _MOST_READ:
            raise OSError(errno.EFBIG, f"it is larger than {_MOST_READ:,} bytes", str(path))
        return file.read()


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        OSError: as `read_file`.
        ValueError: it holds none.
    """
    try:
        value = json.loads(read_file(path))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    return value


def check_format(document: Mapping[str, Any], known: int) -> None:
    """Refuses a document of a format that isn't read.

    Raises:
        ValueError: names both formats.
    """
    written = document.get("format")
    if written != known:
        is_newer = isinstance(written, int) and written > known
        advice = ": update kvmark" if is_newer else ""
        raise ValueError(f"it has format {written} and this kvmark reads {known}{advice}")


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def to_json(value: Mapping[str, Any]) -> bytes:
    """One document, readable by people, fields in their order, with nobody's password."""
    return without_passwords(json.dumps(value, indent=1, ensure_ascii=False)).encode() + b"\n"


def whole_lines(path: Path) -> bytes:
    """The lines that end, since a killed writer may leave part of one; empty without the file.

    Raises:
        RecordsError: the file can't be read.
    """
    with _read_in_one_sentence(path):
        try:
            text = read_file(path)
        except FileNotFoundError:
            return b""
    return text[: text.rfind(b"\n") + 1]


def last_lines(path: Path, most_bytes: int) -> bytes:
    """The whole lines among a file's last bytes; empty without the file.

    Raises:
        RecordsError: the file can't be read.
    """
    with _read_in_one_sentence(path):
        try:
            with path.open("rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(length - most_bytes, 0))
                text = file.read()
        except FileNotFoundError:
            return b""
    # The first line was cut unless the file begins with it.
    first = text.find(b"\n") + 1 if length > most_bytes else 0
    return text[first : max(text.rfind(b"\n") + 1, first)]


@contextmanager
def _read_in_one_sentence(path: Path) -> Iterator[None]:
    """Says which file it was that couldn't be read, whatever it was read for."""
    try:
        yield
    except OSError as problem:
        raise RecordsError(
            f"{path} can't be read because {problem.strerror}: check the file and its permissions"
        ) from problem


def is_ours(node: str) -> bool:
    """Whether a sample is of kvmark itself and not of a server."""
    return node == COORDINATOR or node.partition("-")[0] == GENERATOR


def read_events(path: Path) -> tuple[dict[str, Any], ...]:
    """The events of a log, without what isn't a whole JSON object.

    Raises:
        RecordsError: the log can't be read.
    """
    events = []
    for line in whole_lines(path).splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return tuple(events)


class Tail:
    """The whole lines that a log gets, each read once; none when the log is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    @property
    def has_new(self) -> bool:
        """Whether there is more than was read."""
        try:
            return self._path.stat().st_size > self._read_bytes
        except FileNotFoundError:
            return False

    def whole(self, most_bytes: int | None = None) -> bytes:
        """The lines since the last call, as they were written.

        With a bound only the last so many bytes are read, and what lies before is passed over.
        """
        try:
            with self._path.open("rb") as log:
                unread = log.seek(0, os.SEEK_END) - self._read_bytes
                skipped = max(unread - most_bytes, 0) if most_bytes is not None else 0
                log.seek(self._read_bytes + skipped)
                text = log.read()
        except FileNotFoundError:
            return b""
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += skipped + len(whole)
        # Where something was passed over the first line may have lost its beginning.
        return whole[whole.find(b"\n") + 1 :] if skipped else whole

    def new(self, most_bytes: int | None = None) -> Iterator[dict[str, Any]]:
        """The objects of these lines."""
        for line in self.whole(most_bytes).splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
