"""The tables of cassandra-stress in the plan's words: columns with their laws."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter

from kvmark.errors import PlanError
from kvmark.plan.rows import Becomes, RowColumn, RowLaw, Rows, Visit
from kvmark.spec.stress.command import StressSpec
from kvmark.spec.stress.ddl import Type
from kvmark.spec.stress.laws import Law, Ratio, fixed, uniform
from kvmark.spec.stress.profile import ColumnWords, Profile

__all__ = ["EVERY_ROW", "predefined_rows", "profile_rows", "row_law", "visit_rows"]

_IDENTITY: Final = uniform(1, 100_000_000_000)
_TIMES: Final = uniform(1, 50 * 365 * 24 * 3600 * 1000)
"""Fifty years in milliseconds, as cassandra-stress counts them."""
_SIZE: Final = uniform(4, 8)
_SALT: Final = "seed for stress"
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
    "date": "date",
}
_BITS: Final = {
    "tinyint": 8,
    "smallint": 16,
    "int": 32,
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


EVERY_ROW: Final = visit_rows(Ratio(fixed(1), 1))


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
    return Rows(partition=(key,), clustering=(), values=values, sorted=ordered, visit=EVERY_ROW)


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
    return Rows(
        partition=tuple(map(column, table.partition)),
        clustering=tuple(map(column, table.clustering)),
        values=tuple(map(column, table.values)),
        sorted=ordered,
        visit=visit,
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
