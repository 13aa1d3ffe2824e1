"""A cassandra-stress command line as plans: rows, statements, groups and phases."""

# ruff: noqa: S608 - the grammar restricts names to identifiers, and profiles are the user's CQL.

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from kvmark import _engine
from kvmark.errors import PlanError
from kvmark.frontends.cassandra_stress.options import SchemaSpec, StressSpec
from kvmark.frontends.cassandra_stress.profiles import (
    WHOLE,
    Law,
    Profile,
    Query,
    RangeQuery,
    Ratio,
    Type,
    fixed,
)
from kvmark.plan import model
from kvmark.plan.compile import derive_seeds
from kvmark.plan.model import Rows, Words
from kvmark.spec.owned_tables import TableRemoval, marked
from kvmark.spec.run import STALL_LIMIT_NS
from kvmark.spec.suggest import did_you_mean, shown

GROUP: Final = "stress"
"""The name of the measured group of clients."""
WARMING: Final = "warm_up_"
"""The prefix of the groups that warm up."""
_WARM_UP_PARTITIONS: Final = 50_000
"""Most partitions of a warm-up."""
_WARM_UP_SHARE: Final = 4
"""A warm-up has at most one partition per four measured ones."""
_WARM_UP_CLIENTS: Final = 100
_ONE: Final[Words] = {"law": "constant", "size": 1}
_SEED: Final = 1

_IDENTITY: Final = Law(1, 100_000_000_000)
_TIMES: Final = Law(1, 50 * 365 * 24 * 3600 * 1000)
"""Fifty years in milliseconds, as in cassandra-stress."""
_SIZE: Final = Law(4, 8)
_SINGLE: Final = fixed(1)
_SALT: Final = "seed for stress"
_DRAWS: Final = 1000
"""Numbers of partitions that are drawn before they are reused."""
_PLAIN: Final = {
    "ascii": "text", "text": "text", "varchar": "text", "blob": "bytes", "boolean": "boolean",
    "uuid": "uuid", "timeuuid": "time_uuid", "timestamp": "timestamp", "inet": "inet",
}  # fmt: skip
_BITS: Final = {
    "tinyint": 8, "smallint": 16, "int": 32, "date": 32, "bigint": 64, "varint": 64, "counter": 64,
    "time": 64, "decimal": 64,
}  # fmt: skip

_RANGES: Final = 256
"""Parts of the ring, one per token range query; split-factor multiplies them."""
_MARKER: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|:(\w+)|[{}]")
_COLUMN_BEFORE: Final = re.compile(
    r"(\"[^\"]+\"|\w+)\s*\)?\s*(?:=|<=|>=|!=|<|>|\+|-|\bIN\b|\bLIKE\b|\bCONTAINS(?:\s+KEY)?\b)"
    r"\s*(?:token\s*\(\s*)?$",
    re.IGNORECASE,
)
_INSERT: Final = re.compile(
    r"\s*INSERT\s+INTO\s+[\w.\"]+\s*\(([^)]*)\)\s*VALUES\s*\(", re.IGNORECASE
)


def _row_law(law: Law) -> Words:
    shape: dict[str, Any] = {"law": "uniform" if law.is_fixed else law.shape}
    if shape["law"] == "gaussian":
        shape |= {"mean": law.mean, "stddev": law.stddev}
    elif shape["law"] in ("extreme", "quantized_extreme"):
        shape["shape"] = law.exponent
    if shape["law"] == "quantized_extreme":
        shape["steps"] = law.steps
    return {"min": law.min, "max": law.max, "shape": shape, "inverted": law.inverted}


def _ratio(ratio: Ratio) -> Words:
    return {"law": _row_law(ratio.law), "of": ratio.divisor}


_EVERY_ROW: Final[Words] = {"rows": "each", **_ratio(WHOLE)}


def _predefined_rows(spec: StressSpec, *, counters: bool) -> Rows:
    """The predefined table: a key of digits, and columns of bytes or counters."""
    # Each run draws its own increments: runs need not agree on a counter's value.
    drawn: tuple[dict[str, Any], Law, Law] = ({"type": "bytes"}, _IDENTITY, spec.columns.size)
    if counters:
        drawn = {"type": "integer", "bits": 64}, spec.add, _SINGLE
    values = [_column(f"randomstr{name}", *drawn) for name in spec.columns.names]
    key = _column("randomstrkey", {"type": "digits"}, _IDENTITY, fixed(spec.key_size))
    return _rows(((key,), (), values), spec, _EVERY_ROW)


def _profile_rows(profile: Profile, spec: StressSpec, visit: Words, **changes: Any) -> Rows:
    """A profile's table.

    Raises:
        PlanError: a column's type is unsupported.
    """
    table = profile.table
    for name in table.clustering:
        if table.columns[name].of or table.columns[name].name in profile.types:
            raise PlanError(f"{name}: a clustering column can't be a collection; use another type")
    columns = (
        [_typed_column(f"{_SALT}{name}", table.columns[name], profile, name) for name in names]
        for names in (table.partition, table.clustering, table.values)
    )
    return _rows(columns, spec, visit, **changes)


def _ends(counts: Sequence[Law]) -> tuple[int, ...]:
    """The place in a partition at which cassandra-stress ends a write.

    It follows from the numbers of clustering values (`PartitionIterator.decompose`, with the most
    rows that a partition can have): with three columns or more it lies within the partition.
    """
    averages = [max(law.average, 1) for law in counts]
    left, ends = math.prod(law.max for law in counts), []
    for place in range(len(counts)):
        end, left = divmod(left, math.prod(averages[place + 1 :]))
        ends.append(end)
    for place in range(len(counts) - 1, 0, -1):
        carry, ends[place] = divmod(ends[place], averages[place])
        ends[place - 1] += carry
    return tuple(ends)


def _inserted_rows(profile: Profile, spec: StressSpec) -> Rows:
    """A profile's table in an insert: several partitions, with a share of the rows of each."""
    filled = spec.insert.filled or profile.insert.row_population
    partitions = spec.insert.partitions or profile.insert.partitions
    drawn: Sequence[int] = (partitions.min,)
    if not partitions.is_fixed:
        drawn = _engine.draw_law(json.dumps(_row_law(partitions)), _SEED, _DRAWS)
    return _profile_rows(
        profile,
        spec,
        {"rows": "each", **_ratio(spec.insert.select or profile.insert.select)},
        ends=_ends([profile.column(name).cluster or _SINGLE for name in profile.table.clustering]),
        partitions=tuple(drawn),
        # In a mix, the last insert is unknown.
        partitions_in_all=spec.partitions if len(spec.shares) == 1 else None,
        filled=_ratio(filled),
    )


def _rows(
    columns: Iterable[Iterable[Words]], spec: StressSpec, visit: Words, **changes: Any
) -> Rows:
    """One whole partition in each operation, apart from the changes."""
    named = dict(zip(("partition", "clustering", "values"), map(tuple, columns), strict=True))
    whole = {"ends": (), "partitions": (1,), "partitions_in_all": None, "filled": _ratio(WHOLE)}
    fields: dict[str, Any] = {**named, **whole, **changes}
    return Rows(sorted=spec.population.sorted, visit=visit, **fields)


def _typed_column(label: str, kind: Type, profile: Profile, name: str) -> Words:
    """A column, or a part of a collection, with the column's distributions."""

    def inner(kind: Type, part: str = "") -> Words:
        return _typed_column(f"{label}{part}", kind, profile, name)

    parts: Mapping[Any, Type] | None = profile.types.get(kind.name)
    if kind.name == "tuple":
        parts = dict(enumerate(kind.of))
    if parts is not None:
        of = [inner(one, f".{part}") for part, one in parts.items()]
        becomes: dict[str, Any] = {"type": "tuple", "of": of}
    elif kind.name in ("list", "set"):
        # The engine seeds the elements of a list separately, under the same label.
        becomes = {"type": "list", "of": inner(kind.of[0])}
    elif kind.name == "map":
        becomes = {"type": "map", "keys": inner(kind.of[0]), "values": inner(kind.of[1], ".value")}
    elif kind.name in ("double", "float"):
        becomes = {"type": "fraction", "single": kind.name == "float"}
    elif kind.name in _BITS:
        becomes = {"type": "integer", "bits": _BITS[kind.name]}
    elif kind.name in _PLAIN:
        becomes = {"type": _PLAIN[kind.name]}
    else:
        raise PlanError(f"{name}: there are no values of type {kind.name}; use another type")
    identity = _TIMES if kind.name in ("timestamp", "timeuuid") else _IDENTITY
    spec = profile.column(name)
    laws = (spec.population or identity, spec.size or _SIZE, spec.cluster or _SINGLE)
    return _column(label, becomes, *laws)


def _column(
    label: str, becomes: dict[str, Any], identity: Law, size: Law, count: Law = _SINGLE
) -> Words:
    laws = {"identity": _row_law(identity), "size": _row_law(size), "count": _row_law(count)}
    return {"label": label, "becomes": becomes, **laws}


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of a mix."""

    kind: Literal["read", "update"]
    statement: model.Statement
    ranges: int | None = None
    """Number of token ranges, in a token range query."""
    weight: float = 1.0


def _predefined(kind: str, spec: StressSpec) -> _Operation:
    counters, reads = kind.startswith("counter"), kind.endswith("read")
    rows = _predefined_rows(spec, counters=counters)
    names = spec.columns.names
    columns = range(len(names) + 1)
    table = '"counter1"' if counters else '"standard1"'
    expects: Sequence[int] = ()
    options: dict[str, Any] = {}
    if reads:
        everything = spec.columns.slice or counters
        selected = "*" if everything else ", ".join(f'"{name}"' for name in names)
        text = f"SELECT {selected} FROM {table} WHERE key = {{c0}}"
        if not counters and spec.checks_reads:
            expects = columns if everything else columns[1:]
        else:
            columns = range(1)
    else:
        written = ", ".join(
            f'"{name}" = ' + (f'"{name}" + ' if counters else "") + f"{{c{place}}}"
            for place, name in enumerate(names, start=1)
        )
        text = f"UPDATE {table} SET {written} WHERE key = {{c0}}"
        if not counters and spec.columns.timestamp is not None:
            options["timestamp"] = spec.columns.timestamp
    statement = _statement(kind.upper(), text, rows, columns, options, expects)
    return _Operation("read" if reads else "update", statement)


def _of_profile(name: str, spec: StressSpec, profiles: Sequence[Profile]) -> _Operation:
    """An operation of the first profile that has one of this name."""
    owner, _, short = name.rpartition(".")
    for profile in profiles:
        if owner not in ("", profile.name):
            continue
        if short == "insert":
            return _insert(name, spec, profile)
        if short in profile.queries:
            return _query(name, spec, profile, profile.queries[short])
        if short in profile.ranges:
            return _range(name, spec, profile, profile.ranges[short])
    names = ["insert", *(query for one in profiles for query in (*one.queries, *one.ranges))]
    raise PlanError(f"user: ops: there is no operation {shown(name)}{did_you_mean(name, names)}")


def _insert(name: str, spec: StressSpec, profile: Profile) -> _Operation:
    table = profile.table
    place = {column: f"{{c{index}}}" for index, column in enumerate(table.order)}
    if table.values:
        # As cassandra-stress, it adds to counters and to lists and sets that aren't frozen.
        added = {
            name: f'"{name}" + '
            for name, kind in table.columns.items()
            if kind.name in ("counter", "list", "set") and not kind.frozen
        }
        written = ", ".join(f'"{one}" = {added.get(one, "")}{place[one]}' for one in table.values)
        keys = (*table.partition, *table.clustering)
        where = " AND ".join(f'"{key}" = {place[key]}' for key in keys)
        text = f"UPDATE {_table(profile)} SET {written} WHERE {where}"
    else:
        names = ", ".join(f'"{column}"' for column in table.order)
        text = f"INSERT INTO {_table(profile)} ({names}) VALUES ({', '.join(place.values())})"
    columns = list(range(len(table.order)))
    if profile.insert.condition:
        bare = re.sub(r"^\s*IF\s+", "", profile.insert.condition, flags=re.IGNORECASE)
        condition, bound = _bound(bare, profile)
        text, columns = f"{text} IF {condition}", columns + bound
    options = {"batch": spec.insert.batch or profile.insert.batchtype}
    rows = _inserted_rows(profile, spec)
    return _Operation("update", _statement(name, text, rows, columns, options))


def _query(name: str, spec: StressSpec, profile: Profile, query: Query) -> _Operation:
    visit: Words = {"rows": "one" if query.fields == "samerow" else "several"}
    text, columns = _bound(query.cql.strip().rstrip(";"), profile)
    levels = query.model_dump(include={"consistency", "serial_consistency"})
    options = {option: level for option, level in levels.items() if level}
    reads = text[:6].upper() == "SELECT"
    rows = _profile_rows(profile, spec, visit)
    statement = _statement(name, text, rows, columns, options)
    return _Operation("read" if reads else "update", statement)


def _range(name: str, spec: StressSpec, profile: Profile, query: RangeQuery) -> _Operation:
    """A query of a whole range of tokens, one after the other around the ring."""
    ranges = _RANGES * spec.split_factor
    width = 2**64 // ranges
    token = "token(" + ", ".join(f'"{key}"' for key in profile.table.partition) + ")"
    text = (
        f"SELECT {query.columns} FROM {_table(profile)}"
        f" WHERE {token} >= {{first}} AND {token} <= {{last}}"
    )
    computed = {
        "generator": "computed", "of": "operation", "divisor": 1, "modulus": ranges,
        "factor": width, "step": 0,
    }  # fmt: skip
    starts = {"first": -(2**63), "last": -(2**63) + width - 1}
    arguments = tuple(_argument(end, {**computed, "start": at}) for end, at in starts.items())
    # Also checks that the columns' types are supported.
    rows = _profile_rows(profile, spec, _EVERY_ROW)
    statement = _statement(name, text, rows, (), {"page_size": query.page_size})
    changed = statement.model_copy(update={"arguments": arguments, "rows": None})
    return _Operation("read", changed, ranges)


def _table(profile: Profile) -> str:
    return f'"{profile.keyspace}"."{profile.table.name}"'


def _bound(cql: str, profile: Profile) -> tuple[str, list[int]]:
    """The text with a placeholder for each bind marker, and the column of each."""
    order = profile.table.order
    columns: list[int] = []

    def placeholder(match: re.Match[str]) -> str:
        if match[0] in "{}":
            return match[0] * 2
        if match[0] != "?" and match[1] is None:
            return match[0]
        column = match[1] or _column_of_marker(cql, match.start())
        bare = column.strip('"') if column.startswith('"') else column.lower()
        if bare not in order:
            hint = did_you_mean(bare, order)
            raise PlanError(f"{profile.name}: {shown(cql)} binds {shown(column)}{hint}")
        columns.append(order.index(bare))
        return f"{{c{columns[-1]}}}"

    return _MARKER.sub(placeholder, cql), columns


def _column_of_marker(cql: str, place: int) -> str:
    """The column of a question mark: that of an INSERT's value, or the one before it."""
    insert = _INSERT.match(cql)
    if insert is not None and place >= insert.end():
        names = [name.strip() for name in insert[1].split(",")]
        number = cql[insert.end() : place].count(",")
        if number < len(names):
            return names[number]
    match = _COLUMN_BEFORE.search(cql[:place].rstrip().removesuffix("("))
    if match is None:
        raise PlanError(
            f"the column bound at character {place + 1} of {shown(cql)} is unknown; write :column"
            " in place of the question mark"
        )
    return match[1]


def _statement(
    name: str,
    text: str,
    rows: Rows,
    columns: Sequence[int],
    options: dict[str, Any],
    expects: Sequence[int] = (),
) -> model.Statement:
    """A statement whose arguments are columns of its rows, each once."""
    used = tuple(dict.fromkeys(columns))
    return model.Statement(
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
        options=options,
    )


def _argument(name: str, generator: dict[str, Any]) -> model.Argument:
    return model.Argument(name=name, each="command", generator=generator)


@dataclass(frozen=True, slots=True)
class StressPlans:
    """Makes the plans of a command line, one for each number of clients."""

    spec: StressSpec
    profiles: tuple[Profile, ...]
    driver: str
    options: Mapping[str, Any]
    """The driver's options, without those that depend on the number of clients."""
    pin: tuple[int, ...] = ()
    """Cores of the workers; empty for all that this process may use."""

    def plan(self, clients: int, *, first: bool = True, warmup: bool | None = None) -> model.Plan:
        """The plan for a number of clients; the first one warms up, unless `warmup` decides.

        Raises:
            PlanError: an operation can't be executed.
        """
        spec = self.spec
        mix = []
        for name, weight in spec.shares.items():
            is_own = spec.command == "user"
            one = _of_profile(name, spec, self.profiles) if is_own else _predefined(name, spec)
            mix.append(replace(one, weight=weight))
        rate = spec.rate or spec.throttle
        closed = model.Closed(process="closed", think_time_ns=0)
        arrival: model.Arrival = closed
        if rate is not None:
            # The rate counts partitions.
            points = (model.RatePoint(at_ns=0, rate=rate / _mean_partitions(mix)),)
            arrival = model.AtRates(process="constant", rates=points)
        groups = [_group(GROUP, spec, tuple(enumerate(mix)), clients, arrival)]
        phases: list[model.Phase] = []
        # As in `StressAction.warmup`.
        share = math.inf if spec.operations is None else spec.operations // _WARM_UP_SHARE
        partitions = int(max(min(_WARM_UP_PARTITIONS, share), 1)) * len(spec.target.hosts)
        for index, one in enumerate(
            mix if (first and spec.warmup if warmup is None else warmup) else ()
        ):
            most = min(clients, _WARM_UP_CLIENTS)
            groups.append(_group(f"{WARMING}{index}", spec, ((index, one),), most, closed))
            count = _operations_for((one,), partitions)
            phases.append(_phase("warm_up", len(groups) - 1, count))
        limit, until = _operations(spec, mix), None
        if spec.until is not None:
            until = model.Until(rule="cassandra-stress", **asdict(spec.until))
        phases.append(_phase("measure", 0, limit, duration_ns=spec.duration_ns, until=until))
        cores = len(self.pin or os.sched_getaffinity(0))
        workers = max(1, min(cores, clients, spec.target.connections))
        options = dict(self.options)
        if self.driver == "cql":
            # Each worker has its own connections.
            options["connections_per_node"] = str(math.ceil(spec.target.connections / workers))
        return model.Plan(
            format=model.FORMAT,
            name=f"stress/{spec.command}",
            system=model.System(driver=self.driver, options=options),
            seeds=derive_seeds(_SEED),
            share=model.Share(index=0, of=1),
            dataset=_dataset(spec),
            prepare=_prepare(spec, self.profiles) if self.driver == "cql" else (),
            statements=tuple(one.statement for one in mix),
            groups=tuple(groups),
            phases=tuple(phases),
            interval_ns=spec.log.interval_ns,
            timeout_ns=spec.target.request_timeout_ms * 10**6,
            drain_limit_ns=30 * 10**9,
            verify_memory_bytes=None,
            stall_limit_ns=STALL_LIMIT_NS,
            workers=workers,
            pin=self.pin,
        )

    def removals(self, *, first: bool) -> tuple[TableRemoval, ...]:
        """The tables to empty before a plan is executed, if they exist."""
        spec = self.spec
        if not (spec.truncate == "always" or (spec.truncate == "once" and first)):
            return ()
        if spec.command == "user":
            names = {f"{one.keyspace}.{one.table.name}" for one in self.profiles}
        else:
            kinds = (
                "counter" if kind.startswith("counter") else "standard" for kind in spec.shares
            )
            names = {f"{spec.schema.keyspace}.{kind}1" for kind in kinds}
        return tuple(TableRemoval(name, drops=False) for name in sorted(names))


def driver_options(spec: StressSpec) -> dict[str, str]:
    """The options of the CQL driver, without the connections."""
    target = spec.target
    options = {
        "address": target.address,
        "consistency": spec.consistency,
        "serial_consistency": spec.serial_consistency,
        "compression": target.compression,
    }
    if target.datacenter:
        options["datacenter"] = target.datacenter
    if target.user:
        options["username"] = target.user
    if target.ca_file:
        options |= {"tls": "true", "ca_file": target.ca_file}
    return options


def _group(
    name: str,
    spec: StressSpec,
    mix: Sequence[tuple[int, _Operation]],
    clients: int,
    arrival: model.Arrival,
) -> model.Group:
    checks = any(one.statement.expects for _, one in mix)
    population = spec.population
    distribution: Words = {"law": "sequential"}
    if population.law is not None:
        distribution = {"law": "row", "of": _row_law(population.law)}
    return model.Group(
        name=name,
        clients=clients,
        arrival=arrival,
        mix=tuple(
            model.Weight(kind=one.kind, statement=index, weight=one.weight) for index, one in mix
        ),
        keys=model.KeyChoice(
            start=population.first,
            count=population.last - population.first + 1,
            distribution=distribution,
        ),
        read_fields="all",
        write_fields="all",
        scan_length=_ONE,
        check_values="full" if checks else "none",
        retry=None,
        on_miss=None,
    )


def _phase(
    name: Literal["warm_up", "measure"],
    group: int,
    operations: int | None,
    *,
    duration_ns: int | None = None,
    until: model.Until | None = None,
) -> model.Phase:
    active = (model.ActiveGroup(group=group, operations=operations),)
    return model.Phase(
        name=name, groups=active, only_if_missing=False, duration_ns=duration_ns, until=until
    )


def _operations(spec: StressSpec, mix: Sequence[_Operation]) -> int | None:
    """Number of operations that ends the run; None if only time does."""
    limits = [] if spec.partitions is None else [_operations_for(mix, spec.partitions)]
    if not spec.wrap_ranges and all(one.ranges for one in mix):
        limits.append(max(one.ranges or 0 for one in mix))
    return min(limits, default=None)


def _operations_for(mix: Sequence[_Operation], partitions: int) -> int:
    """Operations with this number of partitions; on average if there are several kinds."""
    rows = mix[0].statement.rows
    if len(mix) == 1 and rows is not None:
        return rows.operations_for(partitions)
    return math.ceil(partitions / _mean_partitions(mix))


def _mean_partitions(mix: Sequence[_Operation]) -> float:
    weighted = ((one.weight, one.statement.rows) for one in mix)
    partitions = sum(weight * (rows.mean_partitions if rows else 1) for weight, rows in weighted)
    return partitions / sum(one.weight for one in mix)


def _dataset(spec: StressSpec) -> model.Dataset:
    """Every partition of the population counts as present: a missing one is a miss."""
    return model.Dataset(
        table="standard1",
        start=spec.population.first,
        count=spec.population.last - spec.population.first + 1,
        full_at=None,
        key=model.KeyText(prefix="", zero_padding=1, order="ordered"),
        fields=model.FieldLayout(count=1, name_prefix="C", length=_ONE),
        values="random",
        probe=None,
    )


def _prepare(spec: StressSpec, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """The statements that create the schema."""
    if spec.command == "user":
        return tuple(text for profile in profiles for text in profile.prepare)
    use = f'USE "{spec.schema.keyspace}"'
    writes = spec.command in ("write", "counter_write")
    return (_keyspace(spec.schema), use, *_tables(spec)) if writes else (use,)


def _keyspace(schema: SchemaSpec) -> str:
    replication = dict(schema.replication)
    strategy = replication.pop("strategy", "NetworkTopologyStrategy")
    factor = replication.pop("factor", None)
    if factor is not None or not replication:
        replication = {"replication_factor": factor or "1", **replication}
    text = f'CREATE KEYSPACE IF NOT EXISTS "{schema.keyspace}" WITH replication = '
    text += _map({"class": strategy, **replication}) + " AND durable_writes = true"
    return text + (f" AND storage = {_map(schema.storage)}" if schema.storage else "")


def _tables(spec: StressSpec) -> tuple[str, ...]:
    schema = spec.schema
    compression = {"class": schema.compression} if schema.compression else {"enabled": "false"}
    options = f"compression = {_map(compression)}"
    if schema.compaction:
        others = {key: value for key, value in schema.compaction.items() if key != "strategy"}
        options += f" AND compaction = {_map({'class': schema.compaction['strategy'], **others})}"

    def table(name: str, kind: str) -> str:
        columns = ", ".join(f'"{column}" {kind}' for column in spec.columns.names)
        head = f'CREATE TABLE IF NOT EXISTS "{name}" (key blob PRIMARY KEY, {columns})'
        return marked(f"{head} WITH {options}")

    standard = (table("standard1", "blob"),)
    counters = spec.command == "counter_write"
    return (*standard, table("counter1", "counter")) if counters else standard


def _map(pairs: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"'{key}': '{value}'" for key, value in pairs.items()) + "}"
