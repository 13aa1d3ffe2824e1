"""The file names in a run's folder, and guarded reading and writing of these files."""

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
#: The manifest of a run whose engine has returned and whose tables don't exist yet.
ENDED = "ended.manifest.json"
#: Locked by the process that writes the run.
LOCK = "writer.lock"
INTERVAL_LOG = "intervals.jsonl"
INTERVALS = "intervals.parquet"
RESOURCE_LOG = "resources.jsonl"
RESOURCES = "resources.parquet"
HISTOGRAMS = "histograms.hlog"
EVENTS = "events.jsonl"
#: Only after a verification that found lost writes: a line for each.
LOST_WRITES = "lost_writes.jsonl"
#: Only in imported runs: the imported file, and its intervals with the other tool's columns.
ORIGINAL = "imported.txt"
WRITTEN = "imported.parquet"
#: Only in audits: a workload with the same load.
WORKLOAD = "workload.yaml"

#: The files of a closed run. Resources exist if they were sampled, lost writes if there are any.
CLOSED_FILES = (MANIFEST, INTERVALS, RESOURCES, HISTOGRAMS, EVENTS, LOST_WRITES)
#: The files that only a run that isn't closed has.
LOGS = (RUNNING, ENDED, LOCK, INTERVAL_LOG, RESOURCE_LOG)

_NAMES = "|".join(map(re.escape, (*CLOSED_FILES, *LOGS, ORIGINAL, WRITTEN, WORKLOAD)))
OWN_FILES = re.compile(rf"{_NAMES}|\.({_NAMES})\.\d+\.tmp")
"""Every name that kvmark writes in the folder of a run."""


FORMAT: Final = 2
"""The format of a run's folder, as its manifest and ``running.json`` have it."""
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
"""Records contain hosts, commands and, in traces, values: only the user may read them."""
_LARGEST_FILE: Final = 1 << 30

TimeName = Literal["service", "response", "wait"]

GENERATOR: Final = "generator"
"""The name in samples of the process that generates load; a fleet's have a number appended."""
COORDINATOR: Final = "coordinator"
"""The name in samples of the command's process."""

FIXED_WORK: Final = "fixed_work_ns"
"""The column of samples with the machine's speed: see `run.fixed_work`."""


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a private file, complete and flushed to the disk.

    Raises:
        OSError: the disk is full or the folder isn't writable; no partial file stays.
    """
    write_whole(path, data, PRIVATE_FILE)
    sync_folder(path.parent)


def open_to_append(path: Path) -> BinaryIO:
    """Opens a log for appending, and creates it if it doesn't exist.

    Raises:
        OSError: it isn't writable.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, PRIVATE_FILE), "ab")


@contextmanager
def _open_regular(path: Path) -> Iterator[BinaryIO]:
    # Opening a pipe without O_NONBLOCK would wait for a writer, perhaps forever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        yield file


def read_file(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it isn't readable, isn't a regular file, or is larger than any file of kvmark.
    """
    with _open_regular(path) as file:
        return _read_rest(file)


def _read_rest(file: BinaryIO) -> bytes:
    if os.fstat(file.fileno()).st_size - file.tell() > _LARGEST_FILE:
        raise OSError(errno.EFBIG, f"it is larger than {_LARGEST_FILE:,} bytes")
    return file.read()


def read_document(path: Path, supported: int | None = None) -> dict[str, Any]:
    """The JSON object in a file; rejects any format but the supported one.

    Raises:
        OSError: as `read_file`.
        ValueError: the file contains no JSON object, or one of another format.
    """
    try:
        value = json.loads(read_file(path))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    written = value.get("format")
    if supported is not None and written != supported:
        is_newer = isinstance(written, int) and written > supported
        advice = ": update kvmark" if is_newer else ""
        raise ValueError(f"it has format {written} and this kvmark reads {supported}{advice}")
    return value


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def to_json(value: Mapping[str, Any]) -> bytes:
    """The document as indented JSON, without passwords; fields keep their order."""
    return without_passwords(json.dumps(value, indent=1, ensure_ascii=False)).encode() + b"\n"


def whole_lines(path: Path) -> bytes:
    """The complete lines of a file, since a killed writer can leave a partial one.

    Empty if the file doesn't exist.

    Raises:
        RecordsError: the file can't be read.
    """
    return Tail(path).lines()


def is_ours(node: str) -> bool:
    """Whether a sample is of a process of kvmark and not of a server."""
    return node == COORDINATOR or node.partition("-")[0] == GENERATOR


def read_events(path: Path) -> tuple[dict[str, Any], ...]:
    """The events of a log, without incomplete JSON objects.

    Raises:
        RecordsError: the log can't be read.
    """
    return tuple(Tail(path).objects())


class Tail:
    """Reads the complete lines appended to a log, each once; none if the log doesn't exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    @property
    def has_new(self) -> bool:
        """Whether the log has unread bytes."""
        try:
            return self._path.stat().st_size > self._read_bytes
        except FileNotFoundError:
            return False

    def lines(self, most_bytes: int | None = None) -> bytes:
        """The lines since the last call, as they were written.

        With a bound, only the last bytes are read, and earlier lines are skipped.

        Raises:
            RecordsError: the log can't be read.
        """
        try:
            with _open_regular(self._path) as log:
                unread = log.seek(0, os.SEEK_END) - self._read_bytes
                skipped = max(unread - most_bytes, 0) if most_bytes is not None else 0
                log.seek(self._read_bytes + skipped)
                text = _read_rest(log)
        except FileNotFoundError:
            return b""
        except OSError as problem:
            raise RecordsError(
                f"{self._path} can't be read because {problem.strerror}: check the file and its"
                " permissions"
            ) from problem
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += skipped + len(whole)
        # After a skip the first line may lack its beginning.
        return whole[whole.find(b"\n") + 1 :] if skipped else whole

    def objects(self, most_bytes: int | None = None) -> Iterator[dict[str, Any]]:
        """The JSON objects of these lines."""
        for line in self.lines(most_bytes).splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
