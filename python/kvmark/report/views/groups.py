"""Which of many cases are meant, said by what they have in common instead of one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvmark.report.format import units
from kvmark.report.views.plan_words import listed

__all__ = ["group_words"]

Levels = Mapping[str, str]
_MOST_NAMED = 5


def group_words(
    names: Sequence[str], levels: Sequence[Levels], everyone: Sequence[Levels], things: str
) -> str:
    """Some of all cases: `all 24 with scenario 2`, or the first of them by their names.

    ``things`` is what all of them are, such as ``cases``. Cases without levels have their names.
    """
    count = units.whole(len(names))
    if len(names) == len(everyone):
        return f"all {count} {things}"
    if len(names) > 1 and (common := _common(levels, everyone)):
        return f"all {count} with {common}"
    others = [one for one in everyone if one not in levels]
    if len(others) < len(names) and (common := _common(others, everyone)):
        return f"all but the {units.whole(len(others))} with {common}"
    told, more = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{told} and {units.whole(more)} more" if more > 0 else told


def _common(group: Sequence[Levels], everyone: Sequence[Levels]) -> str:
    """The levels that these cases have and no other has all of; nothing where there are none."""
    if not group or not everyone[0]:
        return ""
    chosen: dict[str, list[str]] = {}
    for factor in everyone[0]:
        theirs = list(dict.fromkeys(one[factor] for one in group))
        if len(theirs) < len({one[factor] for one in everyone}):
            chosen[factor] = theirs
    if _matched(chosen, everyone) != len(group):
        return ""
    for factor in list(chosen):
        without = {name: theirs for name, theirs in chosen.items() if name != factor}
        if _matched(without, everyone) == len(group):
            chosen = without
    return ", ".join(f"{name} {listed(theirs)}" for name, theirs in chosen.items())


def _matched(chosen: Mapping[str, Sequence[str]], everyone: Sequence[Levels]) -> int:
    return sum(all(one[name] in theirs for name, theirs in chosen.items()) for one in everyone)
