"""Pictures made of text: response times on a logarithmic axis, and a run over its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from kvmark.analysis import KindSteps, Timeline, TimelineFault, TimeSteps
from kvmark.foreign_text import printable
from kvmark.report.format import units
from kvmark.report.format.bars import bar, columns
from kvmark.report.format.grid import wrap

TIMELINE_MARGIN: Final = 18
"""Columns beside a timeline's cells."""

_EDGE: Final = 11
_LEAST_BAR: Final = 8
_MOST_BAR: Final = 50
_GAP: Final = 3
# So many empty steps in a row become one line.
_WIDE: Final = 3
_LINES: Final = 3
_BARS: Final = "cyan"


def steps_lines(steps: TimeSteps, width: int, counted: str) -> list[Text]:
    """A histogram of each kind along one axis, beside each other as far as they fit.

    ``counted`` says what of them is counted.
    """
    several = len({kind.group for kind in steps.kinds}) > 1
    factor = units.significant(steps.factor)
    lines = [Text(f"{steps.time.capitalize()} time", "bold")]
    note = (
        f"{counted}, on a logarithmic axis: each line begins at {factor} times the"
        " one before. p50, p99 and max stand where they lie."
    )
    lines += [Text(line, "dim") for line in wrap(note, width)]
    for columns_of in _beside_each_other(
        [_Column(kind, several_groups=several) for kind in steps.kinds], width
    ):
        lines += [Text(), *_histogram(steps, columns_of, width)]
    return lines


def timeline_lines(timeline: Timeline, width: int) -> list[Text]:
    """Rate and p99 of a phase over its time, failures if there were any, and faults."""
    phase, cell = timeline.phase.replace("_", "-"), units.with_unit(timeline.cell_ns)
    note = (
        f"Phase {phase} in blocks of {cell}. ops/s counts what ended ok; p99, of all that ended,"
        " is the highest of a block's intervals."
    )
    lines = [Text("Timeline", "bold"), *(Text(line, "dim") for line in wrap(note, width)), Text()]
    lines += _band("ops/s", timeline.succeeded_per_s, units.significant)
    lines += _band("p99", timeline.response_ns_p99, units.with_unit)
    if any(timeline.failed_per_s):
        lines += _band("failed/s", timeline.failed_per_s, units.significant)
    cells = len(timeline.succeeded_per_s)
    length = units.with_unit(timeline.length_ns)
    axis = f"0{length:>{max(cells, len(length) + 2)}}"
    lines.append(Text(" " * (TIMELINE_MARGIN - 1) + axis, "dim"))
    if timeline.faults:
        lines += _faults(timeline.faults, cells)
    return lines


class _Column:
    """A kind's histogram: how wide its parts are, and each line of it."""

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

    @property
    def beside_bar(self) -> int:
        return 1 + self._count_width + 1 + self._mark_width

    def line(self, step: int, bar_width: int) -> Text:
        drawn = bar(self.counts[step], self._top, bar_width)
        count = units.whole(self.counts[step]) if self.counts[step] else ""
        line = Text().append(f"{drawn:<{bar_width}}", _BARS)
        line.append(f" {count:>{self._count_width}} ")
        return line.append(f"{self._marks[step]:<{self._mark_width}}", "bold")


def _beside_each_other(kinds: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """The columns in as few rows as there can be."""
    taken: list[_Column] = []
    for kind in kinds:
        if taken and _bar_width([*taken, kind], width) < _LEAST_BAR:
            yield taken
            taken = []
        taken.append(kind)
    yield taken


def _bar_width(kinds: Sequence[_Column], width: int) -> int:
    """What is left for each bar."""
    beside = sum(kind.beside_bar + _GAP for kind in kinds)
    return min((width - _EDGE - beside) // len(kinds), _MOST_BAR)


def _histogram(steps: TimeSteps, kinds: Sequence[_Column], width: int) -> Iterator[Text]:
    bar_width = max(_bar_width(kinds, width), _LEAST_BAR)
    heading = Text(" " * _EDGE)
    for kind in kinds:
        room = bar_width + kind.beside_bar
        name = Text(kind.name, "bold")
        name.truncate(room, overflow="ellipsis", pad=True)
        heading.append("│ ", "dim").append(name).append(" ")
    heading.rstrip()
    yield heading
    used = [step for step in range(len(steps.edges_ns) - 1) if any(k.counts[step] for k in kinds)]
    inside = range(used[0], used[-1] + 1)
    for is_empty, group in groupby(inside, lambda step: step not in used):
        places = list(group)
        if is_empty and len(places) >= _WIDE:
            said = f"nothing until {units.with_unit(steps.edges_ns[places[-1] + 1])}"
            yield Text(f"{'⋮':>{_EDGE - 1}} │ {said}", "dim")
            continue
        for step in places:
            line = Text().append(f"{_edge(steps, step):>{_EDGE - 1}} ", "dim")
            for kind in kinds:
                line.append("│ ", "dim").append(kind.line(step, bar_width)).append(" ")
            line.rstrip()
            yield line


def _edge(steps: TimeSteps, step: int) -> str:
    """Where a step begins; of one that holds whatever is faster, where it ends."""
    if steps.edges_ns[step] == 0:
        return f"< {units.with_unit(steps.edges_ns[1])}"
    return units.with_unit(steps.edges_ns[step])


def _band(name: str, values: Sequence[float | None], told: Callable[[float], str]) -> list[Text]:
    """Columns over a base line, the highest value named beside the first line."""
    top = max((value for value in values if value is not None), default=None)
    if top is None:
        return []
    drawn = columns(values, top, _LINES)
    labels = [f"{name} {told(top)}", *[""] * (len(drawn) - 1)]
    margin = TIMELINE_MARGIN - 2
    lines = [
        Text(f"{label:>{margin}} ").append("┤" if label else "│", "dim").append(blocks, _BARS)
        for label, blocks in zip(labels, drawn, strict=True)
    ]
    for line in lines:
        line.rstrip()
    return [*lines, Text(f"{0:>{margin}} ").append("└" + "─" * len(values), "dim")]


def _faults(faults: Sequence[TimelineFault], cells: int) -> list[Text]:
    """Where each fault was, under its number, and what it was."""
    line = [" "] * cells
    for number, fault in enumerate(faults, 1):
        for place in range(fault.first, min(fault.last + 1, cells)):
            line[place] = "━"
        line[fault.first] = str(number)[-1]
    shown = Text(f"{'faults':>{TIMELINE_MARGIN - 2}}  ").append("".join(line), "bold red")
    shown.rstrip()
    return [
        shown,
        *(Text(f"  {number}  {printable(fault.text)}") for number, fault in enumerate(faults, 1)),
    ]
