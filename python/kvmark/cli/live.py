"""The live display: phase, progress, rate, p99, errors and the time left, on standard error.

A terminal shows one block, removed at the end, with the last minute's rate and p99, a line for each
kind of operation, errors by class and faults. Elsewhere there is a line per step and per fault, and
at most one every two seconds in between.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TextIO

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvmark.experiment.design import TimeLeft
from kvmark.foreign_text import printable
from kvmark.records import RunFolder
from kvmark.records.watch import Kind, SeenFault, SeenRun, Watch
from kvmark.report.model import units
from kvmark.report.model.units import sparkline, writable

_NS_PER_S = 1e9
_LABEL = 6
# Wide enough for a rate of eight digits behind its 0.
_SCALE = 12
_FIGURE = 10
_MOST_KINDS = 8
_MOST_FAULTS = 3
#: Least time between two plain lines about the same step.
_LINE_EVERY_S = 2.0
#: Time without an answer from which on it is shown.
_SILENT_S = 2.0
# Least time between two drawings of the block.
_DRAW_EVERY_S = 0.25
_BAR_WIDTH = 40
# Largest width of the text next to the bar.
_BESIDE_BAR = 30
_LEAST_BAR = 8
_NOTHING_SEEN = SeenRun()


def show(display: LiveDisplay) -> Callable[[RunFolder, Mapping[str, Any]], None]:
    """A function that passes the progress of runs to the display."""
    watched: list[Watch] = []

    def interval(folder: RunFolder, progress: Mapping[str, Any]) -> None:
        if display.quiet:
            return
        if not watched or watched[0].folder != folder.path:
            watched[:] = [Watch(folder.path)]
        seen = watched[0].look()
        display.interval(update_of(progress, seen), seen)

    return interval


def update_of(progress: Mapping[str, Any], seen: SeenRun) -> Update:
    """The state of a run, with rate and p99 of all groups from the logs where they exist."""
    expected_ns = progress["expected_ns"]
    silent_ns = progress["silent_ns"]
    rate, p99_ns = seen.succeeded_per_s, seen.response_ns_p99
    return Update(
        phase=str(progress["phase_name"]).replace("_", "-"),
        phase_elapsed_s=progress["elapsed_ns"] / _NS_PER_S,
        phase_expected_s=None if expected_ns is None else expected_ns / _NS_PER_S,
        completed=progress["completed"],
        expected_operations=progress["expected_operations"],
        rate_per_s=progress["rate_per_s"] if rate is None else rate,
        response_ns_p99=progress["response_ns_p99"] if rate is None else p99_ns,
        errors=progress["failed"],
        misses=progress["missed"],
        backlog=progress["backlog"],
        silent_s=None if silent_ns is None else silent_ns / _NS_PER_S,
    )


def run_lines(seen: SeenRun, width: int) -> list[Text]:
    """The lines about a run, none wider than the terminal; empty before the first interval.

    Blocks reach from 0 to the highest value of the minute, which follows them.
    """
    lines = [*_minute(seen, width), *_kinds(seen.kinds, width)]
    if seen.errors:
        lines.append(_labelled("errors", _error_words(seen)))
    lines += [_labelled("fault", _fault_words(fault)) for fault in seen.faults[-_MOST_FAULTS:]]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _error_words(seen: SeenRun) -> str:
    """Failed operations by class, the most frequent first."""
    classes = sorted(seen.errors.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{units.whole(count)} {printable(name)}" for name, count in classes)


def _fault_words(fault: SeenFault) -> str:
    """A fault, and its state with its time."""
    when = f"at {units.with_unit(fault.at_ns)} of the measurement"
    states = {"begun": f"begun {when}", "ended": f"ended {when}", "not_reached": "not carried out"}
    problem = f", {fault.problem}" if fault.problem else ""
    return printable(f"{fault.text}: {states.get(fault.state, f'failed {when}')}{problem}")


def _minute(seen: SeenRun, width: int) -> Iterator[Text]:
    minute = seen.minute(width - _LABEL - 2 - _SCALE)
    yield from _blocks("ops/s", minute.succeeded_per_s, units.significant)
    yield from _blocks("p99", minute.response_ns_p99, units.with_unit)
    if any(minute.failed_per_s):
        yield from _blocks("fail/s", minute.failed_per_s, units.significant)


def _blocks(
    label: str, values: Sequence[float | None], text: Callable[[float], str]
) -> Iterator[Text]:
    top = max((value for value in values if value is not None), default=None)
    if top is not None:
        line = _labelled(label, "").append(sparkline(values, top), "cyan")
        yield line.append(f" 0–{text(top)}" if top else " 0", "dim")


def _kinds(kinds: Sequence[Kind], width: int) -> Iterator[Text]:
    """A line for each kind, under a heading."""
    several = len({kind.group for kind in kinds}) > 1
    listed = kinds[:_MOST_KINDS]
    names = [
        printable(f"{kind.group} {kind.operation}" if several else kind.operation)
        for kind in listed
    ]
    column = min(max(map(cell_len, names), default=0), max(width - 3 * _FIGURE, _LABEL))
    if kinds:
        yield Text(" " * column).append(_figures("ops/s", "p50", "p99"), "dim")
    for kind, name in zip(listed, names, strict=True):
        line = Text(name)
        line.truncate(column, overflow="ellipsis", pad=True)
        times = map(units.with_unit, (kind.response_ns_p50, kind.response_ns_p99))
        yield line.append(_figures(units.significant(kind.succeeded_per_s), *times))
    if len(kinds) > len(listed):
        yield Text(f"and {len(kinds) - len(listed)} more", "dim")


def _figures(*texts: str) -> str:
    return "".join(f"{text:>{_FIGURE}}" for text in texts)


def _labelled(label: str, text: str) -> Text:
    return Text().append(f"{label:<{_LABEL}} ", "dim").append(text)


@dataclass(frozen=True, slots=True)
class Update:
    """The state at the end of an interval."""

    phase: str
    phase_elapsed_s: float
    #: None when the phase doesn't end by time.
    phase_expected_s: float | None
    #: Operations completed in the phase so far.
    completed: int
    #: None when the phase doesn't end by count.
    expected_operations: int | None
    #: Of operations that ended ok; before the first interval, of all that ended.
    rate_per_s: float
    response_ns_p99: int | None
    errors: int
    misses: int
    #: Operations due and not yet issued; none in the closed model.
    backlog: int | None
    #: Time without an answer to outstanding requests; None without any.
    silent_s: float | None = None

    @property
    def done(self) -> float | None:
        """The completed share of the phase, in [0, 1]; None if unknown."""
        shares = []
        if self.phase_expected_s:
            shares.append(self.phase_elapsed_s / self.phase_expected_s)
        if self.expected_operations:
            shares.append(self.completed / self.expected_operations)
        return min(max(shares), 1.0) if shares else None

    @property
    def left_s(self) -> float | None:
        """Time until the phase ends at its present speed; None if unknown."""
        done = self.done
        return self.phase_elapsed_s * (1 - done) / done if done else None


class LiveDisplay:
    """The display, as a context of the work; the clock is in seconds."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self.quiet = quiet
        self._clock = clock
        self._live: Live | None = None
        self._steps = _Steps()
        self._update: Update | None = None
        self._seen = _NOTHING_SEEN
        self._faults_printed = 0
        self._shown_at: float | None = None

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish_step()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, sentence: str) -> None:
        """Displays a sentence."""
        if not self.quiet:
            self._console.print(self._text(printable(sentence)), soft_wrap=True)

    def step(self, title: str, index: int, total: int, left: TimeLeft | None = None) -> None:
        """A step begins: its title, its place from 1, and the number of steps.

        Without the time left, it is estimated from earlier steps.
        """
        self._finish_step()
        self._steps.begin(printable(title), index, total, left, self._clock())
        self._update, self._seen, self._faults_printed = None, _NOTHING_SEEN, 0
        if self._live is None:
            self._shown_at = self._clock()
        else:
            self._draw(self._live)

    def interval(self, update: Update, seen: SeenRun = _NOTHING_SEEN) -> None:
        """An interval of the current step ended, with the state of the run's logs."""
        self._update, self._seen = update, seen
        if self._live is not None:
            self._draw(self._live)
        elif not self.quiet:
            for fault in seen.faults[self._faults_printed :]:
                self._print(f"fault {_fault_words(fault)}")
            self._faults_printed = len(seen.faults)
            if self._is_due(_LINE_EVERY_S):
                self._shown_at = self._clock()
                self._print(", ".join([*_parts(update, _error_words(seen)), *self._left()]))

    def _is_due(self, every_s: float) -> bool:
        return self._shown_at is None or self._clock() - self._shown_at >= every_s

    def _finish_step(self) -> None:
        """Prints the result of the current step."""
        took_s = self._steps.finish(self._clock())
        if took_s is None or self.quiet or self._live is not None:
            return
        errors = self._update.errors if self._update else 0
        failed = [f"errors {units.whole(errors)}"] if errors else []
        self._print(", ".join([f"done in {units.span(took_s)}", *failed, *self._left()]))

    def _left(self) -> list[str]:
        """The time left, where it is known and at least a second."""
        left_s = self._steps.left_s(self._clock(), self._update)
        if left_s is None or left_s < 1:
            return []
        bound = self._steps.left is not None and self._steps.left.at_most
        return [f"{'at most' if bound else 'about'} {units.span(left_s)} left"]

    def _print(self, text: str) -> None:
        self._console.print(self._text(f"{self._steps.place}  {text}"), soft_wrap=True)

    def _draw(self, live: Live) -> None:
        if self._is_due(_DRAW_EVERY_S):
            self._shown_at = self._clock()
            live.update(self.block(), refresh=True)

    def block(self) -> Group:
        """The lines that are drawn over and over, none wider than the terminal."""
        steps, update, width = self._steps, self._update, self._console.width
        heading = Text(steps.title, style="bold")
        heading.append(f"  step {steps.index} of {steps.total}", style="not bold dim")
        heading.truncate(width, overflow="ellipsis")
        done = steps.done(self._clock(), update)
        row = Table.grid(padding=(0, 2))
        row.add_row(
            ProgressBar(
                total=1.0,
                completed=done,
                width=min(max(width - _BESIDE_BAR, _LEAST_BAR), _BAR_WIDTH),
            ),
            Text("  ".join([f"{done:.0%}", *self._left()]), no_wrap=True),
        )
        parts = _lines(_parts(update) if update else ["starting"], width)
        lines = [*map(Text, parts), *run_lines(self._seen, width)]
        return Group(self._plain(heading), row, *map(self._plain, lines))

    def _text(self, text: str) -> Text:
        return Text(writable(text, self._console.encoding))

    def _plain(self, line: Text) -> Text:
        """The line with characters that the terminal can show, of the same width."""
        safe = writable(line.plain, self._console.encoding)
        return line if safe == line.plain else Text(safe, no_wrap=True, overflow="crop")


@dataclass(slots=True)
class _Steps:
    """The current step, and the time of finished steps."""

    title: str = ""
    index: int = 0
    total: int = 0
    began_s: float | None = None
    finished: int = 0
    spent_s: float = 0.0
    left: TimeLeft | None = None
    left_at_s: float = 0.0

    @property
    def place(self) -> str:
        return f"[{self.index}/{self.total}] {self.title}"

    def begin(
        self, title: str, index: int, total: int, left: TimeLeft | None, now_s: float
    ) -> None:
        self.title, self.index, self.total, self.began_s = title, index, total, now_s
        self.left, self.left_at_s = left, now_s

    def finish(self, now_s: float) -> float | None:
        """Ends the current step and returns its time; None without a step."""
        if self.began_s is None:
            return None
        took_s = now_s - self.began_s
        self.began_s = None
        self.finished += 1
        self.spent_s += took_s
        return took_s

    def done(self, now_s: float, update: Update | None) -> float:
        """The completed share, in [0, 1]: of the time where it is known, else of the steps."""
        left_s = None if self.left is None else self.left_s(now_s, update)
        if left_s is not None:
            spent_s = self.spent_s + (0.0 if self.began_s is None else now_s - self.began_s)
            return spent_s / (spent_s + left_s) if spent_s else 0.0
        within = (update.done or 0.0) if update and self.began_s is not None else 0.0
        return min((self.index - 1 + within) / max(self.total, 1), 1.0)

    def left_s(self, now_s: float, update: Update | None) -> float | None:
        """Time left: as given, of a single step by its phase, else by the mean step."""
        if self.left is not None:
            own_s = update.left_s if update and self.began_s is not None else None
            return max(self.left.seconds - (now_s - self.left_at_s), own_s or 0.0)
        if self.total <= 1:
            return update.left_s if update else None
        if not self.finished:
            return None
        mean_s = self.spent_s / self.finished
        if self.began_s is None:
            return mean_s * (self.total - self.index)
        current_s = max(mean_s - (now_s - self.began_s), 0.0)
        return current_s + mean_s * (self.total - self.index)


def _lines(parts: list[str], width: int) -> list[str]:
    """The parts in lines of this width."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _parts(update: Update, errors: str = "") -> list[str]:
    """The parts of an interval's line."""
    done = f" {update.done:.0%}" if update.done is not None else ""
    classes = f" ({errors})" if errors else ""
    parts = [
        f"{printable(update.phase)}{done}",
        f"{units.significant(update.rate_per_s)} ops/s",
        f"response p99 {units.with_unit(update.response_ns_p99)}",
        f"errors {units.whole(update.errors)}{classes}",
    ]
    if update.misses:
        parts.append(f"misses {units.whole(update.misses)}")
    if update.backlog is not None:
        parts.append(f"backlog {units.whole(update.backlog)}")
    if update.silent_s is not None and update.silent_s >= _SILENT_S:
        parts.insert(1, f"no answer for {update.silent_s:.0f} s")
    return parts
