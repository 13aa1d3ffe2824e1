"""What kind of CQL server is at an address: asked before anything is made on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.cassandra.client import Client, ReplyError

__all__ = ["CqlServer", "look_at", "send"]

_PORT = 9042
_SWITCHES = ("accord.enabled", "accord_enabled")


@dataclass(frozen=True, slots=True)
class CqlServer:
    """What a server says of itself."""

    version: str
    #: The tables of its keyspace `system`.
    system_tables: frozenset[str]
    #: Whether its transactions are switched on; None where it doesn't say.
    accord: bool | None


def look_at(
    address: str, login: tuple[str, str] | None = None, authority: Path | None = None
) -> CqlServer:
    """Asks the first node of an address.

    Raises:
        SystemUnderTestError: it doesn't answer.
    """
    try:
        with _client(address, login, authority) as client:
            (local,) = client.ask("SELECT release_version FROM system.local")
            tables = client.ask(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'"
            )
            accord = _accord(client)
    except (OSError, ReplyError, ValueError) as problem:
        raise SystemUnderTestError(f"{address} doesn't say what it is: {problem}") from problem
    names = frozenset(str(row["table_name"]) for row in tables)
    return CqlServer(str(local["release_version"]), names, accord)


def send(
    address: str,
    statements: Sequence[str],
    login: tuple[str, str] | None = None,
    authority: Path | None = None,
) -> None:
    """Sends statements to the first node of an address, in order.

    Raises:
        SystemUnderTestError: it doesn't answer, or refuses one.
    """
    try:
        with _client(address, login, authority) as client:
            for statement in statements:
                client.ask(statement)
    except (OSError, ReplyError) as problem:
        raise SystemUnderTestError(f"{address} refused: {problem}") from problem


def _client(address: str, login: tuple[str, str] | None, authority: Path | None) -> Client:
    first = address.rpartition("@")[2].partition("/")[0].partition(",")[0]
    host, colon, port = first.rpartition(":")
    host, port = (host, port) if colon else (first, str(_PORT))
    return Client(host, int(port), login=login, authority=authority)


def _accord(client: Client) -> bool | None:
    for name in _SWITCHES:
        try:
            # The name is one of ours.
            query = "SELECT value FROM system_views.settings WHERE name = "
            rows = client.ask(f"{query}'{name}'")
        except ReplyError:
            # Not Cassandra, or one without these tables.
            return None
        if rows:
            return rows[0]["value"] == "true"
    return None
