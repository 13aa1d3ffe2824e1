"""Requests to stop, by Ctrl-C or SIGTERM: counted as they come, answered where a command can stop.

No exception is raised wherever the interpreter happens to be: a callback could swallow it there,
and what is half made would be left. A thread reads each signal from the descriptor that the
interpreter wakes (`signal.set_wakeup_fd`). Waits end at once (`pause`), and work that takes long
asks now and then (`check`). A request beyond those that a command answers ends the process at once,
whatever the main thread does; runs are then recovered from their logs, as after kill -9.

Threads other than the main one are never interrupted: what they do ends with what they do it for.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn, TypeVar

T = TypeVar("T")

EXIT_CODE: Final = 130
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_S: Final = 0.05
_COUNT: Final = 0
"""Written where signals are: no signal has this number."""
_SHOW_CURSOR: Final = b"\r\x1b[K\x1b[?25h"


class Interrupts:
    """The requests to stop that came while a command listens."""

    def __init__(self) -> None:
        #: How many came.
        self.count = 0
        #: How many are answered in order; one more ends the process.
        self.answered = 1
        self._taken = 0
        self._counted = threading.Event()
        #: The interpreter writes each signal to the descriptor `wakes`.
        self._heard, self.wakes = os.pipe()
        self._waiting, self._bell = os.pipe()
        os.set_blocking(self.wakes, False)
        self._thread = threading.Thread(target=self._listen, name="kvmark-interrupts", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """A descriptor that can be read while a request wasn't taken."""
        return self._waiting

    def take(self) -> int:
        """How many came; whoever asks answers them, and `check` raises for later ones only."""
        count = self.count
        while self._taken < count:
            self._taken += len(os.read(self._waiting, count - self._taken))
        return count

    def check(self) -> None:
        """Raises for a request that nobody has taken, once.

        Raises:
            KeyboardInterrupt: the user has asked to stop.
        """
        if self._taken < self.count:
            self.take()
            raise KeyboardInterrupt

    def settle(self) -> None:
        """Counts what came until now."""
        self._counted.clear()
        os.write(self.wakes, bytes([_COUNT]))
        self._counted.wait()

    def wait(self, seconds: float) -> bool:
        """Waits, and returns whether a request that wasn't taken ended the wait."""
        waiting = select.poll()
        waiting.register(self, select.POLLIN)
        return bool(waiting.poll(1000 * max(0.0, seconds)))

    def forget(self) -> None:
        """The requests until now were how the command is meant to end."""
        self.take()
        self.count = self._taken = 0

    def close(self) -> None:
        """Counts what came until now and ends."""
        os.close(self.wakes)
        self._thread.join()
        os.close(self._heard)
        os.close(self._waiting)
        os.close(self._bell)

    def _listen(self) -> None:
        while numbers := os.read(self._heard, 1):
            if numbers[0] in SIGNALS:
                self._add()
            elif numbers[0] == _COUNT:
                self._counted.set()

    def _add(self) -> None:
        # The bell first: who sees the count can read as often.
        os.write(self._bell, b"!")
        self.count += 1
        if self.count > self.answered:
            _end("interrupted" if self.answered == 0 else "interrupted again, and ended at once")


Handler = Callable[[int, Any], Any] | int | None
"""What `signal.signal` takes."""
_LISTENING: ContextVar[Interrupts | None] = ContextVar("listening", default=None)


@contextmanager
def listening(then: Handler = None) -> Iterator[Interrupts]:
    """Counts requests while within; whoever listens already goes on, and a thread hears none.

    In the background, where a shell lets a command not hear Ctrl-C, SIGTERM is heard. Afterwards
    `then` handles the signals, or else what did before.
    """
    known = _LISTENING.get()
    if known is not None:
        yield known
        return
    interrupts = Interrupts()
    try:
        if threading.current_thread() is not threading.main_thread():
            yield interrupts
            return
        token = _LISTENING.set(interrupts)
        try:
            with _handled_by(_heard, interrupts.wakes, then):
                yield interrupts
        finally:
            _LISTENING.reset(token)
    finally:
        interrupts.close()


@contextmanager
def patient() -> Iterator[Interrupts]:
    """Answers one request more in order while within: the second drops what the first waits for."""
    with listening() as interrupts:
        interrupts.answered += 1
        try:
            yield interrupts
        finally:
            interrupts.answered -= 1


@contextmanager
def at_once() -> Iterator[None]:
    """Lets the first request end the process while within: nothing is held that must be left.

    Raises:
        KeyboardInterrupt: one came before.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        yield
        return
    before, interrupts.answered = interrupts.answered, 0
    try:
        interrupts.check()
        yield
    finally:
        interrupts.answered = before


@contextmanager
def suspended() -> Iterator[None]:
    """Lets signals raise KeyboardInterrupt while within.

    For a question that the user may answer so, and a library that handles signals by itself.

    Raises:
        KeyboardInterrupt: the user has asked to stop, at any time.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        yield
        return
    with _handled_by(signal.default_int_handler, -1):
        # Nobody looks at what came before once something else handles signals.
        interrupts.settle()
        interrupts.check()
        yield


@contextmanager
def kept() -> Iterator[None]:
    """Puts the signals' handlers back that a library replaces while within."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def current() -> Interrupts | None:
    """Who listens for this thread, to wait for it together with something else."""
    return _LISTENING.get()


def requested() -> bool:
    """Whether a request came, taken or not: nothing more may begin then."""
    interrupts = _LISTENING.get()
    return interrupts is not None and interrupts.count > 0


def check() -> None:
    """A place where a command can stop.

    Raises:
        KeyboardInterrupt: the user has asked to stop, and nobody has taken that.
    """
    interrupts = _LISTENING.get()
    if interrupts is not None:
        interrupts.check()


def pause(seconds: float) -> None:
    """Waits.

    Raises:
        KeyboardInterrupt: the user has asked to stop.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        time.sleep(seconds)
        return
    until_s = time.monotonic() + seconds
    # The bell is heard an instant before the count is seen.
    while interrupts.wait(until_s - time.monotonic()):
        interrupts.check()


def wait_for(call: Callable[[], T]) -> T:
    """What a call returns that waits by itself, on a thread of its own.

    Raises:
        KeyboardInterrupt: the user has asked to stop; the call ends when it does.
    """
    if _LISTENING.get() is None:
        return call()
    answer: Future[T] = Future()

    def carry_out() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - it is raised where it is waited for
            answer.set_exception(problem)

    threading.Thread(target=carry_out, name="kvmark-waits", daemon=True).start()
    while not wait([answer], _LOOK_S).done:
        check()
    return answer.result()


def wait_readable(descriptor: int) -> None:
    """Waits until a descriptor can be read, or has ended.

    Raises:
        KeyboardInterrupt: the user has asked to stop.
    """
    waiting, interrupts = select.poll(), _LISTENING.get()
    waiting.register(descriptor, select.POLLIN)
    if interrupts is not None:
        waiting.register(interrupts, select.POLLIN)
    while descriptor not in dict(waiting.poll()):
        check()


@contextmanager
def _handled_by(handler: Handler, wakes: int, then: Handler = None) -> Iterator[None]:
    """Handles those of the signals that aren't ignored."""
    before = {one: signal.getsignal(one) for one in SIGNALS}
    handled = [one for one, old in before.items() if old is not signal.SIG_IGN]
    woken = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        for one in handled:
            signal.signal(one, handler)
        yield
    finally:
        for one in handled:
            signal.signal(one, before[one] if then is None else then)
        signal.set_wakeup_fd(woken)


def _heard(*_: object) -> None:
    """The thread counts it: a handler only makes the interpreter write the signal down."""


def _end(sentence: str) -> NoReturn:
    """Ends the process, whose main thread may hold whatever it likes."""
    cursor = _SHOW_CURSOR if os.isatty(2) else b""
    try:
        os.write(2, cursor + f"kvmark: {sentence}\n".encode())
    finally:
        os._exit(EXIT_CODE)
