"""Another tool's command while a tap observes its load.

It runs in its own session, so that a terminal's Ctrl-C reaches kvmark alone, which then asks it to
end. A guard process kills it with all its children when kvmark is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.processes import start_of
from kvmark.records.audit import ThreadsRecord
from kvmark.testbed.guard import Guard, guarded_lines
from kvmark.testbed.process import Identity, kill

_GRACE_S: Final = 5.0
_LEAST_NS: Final = 500_000_000
"""The shortest life of a thread whose share of a core is known."""


@dataclass(slots=True)
class _Thread:
    """Instants, processor time and time in the run queue of a thread, first and last."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]

    @property
    def share(self) -> float:
        """Of a core, of the time in which the thread had one or needed none."""
        at_ns, cpu_ns, waited_ns = (
            last - first for first, last in zip(self.first, self.last, strict=True)
        )
        return cpu_ns / (at_ns - waited_ns) if at_ns >= max(_LEAST_NS, waited_ns + 1) else 0.0


class AuditedCommand:
    """A command and its guard, as a context that leaves none of its processes."""

    def __init__(self, folder: Path) -> None:
        """Its output and its errors go to files of the folder."""
        self.output, self.errors = folder / "output", folder / "errors"
        self._threads: dict[Path, _Thread] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._kill_at_s: float | None = None
        self._began_ns = 0
        refusal = "the process that ends the command with kvmark can't start"
        self._guard = Guard(refusal, __name__)

    def __enter__(self) -> Self:
        """Starts the guard, and waits until it costs no more time.

        Raises:
            SystemUnderTestError: it doesn't start.
        """
        self._guard.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Kills what is left of the command, and waits for the guard."""
        if self._process is not None:
            _kill_all(self._identity)
            self._process.wait()
        self._guard.__exit__()

    def start(self, words: Sequence[str]) -> None:
        """Starts the command.

        Raises:
            UsageError: it can't be executed.
        """
        try:
            with self.output.open("wb") as output, self.errors.open("wb") as errors:
                self._process = subprocess.Popen(  # noqa: S603 - the user's command
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
        except OSError as problem:
            name = problem.filename or words[0]
            raise UsageError(f"{name} can't be started because {problem.strerror}") from problem
        self._began_ns = time.monotonic_ns()
        pid = self._process.pid
        self._identity = Identity(pid=pid, started=start_of(pid) or "")
        self._guard.tell(self._identity.model_dump_json())

    @property
    def is_started(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, or before its start."""
        return None if self._process is None else self._process.poll()

    def interrupt(self) -> None:
        """Asks its process group to end, as Ctrl-C does; kills it if it takes longer than 5 s."""
        if self._kill_at_s is None:
            self._kill_at_s = time.monotonic() + _GRACE_S
            with suppress(ProcessLookupError):
                os.killpg(self._identity.pid, signal.SIGINT)
        elif time.monotonic() > self._kill_at_s:
            _kill_all(self._identity)

    def sample(self) -> None:
        """Reads the processor time of its threads; call it ten times a second."""
        for task in _tasks(self._identity.pid):
            with suppress(OSError, ValueError):
                cpu_ns, waited_ns, _ = map(int, (task / "schedstat").read_text().split())
                now = time.monotonic_ns(), cpu_ns, waited_ns
                self._threads.setdefault(task, _Thread(now, now)).last = now

    def threads(self) -> ThreadsRecord | None:
        """Their use of cores; None if the kernel reports none."""
        if not self._threads:
            return None
        threads = self._threads.values()
        span_ns = max(one.last[0] for one in threads) - self._began_ns
        return ThreadsRecord(
            threads=len(threads),
            busiest_share=max(one.share for one in threads),
            cores=sum(one.last[1] for one in threads) / max(1, span_ns),
        )


def _tasks(pid: int) -> Iterator[Path]:
    """The threads of a process and its descendants, without reaping any."""
    tasks = [*Path(f"/proc/{pid}/task").glob("*")]
    yield from tasks
    for task in tasks:
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from _tasks(int(child))


def _kill_all(leader: Identity) -> None:
    """Kills the leader of a process group with its descendants, and the rest of the group."""
    with suppress(SystemUnderTestError):
        kill(leader)
    # Another process can have the number only after the whole group has ended.
    if start_of(leader.pid) in (None, leader.started):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader.pid, signal.SIGKILL)


if __name__ == "__main__":
    # Waits until kvmark ends, and then for nothing that it has started.
    for leader in [Identity.model_validate_json(line) for line in guarded_lines()]:
        _kill_all(leader)
