"""Requests to stop, by Ctrl-C or SIGTERM: counted on arrival, handled where a command can stop.

No exception is raised at an arbitrary place: a callback could swallow it, and partial results would
stay. A thread reads each signal from the descriptor that the interpreter writes to
(`signal.set_wakeup_fd`). Waits end at once (`pause`), and long work polls (`check`). A request
beyond those that a command handles ends the process at once; runs are then recovered from their
logs, as after kill -9.

Only the main thread is interrupted.
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
"""Written to the descriptor of signals: no signal has this number."""
_SHOW_CURSOR: Final = b"\r\x1b[K\x1b[?25h"


class Interrupts:
    """The requests to stop during a command."""

    def __init__(self) -> None:
        #: Number of requests.
        self.count = 0
        #: Number of requests that the command handles; one more ends the process.
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
        """A descriptor that is readable while a request is pending."""
        return self._waiting

    def take(self) -> int:
        """The number of requests; the caller handles them, `check` raises for later ones."""
        count = self.count
        while self._taken < count:
            self._taken += len(os.read(self._waiting, count - self._taken))
        return count

    def check(self) -> None:
        """Raises once for pending requests.

        Raises:
            KeyboardInterrupt: a request is pending.
        """
        if self._taken < self.count:
            self.take()
            raise KeyboardInterrupt

    def settle(self) -> None:
        """Counts all requests until now."""
        self._counted.clear()
        os.write(self.wakes, bytes([_COUNT]))
        self._counted.wait()

    def wait(self, seconds: float) -> bool:
        """Waits, and returns whether a pending request ended the wait."""
        waiting = select.poll()
        waiting.register(self, select.POLLIN)
        return bool(waiting.poll(1000 * max(0.0, seconds)))

    def forget(self) -> None:
        """Forgets the requests until now, with which the command ends normally."""
        self.take()
        self.count = self._taken = 0

    def close(self) -> None:
        """Counts all requests until now, and stops."""
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
        # The bell comes first, so that the count never exceeds the readable bytes.
        os.write(self._bell, b"!")
        self.count += 1
        if self.count > self.answered:
            _end("interrupted" if self.answered == 0 else "interrupted again, and ended at once")


Handler = Callable[[int, Any], Any] | int | None
"""A handler for `signal.signal`."""
_LISTENING: ContextVar[Interrupts | None] = ContextVar("listening", default=None)


@contextmanager
def listening(then: Handler = None) -> Iterator[Interrupts]:
    """Counts requests within the context; nested contexts share one, other threads get none.

    For a command in the background, for which a shell ignores Ctrl-C, only SIGTERM counts.
    Afterwards `then` handles the signals, by default the earlier handlers.
    """
    active = _LISTENING.get()
    if active is not None:
        yield active
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
    """Handles one more request within the context: the second cancels the wait of the first."""
    with listening() as interrupts, _answering(interrupts, interrupts.answered + 1):
        yield interrupts


@contextmanager
def at_once() -> Iterator[None]:
    """Lets the first request end the process within the context, where no cleanup is needed.

    Raises:
        KeyboardInterrupt: a request is pending.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        yield
        return
    with _answering(interrupts, 0):
        interrupts.check()
        yield


@contextmanager
def _answering(interrupts: Interrupts, count: int) -> Iterator[None]:
    before, interrupts.answered = interrupts.answered, count
    try:
        yield
    finally:
        interrupts.answered = before


@contextmanager
def suspended() -> Iterator[None]:
    """Lets signals raise KeyboardInterrupt within the context.

    It is for prompts.

    Raises:
        KeyboardInterrupt: at any time.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        yield
        return
    with _handled_by(signal.default_int_handler, -1):
        # Earlier requests must be handled before the signals have another handler.
        interrupts.settle()
        interrupts.check()
        yield


@contextmanager
def kept() -> Iterator[None]:
    """Restores the signal handlers that a library replaces within the context."""
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
    """The requests for this thread, to wait for them together with something else."""
    return _LISTENING.get()


def requested() -> bool:
    """Whether there was any request: no further work may begin then."""
    interrupts = _LISTENING.get()
    return interrupts is not None and interrupts.count > 0


def take() -> None:
    """Handles all requests until now: what follows is their answer, which they don't interrupt."""
    interrupts = _LISTENING.get()
    if interrupts is not None:
        interrupts.settle()
        interrupts.take()


def check() -> None:
    """A place where a command can stop.

    Raises:
        KeyboardInterrupt: a request is pending.
    """
    interrupts = _LISTENING.get()
    if interrupts is not None:
        interrupts.check()


def pause(seconds: float) -> None:
    """Waits.

    Raises:
        KeyboardInterrupt: a request is pending.
    """
    interrupts = _LISTENING.get()
    if interrupts is None:
        time.sleep(seconds)
        return
    until_s = time.monotonic() + seconds
    # The bell comes slightly before the count.
    while interrupts.wait(until_s - time.monotonic()):
        interrupts.check()


def wait_for(call: Callable[[], T]) -> T:
    """Runs a blocking call on another thread, and returns its result.

    Raises:
        KeyboardInterrupt: a request is pending; the call continues.
    """
    if _LISTENING.get() is None:
        return call()
    answer: Future[T] = Future()

    def execute() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - the waiting thread raises it
            answer.set_exception(problem)

    threading.Thread(target=execute, name="kvmark-waits", daemon=True).start()
    while not wait([answer], _LOOK_S).done:
        check()
    return answer.result()


def wait_readable(descriptor: int) -> None:
    """Waits until a descriptor is readable or closed.

    Raises:
        KeyboardInterrupt: a request is pending.
    """
    waiting, interrupts = select.poll(), _LISTENING.get()
    waiting.register(descriptor, select.POLLIN)
    if interrupts is not None:
        waiting.register(interrupts, select.POLLIN)
    while descriptor not in dict(waiting.poll()):
        check()


@contextmanager
def _handled_by(handler: Handler, wakes: int, then: Handler = None) -> Iterator[None]:
    """Sets a handler for the signals that aren't ignored."""
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
    """The thread counts the signal: the handler only enables the wakeup descriptor."""


def _end(sentence: str) -> NoReturn:
    """Ends the process, also if its main thread holds locks."""
    cursor = _SHOW_CURSOR if os.isatty(2) else b""
    try:
        os.write(2, cursor + f"kvmark: {sentence}\n".encode())
    finally:
        os._exit(EXIT_CODE)
