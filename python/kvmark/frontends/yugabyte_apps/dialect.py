"""Tables and statements of an application in the dialect of its server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import AppRequest
from kvmark.spec.owned_tables import TableRemoval, marked
from kvmark.spec.suggest import shown

KEYSPACE: Final = "ybdemo_keyspace"
PAIRS: Final = "CassandraTransactionalKeyValue"
INDEXED: Final = "CassandraSecondaryIndex"
_VIEW: Final = (
    "CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS SELECT k, v FROM {table}"
    " WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)"
)
_SECOND_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS {table} (k varchar, v varchar, PRIMARY KEY (v, k))"
)
_SECOND_INSERT: Final = "INSERT INTO TABLE (k, v) VALUES ({key}, {value})"
_ACCORD_SINCE: Final = 6
_YUGABYTE_TABLE: Final = "partitions"
"""A table of the keyspace `system` that only YugabyteDB has."""

Content = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server, as far as tables and transactions depend on it."""

    kind: Literal["cassandra", "yugabyte", "redis"]
    version: str = ""
    #: Whether it has transactions over several rows.
    has_transactions: bool = False


def server_of(version: str, system_tables: frozenset[str], *, accord: bool | None) -> Server:
    """The kind of a CQL server from its release version and the tables of its keyspace `system`.

    `accord` is True if its transactions are enabled, None if that couldn't be read.
    """
    if _YUGABYTE_TABLE in system_tables:
        return Server("yugabyte", version, has_transactions=True)
    major = re.match(r"\d+", version)
    has_accord = major is not None and int(major[0]) >= _ACCORD_SINCE
    return Server("cassandra", version, has_transactions=has_accord and accord is not False)


def adapt_tables(content: Content, request: AppRequest, server: Server) -> Content:
    """A workload's content with the requested tables, in the server's dialect.

    Raises:
        SpecError: a table's name is invalid, or the server lacks the kind of index.
    """
    app = request.app
    if app.store == "redis":
        return content
    table = _table_name(request)
    prepare = [text.replace(app.table, table) for text in content["prepare"]]
    statements = content["statements"]
    for statement in statements.values():
        run = statement["run"]
        texts = [
            text.replace(app.table, table) for text in ([run] if isinstance(run, str) else run)
        ]
        statement["run"] = texts[0] if isinstance(run, str) else texts
    if app.name == PAIRS and server.has_transactions:
        prepare = _add_transactions(prepare, statements, server)
        content["description"] = "Pairs of numbers with a known sum, written in one transaction."
    if app.name == INDEXED:
        prepare = _add_index(prepare, statements, f"{KEYSPACE}.{table}", request, server)
    seconds = request.whole("table_ttl_seconds")
    if seconds is not None:
        prepare = [_with_expiry(text, seconds) for text in prepare]
    if request.has("skip_ddl"):
        prepare = []
    return {**content, "prepare": [marked(text) if _created(text) else text for text in prepare]}


def removals(prepare: Sequence[str], request: AppRequest) -> tuple[TableRemoval, ...]:
    """The tables and views to drop or empty before these statements create them."""
    keeps = any(map(request.has, ("keep_table", "read_only", "max_written_key")))
    drops = not request.has("truncate")
    if drops and keeps:
        return ()
    created = [found for text in prepare if (found := _created(text))]
    # A view is dropped before its table. Only the application's own table is emptied.
    chosen = reversed(created) if drops else created[:1]
    return tuple(TableRemoval(name, drops, kind) for kind, name in chosen)


def server_notes(request: AppRequest, server: Server) -> tuple[str, ...]:
    """Notes for readers of the figures on how the server executes the application."""
    if request.app.name != PAIRS or server.has_transactions:
        return ()
    sentence = (
        f"{f'Cassandra {server.version}'.strip()} has no transactions over several rows: pairs are"
        " written in logged batches, which are atomic but not isolated. A reader may see half a"
        " pair."
    )
    return (sentence,)


def _table_name(request: AppRequest) -> str:
    name = request.text("create_table_name") or request.text("drop_table_name") or request.app.table
    if not re.fullmatch(r"[A-Za-z]\w{0,47}", name):
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    return name.lower()


def _creates_table(text: str) -> bool:
    return text.startswith("CREATE TABLE")


def _with_expiry(text: str, seconds: int) -> str:
    if not _creates_table(text):
        return text
    bare = re.sub(r" WITH default_time_to_live = \d+", "", text)
    return f"{bare} WITH default_time_to_live = {seconds}" if seconds > 0 else bare


def _with(text: str, option: str) -> str:
    return f"{text} {'AND' if ' WITH ' in text else 'WITH'} {option}"


def _created(text: str) -> tuple[Literal["TABLE", "MATERIALIZED VIEW"], str] | None:
    found = re.match(r"CREATE (TABLE|MATERIALIZED VIEW) IF NOT EXISTS\s+(\S+)", text)
    if found is None:
        return None
    return ("TABLE" if found[1] == "TABLE" else "MATERIALIZED VIEW"), found[2]


def _add_transactions(prepare: list[str], statements: Content, server: Server) -> list[str]:
    """Writes pairs in the server's transactions."""
    end, option = "COMMIT TRANSACTION", "transactional_mode = 'full'"
    if server.kind == "yugabyte":
        end, option = "END TRANSACTION", "transactions = {'enabled': true}"
    write, read = statements["WRITE"], statements["READ"]
    write["run"] = f"BEGIN TRANSACTION {'; '.join(write['run'])}; {end};"
    write.pop("options", None)
    if server.kind == "cassandra":
        # Accord reads the rows of a plain SELECT one by one: only a transaction sees them together.
        read["run"] = f"BEGIN TRANSACTION {read['run']}; {end};"
    return [_with(text, option) if _creates_table(text) else text for text in prepare]


def _add_index(
    prepare: list[str], statements: Content, table: str, request: AppRequest, server: Server
) -> list[str]:
    """Looks rows up by an index, a view or a second table."""
    kind = request.text("index") or "secondary"
    keyspace, create, index = prepare
    if server.kind == "yugabyte":
        if kind != "secondary":
            raise SpecError(f"--index: YugabyteDB has no {kind}; leave the flag out")
        if request.has("non_transactional_index"):
            weak = "transactions = {'enabled': false, 'consistency_level': 'user_enforced'}"
            return [keyspace, create, _with(index, weak)]
        return [keyspace, _with(create, "transactions = {'enabled': true}"), index]
    by_value = f"{table}byvalue"
    if kind in ("view", "table"):
        read = statements["READ"]
        read["run"] = read["run"].replace(f"{table} ", f"{by_value} ")
    if kind == "table":
        # A logged batch writes both tables or none.
        write = statements["WRITE"]
        second = _SECOND_INSERT.replace("TABLE", by_value)
        write |= {"run": [write["run"], second], "options": {"batch": "logged"}}
    creates_second = {
        "secondary": index,
        "sai": f"{index} USING 'sai'",
        "view": _VIEW.format(view=by_value, table=table),
        "table": _SECOND_TABLE.format(table=by_value),
    }
    return [keyspace, create, creates_second[kind]]
