"""Server processes: started in the background, known by number and start, signalled, waited for.

A process number is used again by the kernel some time after its process has ended. So a process is
kept as its number and its start, and every signal goes through a handle of the kernel that was
checked against both: another process of the same number is never signalled.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from kvmark import interrupts
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.processes import start_of

__all__ = [
    "Identity",
    "Watched",
    "bind",
    "bound_to",
    "kill",
    "last_line",
    "lives",
    "pause",
    "resume",
    "start",
    "stop",
    "wait_until",
]

_LOOK_S: Final = 0.02
_ASK_AGAIN_S: Final = 0.5
_BOUND_AFTER: Final = 100
"""Looks for threads that were started meanwhile."""
_KILLED_WITHIN_S: Final = 30.0
_LONGEST_LINE: Final = 300
_TAIL_BYTES: Final = 2**16
_MODE: Final = 0o644


class Identity(BaseModel):
    """A process: its number, and its start as boot and ticks, which clock changes leave alone."""

    model_config = ConfigDict(frozen=True)

    pid: int
    started: str


class Watched(BaseModel):
    """A process that others wait for, with the name and the log that errors quote."""

    model_config = ConfigDict(frozen=True)

    name: str
    process: Identity
    log: Path


def start(
    command: Sequence[str],
    log: Path,
    *,
    cores: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Identity:
    """Starts a server in a session of its own; its output is appended to `log`.

    It outlives this process. It gets `environment` and nothing of this process's own beside the
    search path, so that no secret of the shell reaches it.

    Raises:
        UsageError: a core can't be used.
        SystemUnderTestError: the program can't be executed.
    """
    variables = {"PATH": os.environ.get("PATH", os.defpath), **(environment or {})}
    output = (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        output,
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        with bound_to(cores):
            pid = os.posix_spawnp(
                command[0],
                list(command),
                variables,
                file_actions=files,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ],
            )
    except OSError as problem:
        raise SystemUnderTestError(
            f"{command[0]} can't be started because {problem.strerror}"
        ) from problem
    return Identity(pid=pid, started=start_of(pid) or "")


def lives(process: Identity) -> bool:
    """Whether the process is there and hasn't ended."""
    _collect(process.pid)
    return start_of(process.pid) == process.started


def bind(process: Identity, cores: Collection[int]) -> None:
    """Binds a process that goes to cores: all its threads, and so what these start.

    Raises:
        SystemUnderTestError: it can't be bound to them.
    """
    wanted = set(cores)
    try:
        for _ in range(_BOUND_AFTER):
            others = [one for one in _threads(process) if _cores_of(one) not in (None, wanted)]
            if not others:
                return
            for thread in others:
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, wanted)
    except OSError as problem:
        raise SystemUnderTestError(
            f"process {process.pid} can't be bound to other cores because {problem.strerror}"
        ) from problem
    raise SystemUnderTestError(f"process {process.pid} has threads that don't stay on their cores")


def stop(processes: Iterable[Identity], grace_s: float = 15.0) -> list[Identity]:
    """Asks the processes to end, all at once, and kills those that don't; waits for all.

    They are asked again and again: Redis says no, once, to one that writes its first append-only
    file, and goes on.

    Returns:
        Those that were there.

    Raises:
        SystemUnderTestError: one can't be signalled, or doesn't even end when it is killed.
    """
    with ExitStack() as handles:
        found = [(process, handles.enter_context(_handle(process))) for process in processes]
        living = [(process, handle) for process, handle in found if handle is not None]
        for process, handle in living:
            _send(process, handle, signal.SIGTERM)
            # A stopped process would not see that it is to end.
            _send(process, handle, signal.SIGCONT)
        until = time.monotonic() + grace_s
        for process, handle in living:
            while not _ended(handle, min(_ASK_AGAIN_S, until - time.monotonic())):
                if time.monotonic() >= until:
                    _kill(process, handle)
                    break
                _send(process, handle, signal.SIGTERM)
            _collect(process.pid)
    return [process for process, _ in living]


def kill(process: Identity) -> bool:
    """Kills (SIGKILL) a process and waits until it has ended; False when it wasn't there."""
    with _handle(process) as handle:
        if handle is None:
            return False
        _kill(process, handle)
    _collect(process.pid)
    return True


def pause(process: Identity) -> bool:
    """Stops (SIGSTOP) a process where it stands; False when it wasn't there."""
    return _signal(process, signal.SIGSTOP)


def resume(process: Identity) -> bool:
    """Lets a paused process go on (SIGCONT); False when it wasn't there."""
    return _signal(process, signal.SIGCONT)


def wait_until(
    condition: Callable[[], bool], what: str, watched: Sequence[Watched], within_s: float
) -> None:
    """Waits for a condition while the processes it depends on live.

    Args:
        condition: asked about fifty times a second.
        what: what is waited for, as the end of the sentence "it took too long to …".
        watched: the processes, in the order in which they are blamed.
        within_s: the limit in seconds.

    Raises:
        SystemUnderTestError: a process has ended, or the time is over; quotes its log's last line.
        KeyboardInterrupt: the user has asked to stop.
    """
    until = time.monotonic() + within_s
    while not condition():
        for one in watched:
            if not lives(one.process):
                raise SystemUnderTestError(f"{one.name} ended by itself: {last_line(one.log)}")
        if time.monotonic() > until:
            first = watched[0]
            raise SystemUnderTestError(
                f"{first.name} took longer than {within_s:g} s to {what}; the last line of its log"
                f" is: {last_line(first.log)}"
            )
        interrupts.pause(_LOOK_S)


def last_line(log: Path) -> str:
    """The last line of a log that says something, shortened."""
    lines = [line.strip() for line in tail(log).splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else f"its log {log} is empty"


def tail(log: Path) -> str:
    """The end of a log; empty without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _signal(process: Identity, number: signal.Signals) -> bool:
    with _handle(process) as handle:
        if handle is not None:
            _send(process, handle, number)
        return handle is not None


def _kill(process: Identity, handle: int) -> None:
    _send(process, handle, signal.SIGKILL)
    if not _ended(handle, _KILLED_WITHIN_S):
        raise SystemUnderTestError(
            f"process {process.pid} was killed and hasn't ended for {_KILLED_WITHIN_S:g} s: look at"
            " the disk it writes to"
        )


def _send(process: Identity, handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    except PermissionError as problem:
        raise SystemUnderTestError(
            f"process {process.pid} belongs to another user: stop it as the user who started it"
        ) from problem


def _ended(handle: int, within_s: float) -> bool:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(max(0.0, within_s) * 1000))


@contextmanager
def _handle(process: Identity) -> Iterator[int | None]:
    """A handle that means this very process whatever becomes of its number; None when it ended."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle if lives(process) else None
    finally:
        os.close(handle)


@contextmanager
def bound_to(cores: Collection[int]) -> Iterator[None]:
    """Binds this thread for a while: what it starts meanwhile is bound before its first thread.

    Raises:
        UsageError: it may not have one of the cores.
    """
    own = os.sched_getaffinity(0)
    missing = sorted(set(cores) - own)
    if missing:
        raise UsageError(
            f"core {missing[0]} can't be used: choose among {', '.join(map(str, sorted(own)))}"
        )
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, own)


def _threads(process: Identity) -> list[int]:
    """The numbers of its threads; none when it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        found = [int(one.name) for one in Path(f"/proc/{process.pid}/task").iterdir()]
        return found if lives(process) else []
    return []


def _cores_of(thread: int) -> set[int] | None:
    """The cores of a thread; none when it has ended."""
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return None


def _collect(pid: int) -> None:
    """Takes note of the end of a child, so that it leaves the kernel's table."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
