"""Objectives as people write them: `p99<10ms`, `service p99.9<5ms`, `errors<0.1%`.

| objective               | what must hold                                            |
|-------------------------|-----------------------------------------------------------|
| `p99<10ms` `p99.9<50ms` | a quantile of response time; `p999` is `p99.9`            |
| `mean<2ms` `max<1s`     | its mean, its maximum                                     |
| `service p99<10ms`      | the same of service time; `wait` likewise                 |
| `errors<0.1%`           | failed operations as a share of all with a known outcome  |
| `throughput>5k/s`       | successful operations per second                          |

`<=` and `≤` let the bound itself pass, and so do `>=` and `≥`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

from kvmark.errors import SpecError
from kvmark.spec.quantity import LONGEST, duration_ns, rate
from kvmark.spec.suggest import did_you_mean, shown

__all__ = ["Measure", "Objective", "TimeKind", "parse_objective", "share"]

Measure = Literal["quantile", "mean", "max", "errors", "throughput"]
TimeKind = Literal["response", "service", "wait"]

_FORM: Final = re.compile(r"(?:(\w+)[ .]\s*)?([a-z]\w*(?:\.[0-9]+)?)\s*(<=|>=|<|>|≤|≥)\s*(.+)")
_QUANTILE: Final = re.compile(r"p([0-9]{1,2})([0-9]*)(?:\.([0-9]+))?", re.ASCII)
_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)", re.ASCII)
_TIMES: Final[Mapping[str, TimeKind]] = {name: name for name in get_args(TimeKind)}
_NAMES: Final = ("p50", "p95", "p99", "p999", "mean", "max", "errors", "throughput")


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound on a figure of a run."""

    text: str
    """As it was written."""
    measure: Measure
    q: float | None
    """The quantile in (0, 1); None for what is none."""
    time: TimeKind
    """Which of an operation's times; of no meaning for errors and throughput."""
    bound: float
    """Nanoseconds, a share, or operations per second."""
    inclusive: bool
    """Whether the bound itself passes."""

    def met(self, value: float) -> bool:
        """Whether a figure, in the unit of the bound, is on the right side of it."""
        if value == self.bound:
            return self.inclusive
        return (value > self.bound) == (self.measure == "throughput")


def parse_objective(text: str) -> Objective:
    """Reads an objective.

    Raises:
        SpecError: it is none; says how one is written.
    """
    problem = SpecError(f"{shown(text)} is not an objective; write it like p99<10ms or errors<0.1%")
    found = _FORM.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if found is None:
        raise problem
    time, name, sign, bound = found.groups()
    floor = sign in (">", ">=", "≥")
    inclusive = sign not in ("<", ">")
    if time is not None and time not in _TIMES:
        raise SpecError(f"there is no time {shown(time)}{did_you_mean(time, _TIMES)}")
    if time is not None and name in ("errors", "throughput"):
        raise SpecError(f"{name} has no {time} time; write {name} alone")
    if floor != (name == "throughput"):
        wanted = ">" if name == "throughput" else "<"
        raise SpecError(f"{shown(text)} bounds {name} on the wrong side; write {name}{wanted}…")
    measure, q = _measure(name)
    kind: TimeKind = _TIMES[time or "response"]
    value = _bound(measure, bound)
    if value == 0 and not (inclusive and measure == "errors"):
        allowed = " or errors<=0" if measure == "errors" else ""
        raise SpecError(f"{shown(text)} can't be met; write a bound above 0{allowed}")
    return Objective(text.strip(), measure, q, kind, value, inclusive)


def share(text: str) -> float:
    """A share: `0.1%` or `0.001`.

    Raises:
        SpecError: it is none.
    """
    found = _SHARE.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if found is None:
        raise SpecError(f"{shown(text)} is not a share; write it like 0.1% or 0.001")
    return float(found[1]) / (100 if found[2] else 1)


def _measure(name: str) -> tuple[Measure, float | None]:
    match name:
        case "mean" | "max" | "errors" | "throughput":
            return name, None
    quantile = _QUANTILE.fullmatch(name)
    if quantile is None:
        raise SpecError(f"there is no figure {shown(name)}{did_you_mean(name, _NAMES)}")
    whole, nines, rest = quantile[1], quantile[2], quantile[3]
    if nines and rest:
        raise SpecError(f"{shown(name)} is not a quantile; write p99.9 or p999")
    # p999 is p99.9, as tools write it.
    q = float(Fraction(f"{whole}.{nines or rest or '0'}") / 100)
    if nines == "0" * len(nines) and nines and whole == "10":
        raise SpecError("p100 is the maximum; write max")
    if not 0 < q < 1:
        raise SpecError(f"{shown(name)} is not a quantile above p0")
    return "quantile", q


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
