"""A user's profile: cassandra-stress's YAML file of one table and its statements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.ddl import (
    Table,
    Type,
    create_if_missing,
    read_table,
    read_types,
)
from kvmark.frontends.cassandra_stress.laws import (
    Law,
    Ratio,
    fixed,
    parse_law,
    parse_partitions,
    parse_ratio,
    parse_select,
)
from kvmark.spec.owned_tables import marked
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.yaml_file import Strict, parse_yaml, read_text

_DEFAULT_PAGE: Final = 5000
_WHOLE: Final = Ratio(fixed(1), 1)


def _read(parse: Any) -> BeforeValidator:
    """A quantity as the profile spells it, told with its place when it is wrong."""

    def read(value: object) -> object:
        try:
            return parse(str(value))
        except SpecError as problem:
            raise PydanticCustomError("quantity", "{s}", {"s": problem.message}) from None

    return BeforeValidator(read)


_Law = Annotated[Any, _read(parse_law)]


def _level(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


_Level = Annotated[str | None, BeforeValidator(_level)]


class _ColumnModel(Strict):
    name: str
    size: _Law | None = None
    population: _Law | None = None
    cluster: _Law | None = None


class _InsertModel(Strict):
    partitions: Annotated[Any, _read(parse_partitions)] = fixed(1)
    batchtype: Annotated[Literal["unlogged", "logged", "counter"], BeforeValidator(_level)] = (
        "logged"
    )
    select: Annotated[Any, _read(parse_select)] = _WHOLE
    row_population: Annotated[Any, _read(parse_ratio)] = Field(
        default=_WHOLE, alias="row-population"
    )
    condition: str | None = None


class _QueryModel(Strict):
    cql: str
    fields: Annotated[Literal["samerow", "multirow"], BeforeValidator(_level)] = "multirow"
    consistency: _Level = Field(default=None, alias="consistencyLevel")
    serial_consistency: _Level = Field(default=None, alias="serialConsistencyLevel")


class _RangeModel(Strict):
    columns: str = "*"
    page_size: int = _DEFAULT_PAGE


class _ProfileModel(Strict):
    specname: str | None = None
    keyspace: Annotated[str, Field(pattern=r"^\w+$")]
    keyspace_definition: str | None = None
    table: str
    table_definition: str
    extra_definitions: tuple[str, ...] = ()
    columnspec: tuple[_ColumnModel, ...] = ()
    insert: _InsertModel = _InsertModel()
    queries: Mapping[str, _QueryModel] = {}
    token_range_queries: Mapping[str, _RangeModel] = {}


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """What a column's entry says; None for what it leaves to cassandra-stress's defaults."""

    size: Law | None
    population: Law | None
    cluster: Law | None


@dataclass(frozen=True, slots=True)
class Query:
    """A statement of the profile."""

    cql: str
    same_row: bool
    """Whether all its values come from one row."""
    consistency: str | None
    serial_consistency: str | None


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A query of whole token ranges."""

    columns: str
    page_size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile, read and checked."""

    name: str
    """By which its operations can be told from another's."""
    keyspace: str
    prepare: tuple[str, ...]
    """Statements that make keyspace, types, table and more where they are missing."""
    table: Table
    types: Mapping[str, Mapping[str, Type]]
    columns: Mapping[str, ColumnWords]
    partitions: Law
    """Of an insert."""
    batch: str
    select: Ratio
    """Of a partition's rows."""
    filled: Ratio
    """Of a row's columns."""
    condition: str | None
    queries: Mapping[str, Query]
    ranges: Mapping[str, RangeQuery]


def load_profile(path: Path) -> Profile:
    """Reads a profile's file.

    Raises:
        SpecError: it can't be read, or says what can't be.
    """
    return read_profile(read_text(path), str(path))


def read_profile(text: str, file: str) -> Profile:
    """Reads a profile; `file` is the name that errors show.

    Raises:
        SpecError: it says what can't be.
    """
    model = parse_yaml(text, file, _ProfileModel)
    try:
        return _profile(model)
    except SpecError as problem:
        raise problem if problem.file else problem.at(file=file) from None


def _profile(model: _ProfileModel) -> Profile:
    table = read_table(model.table_definition)
    if table.name != model.table.lower().strip('"') and table.name != model.table:
        raise SpecError(
            f"table is {shown(model.table)}, but table_definition makes {shown(table.name)}"
        )
    columns: dict[str, ColumnWords] = {}
    for one in model.columnspec:
        name = one.name if one.name in table.columns else one.name.lower()
        if name not in table.columns:
            hint = did_you_mean(one.name, table.columns)
            raise SpecError(f"columnspec: the table has no column {shown(one.name)}{hint}")
        columns[name] = ColumnWords(one.size, one.population, one.cluster)
    for name in ("insert",):
        if name in model.queries or name in model.token_range_queries:
            raise SpecError(f"queries: {shown(name)} is a name of cassandra-stress's own")
    condition = model.insert.condition
    keyspace = [model.keyspace_definition] if model.keyspace_definition else []
    return Profile(
        name=model.specname or f"{model.keyspace}.{model.table}",
        keyspace=model.keyspace,
        prepare=(
            *map(create_if_missing, keyspace),
            f'USE "{model.keyspace}"',
            # Types come before the table that uses them; whatever else is made after it.
            *(create_if_missing(one) for one in model.extra_definitions if _is_type(one)),
            marked(create_if_missing(model.table_definition)),
            *(create_if_missing(one) for one in model.extra_definitions if not _is_type(one)),
        ),
        table=table,
        types=read_types(model.extra_definitions),
        columns=columns,
        partitions=model.insert.partitions,
        batch=model.insert.batchtype,
        select=model.insert.select,
        filled=model.insert.row_population,
        condition=condition and re.sub(r"^\s*IF\s+", "", condition, flags=re.IGNORECASE),
        queries={
            name: Query(
                one.cql.strip().rstrip(";"),
                one.fields == "samerow",
                one.consistency,
                one.serial_consistency,
            )
            for name, one in model.queries.items()
        },
        ranges={
            name: RangeQuery(one.columns, one.page_size)
            for name, one in model.token_range_queries.items()
        },
    )


def _is_type(text: str) -> bool:
    return text.split()[:2] != [] and [word.upper() for word in text.split()[:2]] == [
        "CREATE",
        "TYPE",
    ]
