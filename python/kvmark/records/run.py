"""A run as it is read: one that is closed, when asked, and one whose logs are still there.

The logs of a run that goes, has ended or was killed are read without touching them. The engine
appends whole lines, so what is read is true at any moment. Only the end of a long log is read: a
run that is looked at once a second must not pay for its length.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.files import TimeName, read_events
from kvmark.records.histograms import TIME_TAGS, LogLine, decode, log_lines, series_tag
from kvmark.records.intervals import SCHEMA, read_intervals, read_resources, with_all_columns
from kvmark.records.model import Manifest, PhaseRecord, TimeRecord, TotalRecord
from kvmark.records.writer import Running
from kvmark.stats import Counts

_MOST_BYTES = 1 << 20

# Instants in the log are seconds of a float.
_HAIR_S = 5e-10


@dataclass(frozen=True)
class Run:
    """A closed run: its manifest, and its tables and histograms when they are first used."""

    path: Path
    manifest: Manifest
    #: Cache of decoded histograms by their encoded text; none if they aren't cached.
    _decoded: dict[str, Counts] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run of a folder.

        Raises:
            RecordsError: there is no manifest or it can't be read.
        """
        path = folder / files.MANIFEST
        try:
            return cls(folder, _parse(files.read_file(path)))
        except FileNotFoundError:
            raise RecordsError(
                f"run {folder.name} has no manifest: it is still going or was killed"
            ) from None
        except (OSError, ValueError, RecursionError) as problem:
            raise RecordsError(f"the manifest {path} can't be read: {problem}") from problem

    def with_histogram_cache(self) -> Run:
        """The same run with a cache of decoded histograms, which lives as long as the run.

        Use it for runs that are read several times. The histograms of many runs fill the memory.
        """
        return self if self._decoded is not None else replace(self, _decoded={})

    @property
    def id(self) -> str:
        """The run's id."""
        return self.manifest.id

    @property
    def counted(self) -> tuple[PhaseRecord, ...]:
        """The phases that count: those that measure; where the plan has none, those that load."""
        return self.manifest.counted

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """One row per interval, group, operation and outcome, and one ``TOTAL`` per group."""
        return with_all_columns(self._table(files.INTERVALS, SCHEMA))

    @cached_property
    def written(self) -> pl.DataFrame:
        """Intervals as another tool wrote them, with its own columns; empty where nothing was."""
        return self._table(files.WRITTEN, {})

    @cached_property
    def resources(self) -> pl.DataFrame:
        """Samples of the machine; without columns when none were taken."""
        return self._table(files.RESOURCES, {})

    @cached_property
    def events(self) -> tuple[dict[str, Any], ...]:
        """What happened, in order; lines that were cut off are left out."""
        # Engine and faults append to one log, each in its own order.
        events = read_events(self.path / files.EVENTS)
        return tuple(sorted(events, key=lambda event: event.get("at_ns", 0)))

    def totals(self, phase: int) -> tuple[TotalRecord, ...]:
        """The totals of a phase, parts of read-modify-writes included."""
        return tuple(total for total in self.manifest.engine.totals if total.phase == phase)

    def operation(self, entry: Mapping[str, Any]) -> str:
        """The name in records of an entry of a plan's mix: its statement's, or its kind's."""
        index = entry.get("statement")
        if index is None:
            return str(entry["kind"]).replace("_", "-").upper()
        return str(self.manifest.plan["statements"][index]["name"])

    @cached_property
    def _kinds(self) -> Mapping[tuple[str, str], str]:
        """What each group's operations do, by group and operation."""
        kinds = {}
        for group in self.manifest.plan.get("groups", ()):
            for entry in group.get("mix", ()):
                kinds[(str(group.get("name")), self.operation(entry))] = str(entry["kind"])
        return kinds

    def kind(self, total: TotalRecord) -> str:
        """What an operation did to its records, in the plan's words, such as `read`."""
        otherwise = total.operation.lower().replace("-", "_")
        return self._kinds.get((total.group, total.operation), otherwise)

    def histogram(
        self,
        phase: int,
        group: str,
        operation: str,
        *,
        part: bool = False,
        outcome: str = "ok",
        time: TimeName = "response",
    ) -> Counts:
        """Counts of one time in nanoseconds; empty when there was no such operation.

        Raises:
            RecordsError: the recorded histogram can't be decoded.
        """
        wanted = (group, operation, part, outcome)
        for total in self.totals(phase):
            if (total.group, total.operation, total.part, total.outcome) == wanted:
                return self.times(total, time)
        return Counts.empty()

    def times(self, total: TotalRecord, time: TimeName) -> Counts:
        """Counts of one time of a total, in nanoseconds.

        Raises:
            RecordsError: the recorded histogram can't be decoded.
        """
        return self.decoded(getattr(total, time), total.operation)

    def decoded(self, time: TimeRecord, of: str) -> Counts:
        """Counts of a recorded time in nanoseconds, which is one of what `of` says.

        Raises:
            RecordsError: the recorded histogram can't be decoded.
        """
        found = (self._decoded or {}).get(time.histogram)
        if found is not None:
            return found
        try:
            found = decode(time.histogram)
        except ValueError as problem:
            raise RecordsError(
                f"a histogram of {of} in run {self.id} is damaged: {problem}"
            ) from problem
        if self._decoded is not None:
            self._decoded[time.histogram] = found
        return found

    def _table(self, name: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        path = self.path / name
        if not path.exists():
            return pl.DataFrame(schema=schema)
        try:
            return pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as problem:
            reason = str(problem).partition("\n")[0]
            raise RecordsError(f"{path} can't be read: {reason}") from problem


def _parse(text: bytes) -> Manifest:
    value = json.loads(text)
    if isinstance(value, dict):
        files.check_format(value, files.FORMAT)
    try:
        return Manifest.model_validate(value)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ValueError(f"{place}: {first['msg']}") from None


@dataclass(frozen=True)
class GoingRun:
    """What a run's logs say."""

    path: Path
    header: Running
    #: The newest rows, as they will be in ``intervals.parquet``.
    intervals: pl.DataFrame
    #: The newest samples; without columns when none were taken.
    resources: pl.DataFrame
    events: tuple[dict[str, Any], ...]

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    @classmethod
    def read(cls, folder: Path, most_bytes: int = _MOST_BYTES) -> GoingRun:
        """The logs of a folder, at most so many bytes of each table's end.

        Raises:
            RecordsError: the run is closed, or its description can't be read.
        """
        events = read_events(folder / files.EVENTS)
        return cls(
            folder,
            Running.read(folder),
            read_intervals(files.last_lines(folder / files.INTERVAL_LOG, most_bytes)),
            read_resources(files.last_lines(folder / files.RESOURCE_LOG, most_bytes)),
            tuple(sorted(events, key=lambda event: event.get("at_ns", 0))),
        )


def interval_times(
    run: Run, phase: PhaseRecord, time: TimeName, operation: str | None = None
) -> tuple[Counts, ...]:
    """One time of the successful operations of each interval that began in the phase's window.

    Of one kind, or of all; then without the parts of read-modify-writes. None where the run kept
    no log of them.

    Raises:
        RecordsError: the log can't be read.
    """
    slices: dict[float, list[Counts]] = {}
    for line in interval_lines(run, phase, time, operation):
        slices.setdefault(line.start_s, []).append(decoded(line, run.id))
    return tuple(Counts.merge(slices[start]) for start in sorted(slices))


def interval_lines(
    run: Run, phase: PhaseRecord, time: TimeName, operation: str | None = None
) -> tuple[LogLine, ...]:
    """The same as they stand in the log, each kind and group on a line of its own.

    Raises:
        RecordsError: the log can't be read.
    """
    text = files.whole_lines(run.path / files.HISTOGRAMS).decode(errors="replace")
    tags = frozenset(f"{tag}-{TIME_TAGS[time]}" for tag in _tags(run, phase, operation))
    return tuple(line for line in log_lines(text) if line.tag in tags and _within(line, phase))


def decoded(line: LogLine, run: str) -> Counts:
    """What a line of a run's log counts.

    Raises:
        RecordsError: the histogram is damaged.
    """
    try:
        return decode(line.encoded)
    except ValueError as problem:
        raise RecordsError(f"the log of histograms of run {run} is damaged: {problem}") from problem


def _tags(run: Run, phase: PhaseRecord, operation: str | None) -> Iterator[str]:
    """The tags of the phase's successful operations, without the time."""
    several = len(run.manifest.plan.get("groups", ())) > 1
    for total in run.totals(phase.index):
        wanted = not total.part if operation is None else total.operation == operation
        if total.outcome == "ok" and wanted:
            names = (phase.name, total.group, total.operation, total.outcome)
            yield series_tag(*names, part=total.part, several_groups=several)


def _within(line: LogLine, phase: PhaseRecord) -> bool:
    return phase.start_ns / 1e9 - _HAIR_S <= line.start_s < phase.end_ns / 1e9 - _HAIR_S
