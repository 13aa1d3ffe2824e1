"""Nodes of a Cassandra testbed: health, the reason of a failure, version, settings and counters.

It also inspects CQL servers elsewhere, before tables are made on them, and their tables: existence,
ownership, dropping and emptying. A table that kvmark makes for an imitated tool has a mark in its
comment, which doesn't affect measurements. The table is kvmark's with all rows.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval
from kvmark.testbed import console
from kvmark.testbed.console import Console
from kvmark.testbed.process import is_readable, ran_out
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import NO_COUNTERS, Counters, DriverOptions, Meter, Tables

DRIVER: Final = "cql"
USER: Final = "cassandra"
"""The first user of a cluster with passwords."""

_ACCORD_SETTINGS: Final = ("accord.enabled", "accord_enabled")

_STARTS: Final = re.compile(r"CassandraDaemon\.java:\d+ - Hostname: ")
_REFUSED: Final = re.compile(
    r"^Exception \(\S+\.ConfigurationException\) encountered during startup: (.+)", re.MULTILINE
)
# Follows "Invalid yaml": the settings from the outermost to the innermost, and the cause.
_SETTING: Final = re.compile(r"Cannot create property=(\w+) for")
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.+)", re.MULTILINE)
# Reasons why a node ended, the most specific first.
_REASONS: Final = (
    re.compile(r"^Exception \((?:\w+\.)*\w+\) encountered during startup: (.+)"),
    re.compile(r"^(?:[\w$]+\.)*ConfigurationException: (.+)"),
    re.compile(r"^(Terminating due to java\.lang\.OutOfMemoryError.*)"),
    re.compile(r"^Caused by: (java\.net\.BindException.*)"),
    re.compile(r"^(?:Error|Invalid): (.+)|^(Error occurred during initialization of VM.*)"),
    re.compile(r"^(?:ERROR|FATAL) \[.*?\] \S+ \S+ \S+ - (.+)"),
    re.compile(r"^\s*(\S.*)"),
)
_LONGEST: Final = 300
_MOST_LOG_BYTES: Final = 4 * 2**20

_SECRET: Final = re.compile(r"password|secret", re.IGNORECASE)
# These differ between testbeds and don't affect measurements.
_PLACES: Final = re.compile(
    r"cluster_name|initial_token|seed_provider.*|.*_port|.*_(address|interface)"
    r"|.*director(y|ies)|.*(key|trust)store"
)

_EMPTYING_MS: Final = "600000"
"""Emptying a table takes a snapshot on each node."""
_METER_TIMEOUT_S: Final = 0.2
_GC_COUNT: Final = "jvm_gc_collection_seconds_count"
_GC_TIME: Final = "jvm_gc_collection_seconds_sum"
_CLIENTS: Final = "cassandra_client_bytes"
_INTERNODE_SENT: Final = "cassandra_internode_sent_bytes"
_INTERNODE_RECEIVED: Final = "cassandra_internode_received_bytes"
_METRICS: Final = (_GC_COUNT, _GC_TIME, _CLIENTS, _INTERNODE_SENT, _INTERNODE_RECEIVED)
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)


def connect(
    testbed: Testbed, node: Node, timeout_s: float = 5.0, consistency: str = "one"
) -> Console:
    """A node of a testbed; local tables are read at ONE."""
    return console.connect(testbed, node, timeout_s, consistency=consistency)


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node answers CQL.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait(testbed, node, lambda: _answers(testbed, node), "answer CQL", within_s)


def wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node knows all others, agrees with them on tables, and reads from all of them.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait_for_answer(testbed, node, within_s)
    wait(testbed, node, lambda: _knows_all(testbed, node), "know all nodes", within_s)
    wait(testbed, node, lambda: _reads_from_all(testbed, node), "read from all nodes", within_s)


def wait(
    testbed: Testbed, node: Node, condition: Callable[[], bool], purpose: str, within_s: float
) -> None:
    """Waits for a condition of a node; see `Testbed.wait_until`.

    Raises:
        SystemUnderTestError: the node ends, or the time is over; quotes its log.
    """
    try:
        testbed.wait_until(condition, purpose, within_s, node)
    except SystemUnderTestError as problem:
        name, log = f"{testbed.name}/{node.name}", testbed.log_of(node)
        if node.group is not None and not node.lives and ran_out(node.group):
            raise SystemUnderTestError(
                f"{name} was killed by the kernel, because it needs more memory than it may take:"
                " give more --memory, or lower --heap"
            ) from problem
        reason = reason_in(log)
        if reason is None:
            raise
        number, text = reason
        event = f"did not {purpose} within {within_s:g} s" if node.lives else "ended by itself"
        raise SystemUnderTestError(f"{name} {event}; line {number} of {log}: {text}") from problem


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the node answers, and not another program that has taken the port."""
    rows = connect(testbed, node).ask("SELECT cluster_name FROM system.local")
    return bool(rows == [{"cluster_name": testbed.facts["cluster_name"]}])


def _knows_all(testbed: Testbed, node: Node) -> bool:
    """Whether the node knows the address of every node, and all have the same tables."""
    client = connect(testbed, node)
    rows = client.ask("SELECT rpc_address, schema_version FROM system.local")
    rows += client.ask("SELECT rpc_address, schema_version FROM system.peers")
    addresses = {row["rpc_address"] for row in rows}
    schemas = {row["schema_version"] for row in rows}
    return addresses == {each.host for each in testbed.nodes} and len(schemas) == 1


def _reads_from_all(testbed: Testbed, node: Node) -> bool:
    """Whether a read through this node at consistency ALL succeeds."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    connect(testbed, node, consistency="all").ask(statement)
    return True


def reason_in(log: Path) -> tuple[int, str] | None:
    """Number and text of the line with the reason why a node ended, or of the last line.

    None for an empty log. Lines before the node's last start don't count.
    """
    lines = _lines(log)
    starts = (number for number, line in reversed(lines) if _STARTS.search(line))
    last_start = next(starts, 0)
    since = [(number, line) for number, line in reversed(lines) if number >= last_start]
    for reason in _REASONS:
        for number, line in since:
            if match := reason.search(line):
                return number, next(filter(None, match.groups()))[:_LONGEST]
    return None


def refusal(log: Path) -> str | None:
    """The setting that a node refused at its only start, if that is why it ended."""
    text = "\n".join(line for _, line in _lines(log))
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    names = ".".join(dict.fromkeys(_SETTING.findall(text)))
    causes = _CAUSE.findall(text)
    reason = f"{names}: {causes[-1]}" if names and causes else refused[1]
    return f"Cassandra refused a setting: {reason[:_LONGEST]}"


def _lines(log: Path) -> list[tuple[int, str]]:
    """The lines of a log with their numbers; only the end of a very long log."""
    with suppress(OSError), log.open("rb") as file:
        skipped = max(0, log.stat().st_size - _MOST_LOG_BYTES)
        before = file.read(skipped).count(b"\n")
        text = file.read().decode(errors="replace")
        return list(enumerate(text.splitlines(), before + 1))
    return []


def look_at(
    address: str, login: tuple[str, str] | None = None, authority: Path | None = None
) -> tuple[str, frozenset[str], bool | None]:
    """Inspects the first node of an address, whose cluster anyone may have started.

    Returns:
        The version, the tables of the keyspace `system`, and whether transactions are enabled; None
        if unknown.

    Raises:
        SystemUnderTestError: it doesn't answer.
    """
    options = {"address": address.rpartition("@")[2], "consistency": "one"}
    if authority is not None:
        options |= {"tls": "true", "ca_file": str(authority)}
    if login is not None and login[0]:
        options["username"] = login[0]
    client = Console(DRIVER, options, None if login is None else Secret(login[1]))
    try:
        (local,) = client.ask("SELECT release_version FROM system.local")
        tables = client.ask(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'"
        )
        accord = _accord(client)
    except (SystemUnderTestError, ValueError) as problem:
        raise SystemUnderTestError(f"{address} doesn't report its version: {problem}") from problem
    names = frozenset(row["table_name"] for row in tables)
    return local["release_version"], names, accord


def _accord(client: Console) -> bool | None:
    for name in _ACCORD_SETTINGS:
        try:
            query = "SELECT value FROM system_views.settings WHERE name = "
            rows = client.ask(f"{query}'{name}'")
        except SystemUnderTestError:
            # Not Cassandra, or one without these tables.
            return None
        if rows:
            return bool(rows[0]["value"] == "true")
    return None


def tables(options: DriverOptions, password: Secret | None) -> Tables:
    """The tables of a cluster, through the first node of a URL."""
    console = Console(DRIVER, options, password)
    patient = Console(DRIVER, {**options, "connect_timeout_ms": _EMPTYING_MS}, password)

    def comment(removal: TableRemoval) -> str | None:
        keyspace, table = _parts(removal, "'")
        of = "tables" if removal.kind == "TABLE" else "views"
        named = f"keyspace_name = '{keyspace}' AND {of[:-1]}_name = '{table}'"
        rows = console.ask(f"SELECT comment FROM system_schema.{of} WHERE {named}")  # noqa: S608
        return str(rows[0]["comment"] or "") if rows else None

    def remove(removal: TableRemoval) -> None:
        keyspace, table = _parts(removal, '"')
        statement = f"DROP {removal.kind} IF EXISTS" if removal.drops else "TRUNCATE"
        patient.ask(f'{statement} "{keyspace}"."{table}"')

    return Tables(comment, remove)


def _parts(removal: TableRemoval, quote: str) -> tuple[str, str]:
    """Keyspace and table, escaped for these quotation marks."""
    keyspace, _, table = removal.name.replace(quote, 2 * quote).partition(".")
    return keyspace, table


def version_of(testbed: Testbed) -> str:
    """The version of its first node."""
    statement = "SELECT release_version FROM system.local"
    (local,) = connect(testbed, testbed.nodes[0]).ask(statement)
    return str(local["release_version"])


def fingerprint(
    settings: Mapping[str, str | None], heap_bytes: int, memory_bytes: int | None = None
) -> str:
    """A hash of effective settings, heap and memory, without places."""
    counted = {name: value for name, value in settings.items() if not _PLACES.fullmatch(name)}
    values: dict[str, Any] = {"heap_bytes": heap_bytes, "settings": counted}
    if memory_bytes is not None:
        values["memory_bytes"] = memory_bytes
    return console.fingerprint(values)


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """Version, nodes, the first living one's settings and their fingerprint, for a manifest.

    The other nodes' settings differ only in places.

    Raises:
        SystemUnderTestError: the node doesn't return its settings.
    """
    node = next((each for each in testbed.nodes if each.lives), testbed.nodes[0])
    settings = console.settings_of(testbed, node, _settings, consistency="one")
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


def _settings(client: Console) -> dict[str, str | None]:
    rows = client.ask("SELECT name, value FROM system_views.settings")
    return {row["name"]: row["value"] for row in rows if not _SECRET.search(row["name"])}


def counted(text: str) -> Counters:
    """The counters in an exporter's text; None for missing ones."""
    sums: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        direction = "Sent" if "Sent" in labels else "Received"
        key = f"{name} {direction}" if name == _CLIENTS else name
        sums[key] = sums.get(key, 0.0) + float(value)

    def total(*names: str) -> int | None:
        values = [sums[name] for name in names if name in sums]
        return int(sum(values)) if values else None

    return {
        "network_sent_bytes": total(f"{_CLIENTS} Sent", _INTERNODE_SENT),
        "network_received_bytes": total(f"{_CLIENTS} Received", _INTERNODE_RECEIVED),
        "gc_count": total(_GC_COUNT),
        "gc_time_s": sums.get(_GC_TIME),
    }


class ExporterMeter(Meter):
    """Reads network bytes and garbage collections from one node's exporter."""

    def __init__(self, testbed: Testbed, node: Node) -> None:
        self._connection = http.client.HTTPConnection(
            node.host, int(testbed.facts["exporter_port"]), timeout=_METER_TIMEOUT_S
        )
        names = "&".join(f"name[]={quote(name)}" for name in _METRICS)
        self._path = f"/metrics?{names}"
        self._late = False

    def read(self) -> Counters:
        """The counters; none without an answer within a fifth of a second.

        A late answer is read the next time and discarded: closing the connection would put a page
        of errors into the node's log.
        """
        try:
            if self._late:
                if not is_readable(self._connection.sock.fileno(), 0.0):
                    return NO_COUNTERS
                self._connection.getresponse().read()
            self._connection.request("GET", self._path)
            self._late = not is_readable(self._connection.sock.fileno(), _METER_TIMEOUT_S)
            if self._late:
                return NO_COUNTERS
            return counted(self._connection.getresponse().read().decode(errors="replace"))
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return NO_COUNTERS

    def close(self) -> None:
        """Closes the connection to the exporter."""
        self._connection.close()
        self._late = False
