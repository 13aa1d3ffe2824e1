"""A table of texts, made once and set three ways: on a terminal, in Markdown and in HTML.

Columns belong to bands ("response time, µs"), whose name stands once above them. Key columns say
what a row is about; a table too wide for a terminal is cut between bands and every piece has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rich.cells import cell_len
from rich.text import Span, Text

from kvmark.foreign_text import printable

Tone = Literal["plain", "strong", "muted", "valid", "suspect", "invalid"]

_STYLES: dict[Tone, str] = {
    "plain": "",
    "strong": "bold",
    "muted": "dim",
    "valid": "green",
    "suspect": "bold yellow",
    "invalid": "bold red",
}
#: Blanks between columns and between bands, roomiest first.
_GAPS = ((2, 4), (2, 3), (1, 2))


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and how it is set. The tone never says more than the text does."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: numbers stand right, words left."""

    heading: str
    band: str = ""
    number: bool = True
    key: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: Rows before which a new section begins.
    section_starts: frozenset[int] = frozenset()
    #: Sentences under the table.
    notes: tuple[str, ...] = ()

    @property
    def bands(self) -> tuple[tuple[str, int], ...]:
        """Each band's name with the number of columns it spans, in order."""
        bands: list[tuple[str, int]] = []
        for column in self.columns:
            if bands and bands[-1][0] == column.band:
                bands[-1] = (column.band, bands[-1][1] + 1)
            else:
                bands.append((column.band, 1))
        return tuple(bands)


def to_text(grid: Grid, width: int) -> Text:
    """The table for a terminal of this width, cut into several when it is wider."""
    grid = _printable(grid)
    lines = [Text(grid.title, style="bold")] if grid.title else []
    pieces = _fit(grid, width)
    for piece, gaps in pieces:
        lines += [Text(), *_set(piece, gaps)]
    for note in pieces[0][0].notes:
        lines += [Text(line, style="dim") for line in ["", *wrap(note, width)]]
    return Text("\n").join(lines)


def to_markdown(grid: Grid) -> str:
    """The table in Markdown's pipe form, notes as paragraphs under it."""
    headings = [_markdown_heading(column) for column in grid.columns]
    rules = ["---:" if column.number else ":---" for column in grid.columns]
    rows = [[escape_markdown(cell.text) for cell in row] for row in grid.rows]
    body = "\n".join(f"| {' | '.join(row)} |" for row in [headings, rules, *rows])
    title = [f"**{escape_markdown(grid.title)}**"] if grid.title else []
    return "\n\n".join([*title, body, *map(escape_markdown, grid.notes)]) + "\n"


def _printable(grid: Grid) -> Grid:
    """The table without control characters, which a name could use to command the terminal."""
    rows = tuple(tuple(Cell(printable(c.text), c.tone) for c in row) for row in grid.rows)
    notes = tuple(printable(note) for note in grid.notes)
    return replace(grid, title=printable(grid.title), rows=rows, notes=notes)


def _fit(grid: Grid, width: int) -> list[tuple[Grid, tuple[int, int]]]:
    """One piece with the roomiest gaps that fit, or else as few pieces as there can be."""
    for whole in (grid, _without_constants(grid)):
        for gaps in _GAPS:
            if _width(whole, gaps) <= width:
                return [(whole, gaps)]
    gaps = _GAPS[-1]
    pieces: list[Grid] = []
    taken: list[int] = []
    for band in _loose_bands(grid):
        if taken and _width(_pick(grid, taken + band), gaps) > width:
            pieces.append(_pick(grid, taken))
            taken = []
        taken += band
    pieces.append(_pick(grid, taken))
    return [(piece, _roomiest(piece, width)) for piece in pieces]


def _without_constants(grid: Grid) -> Grid:
    """The table without key columns that say the same in every row; the notes say it instead."""
    cells = list(zip(*grid.rows, strict=True))
    constant = [
        i for i, column in enumerate(grid.columns)
        if column.key and len(cells) > i and len({cell.text for cell in cells[i]}) == 1
    ]  # fmt: skip
    if len(grid.rows) < 2 or not constant:
        return grid
    kept = [i for i in range(len(grid.columns)) if i not in constant]
    said = tuple(f"All rows: {grid.columns[i].heading} {cells[i][0].text}." for i in constant)
    return replace(_columns(grid, kept), notes=(*said, *grid.notes))


def _loose_bands(grid: Grid) -> list[list[int]]:
    """Indices of the columns that aren't keys, band by band."""
    bands: list[list[int]] = []
    last: str | None = None
    for index, column in enumerate(grid.columns):
        if column.key:
            last = None
        elif bands and column.band and column.band == last:
            bands[-1].append(index)
        else:
            bands.append([index])
            last = column.band
    return bands


def _pick(grid: Grid, loose: Sequence[int]) -> Grid:
    """The table with its key columns and these others."""
    return _columns(grid, [i for i, column in enumerate(grid.columns) if column.key or i in loose])


def _columns(grid: Grid, kept: Sequence[int]) -> Grid:
    columns = tuple(grid.columns[i] for i in kept)
    return replace(grid, columns=columns, rows=tuple(tuple(r[i] for i in kept) for r in grid.rows))


def _roomiest(grid: Grid, width: int) -> tuple[int, int]:
    return next((gaps for gaps in _GAPS if _width(grid, gaps) <= width), _GAPS[-1])


def _width(grid: Grid, gaps: tuple[int, int]) -> int:
    return sum(_column_widths(grid, gaps)) + sum(_gaps_before(grid, gaps))


def _column_widths(grid: Grid, gaps: tuple[int, int]) -> list[int]:
    """As wide as the widest text; a band's first column takes what the band's name needs more."""
    widths = [
        max([cell_len(column.heading), *(cell_len(row[i].text) for row in grid.rows)])
        for i, column in enumerate(grid.columns)
    ]
    start = 0
    for name, span in grid.bands:
        room = sum(widths[start : start + span]) + gaps[0] * (span - 1)
        widths[start] += max(cell_len(name) - room, 0)
        start += span
    return widths


def _gaps_before(grid: Grid, gaps: tuple[int, int]) -> list[int]:
    """Blanks before each column."""
    columns = grid.columns
    pairs = pairwise(columns)
    return [0, *(gaps[0] if a.band == b.band else gaps[1] for a, b in pairs)]


def _set(grid: Grid, gaps: tuple[int, int]) -> list[Text]:
    """The lines of one piece."""
    widths, before = _column_widths(grid, gaps), _gaps_before(grid, gaps)
    headings = [Cell(column.heading, "strong") for column in grid.columns]
    rule = Text("─" * _width(grid, gaps), style="dim")
    lines = [_line(grid, headings, widths, before), rule]
    if any(name for name, _ in grid.bands):
        lines.insert(0, _band_line(grid, widths, before))
    for index, row in enumerate(grid.rows):
        if index in grid.section_starts and index > 0:
            lines.append(Text())
        lines.append(_line(grid, row, widths, before))
    return lines


def _line(grid: Grid, cells: Sequence[Cell], widths: Sequence[int], before: Sequence[int]) -> Text:
    # One text with its spans: put together piece by piece, long tables would take a while.
    plain, spans = "", []
    for column, cell, width, gap in zip(grid.columns, cells, widths, before, strict=True):
        padding = width - cell_len(cell.text)
        plain += " " * (gap + padding if column.number else gap)
        begin = len(plain)
        plain += cell.text
        spans.append(Span(begin, len(plain), _STYLES[cell.tone]))
        plain += " " * (0 if column.number else padding)
    line = Text(plain, spans=[span for span in spans if span.style])
    line.rstrip()
    return line


def _band_line(grid: Grid, widths: Sequence[int], before: Sequence[int]) -> Text:
    line, start = Text(), 0
    for name, span in grid.bands:
        room = sum(widths[start : start + span]) + sum(before[start + 1 : start + span])
        line.append(" " * before[start])
        line.append(" " * (room - cell_len(name)) + name, style="italic")
        start += span
    line.rstrip()
    return line


def wrap(sentence: str, width: int) -> list[str]:
    """Lines of at most this width, cut between words; at least one."""
    lines, line = [], ""
    for word in sentence.split():
        if line and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]


def _markdown_heading(column: Column) -> str:
    return escape_markdown(f"{column.band} {column.heading}".strip())


def escape_markdown(text: str) -> str:
    """Text that Markdown and the HTML it becomes leave as it is."""
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())
