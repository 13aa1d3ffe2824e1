"""A process that cleans up after kvmark, also when kvmark itself is killed.

The kernel then closes the pipe from kvmark, which ends what the process reads.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Self

from kvmark.errors import SystemUnderTestError

_READY: Final = "ready"


class Guard:
    """The process, as a context. If it has ended itself, lines to it are dropped."""

    def __init__(self, refusal: str, module: str, *words: str) -> None:
        """It executes a module, which reads `guarded_lines`; `refusal` says that it can't."""
        self._refusal = refusal
        # Without -P, a user's file such as json.py would replace Python's own.
        self._command = [sys.executable, "-P", "-m", module, *words]

    def __enter__(self) -> Self:
        """Starts the process and waits until it is ready, so that it disturbs no measurement.

        Raises:
            SystemUnderTestError: it doesn't start.
        """
        # Its own session: signals that a terminal sends to kvmark's processes don't reach it.
        self.process = subprocess.Popen(  # noqa: S603 - the command is kvmark's
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        if self.process.stdout is None or self.process.stdout.readline().strip() != _READY:
            self.__exit__()
            raise SystemUnderTestError(self._refusal)
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the pipe and waits until the process has cleaned up."""
        self.process.communicate()

    def tell(self, line: str) -> None:
        """Passes a line to the process."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.write(f"{line}\n")
                self.process.stdin.flush()


def guarded_lines() -> Iterable[str]:
    """In the process: the lines from kvmark, which end with kvmark."""
    # Signals that end kvmark mustn't end this process before it has cleaned up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        # A killed parent doesn't wait for it.
        sys.stdout.write(f"{_READY}\n")
        sys.stdout.flush()
    return sys.stdin
