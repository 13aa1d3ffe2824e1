"""What a memcached testbed is: version and effective settings, and what its servers count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.console import Console, connect
from kvmark.testbed.memcached.health import told
from kvmark.testbed.servers import ANSWERS_WITHIN_S, NetworkMeter, fingerprint
from kvmark.testbed.state import Node, Testbed

__all__ = ["describe", "meter", "settings_of", "version_of"]

# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = frozenset(
    {
        *("tcpport", "udpport", "inter", "oldest", "auth_enabled_ascii"),
        *("ssl_chain_cert", "ssl_key", "ssl_ca_cert"),
    }
)


def version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    version: str = connect(testbed, testbed.nodes[0]).ask("version")
    return version.removeprefix("VERSION ")


def settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        found = told(connect(testbed, node), "settings")
    except SystemUnderTestError as problem:
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
    return {**testbed.described(), "fingerprint": fingerprint(counted), "settings": settings}


def meter(testbed: Testbed, node: Node) -> NetworkMeter:
    """Asks one server how many bytes its connections carried."""
    return NetworkMeter(connect(testbed, node, ANSWERS_WITHIN_S), _carried)


def _carried(console: Console) -> tuple[str, str]:
    known = told(console)
    return known["bytes_written"], known["bytes_read"]
