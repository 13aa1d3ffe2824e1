"""Rates, failures and response times before, during and after planned faults."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from kvmark.analysis.summary.fault_effects import FaultEffect, measured_phase
from kvmark.analysis.summary.resources import MOST_LINES, interval_outcomes
from kvmark.analysis.summary.run import Times
from kvmark.analysis.summary.segments import Segment, segments
from kvmark.records import PhaseRecord, Run
from kvmark.records.run import decoded, interval_lines
from kvmark.stats import Counts

__all__ = ["Stretch", "around_faults"]

_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the measurement, whole intervals long. Instants count from the run's origin."""

    #: ``before``, ``after``, or the fault as it was planned.
    name: str
    start_ns: int
    end_ns: int
    #: Operations that completed in it: those that succeeded, and those that failed.
    succeeded: int
    failed: int
    #: Of those that succeeded. Counts none where the run kept no histogram per interval, or more
    #: than can be decoded in a while.
    response: Times

    @property
    def throughput(self) -> float:
        """Successful operations per second."""
        return self.succeeded * _NS_PER_S / (self.end_ns - self.start_ns)


def around_faults(run: Run, effects: Sequence[FaultEffect]) -> tuple[Stretch, ...]:
    """The measurement, cut where faults began and where the service was as before again.

    ``effects`` are those of all faults that were carried out.
    An interval that a fault touches counts as the fault's. Empty for a run without faults.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    phase = measured_phase(run)
    if not effects or phase is None:
        return ()
    return tuple(_stretches(run, phase, segments(phase, effects)))


def _stretches(run: Run, phase: PhaseRecord, spans: Sequence[Segment]) -> Iterator[Stretch]:
    counts = interval_outcomes(run, phase)
    starts, ends = counts["start_ns"].to_list(), counts["end_ns"].to_list()
    owners = [_owner(spans, *edges) for edges in zip(starts, ends, strict=True)]
    responses: dict[int, list[Counts]] = {}
    lines = interval_lines(run, phase, "response")
    for line in lines if len(lines) <= MOST_LINES else ():
        at_ns = (line.start_s + line.length_s / 2) * _NS_PER_S
        place = bisect_right(starts, at_ns) - 1
        if place >= 0 and at_ns < ends[place]:
            responses.setdefault(owners[place], []).append(decoded(line, run.id))
    counts = counts.with_columns(pl.Series("span", owners, dtype=pl.Int64))
    for index, span in enumerate(spans):
        own = counts.filter(pl.col("span") == index)
        if not own.is_empty():
            yield Stretch(
                span.name,
                start_ns=int(own["start_ns"].to_list()[0]),
                end_ns=int(own["end_ns"].to_list()[-1]),
                succeeded=int(own["succeeded"].sum()),
                failed=int(own["failed"].sum()),
                response=Times.of(Counts.merge(responses.get(index, []))),
            )


def _owner(spans: Sequence[Segment], start_ns: int, end_ns: int) -> int:
    """The last fault that touches an interval, or else the quiet stretch that holds it."""
    touching = [
        (span.is_fault, index)
        for index, span in enumerate(spans)
        if span.start_ns < end_ns and span.end_ns > start_ns
    ]
    return max(touching, default=(False, 0))[1]
