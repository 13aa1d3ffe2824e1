"""Conditions on a comparison that end a build, such as `p99>5%`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.metrics import Metric, parse_metric
from kvmark.errors import UsageError
from kvmark.stats import Effect

__all__ = ["Condition", "Held", "hold", "parse_condition"]

_FORM: Final = re.compile(r"\s*([\w.-]+)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")


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
class Held:
    """What a comparison says of a condition. It fails only beyond the margin and beyond chance."""

    condition: Condition
    #: None when the runs don't say anything of the metric.
    effect: Effect | None
    beyond_margin: bool
    significant: bool

    @property
    def failed(self) -> bool:
        """Whether the change is there and is as large as it must not be."""
        return self.beyond_margin and self.significant


def parse_condition(text: str) -> Condition:
    """A condition from its text.

    Raises:
        UsageError: it isn't one, or could only hold of something that got no worse.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"'{text}' is no condition: write one such as 'p99>5%' or 'throughput<-3%'"
        )
    above, margin = found[2] == ">", float(found[3]) / 100
    if (margin < 0) if above else (margin > 0):
        side = "above" if above else "below"
        raise UsageError(f"'{text}' would hold without any change: write a margin {side} 0 %")
    return Condition(parse_metric(found[1]), above, margin)


def hold(condition: Condition, effect: Effect | None, conditions: int) -> Held:
    """Looks whether a condition holds; the error level is shared by all that are asked at once."""
    if effect is None:
        return Held(condition, None, beyond_margin=False, significant=False)
    change = effect.change
    beyond = change > condition.margin if condition.above else change < condition.margin
    level = (1 - effect.ratio.confidence) / max(conditions, 1)
    return Held(condition, effect, beyond, effect.significant(level))
