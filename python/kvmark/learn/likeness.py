"""By how much a workload differs from the trace that it stands for, and whether it is its twin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from kvmark.analysis.compare.comparison import compare
from kvmark.learn.drawn import CACHES, KeyOperations, of_trace, of_workload
from kvmark.records import Run
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.workload import WorkloadSpec
from kvmark.stats import Estimate, mean_interval
from kvmark.trace import Trace

__all__ = ["Likeness", "TwinFigure", "TwinJudgement", "likeness"]

TwinJudgement = Literal["alike", "unlike", "unknown"]

_MEASURED: Final = (("throughput", 0.05), ("p99", 0.25))
"""By how much, as a share, what is measured of a twin may differ."""
_HITS_MARGIN: Final = 0.03
"""By how much a hit ratio may."""
_BYTES_MARGIN: Final = 0.1


@dataclass(frozen=True, slots=True)
class TwinFigure:
    """A figure of a trace and of the workload, and what they differ by."""

    name: str
    trace: float | None
    twin: float | None
    difference: Estimate | None
    """Workload - trace of a hit ratio, else that as a share of the trace's."""
    margin: float
    """A difference below it is none of a twin's."""

    @property
    def judgement(self) -> TwinJudgement:
        """Whether the difference's interval lies within the margin, beyond it, or on it."""
        found = self.difference
        if found is None or found.low is None or found.high is None:
            return "unknown"
        if -self.margin <= found.low and found.high <= self.margin:
            return "alike"
        beyond = found.low > self.margin or found.high < -self.margin
        return "unlike" if beyond else "unknown"


@dataclass(frozen=True, slots=True)
class Likeness:
    """All figures, and what they say together."""

    figures: tuple[TwinFigure, ...]

    @property
    def judgement(self) -> TwinJudgement:
        """Unlike where one figure is; alike where all are."""
        found = {one.judgement for one in self.figures}
        order: tuple[TwinJudgement, ...] = ("unlike", "unknown", "alike")
        return next(word for word in order if word in found)


def likeness(
    trace: Trace,
    workload: WorkloadSpec,
    runs: tuple[Sequence[Run], Sequence[Run]],
    allow: Collection[str],
) -> Likeness:
    """What runs of a trace and of a workload in blocks say, and their operations themselves.

    Raises:
        KvmarkError: the runs can't be compared, or a file is damaged.
    """
    seeds = [run.manifest.spec["seed"] for run in runs[1]]
    return Likeness((*_measured(runs, allow), *drawn_figures(trace, workload, seeds)))


def _measured(
    runs: tuple[Sequence[Run], Sequence[Run]], allow: Collection[str]
) -> Iterator[TwinFigure]:
    (case,) = compare(*runs, allow={"plan", *allow}).cases
    rows = {row.metric: row for row in case.rows}
    for name, margin in _MEASURED:
        metric: Metric = parse_comparable(name)
        row = rows.get(metric)
        effect = row.effect if row else None
        yield TwinFigure(
            name,
            row.baseline.value if row and row.baseline else None,
            row.candidate.value if row and row.candidate else None,
            None if effect is None else _less_one(effect.ratio),
            margin,
        )


def _less_one(ratio: Estimate) -> Estimate:
    """A ratio as a change."""
    low, high = (None if one is None else one - 1 for one in (ratio.low, ratio.high))
    return replace(ratio, value=ratio.value - 1, low=low, high=high, unit="share")


def drawn_figures(
    trace: Trace, workload: WorkloadSpec, seeds: Sequence[int]
) -> Iterator[TwinFigure]:
    """Hit ratios of LRU caches and bytes read, of the operations themselves.

    They are exact of the trace, and have the interval between seeds of the workload.

    Raises:
        KvmarkError: a file is damaged, or no plan can be made of the workload.
    """
    own = of_trace(trace)
    different = float(len(np.unique(own.keys)))
    drawn = [_figures(of_workload(workload, len(own.keys), seed), different) for seed in seeds]
    for place, (name, value) in enumerate(_figures(own, different)):
        values = [figures[place][1] for figures in drawn]
        is_ratio = place < len(CACHES)
        if not is_ratio and not value:
            continue
        changes = [one - value if is_ratio else one / value - 1 for one in values]
        margin = _HITS_MARGIN if is_ratio else _BYTES_MARGIN
        yield TwinFigure(
            name, value, float(np.mean(values)), mean_interval(changes, "share"), margin
        )


def _figures(drawn: KeyOperations, keys: float) -> list[tuple[str, float]]:
    hits = zip(CACHES, drawn.hit_ratios(keys), strict=True)
    return [
        *((f"hit ratio of {100 * share:g} % of the keys", found) for share, found in hits),
        ("bytes read by operation", drawn.read_bytes),
    ]
