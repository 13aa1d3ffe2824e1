"""Programs on cores of their own, with the processor time they took from start to end."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LOOK_S = 0.02
"""How often a going process is looked at."""


def usable_cores() -> str:
    """All cores that this process may use, as `taskset -c` takes them."""
    return ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))


class PeerFailedError(Exception):
    """A program ended badly or did not do what it was asked; the text says what it said."""


@dataclass(frozen=True)
class Ended:
    """What a program printed and spent."""

    output: str
    errors: str
    code: int
    #: User and system time of the process and of the children it waited for.
    cpu_ns: int
    #: The most its memory ever held as far as it was looked at; 0 when it was not.
    peak_bytes: int = 0


class Going:
    """A program that was started."""

    def __init__(
        self,
        command: Sequence[str],
        cores: int | str,
        variables: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        self._name = Path(command[0]).name
        self._output, self._errors = _file(), _file()
        self._peak_bytes = 0
        self._process = subprocess.Popen(  # noqa: S603 - programs that a table beside this names
            ["taskset", "-c", str(cores), *command],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **variables},
            cwd=folder,
        )

    def ended(self) -> bool:
        """Whether it has ended; it is not waited for yet, so that its times can still be asked."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def watch_memory(self) -> None:
        """Looks at its memory until it ends; the kernel keeps the peak between two looks."""
        status = Path(f"/proc/{self._process.pid}/status")
        while not self.ended():
            self._peak_bytes = max(self._peak_bytes, _peak_bytes(status.read_text()))
            time.sleep(LOOK_S)

    def finish(self, codes: Sequence[int] = (0,)) -> Ended:
        """Waits for its end.

        Raises:
            PeerFailedError: the exit code is none of those.
        """
        _, status, usage = os.wait4(self._process.pid, 0)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = _text(self._output), _text(self._errors)
        if code not in codes:
            said = (errors.strip() or output.strip())[-1000:]
            raise PeerFailedError(f"{self._name} ended with {code}: {said}")
        cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
        return Ended(output, errors, code, cpu_ns, self._peak_bytes)

    def kill(self) -> None:
        """Ends it at once; nothing when it was waited for."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()


def execute(
    command: Sequence[str],
    cores: int | str,
    codes: Sequence[int] = (0,),
    variables: Mapping[str, str] | None = None,
    *,
    watched: bool = False,
    folder: Path | None = None,
) -> Ended:
    """Runs a program to its end, in a folder; one that is watched has its memory's peak."""
    going = Going(command, cores, variables or {}, folder)
    try:
        if watched:
            going.watch_memory()
        return going.finish(codes)
    finally:
        going.kill()


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _text(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


def _peak_bytes(status: str) -> int:
    """The high-water mark of resident memory; a process that ends has none any more."""
    marks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(marks[0]) * 1024 if marks else 0
