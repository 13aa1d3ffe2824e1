"""Runs a long command with signs of life in a log."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

HEARTBEAT_S = 30.0


def elapsed(seconds: float) -> str:
    """A duration in words, for example `3 min 20 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def run(command: Sequence[str], *, cwd: Path, environment: dict[str, str]) -> int:
    """Runs a command and returns its exit code.

    On a terminal the command draws its own progress. Elsewhere, in a log, a line with the elapsed
    time appears every half minute.
    """
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, env=environment)
    timeout = None if sys.stderr.isatty() else HEARTBEAT_S
    while True:
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            print(f"… {elapsed(time.monotonic() - began)}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            # The terminal sent it to the command too, which ends by itself.
            process.wait()
            return 130


def exit_code(work: Callable[[], int | None], *failures: type[Exception]) -> int:
    """The exit code of a program; the text of a failure is printed."""
    try:
        return work() or 0
    except failures as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
