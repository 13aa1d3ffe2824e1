"""A run's folder from its first file to its manifest.

``running.json`` is there from the beginning, the engine and the sampler append to logs, and closing
turns the logs into tables and writes the manifest. The manifest is what makes a run closed: the
logs are removed only after it is safely there, so that a close that fails loses nothing.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvmark.errors import RecordsError, RunError
from kvmark.records import files
from kvmark.records.intervals import read_intervals, read_resources, to_parquet
from kvmark.records.model import FORMAT, Manifest
from kvmark.records.process import Writer
from kvmark.records.run import Run

_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a run before it begins, and kept in its manifest."""

    command: tuple[str, ...]
    spec: Mapping[str, Any]
    plan: Mapping[str, Any]
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    tags: tuple[str, ...] = field(default=())


class Running(BaseModel):
    """``running.json``: a manifest without its end, and the process that writes the run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    id: str
    tags: tuple[str, ...] = ()
    created: str
    command: tuple[str, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    plan: dict[str, Any]
    host: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    writer: Writer

    @classmethod
    def read(cls, folder: Path) -> Running:
        """The file of a folder.

        Raises:
            RecordsError: it isn't there or can't be read.
        """
        path = folder / files.RUNNING
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise RecordsError(
                f"run {folder.name} has neither a manifest nor {files.RUNNING}, so it holds no"
                f" run: remove the folder {folder}"
            ) from None
        except (OSError, ValidationError) as problem:
            raise RecordsError(
                f"{path} can't be read ({_first_line(problem)}), so run {folder.name} can't be"
                " recovered"
            ) from problem


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run that is being made. The folder is there; its id is the folder's name."""

    path: Path
    created: datetime

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    def begin(self, header: Header) -> None:
        """Writes ``running.json``: from here on a killed run can be recovered.

        Raises:
            RunError: the file can't be written; the folder is gone.
        """
        running = Running(
            format=FORMAT,
            id=self.id,
            created=self.created.isoformat(),
            command=header.command,
            spec=dict(header.spec),
            plan=dict(header.plan),
            host=dict(header.host),
            versions=dict(header.versions),
            tags=header.tags,
            writer=Writer.this(),
        )
        try:
            with _one_sentence(self.path):
                text = files.to_json(running.model_dump(mode="json"))
                files.write_atomically(self.path / files.RUNNING, text)
        except RunError:
            self.abandon()
            raise

    def append_resources(self, rows: list[Mapping[str, Any]]) -> None:
        """Appends samples of processor, memory, disk and network, one row each.

        Raises:
            RunError: the log can't be written.
        """
        text = "".join(json.dumps(row) + "\n" for row in rows)
        with _one_sentence(self.path), (self.path / files.RESOURCE_LOG).open("ab") as log:
            log.write(text.encode())

    def close(self, engine: Mapping[str, Any]) -> Run:
        """Closes the run with what the engine returned, and makes it read-only.

        Raises:
            RunError: a file can't be written, or the record isn't of the known form. The logs are
                still there and the run can be recovered from them.
        """
        return seal(self.path, Running.read(self.path), engine, "engine")

    def abandon(self) -> bool:
        """Removes the folder if nothing was measured in it; says whether it is gone."""
        if (self.path / files.MANIFEST).exists() or _measured(self.path):
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()


def seal(folder: Path, running: Running, engine: Mapping[str, Any], closed_by: str) -> Run:
    """Turns the logs into tables, writes the manifest, removes the logs.

    Raises:
        RunError: as :meth:`RunFolder.close` says.
    """
    manifest = {
        **running.model_dump(mode="json", exclude={"writer"}),
        "closed_by": closed_by,
        "engine": dict(engine),
        "imported": None,
    }
    try:
        Manifest.model_validate(manifest)
    except ValidationError as problem:
        raise RunError(
            f"the engine's record of run {folder.name} is not of the known form"
            f" ({_first_line(problem)}): its logs are kept in {folder}"
        ) from problem
    with _one_sentence(folder):
        _write_tables(folder)
        files.write_atomically(folder / files.MANIFEST, files.to_json(manifest))
        tidy(folder)
    return Run.open(folder)


def tidy(folder: Path) -> None:
    """Removes the logs of a closed run and makes what stays read-only."""
    for name in files.LOGS:
        (folder / name).unlink(missing_ok=True)
    for name in files.CLOSED_FILES:
        if (folder / name).exists():
            (folder / name).chmod(_READ_ONLY)
    files.sync_folder(folder)


def _write_tables(folder: Path) -> None:
    intervals = read_intervals(files.whole_lines(folder / files.INTERVAL_LOG))
    files.write_atomically(folder / files.INTERVALS, to_parquet(intervals))
    resources = read_resources(files.whole_lines(folder / files.RESOURCE_LOG))
    if resources.height:
        files.write_atomically(folder / files.RESOURCES, to_parquet(resources))


def _measured(folder: Path) -> bool:
    try:
        intervals = read_intervals(files.whole_lines(folder / files.INTERVAL_LOG))
    except (
        OSError,
        pl.exceptions.PolarsError,
    ):  # What can't be read may hold something: it is not ours to remove.
        return True
    return int(intervals["count"].sum()) > 0


@contextmanager
def _one_sentence(folder: Path) -> Iterator[None]:
    """Turns what the system says into a sentence for the user."""
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
