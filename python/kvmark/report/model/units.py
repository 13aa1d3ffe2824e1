"""Numbers as text: a unit per time, three significant digits, thousands separated; and bars.

The live display uses it next to a measurement: nothing here imports a library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

#: The text for a missing number, or one with too few observations.
ABSENT = "–"

_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_LENGTHS: Final = "▏▎▍▌▋▊▉█"
_PLAIN: Final = str.maketrans({
    **dict(zip(_HEIGHTS, "_.:-=+*#", strict=True)),
    **dict(zip(_LENGTHS, "...-====", strict=True)),
    "█": "#", "─": "-", "━": "=", "│": "|", "┤": "|", "└": "+", "╸": "-", "╺": "-",
    "–": "-", "−": "-", "·": "-", "×": "x", "±": "+-", "µ": "u", "…": "...", "⋮": ":",
    "≤": "<=", "≥": ">=", "→": "->", "←": "<-", "\N{REPLACEMENT CHARACTER}": "?",
})  # fmt: skip
"""The ASCII character for each other character."""


class Bounded(Protocol):
    """A value and its confidence interval; ``error`` is half the width."""

    @property
    def value(self) -> float:
        """The value."""

    @property
    def low(self) -> float | None:
        """The lower end; none when unknown."""

    @property
    def high(self) -> float | None:
        """The upper end; none when unknown."""

    @property
    def error(self) -> float | None:
        """Half the width; none when unknown."""


_TINY: Final = 1e-5
_TIME_UNITS: Final = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
"""The units of time with their length in nanoseconds."""


def significant(value: float | None, digits: int = 3) -> str:
    """The value with this number of significant digits; integer digits are never cut.

    >>> significant(3.14159), significant(51234.5)
    ('3.14', '51,234')
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def with_unit(time_ns: float | None) -> str:
    """A time in the largest unit in which it is at least 1.

    >>> with_unit(96_700), with_unit(999_700)
    ('96.7 µs', '1.00 ms')
    """
    if time_ns is None:
        return ABSENT
    rounded = abs(float(f"{time_ns:.2e}"))
    name, length = next((one for one in _TIME_UNITS if rounded >= one[1]), _TIME_UNITS[-1])
    return f"{significant(time_ns / length)} {name}"


def span(seconds: float) -> str:
    """A time span: ``1 h 05 min``, ``3 min 20 s``, ``12 s`` or ``40 ms``."""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min" if minutes else f"{hours:,} h"
    return f"{minutes} min {rest:02} s" if rest else f"{minutes} min"


def estimate(value: Bounded | None) -> str:
    """Value ± half width, both rounded to the second digit of the half width.

    17953.32 with an error of 312.4 becomes ``17,950 ± 310``; an error of at most 0.001 % of
    the value is left out.
    """
    if value is None:
        return ABSENT
    error = value.error
    if error is None or not math.isfinite(error) or error <= abs(value.value) * _TINY:
        return significant(value.value)
    place = 1 - math.floor(math.log10(error))
    decimals = max(place, 0)
    return f"{round(value.value, place):,.{decimals}f} ± {round(error, place):,.{decimals}f}"


def interval(
    value: Bounded | None, text: Callable[[float], str] = significant, absent: str = ABSENT
) -> str:
    """The ends of an interval; ``absent`` where they are unknown."""
    if value is None or value.low is None or value.high is None:
        return absent
    return f"{text(value.low)} to {text(value.high)}"


def listed(names: Iterable[str]) -> str:
    """Names with commas, the last after *and*."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def every(count: int, subjects: str) -> str:
    """All of a number of subjects, a plural noun: `the one case`, `both cases`, `all 24 cases`."""
    if count == 1:
        return f"the one {subjects.removesuffix('s')}"
    return f"both {subjects}" if count == 2 else f"all {whole(count)} {subjects}"


def percent(share: float) -> str:
    """A share."""
    return f"{significant(100 * share)} %"


def whole(count: int | None) -> str:
    """A count."""
    return ABSENT if count is None else f"{count:,}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts with their names: ``12 timeout, 3 unavailable``."""
    return ", ".join(f"{whole(count)} {name}" for name, count in counts.items())


def size(count: int) -> str:
    """A number of bytes with a suitable unit, in powers of 1000."""
    for factor, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{significant(count / factor)} {name}"
    return f"{count} B"


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One line of blocks from 0 to ``top``, one per value; a missing value is a blank.

    Only 0 has the lowest block, which separates a standstill from low values.
    """
    return "".join(" " if value is None else _HEIGHTS[_height(value, top, 7)] for value in values)


def contrast(values: Sequence[float]) -> str:
    """One line of blocks, scaled from the lowest value to the highest."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if low == high:
        return _HEIGHTS[3] * len(values)
    return "".join(_HEIGHTS[round((value - low) / (high - low) * 7)] for value in values)


def columns(values: Sequence[float | None], top: float, lines: int) -> list[str]:
    """Columns from 0 to ``top`` over several lines, top line first; 0 and none are blank."""
    eighths = [0 if value is None else _height(value, top, 8 * lines) for value in values]
    blocks = f" {_HEIGHTS}"
    return [
        "".join(blocks[max(0, min(height - 8 * line, 8))] for height in eighths)
        for line in reversed(range(lines))
    ]


def bar(value: float, top: float, width: int) -> str:
    """A horizontal bar whose full width is ``top``; never empty above 0."""
    eighths = _height(value, top, 8 * width)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_LENGTHS[rest - 1] if rest else "")


def writable(text: str, encoding: str) -> str:
    """The text, with ASCII characters where the encoding lacks others."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    except LookupError:
        pass
    return text


def _height(value: float, top: float, steps: int) -> int:
    """The number of steps that a value fills: 0 for 0, at least 1 for more."""
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(steps, math.floor(value / top * steps + 0.5)))
