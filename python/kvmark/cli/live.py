"""The live display: phase, progress, rate, p99, errors and the time left, on standard error.

A terminal shows one block, removed at the end, with the last minute's rate and p99, a line for each
kind of operation, errors by class, servers' CPU time and faults. Elsewhere there is a line per step
and per fault, and at most one every two seconds in between.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvmark.foreign_text import printable
from kvmark.records import RunFolder
from kvmark.records.watch import Kind, SeenFault, SeenRun, Watch
from kvmark.report.model import units
from kvmark.report.model.units import sparkline, writable

if TYPE_CHECKING:
    from kvmark.experiment.executor import TimeLeft

_NS_PER_S = 1e9
_LABEL = 6
# Wide enough for a rate of eight digits behind its 0.
_SCALE = 12
_FIGURE = 10
_MOST_KINDS = 8
_MOST_FAULTS = 3
#: Least time between two plain lines about the same step.
_LINE_EVERY_S = 2.0
_MANY_STEPS = 20
"""Where there are more, a short one has no line of its own outside a terminal."""
_SHORT_S = 5.0
#: Time without an answer from which on it is shown.
_SILENT_NS = 2e9
# Least time between two drawings of the block.
_DRAW_EVERY_S = 0.25
_BAR_WIDTH = 40
# Largest width of the text next to the bar.
_BESIDE_BAR = 30
_LEAST_BAR = 8
_NOTHING_SEEN = SeenRun()


def run_lines(seen: SeenRun, width: int) -> list[Text]:
    """The lines about a run, none wider than the terminal; empty before the first interval.

    Blocks reach from 0 to the highest value of the minute, which follows them.
    """
    minute = seen.minute(width - _LABEL - 2 - _SCALE)
    lines = [
        *_blocks("ops/s", minute.succeeded_per_s, units.significant),
        *_blocks("p99", minute.response_ns_p99, units.with_unit),
    ]
    if any(minute.failed_per_s):
        lines += _blocks("fail/s", minute.failed_per_s, units.significant)
    lines += _kinds(seen.kinds, width)
    if seen.errors:
        lines.append(_labelled("errors", _error_words(seen)))
    if seen.servers:
        lines.append(_labelled("cpu", printable(", ".join(map(str, seen.servers)))))
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


def _done(progress: Mapping[str, Any] | None) -> float | None:
    """The completed share of the phase, in [0, 1]; None if it ends by neither time nor count."""
    if not progress:
        return None
    ends = (("elapsed_ns", "expected_ns"), ("completed", "expected_operations"))
    shares: list[float] = [
        progress[part] / progress[total] for part, total in ends if progress[total]
    ]
    return min(max(shares), 1.0) if shares else None


def _phase_left_s(progress: Mapping[str, Any] | None) -> float | None:
    """Time until the phase ends at its present speed; None if unknown."""
    done = _done(progress)
    if not progress or not done:
        return None
    elapsed_s: float = progress["elapsed_ns"] / _NS_PER_S
    return elapsed_s * (1 - done) / done


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
        self._progress: Mapping[str, Any] | None = None
        self._seen = _NOTHING_SEEN
        self._watch: Watch | None = None
        self._faults_printed = 0
        self._shown_at: float | None = None
        self._printed_at_s = -math.inf
        # The current step, with the time left when it began, and the time of finished steps.
        self._title, self._index, self._total = "", 0, 0
        self._left: TimeLeft | None = None
        self._began_s: float | None = None
        self._left_at_s = 0.0
        self._finished = 0
        self._spent_s = 0.0

    def __enter__(self) -> Self:
        terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        if terminal and not self.quiet:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
        self._title, self._index, self._total = printable(title), index, total
        self._left, self._began_s = left, self._clock()
        self._left_at_s = self._began_s
        self._progress, self._seen, self._faults_printed = None, _NOTHING_SEEN, 0
        if self._live is None:
            self._shown_at = self._began_s
        else:
            self._draw(self._live)

    def show(self, folder: RunFolder, progress: Mapping[str, Any]) -> None:
        """Displays the progress of a run, with what its logs have."""
        if self.quiet:
            return
        if self._watch is None or self._watch.folder != folder.path:
            self._watch = Watch(folder.path)
        self.interval(progress, self._watch.look())

    def interval(self, progress: Mapping[str, Any], seen: SeenRun = _NOTHING_SEEN) -> None:
        """An interval of the current step ended, with the engine's progress and the run's logs."""
        self._progress, self._seen = progress, seen
        if self._live is not None:
            self._draw(self._live)
        elif not self.quiet:
            for fault in seen.faults[self._faults_printed :]:
                self._print(f"fault {_fault_words(fault)}")
            self._faults_printed = len(seen.faults)
            if self._is_due(_LINE_EVERY_S):
                self._shown_at = self._clock()
                self._print(
                    ", ".join([*_parts(progress, seen, _error_words(seen)), *self._lasts()])
                )

    def _is_due(self, every_s: float) -> bool:
        return self._shown_at is None or self._clock() - self._shown_at >= every_s

    def _finish_step(self) -> None:
        """Prints the result of the current step."""
        if self._began_s is None:
            return
        took_s = self._clock() - self._began_s
        self._began_s = None
        self._finished += 1
        self._spent_s += took_s
        if self.quiet or self._live is not None:
            return
        errors = self._progress["failed"] if self._progress else 0
        is_one_of_many = self._total > _MANY_STEPS and self._index < self._total
        if is_one_of_many and not errors and self._clock() - self._printed_at_s < _SHORT_S:
            return
        failed = [f"errors {units.whole(errors)}"] if errors else []
        self._print(", ".join([f"done in {units.span(took_s)}", *failed, *self._lasts()]))

    def _lasts(self) -> list[str]:
        """The time left, where it is known and at least a second."""
        left_s = self._left_s()
        if left_s is None or left_s < 1:
            return []
        at_most = self._left is not None and self._left.at_most
        return [f"{'at most' if at_most else 'about'} {units.span(left_s)} left"]

    def _left_s(self) -> float | None:
        """Time left: as given, of a single step by its phase, else by the mean step."""
        now_s, own_s = self._clock(), _phase_left_s(self._progress)
        if self._left is not None:
            own_s = None if self._began_s is None else own_s
            return max(self._left.seconds - (now_s - self._left_at_s), own_s or 0.0)
        if self._total <= 1:
            return own_s
        if not self._finished:
            return None
        mean_s = self._spent_s / self._finished
        current_s = 0.0 if self._began_s is None else max(mean_s - (now_s - self._began_s), 0.0)
        return current_s + mean_s * (self._total - self._index)

    def _share(self) -> float:
        """The completed share, in [0, 1]: of the time where it is known, else of the steps."""
        left_s = None if self._left is None else self._left_s()
        if left_s is not None:
            current_s = 0.0 if self._began_s is None else self._clock() - self._began_s
            spent_s = self._spent_s + current_s
            return spent_s / (spent_s + left_s) if spent_s else 0.0
        within = 0.0 if self._began_s is None else _done(self._progress) or 0.0
        return min((self._index - 1 + within) / max(self._total, 1), 1.0)

    def _print(self, text: str) -> None:
        self._printed_at_s = self._clock()
        place = f"[{self._index}/{self._total}] {self._title}"
        self._console.print(self._text(f"{place}  {text}"), soft_wrap=True)

    def _draw(self, live: Live) -> None:
        if self._is_due(_DRAW_EVERY_S):
            self._shown_at = self._clock()
            live.update(self.block(), refresh=True)

    def block(self) -> Group:
        """The lines that are drawn over and over, none wider than the terminal."""
        width, done = self._console.width, self._share()
        heading = Text(self._title, style="bold")
        heading.append(f"  step {self._index} of {self._total}", style="not bold dim")
        heading.truncate(width, overflow="ellipsis")
        bar = ProgressBar(
            total=1.0, completed=done, width=min(max(width - _BESIDE_BAR, _LEAST_BAR), _BAR_WIDTH)
        )
        row = Table.grid(padding=(0, 2))
        row.add_row(bar, Text("  ".join([f"{done:.0%}", *self._lasts()]), no_wrap=True))
        progress, seen = self._progress, self._seen
        parts = _lines(_parts(progress, seen) if progress else ["starting"], width)
        lines = [*map(Text, parts), *run_lines(seen, width)]
        return Group(self._plain(heading), row, *map(self._plain, lines))

    def _text(self, text: str) -> Text:
        return Text(writable(text, self._console.encoding))

    def _plain(self, line: Text) -> Text:
        """The line with characters that the terminal can show, of the same width."""
        safe = writable(line.plain, self._console.encoding)
        return line if safe == line.plain else Text(safe, no_wrap=True, overflow="crop")


def _lines(parts: list[str], width: int) -> list[str]:
    """The parts in lines of this width."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _parts(progress: Mapping[str, Any], seen: SeenRun, errors: str = "") -> list[str]:
    """The parts of an interval's line, with rate and p99 from the run's logs where they exist."""
    done, silent_ns = _done(progress), progress["silent_ns"]
    rate, p99_ns = seen.succeeded_per_s, seen.response_ns_p99
    if rate is None:
        rate, p99_ns = progress["rate_per_s"], progress["response_ns_p99"]
    phase = printable(str(progress["phase_name"]).replace("_", "-"))
    parts = [
        f"{phase} {done:.0%}" if done is not None else phase,
        f"{units.significant(rate)} ops/s",
        f"response p99 {units.with_unit(p99_ns)}",
        f"errors {units.whole(progress['failed'])}" + (f" ({errors})" if errors else ""),
    ]
    if progress["missed"]:
        parts.append(f"misses {units.whole(progress['missed'])}")
    if progress["backlog"] is not None:
        parts.append(f"backlog {units.whole(progress['backlog'])}")
    if silent_ns is not None and silent_ns >= _SILENT_NS:
        parts.insert(1, f"no answer for {silent_ns / _NS_PER_S:.0f} s")
    return parts
