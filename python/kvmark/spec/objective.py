"""Bounds on figures of a run, and on the change of one between runs.

An objective, such as `p99<10ms`, `service p99.9<5ms` or `errors<0.1%`, is a metric
(`kvmark.spec.metric`) and its bound: a duration for times, a share for `errors`, a rate for
`throughput`. `<=` and `≤` let the bound itself pass, and so do `>=` and `≥`. A condition that ends
a build, such as `p99>5%`, is a metric and the margin of its change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from kvmark.errors import SpecError
from kvmark.spec.metric import Measure, Metric, parse_comparable, parse_metric
from kvmark.spec.quantity import duration_ns, matched, rate, share
from kvmark.spec.suggest import shown

_FORM: Final = re.compile(r"([^<>=≤≥]+)(<=|>=|<|>|≤|≥)\s*(.+)")
_CONDITION: Final = re.compile(r"(.+?)\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)


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


IfUnknown = Literal["fail", "pass"]
"""The result of a build if a comparison can't decide a condition."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A change of a metric that must not be: more than a margin, or less."""

    metric: Metric
    above: bool
    #: As a share: 0.05 is 5 %.
    margin: float

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.metric.name}{'>' if self.above else '<'}{self.margin * 100:g}%"


@dataclass(frozen=True, slots=True)
class Gate:
    """What a build may not go beyond."""

    conditions: tuple[Condition, ...] = ()
    if_unknown: IfUnknown = "fail"


def parse_condition(text: str) -> Condition:
    """A condition from its text.

    Raises:
        SpecError: it isn't one, or it holds without a change for the worse.
    """
    problem = f"{shown(text)} is no condition: write one such as 'p99>5%' or 'throughput<-3%'"
    found = matched(_CONDITION, text, problem)
    above, margin = found[2] == ">", float(found[3]) / 100
    if (margin < 0) if above else (margin > 0):
        side = "above" if above else "below"
        raise SpecError(f"{shown(text)} would hold without any change: write a margin {side} 0 %")
    return Condition(parse_comparable(found[1]), above, margin)
