"""Numbers as tools write them, each read one way only.

What may mean two things, such as `1,234`, is read where the format leaves no doubt and refused
elsewhere: a figure that is silently a thousand times too small would be worse than none.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from kvmark.imports.source import Source, shown

__all__ = ["NUMBER", "clock_s", "grouped", "json_number", "number"]

NUMBER: Final = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
"""A number as a pattern."""

_PLAIN: Final = re.compile(NUMBER)
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_COMMA: Final = re.compile(r"-?\d+,\d+|-?\d{1,3}(?:\.\d{3})+,\d+")
_UNKNOWN: Final = frozenset({"nan", "inf", "infinity", "∞", "\N{REPLACEMENT CHARACTER}", "n/a"})
_CLOCK: Final = re.compile(r"(\d{1,9}):([0-5]\d):([0-5]\d)")
_LONGEST: Final = 40
_LARGEST: Final = 2.0**64
"""No tool counts further; beyond it a figure is a damaged one."""


def number(source: Source, line: int, text: str) -> int | float | None:
    """The number of a text; none where the tool itself had none (`NaN`).

    Raises:
        ImportFileError: it is no number, one beyond all bounds, or one with a decimal comma.
    """
    plain = text.strip()
    if plain.lstrip("-+").lower() in _UNKNOWN:
        return None
    if len(plain) <= _LONGEST and _PLAIN.fullmatch(plain):
        value = float(plain)
        if abs(value) <= _LARGEST:
            return int(plain) if plain.lstrip("-").isdigit() else value
        message = f"{shown(plain)} is larger than anything that is measured: the file is damaged"
        raise source.error(line, message)
    if _COMMA.fullmatch(plain):
        message = (
            f"{shown(plain)} has a decimal comma: run the tool with LC_ALL=C, or export with points"
        )
        raise source.error(line, message)
    raise source.error(line, f"{shown(plain)} stands where a number belongs: the file is damaged")


def grouped(source: Source, line: int, text: str) -> int | float | None:
    """A number that may have commas between its thousands.

    Raises:
        ImportFileError: as :func:`number` says.
    """
    plain = text.strip()
    if _GROUPED.fullmatch(plain):
        return number(source, line, plain.replace(",", ""))
    return number(source, line, plain)


def json_number(source: Source, place: str, value: Any) -> int | float | None:
    """A number of a JSON document; none for null, and where the tool itself had none (`NaN`).

    Raises:
        ImportFileError: it is something else, or too large to be a figure.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.error(None, f"{place} is {shown(str(value))} and not a number")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if abs(value) > _LARGEST:
        message = f"{place} is larger than anything that is measured: the file is damaged"
        raise source.error(None, message)
    return value


def clock_s(source: Source, line: int, text: str) -> int:
    """Seconds of `00:01:30`.

    Raises:
        ImportFileError: it isn't of that form.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None or len(found[1]) > 6:
        raise source.error(line, f"{shown(text)} stands where hours:minutes:seconds belong")
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
