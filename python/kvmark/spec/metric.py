"""Figures of a run and bounds on them: `throughput`, `service p99.9`, `READ.wait.p50`, `p99<10ms`.

| metric                  | meaning                                                   |
|-------------------------|-----------------------------------------------------------|
| `p99` `p99.9` `p999`    | a quantile of response time; `p999` is `p99.9`            |
| `mean` `max`            | its mean, its maximum                                     |
| `service.p99`           | the same of service time; `wait` likewise                 |
| `READ.p99`              | the same of one operation; `READ.service.p99` of both     |
| `throughput`            | successful operations per second                          |
| `errors`                | failed operations as a share of all with a known outcome  |

Parts stand with a dot or a space between them; behind a time it may be an underscore.
Objectives, conditions, effects of studies and `--metric` take the same.

An objective, such as `p99<10ms`, `service p99.9<5ms` or `errors<0.1%`, is a metric and its bound: a
duration for times, a share for `errors`, a rate for `throughput`. `<=` and `≤` let the bound itself
pass, and so do `>=` and `≥`. A condition that ends a build, such as `p99>5%`, is a metric and the
margin of its change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

from kvmark.errors import SpecError, UsageError
from kvmark.spec.quantity import duration_ns, matched, rate, share
from kvmark.spec.suggest import did_you_mean, shown

Measure = Literal["quantile", "mean", "max", "errors", "throughput"]
TimeKind = Literal["response", "service", "wait"]

_FORM: Final = re.compile(r"(?:(.*[^\s.])(?:\s*\.\s*|\s+))?([A-Za-z]\w*(?:\.[0-9]+)?)")
_QUANTILE: Final = re.compile(r"p([0-9]{1,2})([0-9]*)(?:\.([0-9]+))?", re.ASCII)
_TIMES: Final[Mapping[str, TimeKind]] = {name: name for name in get_args(TimeKind)}
_TIME_BEFORE: Final = re.compile(rf"({'|'.join(_TIMES)})_")
_TIMELESS: Final = ("errors", "throughput")
_OBJECTIVE: Final = re.compile(r"([^<>=≤≥]+)(<=|>=|<|>|≤|≥)\s*(.+)")
_CONDITION: Final = re.compile(r"(.+?)\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)
_NAMES: Final = ("p50", "p95", "p99", "p999", "mean", "max", "errors", "throughput")


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of all operations of a run, or of those of one kind."""

    measure: Measure = "throughput"
    #: Such as `p99`, and `p999` for 99.9 %; None if it isn't a quantile.
    quantile: str | None = None
    #: Of no meaning for errors and throughput.
    time: TimeKind = "response"
    operation: str | None = None

    @property
    def name(self) -> str:
        """How it is called where one is asked for, such as `p99` or `READ.service.p99`."""
        parts = [self.operation or "", "" if self.time == "response" else self.time]
        return ".".join([*filter(None, parts), self.quantile or self.measure])

    @property
    def unit(self) -> str:
        """Of its values."""
        if self.measure == "errors":
            return "share"
        return "ops/s" if self.measure == "throughput" else "ns"

    @property
    def is_time(self) -> bool:
        """Whether its values are nanoseconds."""
        return self.measure not in _TIMELESS

    @property
    def more_is_better(self) -> bool:
        """Whether a rise is welcome."""
        return self.measure == "throughput"

    @property
    def q(self) -> float:
        """The quantile as a share.

        Raises:
            ValueError: it is no quantile.
        """
        found = None if self.quantile is None else _QUANTILE.fullmatch(self.quantile)
        if found is None:
            raise ValueError(f"{self.name} is no quantile")
        return _share(found)


THROUGHPUT: Final = Metric()


def parse_metric(text: str) -> Metric:
    """A metric from its name.

    Raises:
        SpecError: there is no such metric.
    """
    problem = f"{shown(text)} is not a metric; write throughput, p99, READ.p99 or service.p99"
    found = matched(_FORM, text, problem)
    before, name = re.split(r"[\s.]+", found[1] or ""), found[2]
    if found_time := _TIME_BEFORE.match(name):
        before, name = [*before, found_time[1]], name[found_time.end() :]
    words = [word for word in before if word]
    measure, quantile = _measure(name)
    time = _TIMES[words.pop()] if words and words[-1] in _TIMES else None
    if time is not None and measure in _TIMELESS:
        raise SpecError(f"{name} has no {time} time; write {name} alone")
    if len(words) > 1:
        raise SpecError(
            f"{shown(text)} has more than an operation and a time before {name}; write it like"
            " READ.service.p99"
        )
    return Metric(measure, quantile, time or "response", words[0] if words else None)


_INCOMPARABLE: Final[Mapping[Measure, str]] = {
    "errors": "a share of errors is often 0 and has no ratio then; the verdict judges errors",
    "max": "a maximum is one operation and has no error; take a quantile such as p99.9",
}


def parse_comparable(text: str) -> Metric:
    """A metric by which runs can be compared as a ratio.

    Raises:
        SpecError: there is no such metric, or its ratio has no error.
    """
    metric = parse_metric(text)
    if reason := _INCOMPARABLE.get(metric.measure):
        raise SpecError(f"{shown(text)} can't be compared: {reason}")
    return metric


def check_operations(metrics: Iterable[Metric], known: Collection[str], where: str) -> None:
    """Rejects unknown names of operations; ``where`` is the place that was searched.

    Raises:
        UsageError: there is no such operation; lists the known ones.
    """
    for metric in metrics:
        if metric.operation is not None and metric.operation not in known:
            there = f"take one of {', '.join(known)}"
            if not known:
                there = "no operations are distinguished there"
            raise UsageError(
                f"{shown(metric.name)}: {where} no operation {shown(metric.operation)}: {there};"
                f" times are {', '.join(_TIMES)}"
            )


def _measure(name: str) -> tuple[Measure, str | None]:
    match name:
        case "mean" | "max" | "errors" | "throughput":
            return name, None
    problem = f"there is no figure {shown(name)}{did_you_mean(name, _NAMES)}"
    found = matched(_QUANTILE, name, problem)
    whole, nines, rest = found.groups()
    if nines and rest:
        raise SpecError(f"{shown(name)} is not a quantile; write p99.9 or p999")
    if whole == "10" and nines and not nines.strip("0"):
        raise SpecError("p100 is the maximum; write max")
    if nines and not whole.startswith("9"):
        raise SpecError(f"{shown(name)} is not a quantile; write p{whole}.{nines} or p{whole}")
    q = _share(found)
    if not 0 < q < 1:
        raise SpecError(f"{shown(name)} is not a quantile above p0")
    digits = (nines or rest or "").rstrip("0")
    # Below ten a point tells p5.5 from p55.
    point = "." if digits and len(whole) == 1 else ""
    return "quantile", f"p{whole}{point}{digits}"


def _share(found: re.Match[str]) -> float:
    """Of p99.9 and of p999, as tools write it, 0.999."""
    whole, nines, rest = found.groups()
    return float(Fraction(f"{whole}.{nines or rest or '0'}") / 100)


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
    found = matched(_OBJECTIVE, text, problem)
    name, sign, bound = found.groups()
    metric = parse_metric(name)
    floor, inclusive = sign in (">", ">=", "≥"), sign not in ("<", ">")
    if floor != metric.more_is_better:
        wanted = ">" if metric.more_is_better else "<"
        raise SpecError(
            f"{shown(text)} bounds {metric.name} on the wrong side; write {metric.name}{wanted}…"
        )
    try:
        value = _bound(metric.measure, bound)
    except SpecError as wrong:
        raise SpecError(f"{shown(text)} is not one objective: {wrong.message}") from wrong
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
