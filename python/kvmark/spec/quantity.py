"""Durations, counts, rates and sizes as people write them.

| quantity | written                          | read as                          |
|----------|----------------------------------|----------------------------------|
| duration | `30s` `500ms` `1h30m` `2.5s`     | nanoseconds; a unit is needed    |
| count    | `1000` `1_000` `10k` `1M` `1e6`  | a whole number below 2^63        |
| rate     | `1000` `5k/s` `max`              | operations per second, or None   |
| size     | `100` `100B` `1KiB` `64MB`       | bytes                            |
| share    | `5%` `0.05`                      | a part of one                    |

Every function raises `SpecError` without a place; the reader of a file adds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from kvmark.errors import SpecError
from kvmark.spec.suggest import shown

LARGEST: Final = 2**63 - 1
"""The largest count, duration in nanoseconds and size that is accepted."""

SHORTEST_STALL_NS: Final = 10**9
"""The shortest stall limit: an engine looks five times a second whether it is over."""
SHORTEST_INTERVAL_NS: Final = 10**6
"""Closing an interval takes tens of microseconds."""

LONGEST: Final = 100

T = TypeVar("T")

_NUMBER: Final = r"(?:[0-9](?:_?[0-9])*)(?:\.[0-9]+)?"
_COUNT: Final = re.compile(rf"({_NUMBER}(?:[eE]\+?[0-9]{{1,3}})?)\s*([A-Za-z]*)", re.ASCII)
_SHARE: Final = re.compile(rf"({_NUMBER})\s*(%?)", re.ASCII)
_PART: Final = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_PARTS: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)

_UNIT_NS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_SHOWN_UNITS: Final = (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))
_MULTIPLES: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
Sizes: TypeAlias = Mapping[str, int]
"""Bytes by a unit's name in small letters; systems' own files give other meanings to some."""
_SIZES: Final[Sizes] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
}


def duration_ns(text: str) -> int:
    """A duration in nanoseconds: `30s`, `2m`, `500ms`, `1h30m`."""
    problem = f"{shown(text)} is not a duration; write it like 30s, 500ms or 1h30m"
    matched(_PARTS, text, problem)
    parts = [(number, _UNIT_NS[unit]) for number, unit in _PART.findall(text)]
    if any(one <= other for (_, one), (_, other) in pairwise(parts)):
        raise SpecError(problem)
    exact = sum(Fraction(number.replace("_", "")) * unit_ns for number, unit_ns in parts)
    return _whole(exact, text, " nanoseconds")


def duration_text(time_ns: float, unit_ns: float | None = None, digits: int = 3) -> str:
    """A duration for a sentence, such as ``56.4 µs``, in this unit or in the one that suits it."""
    least_ns = unit_ns or abs(float(f"{time_ns:.{digits - 1}e}"))
    name, shown_ns = next((one for one in _SHOWN_UNITS if least_ns >= one[1]), _SHOWN_UNITS[-1])
    value = time_ns / shown_ns
    return f"{value:,.0f} {name}" if abs(value) >= 10**digits else f"{value:.{digits}g} {name}"


def stall_limit_ns(text: str) -> int:
    """How long a system may be silent, in nanoseconds: a duration of 1s or more; 0 for `off`."""
    if text.strip() == "off":
        return 0
    limit_ns = duration_ns(text)
    if limit_ns < SHORTEST_STALL_NS:
        raise SpecError(f"a stall limit is at least 1s, not {shown(text)}; write off for none")
    return limit_ns


def count(text: str) -> int:
    """A count: `1000`, `1_000`, `10k`, `1M`, `1e6`."""
    problem = f"{shown(text)} is not a count; write it like 1000, 10k, 1M or 1e6"
    return _whole(_scaled(text, _MULTIPLES, problem), text, "")


def rate(text: str) -> float | None:
    """A rate in operations per second: `1000`, `5k/s`, `0.5`; None for `max`, no limit."""
    if text.strip() == "max":
        return None
    problem = f"{shown(text)} is not a rate; write it like 1000, 5k/s or max"
    exact = _scaled(text.strip().removesuffix("/s"), _MULTIPLES, problem)
    if exact > LARGEST:
        raise SpecError(f"the rate {shown(text)} is too large; write max for no limit")
    if exact == 0:
        raise SpecError(f"a rate must be above 0, not {shown(text)}; write max for no limit")
    return float(exact)


def ramp(text: str) -> tuple[float, float]:
    """Two rates in operations per second, the first of which may be 0: `1k..50k`."""
    first, dots, last = text.partition("..")
    if not dots:
        raise SpecError(f"{shown(text)} is not a ramp; write it like 1k..50k")
    rates = (0.0 if first.strip() in {"0", "0/s"} else rate(first), rate(last))
    if None in rates:
        raise SpecError(f"{shown(text)} is no ramp: max is no rate to begin or end with")
    return rates[0] or 0.0, rates[1] or 0.0


def size_bytes(text: str, units: Sizes = _SIZES, such_as: str = "100, 1KiB or 64MB") -> int:
    """A size in bytes: `100`, `100B`, `1KiB` (1024), `64MB` (64 000 000), or in others' units."""
    problem = f"{shown(text)} is not a size; write it like {such_as}"
    return _whole(_scaled(text, units, problem, lower=True), text, " bytes")


def share(text: str) -> float:
    """A share: `0.1%` or `0.001`."""
    found = matched(_SHARE, text, f"{shown(text)} is not a share; write it like 0.1% or 0.001")
    return float(found[1]) / (100 if found[2] else 1)


def listed(text: str, parse: Callable[[str], T]) -> tuple[T, ...]:
    """Several quantities separated by commas: `1000,3000`."""
    parts = text.split(",")
    if not all(part.strip() for part in parts):
        raise SpecError(f"{shown(text)} is not a list; separate the values by single commas")
    return tuple(parse(part) for part in parts)


def matched(pattern: re.Pattern[str], text: str, problem: str) -> re.Match[str]:
    """A user's text of a form.

    Raises:
        SpecError: it isn't of that form, or too long for it.
    """
    found = pattern.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if found is None:
        raise SpecError(problem)
    return found


def _scaled(text: str, units: Mapping[str, int], problem: str, *, lower: bool = False) -> Fraction:
    number, unit = matched(_COUNT, text, problem).groups()
    unit = unit.lower() if lower else unit
    if unit not in units:
        raise SpecError(problem)
    return Fraction(number.replace("_", "")) * units[unit]


def _whole(exact: Fraction | int, text: str, unit: str) -> int:
    if exact > LARGEST:
        raise SpecError(f"{shown(text)} is too large; at most {LARGEST}{unit} is possible")
    if exact != int(exact):
        raise SpecError(f"{shown(text)} is not a whole number{' of' if unit else ''}{unit}")
    return int(exact)
