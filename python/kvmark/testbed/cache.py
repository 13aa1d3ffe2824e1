"""Programs that are fetched or built once, into a folder that all runs share."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from kvmark import interrupts

_LOOK_S: Final = 0.1
_MOST_BYTES: Final = 1 << 16


@contextmanager
def locked(lock: Path, doing: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock file, in a folder that is made; whoever waits is told what the other is doing.

    It is let go when the process ends, however that happens.

    Raises:
        KeyboardInterrupt: the user has asked to stop.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        if not _is_locked(file.fileno()):
            tell(f"Waiting for another kvmark that is {doing}")
            while not _is_locked(file.fileno()):
                interrupts.pause(_LOOK_S)
        yield


def _is_locked(handle: int) -> bool:
    """Whether it is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def run_told(
    command: Sequence[str],
    hear: Callable[[str], None],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Runs a program and hands on each line as it comes, errors too; returns the exit code.

    Raises:
        KeyboardInterrupt: the user has asked to stop, and so the program was ended.
    """
    with subprocess.Popen(  # noqa: S603 - the words are ours
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
                hear(line.decode(errors="replace"))
        except BaseException:
            running.terminate()
            raise
    return running.returncode


def _lines(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Each line as it comes, with its end."""
    unread = b""
    while stream is not None:
        interrupts.wait_readable(stream.fileno())
        got = os.read(stream.fileno(), _MOST_BYTES)
        if not got:
            break
        *lines, unread = (unread + got).splitlines(keepends=True) or [b""]
        if unread.endswith(b"\n"):
            lines, unread = [*lines, unread], b""
        yield from lines
    if unread:
        yield unread
