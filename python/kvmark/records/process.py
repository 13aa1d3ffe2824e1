"""Which process writes a run, and whether it still does.

The writer holds a lock on a file of the run's folder for as long as it writes, and so does the
process that generates load for it. The kernel lets the lock go when both have ended, however they
end. Every process that sees the folder sees the lock: in another container, under another host
name, or where numbers of processes mean something else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import weakref
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from kvmark.processes import start_of
from kvmark.records import files

_MODE: Final = files.PRIVATE_FILE
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a file system says that knows no locks."""


class Lock:
    """A lock on a file, held until it is released or nobody knows it any more."""

    def __init__(self, path: Path) -> None:
        """Makes the file if need be, and waits for whoever is just looking at the lock.

        Raises:
            OSError: the file can't be made, or its file system knows no locks.
        """
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, _MODE)
        self.release = weakref.finalize(self, os.close, self.handle)
        fcntl.flock(self.handle, fcntl.LOCK_EX)


def take_lock(folder: Path) -> Lock | None:
    """The lock of the one who writes a run; None where the file system knows no locks.

    Raises:
        OSError: its file can't be made.
    """
    try:
        return Lock(folder / files.LOCK)
    except OSError as problem:
        if problem.errno in _NO_LOCKS:
            return None
        raise


class Writer(BaseModel):
    """A process by number and start, so that another one of the same number isn't taken for it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    started: str
    host: str
    #: Whether it holds the run's lock while it writes: not every file system knows locks.
    locks: bool = False

    @classmethod
    def this(cls, *, locks: bool = False) -> Writer:
        """The process that asks."""
        pid = os.getpid()
        return cls(pid=pid, started=start_of(pid) or "", host=platform.node(), locks=locks)

    def writes(self, folder: Path) -> bool:
        """Whether it still writes the run of this folder."""
        return _is_locked(folder / files.LOCK) if self.locks else self.lives()

    def lives(self) -> bool:
        """Whether the process is still there. On another host that isn't known: taken as yes."""
        return self.host != platform.node() or start_of(self.pid) == self.started


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock; a look of one's own doesn't disturb other looks."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
