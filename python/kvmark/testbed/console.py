"""Sends commands to one server, through the engine's driver and with the options of a URL.

Address, login and encryption mean the same as in a run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from kvmark import _engine
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.interrupts import wait_for
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import NO_COUNTERS, Counters, DriverOptions, Meter

_LOGIN: Final = {"username", "password_env", "password_file"}
"""Options that name a user, or where the password is."""

_TIMEOUT_S: Final = 5.0
_METER_TIMEOUT_S: Final = 0.1
"""Short, so that no sample waits for a server."""

CANNOT_EMPTY: Final = "can't be emptied (--on-existing keep loads over its records)"
CANNOT_MARK: Final = "can't be marked as kvmark's own (--on-existing keep loads without a mark)"


class Console:
    """The server that a driver's options name first. The first command connects.

    Raises:
        UsageError: an option can't be used, or the password can't be read.
    """

    def __init__(self, driver: str, options: DriverOptions, password: Secret | None = None) -> None:
        if password is not None:
            user = quote(options.get("username", ""), safe="")
            login = f"{user}:{quote(password.reveal(), safe='')}@{options['address']}"
            options = {**options, "address": login}
            options = {name: options[name] for name in options if name not in _LOGIN}
        self._console = _engine.Console(driver, json.dumps(dict(options)))

    def ask(self, *command: str | int) -> Any:
        """The reply to a command or a statement: texts, numbers, lists, and rows by name.

        Raises:
            SystemUnderTestError: the server can't be reached, doesn't answer in time, or refuses.
            KeyboardInterrupt: the user has asked to stop.
        """
        words = [str(word) for word in command]
        return json.loads(wait_for(lambda: self._console.ask(words)))


def connect(testbed: Testbed, node: Node, timeout_s: float = _TIMEOUT_S, **options: str) -> Console:
    """One server of a testbed, with the options of the testbed's URL.

    Args:
        testbed: the testbed.
        node: the server.
        timeout_s: the limit for connecting and for each reply.
        options: further options of the driver.

    Raises:
        SystemUnderTestError: an option of the testbed can't be used.
    """
    url = parse_system_url(testbed.url)
    own = {"address": node.address, "connect_timeout_ms": f"{timeout_s * 1000:.0f}", **options}
    try:
        return Console(url.driver, {**url.options, **own})
    except UsageError as problem:
        # The testbed's own options: for example, the password's file is missing.
        raise SystemUnderTestError(str(problem)) from problem


@contextmanager
def naming_server(address: str, failure: str) -> Iterator[None]:
    """Adds the server's address and the failure to errors.

    Raises:
        SystemUnderTestError: what failed within.
    """
    try:
        yield
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(f"the server at {address} {failure}: {problem}") from problem


def settings_of(
    testbed: Testbed, node: Node, read: Callable[[Console], Mapping[str, Any]], **options: str
) -> dict[str, Any]:
    """The effective settings of a server, by name; `options` are for the connection.

    Raises:
        SystemUnderTestError: the server doesn't return them.
    """
    try:
        settings = read(connect(testbed, node, _TIMEOUT_S, **options))
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't return its settings: {problem}"
        ) from problem
    return {name: settings[name] for name in sorted(settings)}


def fingerprint(values: Mapping[str, object]) -> str:
    """A hash of a configuration."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def describe(
    testbed: Testbed, read: Callable[[Console], Mapping[str, Any]], places: re.Pattern[str]
) -> Mapping[str, Any]:
    """Version, servers, the first one's settings and their fingerprint, for a manifest.

    Settings that match `places` differ between testbeds and don't affect measurements.

    Raises:
        SystemUnderTestError: the first server doesn't return its settings.
    """
    settings = settings_of(testbed, testbed.nodes[0], read)
    counted = {name: value for name, value in settings.items() if not places.fullmatch(name)}
    return {**testbed.described(), "fingerprint": fingerprint(counted), "settings": settings}


class NetworkMeter(Meter):
    """Reads the bytes that a server's connections carried, over one connection.

    `carried` asks for the bytes sent and received.
    """

    def __init__(
        self, testbed: Testbed, node: Node, carried: Callable[[Console], tuple[str, str]]
    ) -> None:
        self._console = connect(testbed, node, _METER_TIMEOUT_S)
        self._carried = carried

    def read(self) -> Counters:
        """Bytes sent and received; None when the server doesn't answer in time."""
        try:
            sent, received = map(int, self._carried(self._console))
        except (SystemUnderTestError, KeyError, ValueError):
            return NO_COUNTERS
        return NO_COUNTERS | {"network_sent_bytes": sent, "network_received_bytes": received}
