"""Objectives as people write them: `p99<10ms`, `service p99.9<5ms`, `errors<0.1%`.

A metric (`kvmark.spec.metric`) and its bound: a duration for times, a share for `errors`, a rate
for `throughput`. `<=` and `≤` let the bound itself pass, and so do `>=` and `≥`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kvmark.errors import SpecError
from kvmark.spec.metric import Measure, Metric, parse_metric
from kvmark.spec.quantity import duration_ns, matched, rate, share
from kvmark.spec.suggest import shown

_FORM: Final = re.compile(r"([^<>=≤≥]+)(<=|>=|<|>|≤|≥)\s*(.+)")


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound on a figure of a run."""

    text: str
    """As it was written."""
    metric: Metric
    bound: float
    """Nanoseconds, a share, or operations per second."""
    inclusive: bool
    """Whether the bound itself passes."""

    @property
    def measure(self) -> Measure:
        """What is bounded."""
        return self.metric.measure

    def met(self, value: float) -> bool:
        """Whether a figure, in the unit of the bound, is on the right side of it."""
        if value == self.bound:
            return self.inclusive
        return (value > self.bound) == self.metric.more_is_better


def parse_objective(text: str) -> Objective:
    """Reads an objective.

    Raises:
        SpecError: it isn't one; shows the form.
    """
    problem = f"{shown(text)} is not an objective; write it like p99<10ms or errors<0.1%"
    found = matched(_FORM, text, problem)
    name, sign, bound = found.groups()
    metric = parse_metric(name)
    floor, inclusive = sign in (">", ">=", "≥"), sign not in ("<", ">")
    if floor != metric.more_is_better:
        wanted = ">" if metric.more_is_better else "<"
        raise SpecError(
            f"{shown(text)} bounds {metric.name} on the wrong side; write {metric.name}{wanted}…"
        )
    value = _bound(metric.measure, bound)
    if value == 0 and not (inclusive and metric.measure == "errors"):
        allowed = " or errors<=0" if metric.measure == "errors" else ""
        raise SpecError(f"{shown(text)} can't be met; write a bound above 0{allowed}")
    return Objective(text.strip(), metric, value, inclusive)


def _bound(measure: Measure, text: str) -> float:
    match measure:
        case "errors":
            value = share(text)
            if value > 1:
                raise SpecError(f"{shown(text)} is more than all operations; write at most 100%")
            return value
        case "throughput":
            floor = rate(text)
            if floor is None:
                raise SpecError("throughput needs a number; write it like throughput>5k/s")
            return floor
        case _:
            return float(duration_ns(text))
