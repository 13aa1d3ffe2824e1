"""One server asked in its own words, by whoever sets it up or looks after it.

It is the engine's driver that asks, with the options of a URL: address, login and encryption mean
what they mean for a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kvmark import _engine
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.interrupts import wait_for
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed.state import Node, Testbed

__all__ = ["Console", "connect"]

_PLACES = {"username", "password_env", "password_file"}
"""Options that say where a password is, and whose."""


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
