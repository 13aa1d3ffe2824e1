"""A table of texts, set for a terminal or in Markdown.

Columns belong to bands ("response time, µs"), whose name is printed once above them. A table wider
than the terminal is cut between bands, and each part repeats the key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeVar

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
_T = TypeVar("_T")
#: Blanks between columns and between bands, widest first.
_GAPS = ((2, 4), (2, 3), (1, 2))


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its tone, which adds no information to the text."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: numbers are aligned right, words left."""

    heading: str
    band: str = ""
    number: bool = True
    key: bool = False

    @property
    def title(self) -> str:
        """The heading with the band, which may contain the unit."""
        return f"{self.band} {self.heading}".strip()


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


Field = tuple[Column, Callable[[_T], Cell | str]]
"""A column and its cell for a row's value."""


def key(heading: str, *, number: bool = False) -> Column:
    """A column that identifies a row."""
    return Column(heading, number=number, key=True)


def word(heading: str, band: str = "") -> Column:
    """A column of words."""
    return Column(heading, band, number=False)


def build(
    title: str,
    values: Iterable[_T],
    fields: Iterable[Field[_T]],
    notes: Iterable[str] = (),
    section_starts: frozenset[int] = frozenset(),
    row_tone: Callable[[_T], Tone] = lambda _: "plain",
) -> Grid:
    """A table with one row per value; ``row_tone`` applies to cells given as texts."""
    fields = list(fields)

    def row(value: _T) -> tuple[Cell, ...]:
        cells = (make(value) for _, make in fields)
        tone = row_tone(value)
        return tuple(cell if isinstance(cell, Cell) else Cell(cell, tone) for cell in cells)

    columns = tuple(column for column, _ in fields)
    return Grid(title, columns, tuple(map(row, values)), section_starts, tuple(notes))


def changes(keys: Sequence[object]) -> frozenset[int]:
    """The indices at which a key differs from the previous one, and 0."""
    return frozenset([0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1])])


def to_text(grid: Grid, width: int) -> Text:
    """The table for a terminal of this width, cut into several if it is wider."""
    grid = _printable(grid)
    lines = [Text(grid.title, style="bold")] if grid.title else []
    pieces = _fit(grid, width)
    for piece, gaps in pieces:
        lines += [Text(), *_piece_lines(piece, gaps)]
    for note in pieces[0][0].notes:
        lines += [Text(), *sentence_lines(note, width, "dim")]
    return Text("\n").join(lines)


def stacked(blocks: Iterable[Text | Sequence[Text]]) -> Text:
    """Texts, or their lines, with blank lines between them; empty ones are left out."""
    texts = (block if isinstance(block, Text) else Text("\n").join(block) for block in blocks)
    return Text("\n\n").join(text for text in texts if text)


def sentence_lines(sentence: str, width: int, style: str = "", indent: str = "") -> list[Text]:
    """A sentence for a terminal, cut between words."""
    lines = wrap(printable(sentence), width - len(indent))
    return [Text(indent + line, style) for line in lines]


def to_markdown(grid: Grid) -> str:
    """The table in Markdown, with its notes as paragraphs below."""
    headings = [escape_markdown(column.title) for column in grid.columns]
    rules = ["---:" if column.number else ":---" for column in grid.columns]
    rows = [[escape_markdown(cell.text) for cell in row] for row in grid.rows]
    body = "\n".join(f"| {' | '.join(row)} |" for row in [headings, rules, *rows])
    title = [f"**{escape_markdown(grid.title)}**"] if grid.title else []
    return "\n\n".join([*title, body, *map(escape_markdown, grid.notes)]) + "\n"


def _printable(grid: Grid) -> Grid:
    """The table without control characters, which a name could contain."""
    rows = tuple(tuple(Cell(printable(c.text), c.tone) for c in row) for row in grid.rows)
    notes = tuple(printable(note) for note in grid.notes)
    return replace(grid, title=printable(grid.title), rows=rows, notes=notes)


def _fit(grid: Grid, width: int) -> list[tuple[Grid, tuple[int, int]]]:
    """One part with the widest gaps that fit, or the fewest parts."""
    for whole in (grid, _without_constants(grid)):
        for gaps in _GAPS:
            if _width(whole, gaps) <= width:
                return [(whole, gaps)]
    pieces: list[Grid] = []
    chosen: list[int] = []
    for band in _data_bands(grid):
        if chosen and _width(_pick(grid, chosen + band), _GAPS[-1]) > width:
            pieces.append(_pick(grid, chosen))
            chosen = []
        chosen += band
    pieces.append(_pick(grid, chosen))
    return [
        (piece, next((gaps for gaps in _GAPS if _width(piece, gaps) <= width), _GAPS[-1]))
        for piece in pieces
    ]


def _without_constants(grid: Grid) -> Grid:
    """The table with notes instead of key columns that have one value."""
    cells = list(zip(*grid.rows, strict=True))
    constant = [
        i for i, column in enumerate(grid.columns)
        if column.key and len(cells) > i and len({cell.text for cell in cells[i]}) == 1
    ]  # fmt: skip
    if len(grid.rows) < 2 or not constant:
        return grid
    notes = tuple(f"All rows: {grid.columns[i].heading} {cells[i][0].text}." for i in constant)
    others = [i for i in range(len(grid.columns)) if i not in constant]
    return replace(select_columns(grid, others), notes=(*notes, *grid.notes))


def _data_bands(grid: Grid) -> list[list[int]]:
    """Indices of the columns that aren't keys, by band."""
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


def _pick(grid: Grid, data: Sequence[int]) -> Grid:
    """The table with its key columns and these others."""
    chosen = [i for i, column in enumerate(grid.columns) if column.key or i in data]
    return select_columns(grid, chosen)


def select_columns(grid: Grid, chosen: Sequence[int]) -> Grid:
    """The table with these columns."""
    columns = tuple(grid.columns[i] for i in chosen)
    rows = tuple(tuple(row[i] for i in chosen) for row in grid.rows)
    return replace(grid, columns=columns, rows=rows)


def _width(grid: Grid, gaps: tuple[int, int]) -> int:
    return sum(_column_widths(grid, gaps)) + sum(_gaps_before(grid, gaps))


def _column_widths(grid: Grid, gaps: tuple[int, int]) -> list[int]:
    """The widest text of each column; a band's first column grows to fit the band's name."""
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
    return [0, *(gaps[a.band != b.band] for a, b in pairwise(grid.columns))]


def _piece_lines(grid: Grid, gaps: tuple[int, int]) -> list[Text]:
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
    # One text with spans: appending cell by cell is slow for long tables.
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


def escape_markdown(text: str) -> str:
    """Text without meaning to Markdown and HTML."""
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())
