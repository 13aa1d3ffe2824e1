"""What a Redis testbed is: version and effective settings, and what its servers count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.console import Console, connect
from kvmark.testbed.redis.health import facts_in
from kvmark.testbed.servers import ANSWERS_WITHIN_S, NetworkMeter, fingerprint
from kvmark.testbed.state import Node, Testbed

__all__ = ["describe", "meter", "settings_of", "version_of"]

_SECRET: Final = re.compile(r"pass$|^masterauth$|^masteruser$")
# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = re.compile(
    r"(tls-|cluster-announce-(tls-|bus-)?|replica-announce-|slave-announce-|cluster-)?port"
    r"|(cluster-announce|replica-announce|slave-announce)-(ip|hostname)"
    r"|dir|pidfile|logfile|unixsocket|replicaof|slaveof|aclfile|.*-file|proc-title-template"
)


def version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    known = facts_in(connect(testbed, testbed.nodes[0]).ask("INFO", "server"))
    return known.get("valkey_version") or known.get("redis_version", "")


def settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server, without its secrets.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        told = connect(testbed, node).ask("CONFIG", "GET", "*")
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    found = dict(zip(told[::2], told[1::2], strict=True))
    return {name: found[name] for name in sorted(found) if not _SECRET.search(name)}


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, servers, the first one's settings and their fingerprint.

    Raises:
        SystemUnderTestError: the first server doesn't say its settings.
    """
    settings = settings_of(testbed, testbed.nodes[0])
    counted = {name: value for name, value in settings.items() if not _PLACES.fullmatch(name)}
    return {**testbed.described(), "fingerprint": fingerprint(counted), "settings": settings}


def meter(testbed: Testbed, node: Node) -> NetworkMeter:
    """Asks one server how many bytes its connections carried."""
    return NetworkMeter(connect(testbed, node, ANSWERS_WITHIN_S), _carried)


def _carried(console: Console) -> tuple[str, str]:
    known = facts_in(console.ask("INFO", "stats"))
    return known["total_net_output_bytes"], known["total_net_input_bytes"]
