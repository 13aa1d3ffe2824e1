"""Numbers as block characters, and plain signs for where these can't be written.

Nothing here needs a library: the live display draws with it beside what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_LENGTHS: Final = "▏▎▍▌▋▊▉█"
_PLAIN: Final = str.maketrans({
    **dict(zip(_HEIGHTS, "_.:-=+*#", strict=True)),
    **dict(zip(_LENGTHS, "...-====", strict=True)),
    "█": "#", "─": "-", "━": "=", "│": "|", "┤": "|", "└": "+", "╸": "-", "╺": "-",
    "–": "-", "−": "-", "·": "-", "×": "x", "±": "+-", "µ": "u", "…": "...", "⋮": ":",
    "≤": "<=", "≥": ">=", "→": "->", "←": "<-", "\N{REPLACEMENT CHARACTER}": "?",
})  # fmt: skip
"""What each sign that is not ASCII becomes."""


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One line of blocks from 0 to ``top``, one a value; blank where there is none.

    The lowest block is 0 and nothing else, so that a standstill isn't taken for little.
    """
    return "".join(" " if value is None else _HEIGHTS[_height(value, top, 7)] for value in values)


def contrast(values: Sequence[float]) -> str:
    """One line of blocks from the lowest of the values to the highest, so that changes are seen."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if low == high:
        return _HEIGHTS[3] * len(values)
    return "".join(_HEIGHTS[round((value - low) / (high - low) * 7)] for value in values)


def columns(values: Sequence[float | None], top: float, lines: int) -> list[str]:
    """Columns from 0 to ``top`` over so many lines, the highest first; blank for 0 and for none."""
    eighths = [0 if value is None else _height(value, top, 8 * lines) for value in values]
    return [
        "".join(_part(height - 8 * line) for height in eighths) for line in reversed(range(lines))
    ]


def bar(value: float, top: float, width: int) -> str:
    """A bar from left to right, as long as the value is of ``top``; never empty above 0."""
    eighths = _height(value, top, 8 * width)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_LENGTHS[rest - 1] if rest else "")


def writable(text: str, encoding: str) -> str:
    """The text as it can be written in an encoding: as it is, or with plain signs."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text
    return text


def _height(value: float, top: float, steps: int) -> int:
    """How many of the steps a value fills: 0 for 0, and at least one for what is more."""
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(steps, math.floor(value / top * steps + 0.5)))


def _part(eighths: int) -> str:
    if eighths <= 0:
        return " "
    return _HEIGHTS[min(eighths, 8) - 1]
