"""One metric of two sides: their figures, and how much they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvmark.analysis.compare.metrics import level, shown
from kvmark.records import Run
from kvmark.spec.metric import Metric
from kvmark.stats import Effect, Estimate, difference

__all__ = ["Compared", "Row", "Rows", "independent", "without_effects"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric on both sides. A side is none where it has too few operations for it."""

    metric: Metric
    baseline: Estimate | None
    candidate: Estimate | None
    effect: Effect | None


Row = Callable[[Metric], Compared]
"""Compares both sides by a metric."""
Rows = Callable[[float], Row]
"""Makes what compares with intervals of a coverage."""


def independent(baseline: Sequence[Run], candidate: Sequence[Run], *, due: bool = False) -> Rows:
    """Compares runs that have nothing to do with each other; ``due`` as in :func:`level`."""

    def rows(confidence: float) -> Row:
        def row(metric: Metric) -> Compared:
            before, after = (level(side, metric, due=due) for side in (baseline, candidate))
            effect = difference(before, after, confidence) if before and after else None
            return Compared(
                metric,
                baseline=shown(baseline, metric, before, confidence) if before else None,
                candidate=shown(candidate, metric, after, confidence) if after else None,
                effect=effect,
            )

        return row

    return rows


def without_effects(rows: Rows) -> Rows:
    """The figures of both sides, of which a side has too few repetitions for an effect."""

    def figures(confidence: float) -> Row:
        row = rows(confidence)
        return lambda metric: replace(row(metric), effect=None)

    return figures
