"""What a memcached testbed is: version and effective settings, and what its servers count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.memcached.client import Client, ReplyError
from kvmark.testbed.memcached.health import connect
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Counted

__all__ = ["NetworkMeter", "describe", "settings_of", "version_of"]

# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = frozenset(
    {
        *("tcpport", "udpport", "inter", "oldest", "auth_enabled_ascii"),
        *("ssl_chain_cert", "ssl_key", "ssl_ca_cert"),
    }
)
_ANSWERS_WITHIN_S: Final = 0.1


def version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    with connect(testbed, testbed.nodes[0]) as client:
        return client.line("version").removeprefix("VERSION ")


def settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        with connect(testbed, node) as client:
            found = client.told("stats settings")
    except (OSError, ReplyError, ValueError) as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    return {name: found[name] for name in sorted(found)}


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, servers, the first one's settings and their fingerprint.

    Raises:
        SystemUnderTestError: the first server doesn't say its settings.
    """
    settings = settings_of(testbed, testbed.nodes[0])
    counted = {name: value for name, value in settings.items() if name not in _PLACES}
    fingerprint = hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()
    return {**testbed.described(), "fingerprint": fingerprint, "settings": settings}


class NetworkMeter:
    """Asks one server how many bytes its connections carried."""

    def __init__(self, testbed: Testbed, node: Node) -> None:
        self._testbed = testbed
        self._node = node
        self._client: Client | None = None

    def look(self) -> Counted:
        """Bytes sent and received; None when it doesn't answer within a tenth of a second."""
        try:
            if self._client is None:
                self._client = connect(self._testbed, self._node, _ANSWERS_WITHIN_S)
            told = self._client.told("stats")
            return Counted(
                network_sent_bytes=int(told["bytes_written"]),
                network_received_bytes=int(told["bytes_read"]),
            )
        except (OSError, ReplyError, KeyError, ValueError):
            # A late reply would be taken for the next one's: the connection is of no use any more.
            self.close()
            return Counted()

    def close(self) -> None:
        """Lets go of the server."""
        if self._client is not None:
            self._client.close()
            self._client = None
