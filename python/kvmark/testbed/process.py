"""Server processes: started in the background, known by number and start, signalled, waited for.

A process number is used again by the kernel some time after its process has ended. So a process is
kept as its number and its start, and every signal goes through a handle of the kernel that was
checked against both: another process of the same number is never signalled.

A control group bounds what a server and the kernel's page cache for it take together. Without one
the page cache of a large machine holds every file that a small server wrote, and no data set is too
large for memory. The bound is the kernel's own, so it holds for the server's children and for
whatever it maps. A group is made inside the one that this process is in, whose own bounds stay in
force (version 1), or beside it, where version 2 allows no group in one that has processes.
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
from kvmark.removal import remove_empty

_LOOK_S: Final = 0.02
_ASK_AGAIN_S: Final = 0.5
_BOUND_AFTER: Final = 100
"""Looks for threads that were started meanwhile."""
_KILLED_WITHIN_S: Final = 30.0
_LONGEST_LINE: Final = 300
_TAIL_BYTES: Final = 2**16
_MODE: Final = 0o644

_OWN: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
_PROCESSES: Final = "cgroup.procs"
# Where the kernel counts the processes that it killed because the bound was reached.
_KILLS: Final = ("memory.oom_control", "memory.events")
# The bound, and that nothing is moved to a swap device instead of being read again.
_VERSION_1: Final = ("memory.limit_in_bytes", "memory.swappiness")
_VERSION_2: Final = ("memory.max", "memory.swap.max")


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
                raise SystemUnderTestError(f"{one.name} ended by itself: {_last_line(one.log)}")
        if time.monotonic() > until:
            first = watched[0]
            raise SystemUnderTestError(
                f"{first.name} took longer than {within_s:g} s to {what}; the last line of its log"
                f" is: {_last_line(first.log)}"
            )
        interrupts.pause(_LOOK_S)


def _last_line(log: Path) -> str:
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


def make_group(name: str, most_bytes: int, own: Path = _OWN, mount: Path = _MOUNT) -> Path:
    """The folder of a new group with that bound.

    Args:
        name: a name that no other group has.
        most_bytes: what its processes and their files in the page cache may take together.
        own: where the kernel says which groups this process is in.
        mount: where it shows them.

    Raises:
        UsageError: this user, or this machine, can't have one.
    """
    try:
        parent, (bound, swap) = _parent(own, mount)
        folder = parent / name
        folder.mkdir()
    except OSError as problem:
        raise _refused(problem.strerror or str(problem)) from problem
    try:
        (folder / bound).write_text(str(most_bytes))
    except OSError as problem:
        remove_group(folder)
        raise _refused(f"{folder / bound}: {problem.strerror}") from problem
    # A machine without swap may not have the file.
    with suppress(OSError):
        (folder / swap).write_text("0")
    return folder


def joining(group: Path, command: Sequence[str]) -> tuple[str, ...]:
    """A command that joins a group and then is the other command, in the same process."""
    return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / _PROCESSES), *command)


def ran_out(group: Path) -> bool:
    """Whether the kernel killed a process of the group, for which its bound left no room."""
    for name in _KILLS:
        with suppress(OSError):
            counted = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(counted.get("oom_kill", 0)) > 0
    return False


def remove_group(group: Path) -> None:
    """Removes a group whose processes have ended; one that is gone already is left so."""
    # An empty group costs nothing, and whatever holds it is not worth failing for.
    with suppress(OSError):
        remove_empty(group)


def _parent(own: Path, mount: Path) -> tuple[Path, tuple[str, str]]:
    """Where a group can be made that bounds memory, and the files of its bounds."""
    lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return mount / "memory" / path.lstrip("/"), _VERSION_1
    for _, controllers, path in lines:
        if not controllers:
            here = mount / path.lstrip("/")
            parent = here if here == mount else here.parent
            if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                return parent, _VERSION_2
    raise OSError("the kernel has no memory controller for groups of this process")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"memory: what a server takes can't be bounded here ({why}): be root on a machine whose"
        " control groups can be written, or leave --memory out"
    )
