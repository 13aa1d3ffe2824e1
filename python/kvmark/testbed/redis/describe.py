"""What a Redis testbed is: version and effective settings, and what its servers count."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.redis.client import Client, ReplyError
from kvmark.testbed.redis.health import connect
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Counted

__all__ = ["NetworkMeter", "describe", "fingerprint", "settings_of", "version_of"]

_SECRET: Final = re.compile(r"pass$|^masterauth$|^masteruser$")
# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = re.compile(
    r"(tls-|cluster-announce-(tls-|bus-)?|replica-announce-|slave-announce-|cluster-)?port"
    r"|(cluster-announce|replica-announce|slave-announce)-(ip|hostname)"
    r"|dir|pidfile|logfile|unixsocket|replicaof|slaveof|aclfile|.*-file|proc-title-template"
)
_ANSWERS_WITHIN_S: Final = 0.1


def version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    with connect(testbed, testbed.nodes[0]) as client:
        known = client.facts("INFO", "server")
    return known.get("valkey_version") or known.get("redis_version", "")


def settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server, without its secrets.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        with connect(testbed, node) as client:
            found = client.pairs("CONFIG", "GET", "*")
    except (OSError, ReplyError) as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    return {name: found[name] for name in sorted(found) if not _SECRET.search(name)}


def fingerprint(settings: Mapping[str, str]) -> str:
    """A hash of effective settings; where the server keeps things doesn't count."""
    counted = {name: value for name, value in settings.items() if not _PLACES.fullmatch(name)}
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, servers, the first one's settings and their fingerprint.

    Raises:
        SystemUnderTestError: the first server doesn't say its settings.
    """
    settings = settings_of(testbed, testbed.nodes[0])
    return {
        **testbed.described(),
        "fingerprint": fingerprint(settings),
        "settings": settings,
    }


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
            known = self._client.facts("INFO", "stats")
            return Counted(
                network_sent_bytes=int(known["total_net_output_bytes"]),
                network_received_bytes=int(known["total_net_input_bytes"]),
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
