"""Statements of cassandra-stress: those of the predefined tables, and a profile's own."""

# ruff: noqa: S608 - names come from a command line whose words were checked, and are CQL's own.

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from kvmark.errors import PlanError
from kvmark.frontends.cassandra_stress.command_line import StressSpec
from kvmark.frontends.cassandra_stress.ddl import Type
from kvmark.frontends.cassandra_stress.profile import Profile, Query, RangeQuery
from kvmark.frontends.cassandra_stress.rows import (
    EVERY_ROW,
    predefined_rows,
    profile_rows,
    visit_rows,
    written_rows,
)
from kvmark.plan.model import Argument, ConstantSize, Generator, Statement
from kvmark.plan.rows import Rows
from kvmark.spec.suggest import did_you_mean, shown

_GENERATORS: Final[TypeAdapter[Generator]] = TypeAdapter(Generator)
_ONE: Final = ConstantSize(law="constant", size=1)
_RANGES: Final = 256
"""Parts of the ring that token range queries read, one an operation; split-factor makes more."""
_TOKENS: Final = 2**64
_MARKER: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|:(\w+)|[{}]")
_COLUMN_BEFORE: Final = re.compile(
    r"(\"[^\"]+\"|\w+)\s*\)?\s*(?:=|<=|>=|!=|<|>|\+|-|\bIN\b|\bLIKE\b|\bCONTAINS(?:\s+KEY)?\b)"
    r"\s*(?:token\s*\(\s*)?$",
    re.IGNORECASE,
)
_INSERT: Final = re.compile(
    r"\s*INSERT\s+INTO\s+[\w.\"]+\s*\(([^)]*)\)\s*VALUES\s*\(", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a mix."""

    kind: Literal["read", "update"]
    weight: float
    statement: Statement
    ranges: int | None = None
    """How many token ranges there are, in a query of those."""


def operations(spec: StressSpec, profiles: Sequence[Profile]) -> tuple[Operation, ...]:
    """The operations that a command line's shares name.

    Raises:
        PlanError: a profile has no such operation, or it can't be carried out.
    """
    if spec.command == "user":
        return tuple(_own(name, share, spec, profiles) for name, share in spec.shares.items())
    return tuple(_predefined(kind, share, spec) for kind, share in spec.shares.items())


def _predefined(kind: str, share: float, spec: StressSpec) -> Operation:
    rows = predefined_rows(spec, counters=kind.startswith("counter"))
    names = spec.columns.names
    key, values = "{c0}", [f"{{c{place}}}" for place in range(1, len(names) + 1)]
    table = '"counter1"' if kind.startswith("counter") else '"standard1"'
    expects: tuple[int, ...] = ()
    columns = range(len(names) + 1)
    if kind == "write":
        written = ", ".join(f'"{n}" = {v}' for n, v in zip(names, values, strict=True))
        text = f"UPDATE {table} SET {written} WHERE key = {key}"
    elif kind == "counter_write":
        raised = zip(names, values, strict=True)
        text = f"UPDATE {table} SET " + ", ".join(f'"{n}" = "{n}" + {v}' for n, v in raised)
        text += f" WHERE key = {key}"
    else:
        everything = spec.columns.slice or kind == "counter_read"
        selected = "*" if everything else ", ".join(f'"{name}"' for name in names)
        text = f"SELECT {selected} FROM {table} WHERE key = {key}"
        if kind == "read" and spec.checks_reads:
            expects = tuple(columns) if everything else tuple(columns)[1:]
    if kind.endswith("read") and not expects:
        columns = range(1)
    options: dict[str, Any] = {}
    if kind == "write" and spec.columns.timestamp is not None:
        options["timestamp"] = spec.columns.timestamp
    statement = _statement(kind.upper(), text, rows, columns, expects=expects, options=options)
    return Operation("read" if kind.endswith("read") else "update", share, statement)


def _own(name: str, share: float, spec: StressSpec, profiles: Sequence[Profile]) -> Operation:
    """A profile's operation; where several have one of that name, the first one's."""
    owner, _, short = name.rpartition(".")
    for profile in profiles:
        if owner and owner != profile.name:
            continue
        if short == "insert":
            return _insert(name, share, spec, profile)
        if short in profile.queries:
            return _query(name, share, spec, profile, profile.queries[short])
        if short in profile.ranges:
            return _range(name, share, spec, profile, profile.ranges[short])
    known = ["insert", *(query for one in profiles for query in (*one.queries, *one.ranges))]
    raise PlanError(f"user: ops: there is no operation {shown(name)}{did_you_mean(name, known)}")


def _insert(name: str, share: float, spec: StressSpec, profile: Profile) -> Operation:
    table = profile.table
    rows = written_rows(profile, spec)
    order = (*table.partition, *table.clustering, *table.values)
    place = {column: f"{{c{index}}}" for index, column in enumerate(order)}
    where = " AND ".join(f'"{key}" = {place[key]}' for key in (*table.partition, *table.clustering))
    if not table.values:
        names = ", ".join(f'"{column}"' for column in order)
        text = f"INSERT INTO {_table(profile)} ({names}) VALUES ({', '.join(place.values())})"
    else:

        def assigned(column: str) -> str:
            before = f'"{column}" + ' if _is_added_to(table.columns[column]) else ""
            return f'"{column}" = {before}{place[column]}'

        written = ", ".join(map(assigned, table.values))
        text = f"UPDATE {_table(profile)} SET {written} WHERE {where}"
    options = {"batch": spec.insert.batch or profile.batch}
    columns: list[int] = list(range(len(order)))
    if profile.condition:
        condition, columns = _bound(profile.condition, profile, columns)
        text += f" IF {condition}"
    statement = _statement(name, text, rows, columns, options=options)
    return Operation("update", share, statement)


def _is_added_to(kind: Type) -> bool:
    """Whether an insert adds to what a column holds, as cassandra-stress does."""
    return kind.name in ("counter", "list", "set") and not kind.frozen


def _query(name: str, share: float, spec: StressSpec, profile: Profile, query: Query) -> Operation:
    rows = profile_rows(
        profile, visit_rows(None, same_row=query.same_row), ordered=spec.population.sorted
    )
    text, columns = _bound(query.cql, profile, [])
    options: dict[str, Any] = {}
    if query.consistency:
        options["consistency"] = query.consistency
    if query.serial_consistency:
        options["serial_consistency"] = query.serial_consistency
    reads = query.cql.lstrip()[:6].upper() == "SELECT"
    statement = _statement(name, text, rows, columns, options=options)
    return Operation("read" if reads else "update", share, statement)


def _range(
    name: str, share: float, spec: StressSpec, profile: Profile, query: RangeQuery
) -> Operation:
    """A query of a whole range of tokens, one after the other around the ring."""
    ranges = _RANGES * spec.split_factor
    width = _TOKENS // ranges
    token = "token(" + ", ".join(f'"{key}"' for key in profile.table.partition) + ")"
    text = (
        f"SELECT {query.columns} FROM {_table(profile)}"
        f" WHERE {token} >= {{first}} AND {token} <= {{last}}"
    )
    ends = (("first", -(2**63)), ("last", -(2**63) + width - 1))
    arguments = tuple(
        _argument(
            end,
            {
                "generator": "computed",
                "of": "operation",
                "divisor": 1,
                "modulus": ranges,
                "factor": width,
                "start": start,
                "step": 0,
            },
        )
        for end, start in ends
    )
    rows = profile_rows(profile, EVERY_ROW, ordered=False)
    statement = _statement(name, text, rows, (), options={"page_size": query.page_size})
    whole = statement.model_copy(update={"arguments": arguments, "rows": None})
    return Operation("read", share, whole, ranges)


def _table(profile: Profile) -> str:
    return f'"{profile.keyspace}"."{profile.table.name}"'


def _bound(cql: str, profile: Profile, columns: Sequence[int]) -> tuple[str, list[int]]:
    """The text with an argument's place for each marker, and the column of each."""
    table = profile.table
    order = (*table.partition, *table.clustering, *table.values)
    found = list(columns)
    inserted = _inserted(cql)

    def named(match: re.Match[str]) -> str:
        if match[0] in "{}":
            return match[0] * 2
        if match[0] != "?" and match[1] is None:
            return match[0]
        column = match[1] or _column_of(cql, match.start(), inserted)
        bare = column.strip('"') if column.startswith('"') else column.lower()
        if bare not in order:
            hint = did_you_mean(bare, order)
            raise PlanError(f"{profile.name}: {shown(cql)} binds {shown(column)}{hint}")
        found.append(order.index(bare))
        return f"{{c{order.index(bare)}}}"

    return _MARKER.sub(named, cql), found


def _inserted(cql: str) -> Callable[[int], str | None]:
    """The column of a marker among an INSERT's values, by where it stands."""
    match = _INSERT.match(cql)
    names = [] if match is None else [name.strip() for name in match[1].split(",")]
    begin = 0 if match is None else match.end()

    def at(place: int) -> str | None:
        number = cql[begin:place].count(",")
        return names[number] if match and place >= begin and number < len(names) else None

    return at


def _column_of(cql: str, place: int, inserted: Callable[[int], str | None]) -> str:
    among = inserted(place)
    if among is not None:
        return among
    match = _COLUMN_BEFORE.search(cql[:place].rstrip().removesuffix("("))
    if match is None:
        raise PlanError(
            f"it can't be seen which column is bound at character {place + 1} of {shown(cql)};"
            " write :column in place of the question mark"
        )
    return match[1]


def _statement(
    name: str,
    text: str,
    rows: Rows,
    columns: Sequence[int],
    *,
    expects: tuple[int, ...] = (),
    options: dict[str, Any] | None = None,
) -> Statement:
    """A statement whose arguments are columns of its rows, each once."""
    used = tuple(dict.fromkeys(columns))
    return Statement(
        name=name,
        texts=(text,),
        commands=_ONE,
        items=_ONE,
        record="command",
        rows=rows,
        arguments=tuple(
            _argument(f"c{column}", {"generator": "column", "column": column}) for column in used
        ),
        expects=tuple(used.index(column) for column in expects),
        checks=(),
        when_full=None,
        options=options or {},
    )


def _argument(name: str, generator: dict[str, Any]) -> Argument:
    made = _GENERATORS.validate_python(generator)
    return Argument(name=name, each="command", generator=made)
