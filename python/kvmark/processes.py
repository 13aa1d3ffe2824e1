"""The start of a process, which distinguishes processes that reuse a number."""

from __future__ import annotations

from pathlib import Path
from typing import Final

# Fields of /proc/PID/stat after the name in parentheses: the state, the start in ticks since boot.
_STATE: Final = 0
_START: Final = 19


def start_of(pid: int) -> str | None:
    """The start of a process, independent of changes of the clock.

    None if the process doesn't exist, or is a zombie.
    """
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()
    return None if fields[_STATE] == "Z" else f"{boot}/{fields[_START]}"
