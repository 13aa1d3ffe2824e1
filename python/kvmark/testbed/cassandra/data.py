"""Tables of a CQL cluster: existence, ownership, dropping and emptying.

A table that kvmark makes for an imitated tool has a mark in its comment, which doesn't affect
measurements. The table is kvmark's with all rows.
"""

from __future__ import annotations

from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval
from kvmark.testbed.cassandra.server import DRIVER
from kvmark.testbed.console import Console
from kvmark.testbed.system import DriverOptions, Tables

_TIMEOUT_MS = "600000"
"""Emptying a table takes a snapshot on each node."""


def tables(options: DriverOptions, password: Secret | None) -> Tables:
    """The tables of a cluster, through the first node of a URL."""
    console = Console(DRIVER, options, password)
    patient = Console(DRIVER, {**options, "connect_timeout_ms": _TIMEOUT_MS}, password)

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
