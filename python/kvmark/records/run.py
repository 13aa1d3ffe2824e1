"""Runs for reading: closed runs, and runs that still have their logs.

Reading the logs of a run that isn't closed doesn't change them. The engine appends complete lines,
so they are consistent at any moment. Only the end of a long log is read, so that polling a run
costs the same however long it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.files import Tail, TimeName, read_events
from kvmark.records.histograms import TIME_TAGS, LogLine, decode, log_lines, series_tag
from kvmark.records.intervals import SCHEMA, read_log, with_all_columns
from kvmark.records.model import Manifest, PhaseRecord, TimeRecord, TotalRecord
from kvmark.records.watch import SeenServer, ServerWatch
from kvmark.records.writer import Running, first_line
from kvmark.stats import Counts

_MOST_BYTES = 1 << 20

# Half a nanosecond: instants in the log are seconds as a float.
_ROUNDING_S = 5e-10


@dataclass(frozen=True)
class Run:
    """A closed run: its manifest, and its tables and histograms, which are read on first use."""

    path: Path
    manifest: Manifest
    #: Cache of decoded histograms by their encoded text; none without caching.
    _decoded: dict[str, Counts] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run of a folder.

        Raises:
            RecordsError: there is no manifest or it can't be read.
        """
        path = folder / files.MANIFEST
        try:
            document = files.read_document(path, files.FORMAT)
            return cls(folder, Manifest.model_validate(document))
        except FileNotFoundError:
            raise RecordsError(
                f"run {folder.name} has no manifest: it is still going or was killed"
            ) from None
        except (OSError, ValueError) as problem:
            reason = first_line(problem)
            raise RecordsError(f"the manifest {path} can't be read: {reason}") from problem

    def with_histogram_cache(self) -> Run:
        """The same run with a cache of decoded histograms, which lives as long as the run.

        Use it for runs that are read several times. Caches of many runs fill the memory.
        """
        return self if self._decoded is not None else replace(self, _decoded={})

    @property
    def id(self) -> str:
        """The run's id."""
        return self.manifest.id

    @property
    def counted(self) -> tuple[PhaseRecord, ...]:
        """The measured phases, or the load phases if the plan measures none."""
        return self.manifest.counted

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """One row per interval, group, operation and outcome, and one ``TOTAL`` per group."""
        return with_all_columns(self._table(files.INTERVALS, SCHEMA))

    @cached_property
    def written(self) -> pl.DataFrame:
        """The intervals of an imported run with the other tool's columns; else empty."""
        return self._table(files.WRITTEN, {})

    @cached_property
    def resources(self) -> pl.DataFrame:
        """Samples of the machine; without columns if none were taken."""
        return self._table(files.RESOURCES, {})

    @cached_property
    def events(self) -> tuple[dict[str, Any], ...]:
        """The run's events by time, without truncated lines."""
        return _events_by_time(self.path)

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
        """The kinds of operations by group and operation."""
        return {
            (str(group.get("name")), self.operation(entry)): str(entry["kind"])
            for group in self.manifest.plan.get("groups", ())
            for entry in group.get("mix", ())
        }

    def kind(self, total: TotalRecord) -> str:
        """The operation's kind in the plan's terms, such as `read`."""
        default = total.operation.lower().replace("-", "_")
        return self._kinds.get((total.group, total.operation), default)

    def times(self, total: TotalRecord, time: TimeName) -> Counts:
        """Counts of one time of a total, in nanoseconds.

        Raises:
            RecordsError: the recorded histogram can't be decoded.
        """
        return self.decoded(getattr(total, time), total.operation)

    def decoded(self, time: TimeRecord, subject: str) -> Counts:
        """Counts of a recorded time in nanoseconds; ``subject`` names it in the error.

        Raises:
            RecordsError: the recorded histogram can't be decoded.
        """
        known = {} if self._decoded is None else self._decoded
        if time.histogram not in known:
            what = f"a histogram of {subject} in run {self.id}"
            known[time.histogram] = counts_of(time.histogram, what)
        return known[time.histogram]

    def _table(self, name: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        path = self.path / name
        if not path.exists():
            return pl.DataFrame(schema=schema)
        try:
            return pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as problem:
            reason = str(problem).partition("\n")[0]
            raise RecordsError(f"{path} can't be read: {reason}") from problem


def _events_by_time(folder: Path) -> tuple[dict[str, Any], ...]:
    # The engine and the faults append to one log, each in its own order.
    events = read_events(folder / files.EVENTS)
    return tuple(sorted(events, key=lambda event: event.get("at_ns", 0)))


@dataclass(frozen=True)
class OpenRun:
    """The logs of a run that isn't closed."""

    header: Running
    #: The newest rows, in the form of ``intervals.parquet``.
    intervals: pl.DataFrame
    events: tuple[dict[str, Any], ...]
    servers: tuple[SeenServer, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> OpenRun:
        """The logs of a folder, of the intervals at most the last mebibyte.

        Raises:
            RecordsError: the run is closed, or its description can't be read.
        """
        events = _events_by_time(folder)
        lines = Tail(folder / files.INTERVAL_LOG).lines(_MOST_BYTES)
        servers = ServerWatch(folder).look()
        return cls(Running.read(folder), read_log(lines, SCHEMA), events, servers)


def interval_times(
    run: Run, phase: PhaseRecord, time: TimeName, operation: str | None = None
) -> tuple[Counts, ...]:
    """One time of the successful operations of each interval that began in the phase's window.

    Without an operation, all operations except the parts of read-modify-writes. Empty if the run
    has no log of histograms.

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
    """The lines of the log for `interval_times`, one per kind, group and interval.

    Raises:
        RecordsError: the log can't be read.
    """
    text = files.whole_lines(run.path / files.HISTOGRAMS).decode(errors="replace")
    tags = frozenset(f"{tag}-{TIME_TAGS[time]}" for tag in _tags(run, phase, operation))
    begin_s, end_s = (at_ns / 1e9 - _ROUNDING_S for at_ns in (phase.start_ns, phase.end_ns))
    return tuple(
        line for line in log_lines(text) if line.tag in tags and begin_s <= line.start_s < end_s
    )


def decoded(line: LogLine, run: str) -> Counts:
    """The counts of a line of a run's log.

    Raises:
        RecordsError: the histogram is damaged.
    """
    return counts_of(line.encoded, f"the log of histograms of run {run}")


def counts_of(encoded: str, what: str) -> Counts:
    """The counts of an encoded histogram; `what` names it in the error.

    Raises:
        RecordsError: the histogram is damaged.
    """
    try:
        return decode(encoded)
    except ValueError as problem:
        raise RecordsError(f"{what} is damaged: {problem}") from problem


def _tags(run: Run, phase: PhaseRecord, operation: str | None) -> Iterator[str]:
    """The tags of the phase's successful operations, without the time."""
    several = len(run.manifest.plan.get("groups", ())) > 1
    for total in run.totals(phase.index):
        is_included = not total.part if operation is None else total.operation == operation
        if total.outcome == "ok" and is_included:
            names = (phase.name, total.group, total.operation, total.outcome)
            yield series_tag(*names, part=total.part, several_groups=several)
