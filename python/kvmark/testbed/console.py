"""One server asked in its own words, by whoever sets it up or looks after it.

It is the engine's driver that asks, with the options of a URL: address, login and encryption mean
what they mean for a run.

Starting servers and asking after them has more in common, whichever system they are of: their
programs, the memory that they need together, and a fingerprint of what they count.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import psutil

from kvmark import _engine
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.interrupts import wait_for
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Counted

_PLACES = {"username", "password_env", "password_file"}
"""Options that say where a password is, and whose."""

ANSWERS_WITHIN_S: Final = 0.1
"""How long a server may take to say what it counted, so that no sample waits for it."""


class Console:
    """The server that a driver's options name first. The first question connects.

    Raises:
        UsageError: an option can't be used, or the password can't be read.
    """

    def __init__(
        self, driver: str, options: Mapping[str, str], password: Secret | None = None
    ) -> None:
        if password is not None:
            who = quote(options.get("username", ""), safe="")
            own = f"{who}:{quote(password.reveal(), safe='')}@{options['address']}"
            options = {**options, "address": own}
            options = {name: options[name] for name in options if name not in _PLACES}
        self._console = _engine.Console(driver, json.dumps(dict(options)))

    def ask(self, *words: str | int) -> Any:
        """The answer to a command or a statement: texts, numbers, lists, and rows by name.

        Raises:
            SystemUnderTestError: the server can't be reached, doesn't answer in time, or refuses.
            KeyboardInterrupt: the user has asked to stop.
        """
        asked = [str(word) for word in words]
        return json.loads(wait_for(lambda: self._console.ask(asked)))


def connect(testbed: Testbed, node: Node, timeout_s: float = 5.0, **options: str) -> Console:
    """One server of a testbed, reached as its URL says.

    Args:
        testbed: the testbed.
        node: the server.
        timeout_s: how long it may take to connect and to answer, each time.
        options: more options of the driver.

    Raises:
        SystemUnderTestError: an option of the testbed can't be used.
    """
    url = parse_system_url(testbed.url)
    own = {"address": node.address, "connect_timeout_ms": f"{timeout_s * 1000:.0f}", **options}
    try:
        return Console(url.driver, {**url.options, **own})
    except UsageError as problem:
        # The testbed's own options: its password's file is gone, say.
        raise SystemUnderTestError(str(problem)) from problem


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
