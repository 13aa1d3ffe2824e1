"""A run's folder from its first file to its manifest, and the process that writes it.

``running.json`` is written first, the engine and the sampler append to logs, and a run ends with
its manifest under a temporary name. Closing turns the logs into tables and gives the manifest its
final name. The logs are removed only after that, so that a failed close loses nothing.

The writer locks a file of the run's folder, and the process that generates load shares that lock.
The kernel releases it when both have ended. Every process that sees the folder sees the lock, also
in another container or under another host name.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from kvmark.errors import RecordsError, RunError
from kvmark.processes import start_of
from kvmark.records import files
from kvmark.records.model import Header, Manifest
from kvmark.removal import discard_folder

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of file systems without locks."""


class Lock:
    """A lock on a file, held until it is deleted or garbage-collected."""

    def __init__(self, path: Path) -> None:
        """Creates the file if necessary, and waits for processes that inspect the lock.

        Raises:
            OSError: the file can't be created, or its file system has no locks.
        """
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE_FILE)
        weakref.finalize(self, os.close, self.handle)
        fcntl.flock(self.handle, fcntl.LOCK_EX)


class Writer(BaseModel):
    """A process by number and start, since process numbers are reused."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    started: str
    host: str
    #: Whether it locks the run: not every file system has locks.
    locks: bool = False

    @classmethod
    def this(cls, *, locks: bool = False) -> Writer:
        """The current process."""
        pid = os.getpid()
        return cls(pid=pid, started=start_of(pid) or "", host=platform.node(), locks=locks)

    def writes(self, folder: Path) -> bool:
        """Whether it still writes the run of this folder."""
        return _is_locked(folder / files.LOCK) if self.locks else self.lives()

    def lives(self) -> bool:
        """Whether the process still exists; a process on another host counts as existing."""
        return self.host != platform.node() or start_of(self.pid) == self.started


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock; concurrent checks don't disturb each other."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class Running(Header):
    """``running.json``: a manifest without its end, and the process that writes the run."""

    format: int
    id: str
    created: str
    writer: Writer

    @classmethod
    def read(cls, folder: Path) -> Running:
        """The file of a folder.

        Raises:
            RecordsError: it doesn't exist or can't be read.
        """
        path = folder / files.RUNNING
        try:
            return cls.model_validate(files.read_document(path, files.FORMAT))
        except FileNotFoundError:
            raise RecordsError(
                f"run {folder.name} has neither a manifest nor {files.RUNNING}, so it holds no"
                f" run: remove the folder {folder}"
            ) from None
        except (OSError, ValueError, AttributeError) as problem:
            raise RecordsError(
                f"{path} can't be read ({first_line(problem)}), so run {folder.name} can't be"
                " recovered"
            ) from problem


@dataclass(slots=True)
class RunFolder:
    """A run that is being written. Its folder exists; the folder's name is the run's id."""

    path: Path
    created: datetime
    #: Held from begin to end.
    _lock: Lock | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def events(self) -> Path:
        """The log of events, to which the engine appends too."""
        return self.path / files.EVENTS

    @property
    def lock(self) -> int | None:
        """The descriptor of the locked file, for another process that writes here."""
        return self._lock.handle if self._lock else None

    def begin(self, header: Header) -> None:
        """Writes ``running.json``: from here on a killed run can be recovered.

        Raises:
            RunError: the file can't be written; the folder is removed.
        """
        try:
            with report_write_errors(self.path):
                self._take_lock()
                running = Running(
                    format=files.FORMAT,
                    id=self.id,
                    created=self.created.isoformat(),
                    writer=Writer.this(locks=self._lock is not None),
                    **header.model_dump(),
                )
                text = files.to_json(running.model_dump(mode="json"))
                files.write_atomically(self.path / files.RUNNING, text)
        except RunError:
            self.abandon()
            raise

    def _take_lock(self) -> None:
        try:
            self._lock = Lock(self.path / files.LOCK)
        except OSError as problem:
            if problem.errno not in _NO_LOCKS:
                raise

    def append_resources(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Appends samples of CPU, memory, disk and network, one row each.

        Raises:
            RunError: the log can't be written.
        """
        self.append_rows(files.RESOURCE_LOG, rows)

    def append_event(self, event: Mapping[str, Any]) -> None:
        """Appends an event: ``at_ns`` since the run's origin, ``kind``, and its details.

        Raises:
            RunError: the log can't be written.
        """
        self.append_rows(files.EVENTS, [event])

    def append_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Appends a line of JSON for each row to a log.

        Raises:
            RunError: the log can't be written.
        """
        self.append_text(name, "".join(json.dumps(row) + "\n" for row in rows))

    def append_text(self, name: str, text: str) -> None:
        """Appends whole lines to a log.

        Raises:
            RunError: the log can't be written.
        """
        with report_write_errors(self.path), files.open_to_append(self.path / name) as log:
            log.write(text.encode())

    def end(self, engine: Mapping[str, Any]) -> Manifest:
        """Writes the engine's record: from here on any process can close the run.

        Raises:
            RunError: a file can't be written, or the record's form is unknown. The logs are kept,
                and the run can be recovered from them.
        """
        manifest = write_end(self.path, Running.read(self.path), engine, "engine")
        self.release()
        return manifest

    def release(self) -> None:
        """Releases the lock: the run has ended, or it counts as killed."""
        self._lock = None

    def abandon(self) -> bool:
        """Removes the folder if nothing was measured in it; returns whether it was removed."""
        self.release()
        ends = (files.MANIFEST, files.ENDED)
        if any((self.path / name).exists() for name in ends) or _has_operations(self.path):
            return False
        discard_folder(self.path, files.OWN_FILES)
        return not self.path.exists()


def write_end(
    folder: Path, running: Running, engine: Mapping[str, Any], closed_by: str
) -> Manifest:
    """Writes the manifest under the name of a run without tables.

    Raises:
        RunError: as :meth:`RunFolder.end`.
    """
    document = {
        **running.model_dump(mode="json", exclude={"writer"}),
        "closed_by": closed_by,
        "engine": dict(engine),
        "imported": None,
    }
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as problem:
        raise RunError(
            f"the engine's record of run {folder.name} is not of the known form"
            f" ({first_line(problem)}): its logs are kept in {folder}"
        ) from problem
    with report_write_errors(folder):
        files.write_atomically(folder / files.ENDED, files.to_json(document))
    return manifest


def _has_operations(folder: Path) -> bool:
    """Whether the log of intervals counts an operation; unreadable logs count as if they did."""
    try:
        return any(row.get("count") for row in files.Tail(folder / files.INTERVAL_LOG).objects())
    except RecordsError:
        return True


@contextmanager
def report_write_errors(folder: Path) -> Iterator[None]:
    """Turns an OSError in a run's folder into an error for the user."""
    try:
        yield
    except OSError as problem:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else (problem.strerror or str(problem))
        remedy = "free some space" if full else "check the folder and its permissions"
        raise RunError(
            f"the records of run {folder.name} can't be written to {folder.parent} because"
            f" {reason}: {remedy} and run again"
        ) from problem


def first_line(problem: Exception) -> str:
    """The first error of a model with its place; the first line of any other exception."""
    if isinstance(problem, ValidationError):
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(problem).partition("\n")[0]
