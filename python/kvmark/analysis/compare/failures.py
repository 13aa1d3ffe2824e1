"""Sides of which so many operations have no answer that a time has no finite figure.

Such a figure has no ratio. What can be compared is the share of the operations without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvmark.analysis.compare.metrics import counts_of
from kvmark.analysis.summary.aggregate import unanswered_of
from kvmark.records import Run
from kvmark.spec.metric import Metric
from kvmark.stats import BEYOND, Counts, rise_of_share

__all__ = ["Failures", "failures_beyond"]


@dataclass(frozen=True, slots=True)
class Failures:
    """Operations without an answer on both sides, where a figure is beyond any bound.

    That are those that failed, never ended or were never issued, as a share of those that were due.
    """

    baseline: float
    candidate: float
    #: Whether the figure of each side is beyond any bound.
    baseline_beyond: bool
    candidate_beyond: bool
    #: The chance of a rise of the share at least so large when the sides are equal.
    rise: float


def failures_beyond(
    baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric
) -> Failures | None:
    """The failures of two sides; none where both have a finite figure, or no operation at all.

    Raises:
        RecordsError: a run's files can't be read.
    """
    if not metric.is_time:
        return None
    sides = [counts_of(side, metric, due=True) for side in (baseline, candidate)]
    beyond = [_is_beyond(Counts.merge(side), metric) for side in sides]
    if not any(beyond) or not all(any(one.n for one in side) for side in sides):
        return None
    samples = [
        [(unanswered_of(run, metric.operation), one.n) for run, one in zip(runs, side, strict=True)]
        for runs, side in zip((baseline, candidate), sides, strict=True)
    ]
    before, after = (sum(lost for lost, _ in side) / sum(n for _, n in side) for side in samples)
    return Failures(before, after, beyond[0], beyond[1], rise_of_share(*samples))


def _is_beyond(counts: Counts, metric: Metric) -> bool:
    q = 1.0 if metric.quantile is None else metric.q
    return counts.shows(q) and counts.quantile(q) == BEYOND
