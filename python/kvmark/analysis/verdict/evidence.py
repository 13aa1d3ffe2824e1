"""What the checks of a verdict look at: a run, one of its phases, and small sums over both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from kvmark.analysis.summary.faults import Segment, quiet_segments
from kvmark.analysis.summary.run import full_intervals, mean_service_ns
from kvmark.analysis.verdict.rules import RULES, Level, Reason, Unit
from kvmark.records import PhaseRecord, Run, TotalRecord
from kvmark.stats import Counts


@dataclass(frozen=True)
class JudgedPhase:
    """A phase under judgement."""

    run: Run
    record: PhaseRecord

    @property
    def name(self) -> str:
        """The phase's name."""
        return self.record.name

    def whole(self) -> list[TotalRecord]:
        """The totals without parts of read-modify-writes."""
        return [total for total in self.run.totals(self.record.index) if not total.part]

    def count(self, outcome: str | None = None) -> int:
        """Operations with an outcome, or with any."""
        wanted = (total for total in self.whole() if outcome in (None, total.outcome))
        return sum(total.count for total in wanted)

    def mean_service_ns(self) -> float | None:
        """Over all successful operations; none without any."""
        return mean_service_ns([total for total in self.whole() if total.outcome == "ok"])

    def service_times(self) -> Counts:
        """Those of all successful operations.

        Raises:
            RecordsError: a recorded histogram can't be decoded.
        """
        ok = (total for total in self.whole() if total.outcome == "ok")
        return Counts.merge(self.run.times(total, "service") for total in ok)

    def group_totals(self, group: str) -> pl.DataFrame:
        """The ``TOTAL`` rows of a group in the phase's window, in order."""
        rows = self.run.intervals
        mine = (pl.col("phase") == self.record.index) & (pl.col("group") == group)
        total = (pl.col("operation") == "TOTAL") & ~pl.col("drain")
        return rows.filter(mine & total).sort("start_ns")

    @cached_property
    def full_intervals(self) -> pl.DataFrame:
        """The rows of all full intervals."""
        return full_intervals(self.run, self.record)

    @cached_property
    def quiet(self) -> tuple[tuple[Segment, pl.DataFrame], ...]:
        """The parts in which no fault acted, each with the rows of its full intervals."""
        start, end = pl.col("start_ns"), pl.col("end_ns")
        return tuple(
            (one, self.full_intervals.filter((start >= one.start_ns) & (end <= one.end_ns)))
            for one in quiet_segments(self.run, self.record)
        )

    def intervals(self) -> int:
        """The number of full intervals."""
        return self.full_intervals["start_ns"].n_unique()

    def planned(self, group: str) -> Mapping[str, Any]:
        """The plan's description of a group; empty if the plan has none."""
        groups = self.run.manifest.plan.get("groups", ())
        return next((known for known in groups if known.get("name") == group), {})


def real_clock(run: Run) -> bool:
    """Whether time passed: on a virtual clock the machine doesn't matter."""
    clock = run.manifest.engine.clock
    return clock is None or clock.source != "virtual"


def reason(
    code: str,
    value: float,
    what: str,
    evidence: Mapping[str, float | int | str],
    *,
    phase: str | None = None,
    level: Level | None = None,
) -> Reason | None:
    """The reason if the value is beyond a threshold of its rule; ``level`` overrides the rule's.

    ``what`` is the sentence without its full stop; the threshold is put at its end, where it is
    beside a share that is known.
    """
    rule = RULES[code]
    reached = rule.level(value)
    if reached is None:
        return None
    threshold = rule.threshold(reached)
    bound = ""
    if rule.unit is Unit.SHARE and threshold is not None and math.isfinite(value):
        bound = f" (more than {threshold * 100:.4g} %)"
    return Reason(
        code=code,
        level=level or reached,
        phase=phase,
        sentence=f"{what[0].upper()}{what[1:]}{bound}.",
        evidence=evidence,
        threshold=threshold,
        advice=rule.advice,
    )


def percent(share: float) -> str:
    """A share for a sentence."""
    return f"{share * 100:.3g} %"
