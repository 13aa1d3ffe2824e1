"""Numbers as text: one unit per column, three digits that mean something, thousands separated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

#: Stands where there is no number, or too few observations for one.
ABSENT = "–"


class HasError(Protocol):
    """A value with half the width of its confidence interval."""

    @property
    def value(self) -> float:
        """The value."""

    @property
    def error(self) -> float | None:
        """Half the width; none when it isn't known."""


class HasEnds(Protocol):
    """The ends of a confidence interval."""

    @property
    def low(self) -> float | None:
        """The lower end; none when it isn't known."""

    @property
    def high(self) -> float | None:
        """The upper end; none when it isn't known."""


class Bounded(HasEnds, Protocol):
    """A value and its confidence interval."""

    @property
    def value(self) -> float:
        """The value."""


_LEAST_IN_COLUMN: Final = 0.01
_MOST_IN_COLUMN: Final = 100_000
"""What is easily read in the unit of a column; a time outside of it has a unit of its own."""


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time with the nanoseconds it holds."""

    name: str
    ns: float


TIME_UNITS = (
    TimeUnit("ns", 1.0),
    TimeUnit("µs", 1e3),
    TimeUnit("ms", 1e6),
    TimeUnit("s", 1e9),
)


def time_unit(times_ns: Iterable[float | None]) -> TimeUnit:
    """The largest unit in which the middle one of the times is at least one."""
    known = sorted(time for time in times_ns if time is not None and time > 0)
    if not known:
        return TIME_UNITS[1]
    middle = known[len(known) // 2]
    fitting = [unit for unit in TIME_UNITS if middle >= unit.ns]
    return fitting[-1] if fitting else TIME_UNITS[0]


def significant(value: float | None, digits: int = 3) -> str:
    """The value with so many significant digits, whole digits always kept.

    >>> significant(3.14159), significant(51234.5)
    ('3.14', '51,234')
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    return f"{value:,.{_decimals(value, digits)}f}"


def duration(time_ns: float | None, unit: TimeUnit) -> str:
    """A time in a column's unit, the unit left to the heading.

    A time far below or above that unit brings the one that suits it: ``56.4 µs`` among seconds.
    """
    if time_ns is None:
        return ABSENT
    value = time_ns / unit.ns
    if value != 0 and not _LEAST_IN_COLUMN <= abs(value) < _MOST_IN_COLUMN:
        return with_unit(time_ns)
    return significant(value)


def with_unit(time_ns: float | None) -> str:
    """A time with the unit that suits it."""
    unit = time_unit([time_ns])
    return ABSENT if time_ns is None else f"{significant(time_ns / unit.ns)} {unit.name}"


def span(seconds: float) -> str:
    """A span of time as one would say it: ``1 h 05 min``, ``3 min 20 s``, ``12 s``, ``40 ms``."""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min" if minutes else f"{hours:,} h"
    return f"{minutes} min {rest:02} s" if rest else f"{minutes} min"


def estimate(value: HasError | None) -> str:
    """Value ± half width, both to the half width's second digit.

    17953.32 with an error of 312.4 becomes ``17,950 ± 310``.
    """
    if value is None:
        return ABSENT
    error = value.error
    if error is None or not math.isfinite(error) or error <= 0:
        return significant(value.value)
    place = 1 - math.floor(math.log10(error))
    decimals = max(place, 0)
    return f"{round(value.value, place):,.{decimals}f} ± {round(error, place):,.{decimals}f}"


def whole(count: int | None) -> str:
    """A count."""
    return ABSENT if count is None else f"{count:,}"


def size(count: int) -> str:
    """A number of bytes with the unit that suits it, in powers of 1000."""
    for factor, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{significant(count / factor)} {name}"
    return f"{count} B"


def _decimals(value: float, digits: int) -> int:
    """Decimal places that leave so many significant digits after rounding."""
    exponent = math.floor(math.log10(abs(value)))
    places = max(digits - 1 - exponent, 0)
    rounded = abs(round(value, places))
    grown = rounded > 0 and math.floor(math.log10(rounded)) > exponent
    return max(places - 1, 0) if grown else places
