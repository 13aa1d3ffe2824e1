"""Charts of characters: response times on a logarithmic axis, and a run over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from kvmark.analysis.summary.chart_data import KindSteps, Timeline, TimelineFault, TimeSteps
from kvmark.foreign_text import printable
from kvmark.report.model import units
from kvmark.report.model.tables import sentence_lines

TIMELINE_MARGIN: Final = 18
"""Columns to the left of a timeline's cells."""

_EDGE: Final = 11
_LEAST_BAR: Final = 8
_MOST_BAR: Final = 50
_GAP: Final = 3
# The number of empty steps in a row that become one line.
_WIDE: Final = 3
_LINES: Final = 4
"""Lines of a band: an even number, so that one begins at half its height."""
_BARS: Final = "cyan"


def steps_lines(steps: TimeSteps, width: int, counted: str) -> list[Text]:
    """A histogram of each kind along one axis, side by side as far as they fit.

    ``counted`` names the operations that are counted.
    """
    several = len({kind.group for kind in steps.kinds}) > 1
    factor = units.significant(steps.factor)
    lines = [Text(f"{steps.time.capitalize()} time", "bold")]
    note = (
        f"{counted}, on a logarithmic axis: each line begins at {factor} times the"
        " one before. p50, p99 and max stand where they lie."
    )
    lines += sentence_lines(note, width, "dim")
    columns = [_Column(kind, several_groups=several) for kind in steps.kinds]
    for row in _rows_of_columns(columns, width):
        lines += [Text(), *_histogram(steps, row, width)]
    return lines


def timeline_lines(timeline: Timeline, width: int) -> list[Text]:
    """Rate, p99, failures and faults of a phase over time."""
    phase, cell = timeline.phase.replace("_", "-"), units.with_unit(timeline.cell_ns)
    note = (
        f"Phase {phase} in blocks of {cell}. ops/s counts what ended ok; p99, of all that ended,"
        " is the highest of a block's intervals."
    )
    lines = [Text("Timeline", "bold"), *sentence_lines(note, width, "dim"), Text()]
    cells = timeline.cells
    lines += _band("ops/s", cells.succeeded_per_s, units.significant)
    lines += _band("p99", cells.response_ns_p99, units.with_unit)
    if any(cells.failed_per_s):
        lines += _band("failed/s", cells.failed_per_s, units.significant)
    count = len(cells.succeeded_per_s)
    length = units.with_unit(timeline.length_ns)
    middle = units.with_unit(timeline.length_ns / 2)
    place = max(count // 2, len(middle) + 1)
    axis = f"0{middle:>{place}}{length:>{max(count - place, len(length) + 1)}}"
    lines.append(Text(" " * (TIMELINE_MARGIN - 1) + axis, "dim"))
    return [*lines, *_fault_lines(timeline.faults, count)] if timeline.faults else lines


class _Column:
    """The histogram of one kind."""

    def __init__(self, kind: KindSteps, *, several_groups: bool) -> None:
        self.counts = kind.counts
        name = f"{kind.group} {kind.operation}" if several_groups else kind.operation
        self.name = printable(name)
        self._top = max(kind.counts)
        self._count_width = cell_len(units.whole(self._top))
        self._marks = [
            " ".join(name for name, step in kind.marks.items() if step == place)
            for place in range(len(kind.counts))
        ]
        self._mark_width = max(map(len, self._marks))
        #: The width of the count and the marks, next to the bar.
        self.label_width = 1 + self._count_width + 1 + self._mark_width

    def line(self, step: int, bar_width: int) -> Text:
        bar = units.bar(self.counts[step], self._top, bar_width)
        count = units.whole(self.counts[step]) if self.counts[step] else ""
        line = Text().append(f"{bar:<{bar_width}}", _BARS)
        line.append(f" {count:>{self._count_width}} ")
        return line.append(f"{self._marks[step]:<{self._mark_width}}", "bold")


def _rows_of_columns(columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """The columns in as few rows as possible."""
    row: list[_Column] = []
    for column in columns:
        if row and _bar_width([*row, column], width) < _LEAST_BAR:
            yield row
            row = []
        row.append(column)
    yield row


def _bar_width(columns: Sequence[_Column], width: int) -> int:
    labels = sum(column.label_width + _GAP for column in columns)
    return min((width - _EDGE - labels) // len(columns), _MOST_BAR)


def _histogram(steps: TimeSteps, columns: Sequence[_Column], width: int) -> Iterator[Text]:
    bar_width = max(_bar_width(columns, width), _LEAST_BAR)
    heading = Text(" " * _EDGE)
    for column in columns:
        name = Text(column.name, "bold")
        name.truncate(bar_width + column.label_width, overflow="ellipsis", pad=True)
        heading.append("│ ", "dim").append(name).append(" ")
    heading.rstrip()
    yield heading
    used = [step for step in range(len(steps.edges_ns) - 1) if any(c.counts[step] for c in columns)]
    inside = range(used[0], used[-1] + 1)
    for is_empty, group in groupby(inside, lambda step: step not in used):
        places = list(group)
        if is_empty and len(places) >= _WIDE:
            end = units.with_unit(steps.edges_ns[places[-1] + 1])
            yield Text(f"{'⋮':>{_EDGE - 1}} │ nothing until {end}", "dim")
            continue
        for step in places:
            line = Text().append(f"{_edge(steps, step):>{_EDGE - 1}} ", "dim")
            for column in columns:
                line.append("│ ", "dim").append(column.line(step, bar_width)).append(" ")
            line.rstrip()
            yield line


def _edge(steps: TimeSteps, step: int) -> str:
    """The start of a step; of the first one, which has no lower bound, its end."""
    if steps.edges_ns[step] == 0:
        return f"< {units.with_unit(steps.edges_ns[1])}"
    return units.with_unit(steps.edges_ns[step])


def _band(name: str, values: Sequence[float | None], text: Callable[[float], str]) -> list[Text]:
    """Columns over a base line; the highest value and its half stand next to their lines."""
    top = max((value for value in values if value is not None), default=None)
    if top is None:
        return []
    blocks = units.columns(values, top, _LINES)
    labels = [f"{name} {text(top)}", "", text(top / 2) if top else "", ""]
    margin = TIMELINE_MARGIN - 2
    lines = [
        Text(f"{label:>{margin}} ").append("┤" if label else "│", "dim").append(line, _BARS)
        for label, line in zip(labels, blocks, strict=True)
    ]
    for line in lines:
        line.rstrip()
    return [*lines, Text(f"{0:>{margin}} ").append("└" + "─" * len(values), "dim")]


def _fault_lines(faults: Sequence[TimelineFault], cells: int) -> list[Text]:
    """The cells of each fault, marked with its number, and the faults' texts."""
    marks = [" "] * cells
    for number, fault in enumerate(faults, 1):
        for place in range(fault.first, min(fault.last + 1, cells)):
            marks[place] = "━"
        marks[fault.first] = str(number)[-1]
    line = Text(f"{'faults':>{TIMELINE_MARGIN - 2}}  ").append("".join(marks), "bold red")
    line.rstrip()
    texts = (Text(f"  {number}  {printable(fault.text)}") for number, fault in enumerate(faults, 1))
    return [line, *texts]
