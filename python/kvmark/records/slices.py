"""The histograms of a run's intervals, in order: what a time series of quantiles is made of."""

from __future__ import annotations

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.histograms import LogLine, decode, log_lines
from kvmark.records.model import PhaseRecord
from kvmark.records.names import TimeName
from kvmark.records.run import Run
from kvmark.stats import Counts

__all__ = ["interval_times"]

_ENDS = {"service": "-st", "response": "-rt", "wait": "-wt"}
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
    path = run.path / files.HISTOGRAMS
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as problem:
        raise RecordsError(f"{path} can't be read: {problem.strerror}") from problem
    tags = _tags(run, phase, operation, _ENDS[time])
    slices: dict[float, list[Counts]] = {}
    for line in log_lines(text):
        if line.tag in tags and _within(line, phase):
            slices.setdefault(line.start_s, []).append(_decoded(line, run.id))
    return tuple(Counts.merge(slices[start]) for start in sorted(slices))


def _tags(run: Run, phase: PhaseRecord, operation: str | None, end: str) -> frozenset[str]:
    """The tags of the phase's successful operations, as ``crates/record`` writes them."""
    several = len(run.manifest.plan.get("groups", ())) > 1
    prefix = "" if phase.name == "measure" else f"{phase.name}:"
    found = set()
    for total in run.totals(phase.index):
        wanted = not total.part if operation is None else total.operation == operation
        if total.outcome == "ok" and wanted:
            plain = "".join("_" if sign == "," or sign.isspace() else sign for sign in total.group)
            group = f"{plain}." if several else ""
            part = "READ-MODIFY-WRITE." if total.part else ""
            found.add(f"{prefix}{group}{part}{total.operation}{end}")
    return frozenset(found)


def _within(line: LogLine, phase: PhaseRecord) -> bool:
    return phase.start_ns / 1e9 - _HAIR_S <= line.start_s < phase.end_ns / 1e9 - _HAIR_S


def _decoded(line: LogLine, run: str) -> Counts:
    try:
        return decode(line.encoded)
    except ValueError as problem:
        raise RecordsError(f"the log of histograms of run {run} is damaged: {problem}") from problem
