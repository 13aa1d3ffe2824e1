"""What starting servers and asking after them has in common, whichever system they are of."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from typing import Final

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.console import Console
from kvmark.testbed.system import Counted

__all__ = [
    "ANSWERS_WITHIN_S",
    "NetworkMeter",
    "check_memory",
    "find_server",
    "fingerprint",
]

ANSWERS_WITHIN_S: Final = 0.1
"""How long a server may take to say what it counted, so that no sample waits for it."""


def find_server(program: str, package: str) -> str:
    """The path of a server's program.

    Raises:
        UsageError: it isn't there.
    """
    found = shutil.which(program)
    if found is None:
        raise UsageError(
            f"{program} is missing: install it with `sudo apt-get install {package}`, or name"
            " another program with --server"
        )
    return found


def check_memory(servers: int, each_bytes: int, advice: str) -> None:
    """Refuses servers for which memory is too short.

    Raises:
        UsageError: they may need more than is available.
    """
    available = psutil.virtual_memory().available
    if servers * each_bytes > available:
        count = "1 server" if servers == 1 else f"{servers} servers"
        raise UsageError(
            f"{count} of {each_bytes / 2**20:.0f} MiB need more memory than the"
            f" {available / 2**20:.0f} MiB that are available: {advice}"
        )


def fingerprint(counted: Mapping[str, object]) -> str:
    """A hash of what tells one configuration from another."""
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


class NetworkMeter:
    """Asks one server how many bytes its connections carried, on a connection that is kept."""

    def __init__(self, console: Console, carried: Callable[[Console], tuple[str, str]]) -> None:
        """With what asks for the bytes sent and received."""
        self._console = console
        self._carried = carried

    def look(self) -> Counted:
        """Bytes sent and received; None when it doesn't answer in time."""
        try:
            sent, received = map(int, self._carried(self._console))
        except (SystemUnderTestError, KeyError, ValueError):
            return Counted()
        return Counted(network_sent_bytes=sent, network_received_bytes=received)

    def close(self) -> None:
        """Has nothing to let go of: the connection ends with this object."""
