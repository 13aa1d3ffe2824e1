"""Changing plain values by their path, and by a factor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.study import ROOTS
from kvmark.spec.suggest import did_you_mean, shown

# Roots below which the last part may have dots: names of settings have them.
_DEPTH: Final = {"testbed": 3, "options": 3}


def split(path: str) -> tuple[str, ...]:
    """The parts of a path from the top of a file; an option of `kvmark run` is below `run`."""
    root = path.partition(".")[0]
    if root not in ROOTS:
        return ("run", path.removeprefix("run."))
    return tuple(path.split(".", _DEPTH.get(root, 0) - 1 if root in _DEPTH else -1))


def changed(values: Any, parts: tuple[str, ...], value: object) -> Any:
    """A copy of plain values in which the one at a path is another.

    A part names a key of a mapping; an element of a list by its number or by its `name`.

    Raises:
        SpecError: the path leads nowhere.
    """
    if not parts:
        return value
    first, rest = parts[0], parts[1:]
    if isinstance(values, Mapping):
        if rest and first not in values:
            below: object = {}
        else:
            below = values.get(first)
        return {**values, first: changed(below, rest, value)}
    if isinstance(values, list):
        place = _place(values, first)
        return [*values[:place], changed(values[place], rest, value), *values[place + 1 :]]
    if values is None:
        return {first: changed(None, rest, value)}
    raise SpecError(f"there is nothing below {shown(str(values))} that {shown(first)} could name")


def value_at(values: Any, parts: tuple[str, ...]) -> Any:
    """The value at a path; None where there is none."""
    for part in parts:
        if isinstance(values, Mapping):
            values = values.get(part)
        elif isinstance(values, list):
            values = values[_place(values, part)]
        else:
            return None
    return values


def multiplied(value: Any, scale: float) -> Any:
    """A count or a duration, as one writes it, times a scale: at least 1 and at least 1 ms.

    Raises:
        SpecError: it is neither.
    """
    if scale == 1:
        return value
    try:
        return max(1, round(quantity.count(str(value)) * scale))
    except SpecError:
        pass
    try:
        return f"{max(10**6, round(quantity.duration_ns(str(value)) * scale))}ns"
    except SpecError:
        raise SpecError(
            f"{shown(str(value))} is neither a count nor a duration, so it has no scale"
        ) from None


def _place(values: list[Any], part: str) -> int:
    names = [str(one.get("name", number)) if isinstance(one, Mapping) else str(number)
             for number, one in enumerate(values)]  # fmt: skip
    if part in names:
        return names.index(part)
    if re.fullmatch(r"[0-9]{1,9}", part) and int(part) < len(values):
        return int(part)
    raise SpecError(f"there is no {shown(part)}{did_you_mean(part, names)}")
