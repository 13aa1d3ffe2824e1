"""A run that goes, drawn for a terminal: its last minute, each kind of operation, what broke.

Nothing of weight is imported: it is drawn while the engine measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from kvmark.foreign_text import printable
from kvmark.records.watch import Kind, SeenFault, SeenRun
from kvmark.report.format import units
from kvmark.report.format.bars import sparkline

__all__ = ["error_words", "fault_words", "going_lines"]

_LABEL = 6
# Wide enough for a rate of eight digits behind its 0.
_SCALE = 12
_FIGURE = 10
_MOST_KINDS = 8
_MOST_FAULTS = 3


def going_lines(seen: SeenRun, width: int) -> list[Text]:
    """What is known of a run, no line wider than the terminal; nothing before an interval ended.

    Blocks reach from 0 to the highest value of the minute, which stands behind them.
    """
    lines = [*_minute(seen, width), *_kinds(seen.kinds, width)]
    if seen.errors:
        lines.append(_labelled("errors", error_words(seen)))
    lines += [_labelled("fault", fault_words(fault)) for fault in seen.faults[-_MOST_FAULTS:]]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def error_words(seen: SeenRun) -> str:
    """Failed operations by class, the most frequent first."""
    classes = sorted(seen.errors.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{units.whole(count)} {printable(name)}" for name, count in classes)


def fault_words(fault: SeenFault) -> str:
    """What was broken, and what came of it when."""
    when = f"at {units.with_unit(fault.at_ns)} of the measurement"
    said = {"begun": f"begun {when}", "ended": f"ended {when}", "not_reached": "not carried out"}
    problem = f", {fault.problem}" if fault.problem else ""
    return printable(f"{fault.text}: {said.get(fault.state, f'failed {when}')}{problem}")


def _minute(seen: SeenRun, width: int) -> Iterator[Text]:
    minute = seen.minute(width - _LABEL - 2 - _SCALE)
    yield from _blocks("ops/s", minute.succeeded_per_s, units.significant)
    yield from _blocks("p99", minute.response_ns_p99, units.with_unit)
    if any(minute.failed_per_s):
        yield from _blocks("fail/s", minute.failed_per_s, units.significant)


def _blocks(
    label: str, values: Sequence[float | None], told: Callable[[float], str]
) -> Iterator[Text]:
    top = max((value for value in values if value is not None), default=None)
    if top is not None:
        line = _labelled(label, "").append(sparkline(values, top), "cyan")
        yield line.append(f" 0–{told(top)}" if top else " 0", "dim")


def _kinds(kinds: Sequence[Kind], width: int) -> Iterator[Text]:
    """A line for each kind, under a heading."""
    several = len({kind.group for kind in kinds}) > 1
    shown = kinds[:_MOST_KINDS]
    names = [
        printable(f"{kind.group} {kind.operation}" if several else kind.operation) for kind in shown
    ]
    column = min(max(map(cell_len, names), default=0), max(width - 3 * _FIGURE, _LABEL))
    if kinds:
        yield Text(" " * column).append(_figures("ops/s", "p50", "p99"), "dim")
    for kind, name in zip(shown, names, strict=True):
        line = Text(name)
        line.truncate(column, overflow="ellipsis", pad=True)
        times = map(units.with_unit, (kind.response_ns_p50, kind.response_ns_p99))
        yield line.append(_figures(units.significant(kind.succeeded_per_s), *times))
    if len(kinds) > len(shown):
        yield Text(f"and {len(kinds) - len(shown)} more", "dim")


def _figures(*texts: str) -> str:
    return "".join(f"{text:>{_FIGURE}}" for text in texts)


def _labelled(label: str, text: str) -> Text:
    return Text().append(f"{label:<{_LABEL}} ", "dim").append(text)
