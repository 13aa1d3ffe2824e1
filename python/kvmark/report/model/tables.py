"""A table of texts, set for a terminal or in Markdown.

Columns belong to bands ("response time, µs"), whose name is printed once above them. A table wider
than the terminal is cut between bands, and each part repeats the key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from typing import Generic, Literal, TypeVar

from rich.cells import cell_len
from rich.text import Span, Text

from kvmark.foreign_text import printable
from kvmark.report.model import units
from kvmark.report.model.units import Bounded

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
        bands = groupby(column.band for column in self.columns)
        return tuple((name, len(list(columns))) for name, columns in bands)


Value = Cell | Bounded | str | float | None
"""A cell, or a value: a text, a count, a number, an estimate, or none."""


class Table(Generic[_T]):
    """A table in the making: a row per value, and columns that are functions of the value."""

    def __init__(
        self, title: str, rows: Iterable[_T], row_tone: Callable[[_T], Tone] | None = None
    ) -> None:
        self._title, self._rows, self._row_tone = title, list(rows), row_tone
        self._columns: list[Column] = []
        self._cells: list[list[Cell]] = []

    def add(self, column: Column, value: Callable[[_T], Value], tone: Tone = "plain") -> None:
        """Adds a column; its tone, or the row's, applies to values that aren't cells."""
        self._columns.append(column)
        self._cells.append([
            _cell(value(row), self._row_tone(row) if self._row_tone else tone) for row in self._rows
        ])  # fmt: skip

    def key(self, heading: str, value: Callable[[_T], Value], *, number: bool = False) -> None:
        """Adds a column that identifies a row."""
        self.add(Column(heading, number=number, key=True), value)

    def word(
        self, heading: str, value: Callable[[_T], Value], band: str = "", tone: Tone = "plain"
    ) -> None:
        """Adds a column of words."""
        self.add(Column(heading, band, number=False), value, tone)

    def number(
        self, heading: str, value: Callable[[_T], Value], band: str = "", tone: Tone = "plain"
    ) -> None:
        """Adds a column of numbers."""
        self.add(Column(heading, band), value, tone)

    def numbers(
        self, headings: Mapping[str, str], value: Callable[[str, _T], Value], band: str = ""
    ) -> None:
        """Adds a column of numbers for each name, which the values are functions of."""
        for name, heading in headings.items():
            self.number(heading, partial(value, name), band)

    def grid(self, notes: Iterable[str] = (), section_starts: frozenset[int] = frozenset()) -> Grid:
        """The table."""
        rows = tuple(zip(*self._cells, strict=True))
        return Grid(self._title, tuple(self._columns), rows, section_starts, tuple(notes))


def _cell(value: Value, tone: Tone) -> Cell:
    match value:
        case Cell():
            return value
        case str():
            return Cell(value, tone)
        case int():
            return Cell(units.whole(value), tone)
        case float() | None:
            return Cell(units.significant(value), tone)
        case _:
            return Cell(units.estimate(value), tone)


def changes(keys: Sequence[object]) -> frozenset[int]:
    """The indices at which a key differs from the previous one, and 0."""
    return frozenset([0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1])])


def to_text(grid: Grid, width: int) -> Text:
    """The table for a terminal of this width, cut into several if it is wider."""
    grid = _printable(grid)
    lines = [Text(grid.title, style="bold")] if grid.title else []
    layouts = _fit(grid, width)
    for layout in layouts:
        lines += [*([Text()] if lines else []), *layout.lines()]
    for note in layouts[0].grid.notes:
        lines += [Text(), *sentence_lines(note, width, "dim")]
    return Text("\n").join(lines)


Block = Grid | Text | str | Sequence[Text | str]
"""A table, a text, a sentence, or lines and sentences one below the other."""


def stacked(width: int, *blocks: Block) -> Text:
    """Blocks for a terminal with blank lines between them; empty ones are left out."""
    return Text("\n\n").join(filter(None, (_block_text(block, width) for block in blocks)))


def _block_text(block: Block, width: int) -> Text:
    match block:
        case Text():
            return block
        case Grid():
            return to_text(block, width)
        case str():
            return Text("\n").join(sentence_lines(block, width))
        case _:
            return Text("\n").join(_block_text(part, width) for part in block)


def sentence_lines(sentence: str, width: int, style: str = "", indent: str = "") -> list[Text]:
    """A sentence for a terminal, cut between words; at least one line."""
    lines, line = [], ""
    for part in printable(sentence).split():
        if line and cell_len(line) + 1 + cell_len(part) > width - len(indent):
            lines.append(line)
            line = part
        else:
            line = f"{line} {part}".strip()
    return [Text(indent + one, style) for one in (*lines, line)]


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


def _fit(grid: Grid, width: int) -> list[_Layout]:
    """One part with the widest gaps that fit, or the fewest parts."""

    def fitting(part: Grid) -> _Layout | None:
        layouts = (_Layout(part, gaps) for gaps in _GAPS)
        return next((layout for layout in layouts if layout.width <= width), None)

    for whole in (grid, without_constants(grid)):
        if layout := fitting(whole):
            return [layout]
    parts: list[Grid] = []
    chosen: list[int] = []
    for band in _data_bands(grid):
        if chosen and _Layout(_pick(grid, chosen + band), _GAPS[-1]).width > width:
            parts.append(_pick(grid, chosen))
            chosen = []
        chosen += band
    parts.append(_pick(grid, chosen))
    return [fitting(part) or _Layout(part, _GAPS[-1]) for part in parts]


def without_constants(grid: Grid) -> Grid:
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
    # A column without a band stands by itself.
    bands = groupby(enumerate(grid.columns), lambda one: (one[1].key, one[1].band or one[0]))
    return [[index for index, _ in columns] for (is_key, _), columns in bands if not is_key]


def _pick(grid: Grid, data: Sequence[int]) -> Grid:
    """The table with its key columns and these others."""
    chosen = [i for i, column in enumerate(grid.columns) if column.key or i in data]
    return select_columns(grid, chosen)


def select_columns(grid: Grid, chosen: Sequence[int]) -> Grid:
    """The table with these columns."""
    columns = tuple(grid.columns[i] for i in chosen)
    rows = tuple(tuple(row[i] for i in chosen) for row in grid.rows)
    return replace(grid, columns=columns, rows=rows)


class _Layout:
    """A table with gaps between its columns and its bands."""

    def __init__(self, grid: Grid, gaps: tuple[int, int]) -> None:
        self.grid = grid
        #: Blanks before each column.
        self._before = [0, *(gaps[a.band != b.band] for a, b in pairwise(grid.columns))]
        #: The widest text of each column; a band's first column grows to fit the band's name.
        self._widths = [
            max([cell_len(column.heading), *(cell_len(row[i].text) for row in grid.rows)])
            for i, column in enumerate(grid.columns)
        ]
        start = 0
        for name, span in grid.bands:
            room = sum(self._widths[start : start + span]) + gaps[0] * (span - 1)
            self._widths[start] += max(cell_len(name) - room, 0)
            start += span
        self.width = sum(self._widths) + sum(self._before)

    def lines(self) -> Iterator[Text]:
        """The bands' names, the headings, a rule and the rows."""
        grid = self.grid
        if any(name for name, _ in grid.bands):
            yield self._band_line()
        yield self._line([Cell(column.heading, "strong") for column in grid.columns])
        yield Text("─" * self.width, style="dim")
        for index, row in enumerate(grid.rows):
            if index in grid.section_starts and index > 0:
                yield Text()
            yield self._line(row)

    def _line(self, cells: Sequence[Cell]) -> Text:
        # One text with spans: appending cell by cell is slow for long tables.
        plain, spans = "", []
        columns = zip(self.grid.columns, cells, self._widths, self._before, strict=True)
        for column, cell, width, gap in columns:
            padding = width - cell_len(cell.text)
            plain += " " * (gap + padding if column.number else gap)
            begin = len(plain)
            plain += cell.text
            spans.append(Span(begin, len(plain), _STYLES[cell.tone]))
            plain += " " * (0 if column.number else padding)
        line = Text(plain, spans=[span for span in spans if span.style])
        line.rstrip()
        return line

    def _band_line(self) -> Text:
        line, start = Text(), 0
        for name, span in self.grid.bands:
            end = start + span
            room = sum(self._widths[start:end]) + sum(self._before[start + 1 : end])
            line.append(" " * self._before[start])
            line.append(" " * (room - cell_len(name)) + name, style="italic")
            start = end
        line.rstrip()
        return line


def escape_markdown(text: str) -> str:
    """Text without meaning to Markdown and HTML."""
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())
