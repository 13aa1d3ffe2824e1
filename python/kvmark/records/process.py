"""Which process writes a run, and whether it still lives."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

# The n-th field of /proc/PID/stat after the name in parentheses: start in ticks since boot.
_START_FIELD = 19


class Writer(BaseModel):
    """A process by number and start, so that another one of the same number isn't taken for it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    started: str
    host: str

    @classmethod
    def this(cls) -> Writer:
        """The process that asks."""
        pid = os.getpid()
        return cls(pid=pid, started=_start_of(pid) or "", host=platform.node())

    def lives(self) -> bool:
        """Whether the process is still there. On another host that isn't known: taken as yes."""
        return self.host != platform.node() or _start_of(self.pid) == self.started


def _start_of(pid: int) -> str | None:
    """When the process of that number started, in a form that clock changes leave alone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = line.rpartition(")")[2].split()
        # A zombie has ended; it only waits to be counted.
        return None if fields[0] == "Z" else f"{boot}/{fields[_START_FIELD]}"
    except OSError:
        return _start_without_proc(pid)


def _start_without_proc(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        return None
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
