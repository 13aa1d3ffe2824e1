"""The generators of load: the interface, and the one that is a process on this machine."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from kvmark import errors, interrupts
from kvmark.errors import GeneratorDied, KvmarkError, RunError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.records.files import GENERATOR
from kvmark.run.worker import IDLE
from kvmark.secret import Secret
from kvmark.spec.url import PASSWORD_VARIABLE

_COMMAND: Final = (sys.executable, "-P", "-m", "kvmark.run.worker")
"""With -P, Python doesn't import from the current folder."""
_POLL_S: Final = 0.2
_MOST_STOPS: Final = 2
"""The first waits for operations in flight, the second drops them."""
_MOST_BYTES: Final = 1 << 16
_ENDS_WITHIN_S: Final = 5.0
_LAST_LINES: Final = 2
"""Lines of a dead process's output in the error: a C++ exception takes two."""
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})


@dataclass(frozen=True, slots=True)
class Caller:
    """The callbacks and options of the code that wants a plan executed."""

    progress: Callable[[Mapping[str, Any]], object]
    """Takes the engine's progress, about once an interval."""
    may_begin: Callable[[str], bool | int] | None = None
    """Called before each phase: whether it may begin, or its start as wall time in nanoseconds."""
    may_go_on: Callable[[], bool] = lambda: True
    """The first False is like an interrupt by the user."""
    is_disturbed: Callable[[], bool] = lambda: False
    """Whether a planned fault acts, so that the system may be silent."""
    ended_phase: Callable[[], int | None] = lambda: None
    """The index of the last phase to end now; None if phases end by themselves."""
    recording: tuple[Path, bytes] | None = None
    """The log of measured operations, and the hash key of their keys; None on a fleet."""
    password: Secret | None = None
    """A password that isn't in the plan."""
    all_cores: bool = False
    """Whether each machine of a fleet has a worker on each of its cores."""


class Generator(Protocol):
    """Executes plans: a process on this machine, or machines together."""

    @property
    def processes(self) -> Mapping[str, int]:
        """The sampled processes of this machine, by name."""

    def generate(self, plan: Plan, folder: RunFolder, caller: Caller) -> Mapping[str, Any]:
        """Executes a plan and returns the engine's result.

        Raises:
            KvmarkError: the plan couldn't begin.
            GeneratorDied: the process that generated the load is gone; its logs are there.
        """


class LocalGenerator:
    """One process on this machine for plan after plan, as a context that ends it.

    It ignores Ctrl-C, which a terminal sends to all processes of a command: it gets a message.
    """

    def __init__(self) -> None:
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        """Starts nothing: the process starts when it is first needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self.close()

    @property
    def pid(self) -> int:
        """The process's number; it is started if there is none."""
        return self._running().child.pid

    @property
    def processes(self) -> Mapping[str, int]:
        """Its one process; see `Generator`."""
        return {GENERATOR: self.pid}

    def generate(self, plan: Plan, folder: RunFolder, caller: Caller) -> Mapping[str, Any]:
        """Executes a plan; see `Generator`."""
        has_refused = False
        with interrupts.patient() as asked:

            def stops() -> int:
                nonlocal has_refused
                count = asked.take()
                # Interrupts by the user come first; the caller ends the run once.
                if not (count or has_refused):
                    has_refused = not caller.may_go_on()
                return count + has_refused

            return self.run(plan.to_json(), folder.path, caller, stops, folder.lock)

    def run(
        self,
        plan: str,
        folder: Path,
        caller: Caller,
        stops: Callable[[], int] | None = None,
        lock: int | None = None,
    ) -> Mapping[str, Any]:
        """Executes a plan and returns the engine's result; see `kvmark._engine.run`.

        `stops` returns the number of stop requests; `caller.may_go_on` isn't called.

        The process holds the file `lock` as long as it writes, even after the end of kvmark.
        An exception in a callback ends the process; without `stops`, so does a stop request.

        Raises:
            KvmarkError: the plan couldn't begin.
            GeneratorDied: the process is gone; the next plan has a new one.
            KeyboardInterrupt: the user has asked to stop, and there is no `stops`.
        """
        process, recording, password = self._running(), caller.recording, caller.password
        try:
            process.send(
                lock,
                plan=plan,
                folder=str(folder),
                variables={} if password is None else {PASSWORD_VARIABLE: password.reveal()},
                asks=caller.may_begin is not None,
                recording=recording and (str(recording[0]), recording[1].hex()),
            )
            answer = _answer(process, caller, stops)
        except BaseException:
            self._process = None
            process.kill()
            raise
        if isinstance(answer, KvmarkError):
            if not isinstance(answer, RunError):
                # A system that can't be opened may have started Java, which a process can do once.
                self.close()
            raise answer
        if answer["abandoned"]:
            # Its threads keep the system open.
            self._process = None
            process.kill()
        return answer

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _running(self) -> _Process:
        if self._process is None or self._process.child.poll() is not None:
            self.close()
            self._process = _Process()
        return self._process


def _answer(
    process: _Process, caller: Caller, stops: Callable[[], int] | None
) -> Mapping[str, Any] | KvmarkError:
    """The result of the plan, after answering the process's questions."""
    may_begin = caller.may_begin
    for message in process.messages(stops, caller):
        match message:
            case {"progress": progress}:
                caller.progress(progress)
            case {"asks": str(phase)} if may_begin is not None:
                process.send(begins=may_begin(phase))
            case {"result": result}:
                return dict(result)
            case {"problem": [kind, sentence]}:
                error: type[KvmarkError] = getattr(errors, kind)
                # A defect has printed more than its message.
                return error(sentence + (process.last_lines() if error is RunError else ""))
    raise RunError("the process that generates load went on without a word")


class _Process:
    """The process, and the messages to and from it."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._output_before: int | None = None
        self._unread = b""
        self._sent = IDLE
        self._line, there = socket.socketpair()
        with there, _blocked(_ENDING):
            self.child = subprocess.Popen(  # noqa: S603 - our own program
                _COMMAND, stdin=there.fileno(), stdout=there.fileno(), stderr=self._output
            )

    def send(self, lock: int | None = None, /, **message: object) -> None:
        """Sends a message, with an open file that belongs to it.

        Raises:
            GeneratorDied: the process is gone.
        """
        if "plan" in message:
            self._sent = IDLE
            # What it prints while it starts belongs to its first plan.
            first = self._output_before is None
            self._output_before = 0 if first else self._output.seek(0, os.SEEK_END)
        try:
            if lock is not None:
                socket.send_fds(self._line, [b" "], [lock])
            self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise self._died() from None

    def messages(self, stops: Callable[[], int] | None, caller: Caller) -> Iterator[dict[str, Any]]:
        """Each message as it comes; sends requests of the user and the caller in the meantime.

        Raises:
            GeneratorDied: the process is gone.
            KeyboardInterrupt: the user has asked to stop, and there is no `stops`.
        """
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        listening = interrupts.current()
        if listening is not None:
            poll.register(listening, select.POLLIN)
        while True:
            if stops is None:
                interrupts.check()
            requests = {
                "stops": 0 if stops is None else min(stops(), _MOST_STOPS),
                "disturbed": caller.is_disturbed(),
                "ended_phase": caller.ended_phase(),
            }
            changes = {name: one for name, one in requests.items() if one != self._sent[name]}
            if changes:
                self._sent = requests
                self.send(**changes)
            if self._line.fileno() in dict(poll.poll(1000 * _POLL_S)):
                yield from self._read()

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            data = self._line.recv(_MOST_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            raise self._died()
        *lines, self._unread = (self._unread + data).split(b"\n")
        return map(json.loads, lines)

    def end(self) -> None:
        """Closes the connection, which ends the process, and kills it if it doesn't end."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(_ENDS_WITHIN_S)
        self.kill()

    def kill(self) -> None:
        """Kills the process."""
        self.child.kill()
        # A process that waits for a disk ends later.
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(_ENDS_WITHIN_S)
        self._line.close()
        self._output.close()

    def _died(self) -> GeneratorDied:
        """The cause of its end, and its last output."""
        end = _end(self.child.wait())
        return GeneratorDied(f"the process that generates load {end}{self.last_lines()}")

    def last_lines(self) -> str:
        """Its last output during this plan, as the end of a sentence; empty without any."""
        self._output.seek(self._output_before or 0)
        lines = self._output.read().decode(errors="replace").splitlines()
        last = "; ".join([line.strip() for line in lines if line.strip()][-_LAST_LINES:])
        return f", and said last: {last}" if last else ""


@contextmanager
def _blocked(signals: frozenset[signal.Signals]) -> Iterator[None]:
    """Blocks signals temporarily; a process that starts within ignores them for ever."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(code: int) -> str:
    """The end of a process, as a part of a sentence."""
    if code == -signal.SIGKILL:
        return "was killed: see in the kernel's log whether the memory was too small"
    if code < 0:
        return f"crashed with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
