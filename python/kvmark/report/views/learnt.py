"""A learnt workload and its likeness to the trace, in words and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from kvmark.learn import LearnedPart, Likeness, TwinFigure
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, to_text, wrap

__all__ = ["learnt_text", "likeness_sentence", "likeness_text"]

_WORDS: Final = {
    "alike": "The workload is a twin of the trace: every difference is within its margin.",
    "unlike": "The workload is no twin of the trace",
    "unknown": "Whether the workload is a twin of the trace can't be told",
}


def learnt_text(parts: Sequence[LearnedPart], width: int) -> Text:
    """Each part's law, what it loses, and the figures of both, for a terminal of this width."""
    lines: list[Text] = []
    for part in parts:
        sentence = f"{part.name.capitalize()}: {part.law}. Lost: {part.loses}."
        lines += [Text(line) for line in wrap(sentence, width)]
    rows = tuple(
        (Cell(part.name), Cell(one.name), *map(_number, (one.trace, one.twin)))
        for part in parts
        for one in part.fit
    )
    columns = (
        Column("", number=False, key=True), Column("figure", number=False), Column("trace"),
        Column("workload"),
    )  # fmt: skip
    return Text("\n").join(
        (*lines, Text(), to_text(Grid("How well they fit", columns, rows), width))
    )


def likeness_text(found: Likeness, width: int) -> Text:
    """What differs by how much, and what follows."""
    columns = (
        Column("", number=False, key=True), Column("trace"), Column("workload"),
        Column("difference"), Column("interval"), Column("margin"), Column("", number=False),
    )  # fmt: skip
    grid = Grid("How like the trace it is", columns, tuple(map(_row, found.figures)))
    text = to_text(grid, width)
    # What is no twin ends the command with its sentence.
    return Text("\n\n").join((text, Text(_WORDS["alike"]))) if found.judgement == "alike" else text


def likeness_sentence(found: Likeness) -> str:
    """The judgement, with the figures that are why."""
    why = ", ".join(one.name for one in found.figures if one.judgement == found.judgement)
    words = _WORDS[found.judgement]
    if found.judgement == "alike":
        return words
    return f"{words}: {why}{'; give more --blocks' if found.judgement == 'unknown' else ''}."


def _row(one: TwinFigure) -> tuple[Cell, ...]:
    of_time = one.name.startswith("p9")
    values = map(units.with_unit if of_time else units.significant, (one.trace, one.twin))
    found = one.difference
    change = interval = "-"
    if found is not None:
        change = _change(found.value)
        if found.low is not None and found.high is not None:
            interval = f"{_change(found.low)} to {_change(found.high)}"
    told = (*values, change, interval, f"{100 * one.margin:g} %", one.judgement)
    return (Cell(one.name), *map(Cell, told))


def _change(change: float) -> str:
    return f"{100 * change:+.2f} %"


def _number(value: float) -> Cell:
    return Cell(units.significant(value, 4))
