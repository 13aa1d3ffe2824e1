"""What kind of CQL server is at an address: asked before anything is made on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.cassandra.health import DRIVER
from kvmark.testbed.console import Console

__all__ = ["CqlServer", "look_at"]

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
    console = _console(address, login, authority)
    try:
        (local,) = console.ask("SELECT release_version FROM system.local")
        tables = console.ask(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'"
        )
        accord = _accord(console)
    except (SystemUnderTestError, ValueError) as problem:
        raise SystemUnderTestError(f"{address} doesn't say what it is: {problem}") from problem
    names = frozenset(row["table_name"] for row in tables)
    return CqlServer(local["release_version"], names, accord)


def _console(address: str, login: tuple[str, str] | None, authority: Path | None) -> Console:
    options = {"address": address.rpartition("@")[2], "consistency": "one"}
    if authority is not None:
        options |= {"tls": "true", "ca_file": str(authority)}
    user, password = login or ("", None)
    secret = None if password is None else Secret(password)
    return Console(DRIVER, {"username": user, **options} if user else options, secret)


def _accord(console: Console) -> bool | None:
    for name in _SWITCHES:
        try:
            # The name is one of ours.
            query = "SELECT value FROM system_views.settings WHERE name = "
            rows = console.ask(f"{query}'{name}'")
        except SystemUnderTestError:
            # Not Cassandra, or one without these tables.
            return None
        if rows:
            return bool(rows[0]["value"] == "true")
    return None
