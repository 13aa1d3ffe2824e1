"""Processes: servers in the background, identified by number and start, and build tools.

The kernel reuses a process's number some time after its end. So a process is identified by its
number and its start, and signals go through a handle of the kernel that was checked against both:
another process of the same number is never signalled.

A control group bounds the memory of a server and of the kernel's page cache for it. Without one,
the page cache of a large machine holds every file of a small server, and no dataset exceeds the
memory. The bound also holds for the server's children and for memory-mapped files. A group is made
inside this process's group, whose own bounds stay in force (version 1), or next to it, because
version 2 allows no group in one that has processes.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Final

from pydantic import BaseModel, ConfigDict

from kvmark import interrupts
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.processes import start_of
from kvmark.removal import remove_empty

_LOCK_POLL_S: Final = 0.1
_SIGNAL_AGAIN_S: Final = 0.5
_MOST_BIND_ROUNDS: Final = 100
"""Rounds to bind threads that were started during the round before."""
_KILLED_WITHIN_S: Final = 30.0
_MOST_BYTES: Final = 2**16

_OWN: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
# Where the kernel counts the processes that it killed because the bound was reached.
_KILLS: Final = ("memory.oom_control", "memory.events")
# The bound, and the setting that keeps memory from being swapped instead of read again.
_VERSION_1: Final = ("memory.limit_in_bytes", "memory.swappiness")
_VERSION_2: Final = ("memory.max", "memory.swap.max")


class Identity(BaseModel):
    """A process: its number, and its start as boot and ticks, which clock changes don't affect."""

    model_config = ConfigDict(frozen=True)

    pid: int
    started: str
    stop_signal: int = signal.SIGTERM
    """The signal that asks it to end."""


def start(
    command: Sequence[str],
    log: Path,
    *,
    cores: Sequence[int] = (),
    stop_signal: int = signal.SIGTERM,
) -> Identity:
    """Starts a server in its own session; its output is appended to `log`.

    It outlives this process. Its environment has only the search path, so that no secret of the
    shell reaches it.

    Raises:
        UsageError: a core can't be used.
        SystemUnderTestError: the program can't be executed.
    """
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        with bound_to(cores):
            pid = os.posix_spawnp(
                command[0],
                list(command),
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=files,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ],
            )
    except OSError as problem:
        raise SystemUnderTestError(
            f"{command[0]} can't be started because {problem.strerror}"
        ) from problem
    return Identity(pid=pid, started=start_of(pid) or "", stop_signal=stop_signal)


def lives(process: Identity) -> bool:
    """Whether the process exists and hasn't ended."""
    _reap(process.pid)
    return start_of(process.pid) == process.started


def bind(process: Identity, cores: Collection[int]) -> None:
    """Binds a running process to cores: all its threads and children, and so those that they start.

    Raises:
        SystemUnderTestError: it can't be bound to them.
    """
    wanted = set(cores)
    try:
        for _ in range(_MOST_BIND_ROUNDS):
            was_bound = True
            for thread in (thread for one in family(process) for thread in _threads(one)):
                with suppress(ProcessLookupError):
                    if os.sched_getaffinity(thread) != wanted:
                        was_bound = False
                        os.sched_setaffinity(thread, wanted)
            if was_bound:
                return
    except OSError as problem:
        raise SystemUnderTestError(
            f"process {process.pid} can't be bound to other cores because {problem.strerror}"
        ) from problem
    raise SystemUnderTestError(f"process {process.pid} has threads that don't stay on their cores")


def stop(processes: Iterable[Identity], grace_s: float = 15.0) -> list[Identity]:
    """Asks all processes to end, then kills those that don't; waits for all.

    The signal is repeated: Redis rejects one while it writes its first append-only file.

    Returns:
        The processes that existed.

    Raises:
        SystemUnderTestError: one can't be signalled, or doesn't even end when it is killed.
    """
    with ExitStack() as handles:
        pairs = [(process, handles.enter_context(_handle(process))) for process in processes]
        living = [(process, handle) for process, handle in pairs if handle is not None]
        for process, handle in living:
            _send(process, handle, process.stop_signal)
            # A paused process wouldn't receive the signal.
            _send(process, handle, signal.SIGCONT)
        until = time.monotonic() + grace_s
        for process, handle in living:
            while not is_readable(handle, min(_SIGNAL_AGAIN_S, until - time.monotonic())):
                if time.monotonic() >= until:
                    _kill(process, handle)
                    break
                _send(process, handle, process.stop_signal)
            _reap(process.pid)
    return [process for process, _ in living]


def kill(process: Identity) -> bool:
    """Kills (SIGKILL) a process with its children, waits for them; False when it had ended."""
    # A paused process starts no other, and doesn't notice the end of its children.
    was_there = pause(process)
    for one in reversed([*family(process)]):
        with _handle(one) as handle:
            if handle is not None:
                _kill(one, handle)
        _reap(one.pid)
    return was_there


def family(process: Identity) -> Iterator[Identity]:
    """A process, then those that it started, such as PostgreSQL's for its connections.

    The children are found when the next one is asked for, so a process can be paused before.
    """
    yield process
    if not lives(process):
        return
    with suppress(OSError):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for pid in map(int, children.split()):
            yield from family(Identity(pid=pid, started=start_of(pid) or ""))


def tail(log: Path) -> str:
    """The end of a log; empty without one."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MOST_BYTES))
        return file.read().decode(errors="replace")
    return ""


def _signal_family(process: Identity, number: signal.Signals) -> bool:
    signalled = [_signal(one, number) for one in family(process)]
    return signalled.pop(0)


def _signal(process: Identity, number: signal.Signals) -> bool:
    with _handle(process) as handle:
        if handle is not None:
            _send(process, handle, number)
        return handle is not None


pause = partial(_signal_family, number=signal.SIGSTOP)
"""Pauses a process with its children; False when it had ended."""
resume = partial(_signal_family, number=signal.SIGCONT)
"""Resumes a paused process with its children; False when it had ended."""


def _kill(process: Identity, handle: int) -> None:
    _send(process, handle, signal.SIGKILL)
    if not is_readable(handle, _KILLED_WITHIN_S):
        raise SystemUnderTestError(
            f"process {process.pid} was killed and hasn't ended for {_KILLED_WITHIN_S:g} s: look at"
            " the disk it writes to"
        )


def _send(process: Identity, handle: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    except PermissionError as problem:
        raise SystemUnderTestError(
            f"process {process.pid} belongs to another user: stop it as the user who started it"
        ) from problem


def is_readable(handle: int, within_s: float) -> bool:
    """Whether a file can be read in time; a process's handle can after its end."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


@contextmanager
def _handle(process: Identity) -> Iterator[int | None]:
    """A handle that stays with this process when its number is reused; None when it ended."""
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
    """Binds this thread temporarily: processes that it starts are bound from their first thread.

    Raises:
        UsageError: it may not use one of the cores.
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
        numbers = [int(one.name) for one in Path(f"/proc/{process.pid}/task").iterdir()]
        return numbers if lives(process) else []
    return []


def _reap(pid: int) -> None:
    """Removes a child that has ended from the kernel's table."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def make_group(name: str, most_bytes: int) -> Path:
    """The folder of a new control group.

    Args:
        name: a name that no other group has.
        most_bytes: the bound on its processes and their files in the page cache together.

    Raises:
        UsageError: this user, or this machine, can't have one.
    """
    try:
        parent, (bound, swap) = _parent()
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
    """A command that joins a group and then becomes the other command, in the same process."""
    return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *command)


def ran_out(group: Path) -> bool:
    """Whether the kernel killed a process of the group because of the bound."""
    for name in _KILLS:
        with suppress(OSError):
            counts = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(counts.get("oom_kill", 0)) > 0
    return False


def remove_group(group: Path) -> None:
    """Removes a group whose processes have ended, if it exists."""
    # An empty group costs nothing, so a failure is ignored.
    with suppress(OSError):
        remove_empty(group)


def _parent() -> tuple[Path, tuple[str, str]]:
    """The folder for groups that bound memory, and the files of their bounds."""
    lines = [line.split(":", 2) for line in _OWN.read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return _MOUNT / "memory" / path.lstrip("/"), _VERSION_1
    for _, controllers, path in lines:
        if not controllers:
            here = _MOUNT / path.lstrip("/")
            parent = here if here == _MOUNT else here.parent
            if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                return parent, _VERSION_2
    raise OSError("the kernel has no memory controller for groups of this process")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"memory: what a server takes can't be bounded here ({why}): be root on a machine whose"
        " control groups can be written, or leave --memory out"
    )


@contextmanager
def exclusive(place: Path) -> Iterator[bool]:
    """Locks a file or folder, as a context; False if another process has locked it.

    The lock ends with the process.
    """
    handle = os.open(place, os.O_RDONLY)
    is_locked = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        os.close(handle)


@contextmanager
def locked(lock: Path, activity: str, failure: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock file in the cache, which is created; `tell` gets the other process's activity.

    Raises:
        UsageError: a file can't be used; begins with `failure`.
        KeyboardInterrupt: the user has asked to stop.
    """
    waits = False
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        while True:
            with exclusive(lock) as is_locked:
                if is_locked:
                    yield
                    return
            if not waits:
                waits = True
                tell(f"Waiting for another kvmark that is {activity}")
            interrupts.pause(_LOCK_POLL_S)
    except OSError as problem:
        raise UsageError(
            f"{failure} because {problem.strerror}: name another cache folder with XDG_CACHE_HOME"
        ) from problem


def run_streaming(
    command: Sequence[str],
    on_line: Callable[[str], None],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Runs a program, and passes on each line of its output and errors; its exit code and lines.

    Raises:
        KeyboardInterrupt: the user has asked to stop, and so the program was ended.
    """
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the command is kvmark's
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    ) as running:
        try:
            for line in _lines(running.stdout):
                lines.append(line.decode(errors="replace").strip())
                on_line(lines[-1])
        except BaseException:
            running.terminate()
            raise
    return running.returncode, lines


def find_program(name: str, missing: str, path: str | None = None) -> str:
    """The place of a program on the search path, or in the folders of `path`.

    Raises:
        UsageError: it is missing; with this text.
    """
    program = shutil.which(name, path=path)
    if program is None:
        raise UsageError(missing)
    return program


def run_captured(
    command: Sequence[str | Path], timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program and returns its exit code, output and errors.

    Raises:
        OSError: it can't be executed.
        subprocess.TimeoutExpired: it was ended at the limit.
    """
    return subprocess.run(  # noqa: S603 - the command is kvmark's
        command, capture_output=True, text=True, check=False, timeout=timeout_s
    )


def _lines(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Each line as it comes."""
    unread, data = b"", b"."
    while stream is not None and data:
        interrupts.wait_readable(stream.fileno())
        data = os.read(stream.fileno(), _MOST_BYTES)
        *lines, unread = (unread + data).split(b"\n")
        yield from lines
    if unread:
        yield unread
