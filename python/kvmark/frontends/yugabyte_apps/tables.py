"""An application's tables and statements in the words of the server at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.servers import Server
from kvmark.frontends.yugabyte_apps.words import Asked
from kvmark.spec.owned_tables import TableRemoval, marked
from kvmark.spec.suggest import did_you_mean, shown

KEYSPACE: Final = "ybdemo_keyspace"
INDEXES: Final = ("secondary", "sai", "view", "table")
"""How rows are found by value: CREATE INDEX, a storage-attached one, a view, a second table."""
_TRANSACTIONAL: Final = "CassandraTransactionalKeyValue"
_INDEXED: Final = "CassandraSecondaryIndex"
_VIEW: Final = (
    "CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS SELECT k, v FROM {table}"
    " WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)"
)
_SECOND_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS {table} (k varchar, v varchar, PRIMARY KEY (v, k))"
)
_SECOND_INSERT: Final = "INSERT INTO TABLE (k, v) VALUES ({key}, {value})"
_NAME: Final = re.compile(r"[A-Za-z]\w{0,47}")

Content = dict[str, Any]
_Kind = Literal["TABLE", "MATERIALIZED VIEW"]


def say_tables(content: Content, asked: Asked, server: Server) -> Content:
    """A workload's content with the tables that were asked for, as the server has them.

    Raises:
        SpecError: a table's name or kind of index isn't one.
    """
    app = asked.app
    if app is None or app.table is None:
        return content
    table = _table(asked, app.table)
    prepare = [_named(text, app.table, table) for text in content["prepare"]]
    statements = {
        name: {**one, "run": _each(one["run"], lambda text: _named(text, app.table or "", table))}
        for name, one in content["statements"].items()
    }
    content = {**content, "prepare": prepare, "statements": statements}
    if app.name == _TRANSACTIONAL:
        content = _transactional(content, server)
    if app.name == _INDEXED:
        content = _indexed(content, table, asked, server)
    ttl = asked.whole("table_ttl_seconds")
    if ttl is not None:
        content = {**content, "prepare": [_expiring(text, ttl) for text in content["prepare"]]}
    return {**content, "prepare": _managed(content["prepare"], asked)}


def removals(prepare: Sequence[str], asked: Asked) -> tuple[TableRemoval, ...]:
    """The tables and views that are dropped or emptied before these statements make them."""
    keeps = asked.has("keep_table") or asked.has("read_only") or asked.has("max_written_key")
    drops = not asked.has("truncate")
    if drops and keeps:
        return ()
    made = [one for text in prepare if (one := _made_by(text))]
    # A view is dropped before its table. Emptied is the application's own table alone.
    chosen = reversed(made) if drops else made[:1]
    return tuple(TableRemoval(name, drops, kind) for kind, name in chosen)


def notes(asked: Asked, server: Server) -> tuple[str, ...]:
    """What a reader of the figures must know about how the server did it."""
    if asked.app is None or asked.app.name != _TRANSACTIONAL or server.has_transactions:
        return ()
    named = f"Cassandra {server.version}".strip()
    sentence = (
        f"{named} has no transactions over several rows: the pair is written in a logged batch,"
        " which is done as a whole but isn't isolated, so that a reader may see half of it."
    )
    return (sentence,)


def _table(asked: Asked, default: str) -> str:
    name = asked.text("create_table_name") or asked.text("drop_table_name") or default
    if not _NAME.fullmatch(name):
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    return name.lower()


def _named(text: str, default: str, table: str) -> str:
    return text.replace(default, table)


def _each(run: Any, change: Any) -> Any:
    return change(run) if isinstance(run, str) else [change(text) for text in run]


def _creates_table(text: str) -> bool:
    return text.startswith("CREATE TABLE")


def _expiring(text: str, seconds: int) -> str:
    if not _creates_table(text):
        return text
    bare = re.sub(r" WITH default_time_to_live = \d+", "", text)
    return f"{bare} WITH default_time_to_live = {seconds}" if seconds > 0 else bare


def _with(text: str, option: str) -> str:
    return f"{text} {'AND' if ' WITH ' in text else 'WITH'} {option}"


def _managed(prepare: list[str], asked: Asked) -> list[str]:
    """What is sent first: the keyspace, then the tables, which bear kvmark's mark."""
    if asked.has("skip_ddl"):
        return []
    return [marked(text) if _made_by(text) else text for text in prepare]


def _made_by(text: str) -> tuple[_Kind, str] | None:
    found = re.match(r"CREATE (TABLE|MATERIALIZED VIEW) IF NOT EXISTS\s+(\S+)", text)
    if found is None:
        return None
    return ("TABLE" if found[1] == "TABLE" else "MATERIALIZED VIEW"), found[2]


def _transactional(content: Content, server: Server) -> Content:
    """Two rows as one: the server's own transaction where it has any."""
    if not server.has_transactions:
        return content
    write = content["statements"]["WRITE"]
    inserts = "; ".join(write["run"])
    begin, end = "BEGIN TRANSACTION", "COMMIT TRANSACTION"
    option = "transactional_mode = 'full'"
    if server.kind == "yugabyte":
        end, option = "END TRANSACTION", "transactions = {'enabled': true}"
    run = f"{begin} {inserts}; {end};"
    plain = {key: value for key, value in write.items() if key != "options"}
    read = content["statements"]["READ"]
    if server.kind == "cassandra":
        # Accord reads the rows of a plain SELECT one by one: only a transaction sees them together.
        read = {**read, "run": f"{begin} {read['run']}; {end};"}
    statements = {**content["statements"], "WRITE": {**plain, "run": run}, "READ": read}
    prepare = [_with(text, option) if _creates_table(text) else text for text in content["prepare"]]
    description = "Pairs of numbers whose sum is known, written in one transaction."
    return {
        **content,
        "statements": statements,
        "prepare": prepare,
        "description": description,
    }


def _indexed(content: Content, table: str, asked: Asked, server: Server) -> Content:
    """Rows found by value: with an index, a view or a second table."""
    kind = asked.text("index") or "secondary"
    if kind not in INDEXES:
        raise SpecError(f"--index: there is no kind {shown(kind)}{did_you_mean(kind, INDEXES)}")
    if server.kind == "yugabyte":
        if kind != "secondary":
            raise SpecError(f"--index: YugabyteDB has no {kind}; leave the flag out")
        return {**content, "prepare": _yugabyte_index(content["prepare"], asked)}
    keyspace, create, index = content["prepare"]
    by_value = f"{KEYSPACE}.{table}byvalue"
    second = {
        "secondary": index,
        "sai": f"{index} USING 'sai'",
        "view": _VIEW.format(view=by_value, table=f"{KEYSPACE}.{table}"),
        "table": _SECOND_TABLE.format(table=by_value),
    }[kind]
    content = {**content, "prepare": [keyspace, create, second]}
    if kind in {"view", "table"}:
        content = _reading_from(content, f"{KEYSPACE}.{table} ", f"{by_value} ")
    return _writing_both(content, by_value) if kind == "table" else content


def _yugabyte_index(prepare: list[str], asked: Asked) -> list[str]:
    keyspace, create, index = prepare
    if asked.has("non_transactional_index"):
        weak = "transactions = {'enabled': false, 'consistency_level': 'user_enforced'}"
        return [keyspace, create, _with(index, weak)]
    return [keyspace, _with(create, "transactions = {'enabled': true}"), index]


def _reading_from(content: Content, old: str, new: str) -> Content:
    read = content["statements"]["READ"]
    changed = {**read, "run": read["run"].replace(old, new)}
    return {**content, "statements": {**content["statements"], "READ": changed}}


def _writing_both(content: Content, by_value: str) -> Content:
    """The row goes to both tables, in a logged batch so that neither is forgotten."""
    write = content["statements"]["WRITE"]
    into = _SECOND_INSERT.replace("TABLE", by_value)
    changed = {**write, "run": [write["run"], into], "options": {"batch": "logged"}}
    return {**content, "statements": {**content["statements"], "WRITE": changed}}
