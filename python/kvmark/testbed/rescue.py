"""Sets servers free that were broken on purpose, when whoever broke them is killed before.

A process of its own is told of each server before it is broken and when it is back. It ends with
the process that told it: the kernel closes the pipe between them, however that one ends. What isn't
back by then is brought back.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from kvmark.errors import KvmarkError, SystemUnderTestError
from kvmark.testbed import control
from kvmark.testbed.network import Disturbance
from kvmark.testbed.state import Testbed

_READY: Final = "ready"
_DEAF_TO: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends its parent in order must not end it before the servers are back."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A server, and what has to be undone."""

    node: str
    how: Literal["paused", "down", "disturbed", "promoted"]
    disturbance: Disturbance | None = None


class Rescue:
    """The process that knows what is broken, as a context.

    Where it is gone itself, nothing is told any more: what breaks servers brings them back too.
    """

    def __init__(self, folder: Path) -> None:
        """For the testbed of a folder."""
        # Without -P a file of the user's, such as json.py, would be taken for Python's own.
        self._command = [sys.executable, "-P", "-m", __name__, str(folder)]

    def __enter__(self) -> Self:
        """Starts it, and waits until it listens, so that its start disturbs no measurement.

        Raises:
            SystemUnderTestError: it doesn't start.
        """
        # A session of its own: what a terminal sends to all its processes isn't for this one.
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        if self._process.stdout is None or self._process.stdout.readline().strip() != _READY:
            self.__exit__()
            raise SystemUnderTestError(
                "the process that sets servers free when kvmark is killed doesn't start: nothing"
                " is broken without it"
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Lets it end, and waits until it has brought back what isn't back yet."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()

    def breaks(self, broken: Broken) -> None:
        """Tells it of a server that is broken next."""
        self._tell(broken, is_back=False)

    def is_back(self, broken: Broken) -> None:
        """Tells it of a server that is as it was."""
        self._tell(broken, is_back=True)

    def _tell(self, broken: Broken, *, is_back: bool) -> None:
        if self._process.stdin is None:
            return
        with suppress(BrokenPipeError):
            self._process.stdin.write(self.line(broken, is_back=is_back) + "\n")
            self._process.stdin.flush()

    @staticmethod
    def line(broken: Broken, *, is_back: bool) -> str:
        """What it is told, as it stands in the pipe."""
        return json.dumps({"broken": asdict(broken), "is_back": is_back})

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def goes(self) -> bool:
        """Whether it is there to be told."""
        return self._process.poll() is None


def main(folder: Path, told: Iterable[str]) -> None:
    """Brings back what isn't back when nothing more is told; promotions end last.

    What can't be brought back is left as it is: nobody is there any more to hear of it.
    """
    broken: list[Broken] = []
    for line in told:
        heard = json.loads(line)
        one = _read(heard["broken"])
        broken = [other for other in broken if other != one]
        if not heard["is_back"]:
            broken.append(one)
    for one in sorted(broken, key=lambda one: one.how == "promoted"):
        with suppress(KvmarkError, OSError):
            _bring_back(Testbed.read(folder), one)


def _bring_back(testbed: Testbed, broken: Broken) -> None:
    """Undoes it, whether or not it was done when the one who told was killed."""
    match broken.how:
        case "paused":
            control.resume_node(testbed, broken.node)
        case "down":
            if not testbed.node(broken.node).lives:
                control.restart_node(testbed, broken.node)
        case "disturbed":
            if broken.disturbance is not None:
                control.heal_link(testbed, broken.node, broken.disturbance)
        case "promoted":
            control.promotion_of(testbed).end(testbed, broken.node)


def _read(written: dict[str, Any]) -> Broken:
    link = written["disturbance"]
    if link is None:
        return Broken(written["node"], written["how"])
    disturbance = Disturbance(**{**link, "towards": tuple(link["towards"])})
    return Broken(written["node"], written["how"], disturbance)


if __name__ == "__main__":
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    main(Path(sys.argv[1]), sys.stdin)
