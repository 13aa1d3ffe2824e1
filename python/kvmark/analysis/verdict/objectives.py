"""Objectives held against runs: each one's figure, and whether it is within its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.compare.metrics import run_value
from kvmark.analysis.summary.aggregate import merged_times
from kvmark.records import Run
from kvmark.spec.objective import Objective
from kvmark.stats import least_observations

__all__ = ["ObjectiveFigure", "figure"]

_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


@dataclass(frozen=True, slots=True)
class ObjectiveFigure:
    """What runs say of an objective."""

    objective: Objective
    #: In the unit of the objective's bound; none when too few operations were measured.
    value: float | None
    lacking: str = ""

    @property
    def held(self) -> bool | None:
        """Whether it is within its bound; none when that isn't known."""
        return None if self.value is None else self.objective.met(self.value)

    @property
    def sentence(self) -> str:
        """How it stands, without a full stop."""
        if self.value is None:
            return self.lacking
        shown = _shown(self.objective, self.value)
        text = self.objective.text
        return f"{text} held with {shown}" if self.held else f"{text} was missed with {shown}"


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
    counts = merged_times(runs, metric.time, metric.operation)
    if metric.measure == "mean":
        mean = counts.mean()
        return ObjectiveFigure(
            objective, mean, "" if mean is not None else "no operation succeeded"
        )
    q = 1.0 if metric.measure == "max" else metric.q
    if not counts.shows(q):
        needed = least_observations(q)
        lacking = f"{objective.text} needs {needed:,} operations and there are {counts.n:,}"
        return ObjectiveFigure(objective, None, f"{lacking}: measure longer")
    value = counts.quantile(q)
    lacking = "" if value is not None else "no operation succeeded"
    return ObjectiveFigure(objective, None if value is None else float(value), lacking)


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
