"""Tables of a CQL cluster: whether they exist, whether kvmark made them, dropping and emptying.

A table that kvmark makes for an imitated tool says so in its comment, which changes nothing that is
measured. The marks of records within tables have no place here: a table is kvmark's with all rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvmark.secret import Secret
from kvmark.spec.owned_tables import TABLE_MARK, TableRemoval
from kvmark.testbed.cassandra.health import DRIVER
from kvmark.testbed.console import Console

_PATIENCE_MS = "600000"
"""Emptying a table takes a snapshot on each node."""


class CqlTables:
    """Tables, asked after on the first node of a URL."""

    def __init__(self, options: Mapping[str, str], password: Secret | None) -> None:
        self._console = Console(DRIVER, options, password)
        # A node that has answered is waited for.
        patient = {**options, "connect_timeout_ms": _PATIENCE_MS}
        self._removing = Console(DRIVER, patient, password)

    def exists(self, removal: TableRemoval) -> bool:
        """Whether it is there."""
        return self._comment(removal) is not None

    def is_own(self, removal: TableRemoval) -> bool:
        """Whether its comment bears kvmark's mark."""
        return TABLE_MARK in (self._comment(removal) or "")

    def remove(self, removal: TableRemoval) -> None:
        """Drops or empties it."""
        keyspace, table = _parts(removal, '"')
        name = f'"{keyspace}"."{table}"'
        does = f"DROP {removal.kind} IF EXISTS" if removal.drops else "TRUNCATE"
        self._removing.ask(f"{does} {name}")

    def _comment(self, removal: TableRemoval) -> str | None:
        """The comment of a table or view; None where there is none of that name."""
        keyspace, table = _parts(removal, "'")
        of = "tables" if removal.kind == "TABLE" else "views"
        named = f"keyspace_name = '{keyspace}' AND {of[:-1]}_name = '{table}'"
        query = f"SELECT comment FROM system_schema.{of} WHERE {named}"  # noqa: S608
        rows = self._console.ask(query)
        return str(rows[0]["comment"] or "") if rows else None


def _parts(removal: TableRemoval, quote: str) -> tuple[str, str]:
    """Keyspace and table, to stand between such quotes."""
    keyspace, _, table = removal.name.replace(quote, 2 * quote).partition(".")
    return keyspace, table
