"""The histograms of a run's intervals, in order: what a time series of quantiles is made of."""

from __future__ import annotations

from collections.abc import Iterator

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.histograms import TIME_TAGS, LogLine, decode, log_lines, series_tag
from kvmark.records.model import PhaseRecord
from kvmark.records.names import TimeName
from kvmark.records.run import Run
from kvmark.stats import Counts

__all__ = ["decoded", "interval_lines", "interval_times"]

# Instants in the log are seconds of a float.
_HAIR_S = 5e-10


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
    path = run.path / files.HISTOGRAMS
    try:
        text = files.read_file(path).decode()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it isn't UTF-8"
        raise RecordsError(f"{path} can't be read: {reason}") from problem
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
