"""A history drawn: a line of blocks, a table with the places where the level moved, a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvmark.analysis.compare.history import History, HistoryPoint, Moved
from kvmark.analysis.compare.selection import ExcludedRun
from kvmark.foreign_text import printable
from kvmark.report.format import units
from kvmark.report.format.bars import contrast
from kvmark.report.format.grid import Cell, Column, Grid, to_markdown, to_text, wrap
from kvmark.report.views.comparison import differences, percent
from kvmark.report.views.plan_words import listed

_SHORT_COMMIT = 12
_MOST_EXCLUDED = 6
_MOST_CHANGES = 3
# Characters of a date and time without its seconds.
_MINUTE = 16


def history_text(
    histories: Sequence[History], width: int, limit: int, excluded: Sequence[ExcludedRun] = ()
) -> Text:
    """Every case for a terminal, with the newest ``limit`` runs of each, and the excluded runs."""
    lines: list[Text] = []
    for history in histories:
        lines += [Text(), Text()] if lines else []
        shown = contrast([point.value for point in history.points][-width:])
        lines += [to_text(history_grid(history, limit), width), Text(), Text(shown, "cyan")]
        lines += [Text(line) for line in wrap(printable(history_sentence(history)), width)]
    lines = lines or [Text("No runs with this figure yet.")]
    for sentence in excluded_sentences(excluded):
        lines += [Text(line, "yellow") for line in wrap(printable(sentence), width)]
    return Text("\n").join(lines)


def excluded_sentences(excluded: Sequence[ExcludedRun]) -> list[str]:
    """Which runs are in no figure, and why: the first few by name, the rest by their number."""
    told = [f"Excluded: run {one.run} {one.reason}." for one in excluded[:_MOST_EXCLUDED]]
    more = len(excluded) - len(told)
    return [*told, f"Excluded: {more} more, which --json lists."] if more > 0 else told


def history_markdown(history: History, limit: int) -> str:
    """One case as Markdown."""
    shown = contrast([point.value for point in history.points])
    table = to_markdown(history_grid(history, limit)).strip()
    return f"{table}\n\n`{shown}`\n\n{history_sentence(history)}\n"


def history_grid(history: History, limit: int) -> Grid:
    """The newest runs, the last one at the bottom; a new level begins a new section."""
    timed = history.metric.is_time
    unit = units.time_unit(point.value for point in history.points)
    first = max(len(history.points) - limit, 0)
    moves = {move.index: move for move in history.moves}
    tagged = any(point.tags for point in history.points[first:])
    rows = [
        _row(point, moves.get(index), unit if timed else None, tagged=tagged)
        for index, point in enumerate(history.points)
        if index >= first
    ]
    earlier = (f"{first} earlier runs are not listed.",) if first else ()
    return Grid(
        title=f"{history.metric.name} of {history.title}",
        columns=(
            Column("created", number=False),
            Column("run", number=False, key=True),
            Column("commit", number=False),
            Column(f"{history.metric.name}, {unit.name if timed else 'ops/s'}"),
            Column("level", number=False),
            *([Column("tags", number=False)] if tagged else []),
        ),
        rows=tuple(rows),
        section_starts=frozenset(index - first for index in moves if index > first),
        notes=earlier,
    )


def history_sentence(history: History) -> str:
    """Where the level moved, or what change would have been seen; and where counting changed."""
    counted = [
        f"From {history.points[one.index].run} on: {one.sentence}" for one in history.recounted
    ]
    return " ".join([_moved_sentence(history), *counted, *_environment_sentences(history)])


def _environment_sentences(history: History) -> list[str]:
    """What differs in the servers from some runs on: the newest changes, and how many there are."""
    changes = history.environments
    newest = [(history.points[one.index].run, one) for one in changes[-_MOST_CHANGES:]]
    told = [
        f"From {run} on, the servers differ: {differences(one.differences)}." for run, one in newest
    ]
    earlier = len(changes) - len(told)
    return [*([f"The servers changed {earlier} times before."] if earlier else []), *told]


def _moved_sentence(history: History) -> str:
    n, name = len(history.points), history.metric.name
    runs = f"{n} {'run' if n == 1 else 'runs'}"
    if n < history.least_runs:
        return (
            f"Over {runs} no change of the level of {name} can be seen: that takes"
            f" {history.least_runs} of them."
        )
    if not history.moves:
        return f"No change of the level of {name} was found over {runs}{_seen(history)}."
    told = [_place(history.points[move.index], move) for move in history.moves]
    beside = [sentence for move in history.moves for sentence in move.beside]
    return " ".join([f"Over {runs} the level of {name} moved {listed(told)}.", *beside])


def _seen(history: History) -> str:
    seen = history.could_be_seen
    if not seen:
        return ""
    change = units.significant(seen * 100)
    return f"; one of {change} % half-way would have been seen in 8 of 10 such histories"


def _place(point: HistoryPoint, move: Moved) -> str:
    commit = f" (commit {point.commit[:_SHORT_COMMIT]})" if point.commit else ""
    return f"by {percent(move.change)} at {point.run}{commit}"


def _row(
    point: HistoryPoint, move: Moved | None, unit: units.TimeUnit | None, *, tagged: bool
) -> tuple[Cell, ...]:
    value = units.duration(point.value, unit) if unit else units.significant(point.value)
    level = Cell("")
    if move is not None:
        level = Cell(f"{percent(move.change)} from here", "valid" if move.better else "invalid")
    return (
        Cell(point.created[:_MINUTE].replace("T", " "), "muted"),
        Cell(point.run),
        Cell((point.commit or units.ABSENT)[:_SHORT_COMMIT]),
        Cell(value, "strong"),
        level,
        *([Cell(", ".join(point.tags), "muted")] if tagged else []),
    )
