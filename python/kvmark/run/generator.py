"""Who generates load: a process of this machine's own, or whoever can be asked in its place."""

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
from kvmark.secret import Secret
from kvmark.spec.url import PASSWORD_VARIABLE

Progress = Callable[[Mapping[str, Any]], object]
"""Takes the engine's progress, about once an interval."""

_WORDS: Final = (sys.executable, "-P", "-m", "kvmark.run.worker")
"""Nothing is imported from the current folder, which may have modules of any name."""
_LOOK_S: Final = 0.2
_MOST_STOPS: Final = 2
"""The first lets operations end, the second drops them."""
_MOST_BYTES: Final = 1 << 16
_ENDS_WITHIN_S: Final = 5.0
_LAST_LINES: Final = 2
"""Of what a process said before it died: a C++ exception takes two."""
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})


@dataclass(frozen=True, slots=True)
class Caller:
    """What the one who wants a plan carried out is told, and what it is asked meanwhile."""

    progress: Progress
    #: Asked before each phase begins: whether it may, or at which instant of wall time in
    #: nanoseconds; none where all may begin at once.
    may_begin: Callable[[str], bool | int] | None = None
    #: The first time that it says no is like an interrupt of the user's.
    may_go_on: Callable[[], bool] | None = None
    #: Whether a planned fault acts, so that the system may be silent; none where none is planned.
    is_disturbed: Callable[[], bool] | None = None
    #: The index of the newest phase that ends now; none where phases end by themselves.
    ended_phase: Callable[[], int | None] | None = None
    #: Where measured operations are logged, and what their keys are hashed with; none where they
    #: aren't, as on a fleet.
    recording: tuple[Path, bytes] | None = None


class Generator(Protocol):
    """Carries out plans: a process of this machine, or machines together."""

    @property
    def processes(self) -> Mapping[str, int]:
        """Numbers of the processes of this machine that are sampled, by what they are called."""

    def generate(
        self,
        plan: Plan,
        folder: RunFolder,
        caller: Caller,
        *,
        password: Secret | None,
        all_cores: bool,
    ) -> Mapping[str, Any]:
        """Carries out a plan and returns what an engine returns.

        With `all_cores` each machine of several has a worker on each of its own cores.

        Raises:
            KvmarkError: the plan couldn't begin.
            GeneratorDied: the process that generated the load is gone; its logs are there.
        """


class LocalGenerator:
    """One process on this machine for plan after plan, as a context at whose end it is gone.

    It hears no Ctrl-C, which a terminal sends to every process of a command: it is told.
    """

    def __init__(self) -> None:
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        """Begins nothing yet: the process starts when it is first needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self.close()

    @property
    def pid(self) -> int:
        """The process's number; it is started if there is none."""
        return self._running().pid

    @property
    def processes(self) -> Mapping[str, int]:
        """Its one process; see `Generator`."""
        return {GENERATOR: self.pid}

    def generate(
        self,
        plan: Plan,
        folder: RunFolder,
        caller: Caller,
        *,
        password: Secret | None,
        all_cores: bool,  # noqa: ARG002 - a plan for one machine says its workers itself
    ) -> Mapping[str, Any]:
        """Carries out a plan; see `Generator`."""
        has_refused, may_go_on = False, caller.may_go_on
        with interrupts.patient() as asked:

            def stops() -> int:
                nonlocal has_refused
                count = asked.take()
                # What the user wants goes before what the caller wants, who is asked once.
                if not (count or has_refused or may_go_on is None):
                    has_refused = not may_go_on()
                return count + has_refused

            return self.run(plan.to_json(), folder.path, caller, stops, password, folder.lock)

    def run(
        self,
        plan: str,
        folder: Path,
        caller: Caller,
        stops: Callable[[], int] | None = None,
        password: Secret | None = None,
        lock: int | None = None,
    ) -> Mapping[str, Any]:
        """Carries out a plan and returns what the engine returns; see `kvmark._engine.run`.

        How often the run is to stop is what `stops` returns, whatever the caller lets go on.

        The process holds the file `lock` as long as it writes, also beyond the end of this one.
        What a callback raises goes on to the caller, and ends the process; without `stops`, so
        does a request to stop.

        Raises:
            KvmarkError: the plan couldn't begin.
            GeneratorDied: the process is gone; the next plan has a new one.
            KeyboardInterrupt: the user has asked to stop, and there is no `stops`.
        """
        process, recording = self._running(), caller.recording
        try:
            process.lend(lock)
            process.tell(
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
            raise answer
        if answer["abandoned"]:
            # Its threads hold the system, which nobody could open again.
            self._process = None
            process.kill()
        return answer

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _running(self) -> _Process:
        if self._process is None or self._process.has_ended:
            self.close()
            self._process = _Process()
        return self._process


def _answer(
    process: _Process, caller: Caller, stops: Callable[[], int] | None
) -> Mapping[str, Any] | KvmarkError:
    """What came of the plan that the process was told."""
    may_begin = caller.may_begin
    for told in process.heard(stops, caller):
        match told:
            case {"progress": shown}:
                caller.progress(shown)
            case {"asks": str(phase)} if may_begin is not None:
                process.tell(begins=may_begin(phase))
            case {"result": result}:
                return dict(result)
            case {"problem": [kind, sentence]}:
                found: type[KvmarkError] = getattr(errors, kind)
                # A defect has printed more than it is told of.
                return found(sentence + (process.last_words() if found is RunError else ""))
    raise RunError("the process that generates load went on without a word")


class _Process:
    """The process, and the lines that go to and fro."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._said_before = 0
        self._unread = b""
        self._stops_told = 0
        self._ended_phase: int | None = None
        self._disturbed_told = False
        self._line, there = socket.socketpair()
        with there, _held_back(_ENDING):
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                _WORDS, stdin=there.fileno(), stdout=there.fileno(), stderr=self._said
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def tell(self, **message: object) -> None:
        """Sends a line.

        Raises:
            GeneratorDied: nobody is there to read it.
        """
        if "plan" in message:
            self._stops_told, self._ended_phase, self._disturbed_told = 0, None, False
            self._said_before = self._said.seek(0, os.SEEK_END)
        try:
            self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise self._died() from None

    def lend(self, lock: int | None) -> None:
        """Sends an open file before the line that it belongs to.

        Raises:
            GeneratorDied: nobody is there to take it.
        """
        if lock is None:
            return
        try:
            socket.send_fds(self._line, [b" "], [lock])
        except OSError:
            raise self._died() from None

    def heard(self, stops: Callable[[], int] | None, caller: Caller) -> Iterator[dict[str, Any]]:
        """Every message as it comes; meanwhile passes on stops, faults, and ends of phases.

        Raises:
            GeneratorDied: the process is gone.
            KeyboardInterrupt: the user has asked to stop, and there is no `stops`.
        """
        waiting = select.poll()
        waiting.register(self._line, select.POLLIN)
        listening = interrupts.current()
        if listening is not None:
            waiting.register(listening, select.POLLIN)
        while True:
            if stops is None:
                interrupts.check()
            asked = 0 if stops is None else min(stops(), _MOST_STOPS)
            if asked > self._stops_told:
                self._stops_told = asked
                self.tell(stops=asked)
            self._pass_on(caller)
            if self._line.fileno() in dict(waiting.poll(1000 * _LOOK_S)):
                yield from self._read()

    def _pass_on(self, caller: Caller) -> None:
        """Tells the process of what has changed: whether a fault acts, which phase has ended."""
        disturbed = caller.is_disturbed is not None and caller.is_disturbed()
        if disturbed != self._disturbed_told:
            self._disturbed_told = disturbed
            self.tell(disturbed=disturbed)
        ended = None if caller.ended_phase is None else caller.ended_phase()
        if ended != self._ended_phase:
            self._ended_phase = ended
            self.tell(ended_phase=ended)

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            got = self._line.recv(_MOST_BYTES)
        except ConnectionResetError:
            got = b""
        if not got:
            raise self._died()
        *lines, self._unread = (self._unread + got).split(b"\n")
        return map(json.loads, lines)

    def end(self) -> None:
        """Lets it end, which it does when nobody can tell it anything any more."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        self.kill()

    def kill(self) -> None:
        """Ends it whatever it does."""
        self._process.kill()
        # One that waits for a disk ends when that has answered.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        self._line.close()
        self._said.close()

    def _died(self) -> GeneratorDied:
        """What is known of its end: how, and what it said last."""
        how = _how(self._process.wait())
        return GeneratorDied(f"the process that generates load {how}{self.last_words()}")

    def last_words(self) -> str:
        """What it printed last in this plan, as the end of a sentence; nothing if it didn't."""
        self._said.seek(self._said_before)
        lines = self._said.read().decode(errors="replace").splitlines()
        last = "; ".join([line.strip() for line in lines if line.strip()][-_LAST_LINES:])
        return f", and said last: {last}" if last else ""


@contextmanager
def _held_back(signals: frozenset[signal.Signals]) -> Iterator[None]:
    """Blocks signals while within; a process that is begun meanwhile never hears them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(code: int) -> str:
    """How a process ended."""
    if code == -signal.SIGKILL:
        return "was killed: see in the kernel's log whether the memory was too small"
    if code < 0:
        return f"crashed with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
