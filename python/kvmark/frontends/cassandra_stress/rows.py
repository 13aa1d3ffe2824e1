"""The tables of cassandra-stress in the plan's words: columns with their laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from kvmark.errors import PlanError
from kvmark.frontends.cassandra_stress.command_line import StressSpec
from kvmark.frontends.cassandra_stress.ddl import Type
from kvmark.frontends.cassandra_stress.laws import Law, Ratio, fixed, uniform
from kvmark.frontends.cassandra_stress.profile import ColumnWords, Profile
from kvmark.plan.rows import Becomes, RowColumn, RowLaw, Rows, RowShare, Visit

_IDENTITY: Final = uniform(1, 100_000_000_000)
_TIMES: Final = uniform(1, 50 * 365 * 24 * 3600 * 1000)
"""Fifty years in milliseconds, as cassandra-stress counts them."""
_SIZE: Final = uniform(4, 8)
_SALT: Final = "seed for stress"
_SEED: Final = 1
_ROUND: Final = 1000
"""Numbers of partitions that are drawn before they are used again."""
_SHAPES: Final = ("uniform", "exponential", "sequence")
_BECOMES: Final[TypeAdapter[Becomes]] = TypeAdapter(Becomes)
_VISIT: Final[TypeAdapter[Visit]] = TypeAdapter(Visit)
_PLAIN: Final = {
    "ascii": "text",
    "text": "text",
    "varchar": "text",
    "blob": "bytes",
    "boolean": "boolean",
    "uuid": "uuid",
    "timeuuid": "time_uuid",
    "timestamp": "timestamp",
    "inet": "inet",
}
_BITS: Final = {
    "tinyint": 8,
    "smallint": 16,
    "int": 32,
    "date": 32,
    "bigint": 64,
    "varint": 64,
    "counter": 64,
    "time": 64,
    "decimal": 64,
}


def row_law(law: Law) -> RowLaw:
    """A law in the plan's words."""
    shape: dict[str, Any] = {"law": "uniform"}
    if law.is_fixed or law.shape in _SHAPES:
        shape = {"law": "uniform" if law.is_fixed else law.shape}
    elif law.shape == "gaussian":
        shape = {"law": "gaussian", "mean": law.mean, "stddev": law.stddev}
    elif law.shape == "extreme":
        shape = {"law": "extreme", "shape": law.exponent}
    else:
        shape = {"law": "quantized_extreme", "shape": law.exponent, "steps": law.steps}
    content = {"min": law.min, "max": law.max, "shape": shape, "inverted": law.inverted}
    return RowLaw.model_validate(content)


def visit_rows(select: Ratio | None, *, same_row: bool = True) -> Visit:
    """Which rows: a share of all, or one or several at random where no share is given."""
    if select is None:
        return _VISIT.validate_python({"rows": "one" if same_row else "several"})
    law = row_law(select.law)
    return _VISIT.validate_python({"rows": "each", "law": law, "of": select.divisor})


_WHOLE: Final = Ratio(fixed(1), 1)
EVERY_ROW: Final = visit_rows(_WHOLE)


def _operation_partitions(law: Law) -> tuple[int, ...]:
    """How many partitions operations have, one after the other and over and over."""
    if law.is_fixed:
        return (law.min,)
    from kvmark import _engine

    return tuple(_engine.draw_law(row_law(law).model_dump_json(), _SEED, _ROUND))


def predefined_rows(spec: StressSpec, *, counters: bool) -> Rows:
    """The predefined table: a key of digits, and columns of bytes or counters."""
    key = _column("randomstrkey", {"type": "digits"}, _IDENTITY, fixed(spec.key_size))

    def value(name: str) -> RowColumn:
        if counters:
            # What is added is drawn anew by everybody: no two runs need agree on it.
            return _column(f"randomstr{name}", {"type": "integer", "bits": 64}, spec.add, fixed(1))
        return _column(f"randomstr{name}", {"type": "bytes"}, _IDENTITY, spec.columns.size)

    values = tuple(map(value, spec.columns.names))
    ordered = spec.population.sorted
    return _rows((key,), (), values, ordered=ordered, visit=EVERY_ROW)


def profile_rows(profile: Profile, visit: Visit, *, ordered: bool) -> Rows:
    """A profile's table.

    Raises:
        PlanError: a column is of a type for which there are no values.
    """
    table = profile.table

    def column(name: str) -> RowColumn:
        words = profile.columns.get(name, ColumnWords(None, None, None))
        return _of_type(f"{_SALT}{name}", table.columns[name], words, profile, name)

    for name in table.clustering:
        if table.columns[name].of or table.columns[name].name in profile.types:
            raise PlanError(f"{name}: a clustering column can't be a collection here; name another")
    keys, within = map(column, table.partition), map(column, table.clustering)
    return _rows(
        tuple(keys), tuple(within), tuple(map(column, table.values)), ordered=ordered, visit=visit
    )


def _ends(counts: Sequence[Law]) -> tuple[int, ...]:
    """Where cassandra-stress ends a write, from how many values clustering columns have.

    Its `PartitionIterator.decompose`, of the most rows that a partition can have: with three
    columns or more this lies within the partition.
    """
    averages = [max(law.average, 1) for law in counts]
    left, ends = math.prod(law.max for law in counts), []
    for place in range(len(counts)):
        within = math.prod(averages[place + 1 :])
        ends.append(left // within)
        left %= within
    for place in range(len(counts) - 1, 0, -1):
        ends[place - 1] += ends[place] // averages[place]
        ends[place] %= averages[place]
    return tuple(ends)


def written_rows(profile: Profile, spec: StressSpec) -> Rows:
    """A profile's table as an insert has it: of several partitions, with a share of each.

    Raises:
        PlanError: a column is of a type for which there are no values.
    """
    visit = visit_rows(spec.insert.select or profile.select)
    filled = spec.insert.filled or profile.filled
    rows = profile_rows(profile, visit, ordered=spec.population.sorted)
    words = (profile.columns.get(name) for name in profile.table.clustering)
    own = {
        "ends": _ends([one.cluster if one and one.cluster else fixed(1) for one in words]),
        "partitions": _operation_partitions(spec.insert.partitions or profile.partitions),
        # Among other operations it isn't known which of its own is the last.
        "partitions_in_all": spec.partitions if len(spec.shares) == 1 else None,
        "filled": RowShare(law=row_law(filled.law), of=filled.divisor),
    }
    return rows.model_copy(update=own)


def _rows(
    partition: tuple[RowColumn, ...],
    clustering: tuple[RowColumn, ...],
    values: tuple[RowColumn, ...],
    *,
    ordered: bool,
    visit: Visit,
) -> Rows:
    """One whole partition in each operation."""
    return Rows(
        partition=partition,
        clustering=clustering,
        values=values,
        sorted=ordered,
        visit=visit,
        ends=(),
        partitions=(1,),
        partitions_in_all=None,
        filled=RowShare(law=row_law(_WHOLE.law), of=_WHOLE.divisor),
    )


def _of_type(label: str, kind: Type, words: ColumnWords, profile: Profile, name: str) -> RowColumn:
    """A column, or what stands in a collection, where it has the collection's words."""

    def inner(kind: Type, part: str = "") -> RowColumn:
        return _of_type(f"{label}{part}", kind, words, profile, name)

    fields = profile.types.get(kind.name)
    if fields is not None:
        parts = tuple(inner(one, f".{field}") for field, one in fields.items())
        becomes: dict[str, Any] = {"type": "tuple", "of": parts}
    elif kind.name == "tuple":
        parts = tuple(inner(one, f".{place}") for place, one in enumerate(kind.of))
        becomes = {"type": "tuple", "of": parts}
    elif kind.name in ("list", "set"):
        # The elements of a list are seeded apart, under the same label.
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
    return _column(
        label,
        becomes,
        words.population or identity,
        words.size or _SIZE,
        words.cluster or fixed(1),
    )


def _column(
    label: str, becomes: dict[str, Any], identity: Law, size: Law, count: Law | None = None
) -> RowColumn:
    return RowColumn(
        label=label,
        becomes=_BECOMES.validate_python(becomes),
        identity=row_law(identity),
        size=row_law(size),
        count=row_law(count or fixed(1)),
    )
