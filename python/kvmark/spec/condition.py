"""Conditions on a comparison that end a build, such as `p99>5%`: a metric and a margin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from kvmark.errors import SpecError
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.quantity import matched
from kvmark.spec.suggest import shown

_FORM: Final = re.compile(r"(.+?)\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)

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
    found = matched(_FORM, text, problem)
    above, margin = found[2] == ">", float(found[3]) / 100
    if (margin < 0) if above else (margin > 0):
        side = "above" if above else "below"
        raise SpecError(f"{shown(text)} would hold without any change: write a margin {side} 0 %")
    return Condition(parse_comparable(found[1]), above, margin)
