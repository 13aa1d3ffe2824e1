"""What a Cassandra testbed is: version and effective settings, and what its nodes count."""

from __future__ import annotations

import http.client
import re
import select
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from kvmark.errors import SystemUnderTestError
from kvmark.testbed import console
from kvmark.testbed.cassandra.health import connect
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Counted

_SECRET: Final = re.compile(r"password|secret", re.IGNORECASE)
# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = re.compile(
    r"cluster_name|initial_token|seed_provider.*|.*_port|.*_(address|interface)"
    r"|.*director(y|ies)|.*(key|trust)store"
)
_ANSWERS_WITHIN_S: Final = 0.2

_GC_COUNT: Final = "jvm_gc_collection_seconds_count"
_GC_TIME: Final = "jvm_gc_collection_seconds_sum"
_CLIENTS: Final = "cassandra_client_bytes"
_INTERNODE_SENT: Final = "cassandra_internode_sent_bytes"
_INTERNODE_RECEIVED: Final = "cassandra_internode_received_bytes"
_ASKED: Final = (_GC_COUNT, _GC_TIME, _CLIENTS, _INTERNODE_SENT, _INTERNODE_RECEIVED)
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)


def version_of(testbed: Testbed) -> str:
    """The version its first node says it has."""
    statement = "SELECT release_version FROM system.local"
    (local,) = connect(testbed, testbed.nodes[0]).ask(statement)
    return str(local["release_version"])


def settings_of(testbed: Testbed, node: Node) -> dict[str, str | None]:
    """The effective settings of a node, without its secrets.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        rows = connect(testbed, node).ask("SELECT name, value FROM system_views.settings")
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    found = {row["name"]: row["value"] for row in rows}
    return {name: found[name] for name in sorted(found) if not _SECRET.search(name)}


def fingerprint(
    settings: Mapping[str, str | None], heap_bytes: int, memory_bytes: int | None = None
) -> str:
    """A hash of effective settings, heap and memory; where the nodes are doesn't count."""
    counted = {name: value for name, value in settings.items() if not _PLACES.fullmatch(name)}
    known: dict[str, Any] = {"heap_bytes": heap_bytes, "settings": counted}
    if memory_bytes is not None:
        known["memory_bytes"] = memory_bytes
    return console.fingerprint(known)


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, nodes, one's settings, and their fingerprint.

    The settings are those of the first node that is there; the others differ in places only.

    Raises:
        SystemUnderTestError: the node doesn't say its settings.
    """
    asked = next((node for node in testbed.nodes if node.lives), testbed.nodes[0])
    settings = settings_of(testbed, asked)
    heap_bytes = int(testbed.facts["heap_bytes"])
    memory_bytes: int | None = testbed.facts.get("memory_bytes")
    return {
        **testbed.described(),
        "java": testbed.facts["java"],
        "heap_bytes": heap_bytes,
        "memory_bytes": memory_bytes,
        "fingerprint": fingerprint(settings, heap_bytes, memory_bytes),
        "settings": settings,
    }


def counted(text: str) -> Counted:
    """What the exporter of one node shows, as counters; None where it shows nothing."""
    sums: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        key = f"{name} {_direction(labels)}" if name == _CLIENTS else name
        sums[key] = sums.get(key, 0.0) + float(value)
    count, time_s = sums.get(_GC_COUNT), sums.get(_GC_TIME)
    return Counted(
        network_sent_bytes=_total(sums, f"{_CLIENTS} Sent", _INTERNODE_SENT),
        network_received_bytes=_total(sums, f"{_CLIENTS} Received", _INTERNODE_RECEIVED),
        gc_count=None if count is None else int(count),
        gc_time_s=time_s,
    )


class ExporterMeter:
    """Asks one node's exporter what its connections carried and what collecting garbage took."""

    def __init__(self, testbed: Testbed, node: Node) -> None:
        self._connection = http.client.HTTPConnection(
            node.host, int(testbed.facts["exporter_port"]), timeout=_ANSWERS_WITHIN_S
        )
        names = "&".join(f"name[]={quote(name)}" for name in _ASKED)
        self._path = f"/metrics?{names}"
        self._late = False

    def look(self) -> Counted:
        """The counters; None in place of all when it doesn't answer within a fifth of a second.

        A late answer is waited for the next time, and not used: leaving the exporter alone with it
        would put a page of complaints into the node's log.
        """
        try:
            if self._late:
                if not self._answered(0.0):
                    return Counted()
                self._connection.getresponse().read()
            self._connection.request("GET", self._path)
            self._late = not self._answered(_ANSWERS_WITHIN_S)
            if self._late:
                return Counted()
            return counted(self._connection.getresponse().read().decode(errors="replace"))
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return Counted()

    def close(self) -> None:
        """Lets go of the exporter."""
        self._connection.close()
        self._late = False

    def _answered(self, within_s: float) -> bool:
        """Whether something of an answer is there, or comes in time."""
        waiting = select.poll()
        waiting.register(self._connection.sock, select.POLLIN)
        return bool(waiting.poll(within_s * 1000))


def _direction(labels: str) -> str:
    return "Sent" if "Sent" in labels else "Received"


def _total(sums: Mapping[str, float], *names: str) -> int | None:
    known: Iterable[float] = [sums[name] for name in names if name in sums]
    return int(sum(known)) if known else None
