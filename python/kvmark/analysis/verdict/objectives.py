"""Objectives held against runs: each one's figure, and whether it is within its bound.

A time is bounded for all operations that were due: those that failed, never ended or were never
issued count as slower than any bound. Otherwise a short timeout would keep every bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.compare.metrics import run_value
from kvmark.analysis.summary.aggregate import due_times, unanswered_of
from kvmark.records import Run
from kvmark.spec.objective import Objective
from kvmark.stats import BEYOND, least_observations

_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


@dataclass(frozen=True, slots=True)
class ObjectiveFigure:
    """The figure of runs that an objective bounds."""

    objective: Objective
    #: In the unit of the objective's bound; none when too few operations were measured, or when it
    #: is beyond any bound.
    value: float | None
    lacking: str = ""
    #: The share of due operations without an answer; 0 if the metric isn't a time.
    unanswered: float = 0.0
    #: Whether unanswered operations put the figure beyond any bound.
    is_beyond: bool = False

    @property
    def held(self) -> bool | None:
        """Whether it is within its bound; None if that is unknown."""
        if self.is_beyond:
            return False
        return None if self.value is None else self.objective.met(self.value)

    @property
    def sentence(self) -> str:
        """How it stands, without a full stop."""
        text = self.objective.text
        failed = f"{self.unanswered:.3%}"
        if self.is_beyond:
            return (
                f"{text} was missed: {failed} of the operations failed or were never issued, and"
                " these count as slower than any bound"
            )
        if self.value is None:
            return self.lacking
        shown = _shown(self.objective, self.value)
        counted = f"; {failed} without an answer count as slower" if self.unanswered else ""
        return f"{text} {'held' if self.held else 'was missed'} with {shown}{counted}"


def figure(runs: Sequence[Run], objective: Objective) -> ObjectiveFigure:
    """The objective's figure over all runs together: histograms are merged, shares pooled."""
    if not any(phase.name == "measure" for run in runs for phase in run.counted):
        return ObjectiveFigure(objective, None, f"{objective.text}: nothing was measured")
    metric = objective.metric
    match metric.measure:
        case "throughput":
            rates = [run_value(run, metric) or 0.0 for run in runs]
            return ObjectiveFigure(objective, sum(rates) / len(rates))
        case "errors":
            return ObjectiveFigure(objective, _failed_share(runs, metric.operation))
    return _of_times(runs, objective)


def _of_times(runs: Sequence[Run], objective: Objective) -> ObjectiveFigure:
    metric = objective.metric
    counts = due_times(runs, metric.time, metric.operation)
    if counts.n == 0:
        return ObjectiveFigure(objective, None, "no operation succeeded")
    lost = sum(unanswered_of(run, metric.operation) for run in runs)
    # With a single operation beyond any bound a mean and a maximum are beyond it, too.
    q = metric.q if metric.quantile is not None else 1.0
    if not counts.shows(q):
        needed = least_observations(q)
        lacking = f"{objective.text} needs {needed:,} operations and there are {counts.n:,}"
        return ObjectiveFigure(objective, None, f"{lacking}: measure longer")
    share = lost / counts.n
    if counts.quantile(q) == BEYOND:
        return ObjectiveFigure(objective, None, "", share, is_beyond=True)
    value = counts.mean() if metric.measure == "mean" else counts.quantile(q)
    return ObjectiveFigure(objective, None if value is None else float(value), "", share)


def _failed_share(runs: Sequence[Run], operation: str | None) -> float:
    totals = [
        total
        for run in runs
        for phase in run.counted
        for total in run.totals(phase.index)
        if (not total.part if operation is None else total.operation == operation)
    ]
    failed = sum(total.count for total in totals if total.outcome not in ("ok", "miss"))
    done = sum(total.count for total in totals)
    return failed / done if done else 1.0


def _shown(objective: Objective, value: float) -> str:
    match objective.measure:
        case "errors":
            return f"{value:.3%}"
        case "throughput":
            return f"{value:,.0f} ops/s"
        case _:
            size, unit = next((size, unit) for size, unit in _UNITS if value >= size or size == 1)
            return f"{value / size:,.3g} {unit}"
