"""Programs that run on chosen cores, and their CPU time."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

LOOK_S: Final = 0.02
"""Interval between two looks at a running process."""
SPARE_FILES: Final = 200
"""Open files of a process besides its connections."""
ALL_CORES: Final = ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
"""All cores that this process may use, as `taskset -c` takes them."""

Program = Sequence[str]
"""The beginning of a command line."""


class PeerFailedError(Exception):
    """A program ended with an error, or didn't do its work; the text has its messages."""


@dataclass(frozen=True)
class Ended:
    """The output and the cost of a program."""

    output: str
    errors: str
    #: User and system time of the process and of the children it waited for.
    cpu_ns: int
    #: Peak memory; 0 if it wasn't watched.
    peak_bytes: int = 0
    #: Elapsed time.
    took_s: float = 0.0


class Running:
    """A program that was started."""

    def __init__(
        self,
        command: Sequence[object],
        cores: int | str,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        *,
        is_silent: bool = False,
    ) -> None:
        words = [str(word) for word in command]
        self._name = Path(words[0]).name
        self._output, self._errors = _file(is_silent=is_silent), _file(is_silent=False)
        self._peak_bytes, self._begun = 0, time.perf_counter()
        self.process = subprocess.Popen(  # noqa: S603 - programs of a benchmark
            ["taskset", "-c", str(cores), *words],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **(variables or {})},
            cwd=folder,
        )

    def ended(self) -> bool:
        """Whether it has ended; `finish` still has to wait for it."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def watch_memory(self) -> None:
        """Reads the peak of its memory until it ends."""
        status = Path(f"/proc/{self.process.pid}/status")
        while not self.ended():
            marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
            self._peak_bytes = max(self._peak_bytes, *(int(m.split()[1]) * 1024 for m in marks), 0)
            time.sleep(LOOK_S)

    def finish(self, codes: Sequence[int] = (0,)) -> Ended:
        """Waits for its end.

        Raises:
            PeerFailedError: the exit code is none of those.
        """
        _, status, usage = os.wait4(self.process.pid, 0)
        took_s = time.perf_counter() - self._begun
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = _text(self._output), _text(self._errors)
        if code not in codes:
            message = (errors.strip() or output.strip())[-1000:]
            raise PeerFailedError(f"{self._name} ended with {code}: {message}")
        cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
        return Ended(output, errors, cpu_ns, self._peak_bytes, took_s)

    def kill(self) -> None:
        """Ends it at once, if it still runs."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()


def execute(
    command: Sequence[object],
    cores: int | str,
    codes: Sequence[int] = (0,),
    variables: Mapping[str, str] | None = None,
    *,
    watched: bool = False,
    folder: Path | None = None,
) -> Ended:
    """Runs a program to its end, in a folder; a watched one has its peak memory."""
    running = Running(command, cores, variables, folder)
    try:
        if watched:
            running.watch_memory()
        return running.finish(codes)
    finally:
        running.kill()


def raise_file_limit(connections: int) -> str | None:
    """Lets this process and its children open files for these connections.

    Returns the advice for the user if the limit is too low.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    enough = most == resource.RLIM_INFINITY or most >= connections + SPARE_FILES
    return None if enough else f"raise it with `ulimit -Hn {connections + SPARE_FILES}`"


def _file(*, is_silent: bool) -> IO[bytes]:
    return Path(os.devnull).open("r+b") if is_silent else tempfile.TemporaryFile()


def _text(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")
