"""Programs that are fetched or built once, into a folder that all runs share."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked", "run_told"]


@contextmanager
def locked(lock: Path, doing: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock file, in a folder that is made; whoever waits is told what the other is doing.

    It is let go when the process ends, however that happens.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"Waiting for another kvmark that is {doing}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_told(
    command: Sequence[str],
    hear: Callable[[str], None],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Runs a program and hands on each line as it comes, errors too; returns the exit code."""
    with subprocess.Popen(  # noqa: S603 - the words are ours
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        try:
            for line in running.stdout or ():
                hear(line)
        except BaseException:
            running.terminate()
            raise
    return running.returncode
