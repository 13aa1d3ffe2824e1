"""A run's folder from its first file to its manifest.

``running.json`` is there from the beginning, the engine and the sampler append to logs, and a run
ends with its manifest under another name. Closing, which may wait, turns the logs into tables and
gives the manifest its own name. That is what makes a run closed: the logs are removed only after it
is safely there, so that a close that fails loses nothing.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvmark.errors import RecordsError, RunError
from kvmark.records import files
from kvmark.records.model import Manifest
from kvmark.records.process import Lock, Writer, take_lock
from kvmark.removal import discard_folder

if TYPE_CHECKING:
    from kvmark.records.run import Run


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a run before it begins, and kept in its manifest."""

    command: tuple[str, ...]
    spec: Mapping[str, Any]
    plan: Mapping[str, Any]
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    tags: tuple[str, ...] = field(default=())
    commit: str | None = None
    testbed: Mapping[str, Any] | None = None


class Running(BaseModel):
    """``running.json``: a manifest without its end, and the process that writes the run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    id: str
    tags: tuple[str, ...] = ()
    commit: str | None = None
    created: str
    command: tuple[str, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    plan: dict[str, Any]
    host: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    testbed: dict[str, Any] | None = None
    writer: Writer

    @classmethod
    def read(cls, folder: Path) -> Running:
        """The file of a folder.

        Raises:
            RecordsError: it isn't there or can't be read.
        """
        path = folder / files.RUNNING
        try:
            document = files.read_document(path)
            files.check_format(document, files.FORMAT)
            return cls.model_validate(document)
        except FileNotFoundError:
            raise RecordsError(
                f"run {folder.name} has neither a manifest nor {files.RUNNING}, so it holds no"
                f" run: remove the folder {folder}"
            ) from None
        except (OSError, ValueError, AttributeError) as problem:
            raise RecordsError(
                f"{path} can't be read ({_first_line(problem)}), so run {folder.name} can't be"
                " recovered"
            ) from problem


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run that is being made. The folder is there; its id is the folder's name."""

    path: Path
    created: datetime
    #: Held from begin to end; empty before and after.
    _lock: list[Lock] = field(default_factory=list, init=False, repr=False, compare=False)

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
        """The file that is locked while the run goes, as whoever else writes here holds it too."""
        return self._lock[0].handle if self._lock else None

    def begin(self, header: Header) -> None:
        """Writes ``running.json``: from here on a killed run can be recovered.

        Raises:
            RunError: the file can't be written; the folder is gone.
        """
        try:
            with one_sentence(self.path):
                lock = take_lock(self.path)
                self._lock[:] = [] if lock is None else [lock]
                running = self._running(header, locks=lock is not None)
                text = files.to_json(running.model_dump(mode="json"))
                files.write_atomically(self.path / files.RUNNING, text)
        except RunError:
            self.abandon()
            raise

    def _running(self, header: Header, *, locks: bool) -> Running:
        return Running(
            format=files.FORMAT,
            id=self.id,
            created=self.created.isoformat(),
            command=header.command,
            spec=dict(header.spec),
            plan=dict(header.plan),
            host=dict(header.host),
            versions=dict(header.versions),
            tags=header.tags,
            commit=header.commit,
            testbed=None if header.testbed is None else dict(header.testbed),
            writer=Writer.this(locks=locks),
        )

    def append_resources(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Appends samples of processor, memory, disk and network, one row each.

        Raises:
            RunError: the log can't be written.
        """
        self._append(files.RESOURCE_LOG, rows)

    def append_event(self, event: Mapping[str, Any]) -> None:
        """Appends an event: ``at_ns`` since the run's origin, ``kind``, and what goes with it.

        Raises:
            RunError: the log can't be written.
        """
        self._append(files.EVENTS, [event])

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        with one_sentence(self.path), files.open_to_append(self.path / name) as log:
            log.write(text.encode())

    def end(self, engine: Mapping[str, Any]) -> Manifest:
        """Keeps what the engine returned: from here on any process may close the run.

        Raises:
            RunError: a file can't be written, or the record isn't of the known form. The logs are
                still there and the run can be recovered from them.
        """
        manifest = write_end(self.path, Running.read(self.path), engine, "engine")
        self.release()
        return manifest

    def release(self) -> None:
        """Writes no more: from here on the run has ended, or it was killed."""
        self._lock.clear()

    def close(self, engine: Mapping[str, Any]) -> Run:
        """Ends the run and closes it at once.

        Raises:
            RunError: as :meth:`end` says.
        """
        self.end(engine)
        # Tables bring Polars, and only now the engine has returned.
        from kvmark.records.recovery import recover  # noqa: PLC0415

        return recover(self.path)

    def abandon(self) -> bool:
        """Removes the folder if nothing was measured in it; says whether it is gone."""
        self.release()
        kept = (files.MANIFEST, files.ENDED)
        if any((self.path / name).exists() for name in kept) or _measured(self.path):
            return False
        discard_folder(self.path, files.OWN_FILES)
        return not self.path.exists()


def write_end(
    folder: Path, running: Running, engine: Mapping[str, Any], closed_by: str
) -> Manifest:
    """Writes the manifest under the name that says that the tables are missing.

    Raises:
        RunError: as :meth:`RunFolder.end` says.
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
            f" ({_first_line(problem)}): its logs are kept in {folder}"
        ) from problem
    with one_sentence(folder):
        files.write_atomically(folder / files.ENDED, files.to_json(document))
    return manifest


def _measured(folder: Path) -> bool:
    """Whether the log of intervals counts an operation."""
    try:
        lines = files.whole_lines(folder / files.INTERVAL_LOG).splitlines()
    except RecordsError:  # What can't be read may hold something: it is not ours to remove.
        return True
    return any(map(_counts, lines))


def _counts(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and bool(row.get("count"))


@contextmanager
def one_sentence(folder: Path) -> Iterator[None]:
    """Turns what the system says of a run's folder into a sentence for the user."""
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


def _first_line(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(problem).partition("\n")[0]
