"""What is seen while long work goes on: phase, progress, rate, p99, errors and the time left.

Everything goes to standard error. On a terminal one block is drawn over and over and is gone at
the end; elsewhere there is a line per finished step, and in between one every two seconds at most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvmark.report import units
from kvmark.report.grid import printable

#: Least time between two plain lines about the same step.
LINE_EVERY_S = 2.0
# Least time between two drawings of the block: short steps cost no more than what one can read.
_DRAW_EVERY_S = 0.1
_BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Update:
    """What is known at the end of an interval."""

    phase: str
    phase_elapsed_s: float
    #: None when the phase doesn't end by time.
    phase_expected_s: float | None
    #: Operations completed in the phase so far.
    completed: int
    #: None when the phase doesn't end by count.
    expected_operations: int | None
    rate_per_s: float
    response_ns_p99: int | None
    errors: int
    misses: int
    #: Operations due and not yet issued; none in the closed model.
    backlog: int | None

    @property
    def done(self) -> float | None:
        """The share of the phase that is done, in [0, 1]; none when it isn't known."""
        shares = []
        if self.phase_expected_s:
            shares.append(self.phase_elapsed_s / self.phase_expected_s)
        if self.expected_operations:
            shares.append(self.completed / self.expected_operations)
        return min(max(shares), 1.0) if shares else None

    @property
    def left_s(self) -> float | None:
        """Time until the phase ends if it goes on as it did; none when that isn't known."""
        done = self.done
        return self.phase_elapsed_s * (1 - done) / done if done else None


class Progress(Protocol):
    """Whoever carries out runs tells this about them."""

    def step(self, title: str, index: int, total: int) -> None:
        """Step ``index`` of ``total``, from 1, begins; the one before is finished."""

    def interval(self, update: Update) -> None:
        """An interval of the current step ended."""


class LiveDisplay:
    """The display, as a context in which the work is done.

    The clock can be put in for tests; it is the monotonic one in seconds.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._quiet = quiet
        self._clock = clock
        self._live: Live | None = None
        self._steps = _Steps()
        self._update: Update | None = None
        self._shown_at: float | None = None

    def __enter__(self) -> Self:
        if self._quiet:
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

    def step(self, title: str, index: int, total: int) -> None:
        """A step begins: its title, its place from 1, and how many there are."""
        self._finish_step()
        self._steps.begin(printable(title), index, total, self._clock())
        self._update = None
        if self._live is None:
            self._shown_at = self._clock()
        else:
            self._draw(self._live)

    def interval(self, update: Update) -> None:
        """An interval of the current step ended."""
        self._update = update
        if self._live is not None:
            self._draw(self._live)
        elif not self._quiet and self._is_due(LINE_EVERY_S):
            self._shown_at = self._clock()
            self._print(", ".join([*_told(update), *self._left()]))

    def _is_due(self, every_s: float) -> bool:
        return self._shown_at is None or self._clock() - self._shown_at >= every_s

    def _finish_step(self) -> None:
        """Says how the current step went."""
        took_s = self._steps.finish(self._clock())
        if took_s is None or self._quiet or self._live is not None:
            return
        errors = self._update.errors if self._update else 0
        failed = [f"errors {units.whole(errors)}"] if errors else []
        self._print(", ".join([f"done in {_span(took_s)}", *failed, *self._left()]))

    def _left(self) -> list[str]:
        """How much time is left, where it is known and worth saying."""
        left_s = self._steps.left_s(self._clock(), self._update)
        return [f"about {_span(left_s)} left"] if left_s is not None and left_s >= 1 else []

    def _print(self, told: str) -> None:
        self._console.print(Text(f"{self._steps.place}  {told}"), soft_wrap=True)

    def _draw(self, live: Live) -> None:
        if self._is_due(_DRAW_EVERY_S):
            self._shown_at = self._clock()
            live.update(self._block(), refresh=True)

    def _block(self) -> Group:
        """The lines that are drawn over and over."""
        steps, update = self._steps, self._update
        heading = Text(steps.title, style="bold", no_wrap=True, overflow="ellipsis")
        heading.append(f"  step {steps.index} of {steps.total}", style="not bold dim")
        done = steps.done(update)
        told = Text("  ".join(_told(update) if update else ["starting"]), no_wrap=True)
        row = Table.grid(padding=(0, 2))
        row.add_row(
            ProgressBar(total=1.0, completed=done, width=_BAR_WIDTH),
            Text("  ".join([f"{done:.0%}", *self._left()])),
        )
        return Group(heading, row, told)


@dataclass(slots=True)
class _Steps:
    """Where the work is, and how long its finished steps took."""

    title: str = ""
    index: int = 0
    total: int = 0
    began_s: float | None = None
    finished: int = 0
    spent_s: float = 0.0

    @property
    def place(self) -> str:
        return f"[{self.index}/{self.total}] {self.title}"

    def begin(self, title: str, index: int, total: int, now_s: float) -> None:
        self.title, self.index, self.total, self.began_s = title, index, total, now_s

    def finish(self, now_s: float) -> float | None:
        """Ends the current step; how long it took, or none when there was none."""
        if self.began_s is None:
            return None
        took_s = now_s - self.began_s
        self.began_s = None
        self.finished += 1
        self.spent_s += took_s
        return took_s

    def done(self, update: Update | None) -> float:
        """The share of all steps that is done, in [0, 1]."""
        within = (update.done or 0.0) if update and self.began_s is not None else 0.0
        return min((self.index - 1 + within) / max(self.total, 1), 1.0)

    def left_s(self, now_s: float, update: Update | None) -> float | None:
        """Time left: that of a single step from its own phase, else the mean step for each left."""
        if self.total <= 1:
            return update.left_s if update else None
        if not self.finished:
            return None
        mean_s = self.spent_s / self.finished
        if self.began_s is None:
            return mean_s * (self.total - self.index)
        current_s = max(mean_s - (now_s - self.began_s), 0.0)
        return current_s + mean_s * (self.total - self.index)


def _told(update: Update) -> list[str]:
    """What an interval has to say, in the order of the display."""
    done = f" {update.done:.0%}" if update.done is not None else ""
    parts = [
        f"{printable(update.phase)}{done}",
        f"{units.significant(update.rate_per_s)} ops/s",
        f"response p99 {units.with_unit(update.response_ns_p99)}",
        f"errors {units.whole(update.errors)}",
    ]
    if update.misses:
        parts.append(f"misses {units.whole(update.misses)}")
    if update.backlog is not None:
        parts.append(f"backlog {units.whole(update.backlog)}")
    return parts


def _span(seconds: float) -> str:
    """A span of time as one would say it: ``1 h 05 min``, ``3 min 20 s``, ``12 s``, ``40 ms``."""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
