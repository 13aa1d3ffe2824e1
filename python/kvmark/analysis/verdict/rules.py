"""Every reason a verdict can give, and what its checks look at: a run, and one of its phases.

The rules are in `rules.toml`; the checks and the documentation both read them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

import polars as pl

from kvmark.analysis.summary.faults import Segment, quiet_segments
from kvmark.analysis.summary.run import planned_group
from kvmark.analysis.summary.sums import full_intervals
from kvmark.records import PhaseRecord, Run, TotalRecord

LAG_FLOORS: Final = (("p50", 0.5, 50_000), ("p99", 0.99, 100_000))
"""Quantiles at which the generator's lag is looked at, and up to how many nanoseconds it is the
machine's own: what it takes to wake a thread that waits."""

Evidence = Mapping[str, float | int | str]


class Level(Enum):
    """What a reason makes of a run. A note says something worth knowing and changes nothing."""

    NOTE = "NOTE"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason that can be given: when, why, and what to do about it.

    Values above ``suspect`` make a run SUSPECT and above ``invalid`` INVALID; values above ``note``
    are noted. A level without a threshold is never reached.
    """

    #: The measured quantity, as a phrase that the threshold follows.
    measured: str
    advice: str
    #: How a measured value and its thresholds are written: as a `share` or a `count`.
    unit: str = "share"
    note: float | None = None
    suspect: float | None = None
    invalid: float | None = None
    #: When the rule is looked at; empty for always.
    applies: str = ""
    #: Where rule and threshold come from; empty where the value explains itself.
    source: str = ""
    #: The advice where the workers are pinned, and on a replay, if it is another.
    advice_pinned: str | None = None
    advice_of_replay: str | None = None

    @property
    def thresholds(self) -> Mapping[Level, float]:
        """The thresholds of the levels that can be reached, the lowest first."""
        named = zip(Level, (self.note, self.suspect, self.invalid), strict=True)
        return {level: threshold for level, threshold in named if threshold is not None}

    def level(self, value: float) -> Level | None:
        """The level that a value reaches; none when it is harmless."""
        reached = [level for level, threshold in self.thresholds.items() if value > threshold]
        return reached[-1] if reached else None


RULES: Final[Mapping[str, Rule]] = {
    code: Rule(**rule)
    for code, rule in tomllib.loads((files(__package__) / "rules.toml").read_text("utf-8")).items()
}
"""Every rule by its code, in the order of the documentation."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that a run broke, with the numbers."""

    code: str
    level: Level
    #: Name of the phase; none when it concerns the whole run.
    phase: str | None
    #: One sentence.
    sentence: str
    #: The numbers behind it, units in the names.
    evidence: Evidence
    threshold: float | None
    advice: str


def reason(
    code: str,
    value: float,
    what: str,
    evidence: Evidence,
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
    threshold = rule.thresholds[reached]
    is_share = rule.unit == "share" and math.isfinite(value)
    bound = f" (more than {threshold * 100:.4g} %)" if is_share else ""
    sentence = f"{what[0].upper()}{what[1:]}{bound}."
    return Reason(code, level or reached, phase, sentence, evidence, threshold, rule.advice)


def percent(share: float) -> str:
    """A share for a sentence."""
    return f"{share * 100:.3g} %"


def real_clock(run: Run) -> bool:
    """Whether time passed: on a virtual clock the machine doesn't matter."""
    clock = run.manifest.engine.clock
    return clock is None or clock.source != "virtual"


@dataclass(frozen=True)
class JudgedPhase:
    """A phase under judgement."""

    run: Run
    record: PhaseRecord

    @property
    def name(self) -> str:
        """The phase's name."""
        return self.record.name

    def reason(
        self, code: str, value: float, what: str, evidence: Evidence, level: Level | None = None
    ) -> Reason | None:
        """The reason about this phase, as of the function of this name."""
        return reason(code, value, what, evidence, phase=self.name, level=level)

    @cached_property
    def whole(self) -> list[TotalRecord]:
        """The totals without parts of operations."""
        return [total for total in self.alone if not total.part]

    @cached_property
    def alone(self) -> list[TotalRecord]:
        """The same with writes after a miss."""
        return [total for total in self.run.totals(self.record.index) if total.is_alone]

    @property
    def succeeded(self) -> list[TotalRecord]:
        """Those of successful operations."""
        return [total for total in self.whole if total.outcome == "ok"]

    def count(self, outcome: str | None = None) -> int:
        """Operations with an outcome, or with any."""
        return sum(total.count for total in self.whole if outcome in (None, total.outcome))

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

    def planned(self, group: str) -> Mapping[str, Any]:
        """The plan's description of a group; empty if the plan has none."""
        return planned_group(self.run, group)
