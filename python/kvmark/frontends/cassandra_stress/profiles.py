"""cassandra-stress's profiles: a YAML file of a table and its statements, with its distributions.

Distributions are written as in `gaussian(1..1M)`, `~exp(1..10)` and `fixed(5)`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, log
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kvmark.errors import SpecError
from kvmark.spec.owned_tables import marked
from kvmark.spec.quantity import LARGEST, matched
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.yaml_file import Strict, parse_yaml, read_text

Shape = Literal["uniform", "gaussian", "exponential", "extreme", "quantized_extreme", "sequence"]

_SHAPES: Final[Mapping[str, Shape | Literal["fixed"]]] = {
    "exp": "exponential", "extr": "extreme", "extreme": "extreme", "qextr": "quantized_extreme",
    "qextreme": "quantized_extreme", "gaussian": "gaussian", "gauss": "gaussian",
    "normal": "gaussian", "norm": "gaussian", "uniform": "uniform", "fixed": "fixed",
    "seq": "sequence",
}  # fmt: skip
_PARAMETERS: Final = {"extreme": (2,), "quantized_extreme": (3,), "gaussian": (1, 2, 3)}
"""Numbers of parameters; others have one."""
_LAW: Final = re.compile(r"(~?)([A-Za-z]+)\((.+)\)")
_COUNT: Final = re.compile(r"(-?[0-9]+)([kmb]?)", re.IGNORECASE)
_MULTIPLES: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_DEVIATIONS: Final = 3.0
"""Standard deviations between the middle of a gaussian and its ends, by default."""
_BATCH_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution of the whole numbers from `min` to `max`."""

    min: int
    max: int
    shape: Shape = "uniform"
    mean: float = 0.0
    """Of a gaussian."""
    stddev: float = 0.0
    """Of a gaussian."""
    exponent: float = 0.0
    """Shape of an extreme one."""
    steps: int = 0
    """Of a quantized one."""
    inverted: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether it has only one value."""
        return self.min == self.max

    @property
    def average(self) -> int:
        """The average as cassandra-stress computes it (`generate/Distribution.average`)."""
        if self.is_fixed:
            return self.min
        values, share = [], 0.0
        while share <= 1:
            values.append(min(max(int(self._quantile(share)), self.min), self.max))
            (share,) = struct.unpack("f", struct.pack("f", share + 0.02))
        average = sum(values) / len(values)
        return int(self.min + self.max - average if self.inverted else average)

    def _quantile(self, share: float) -> float:
        width = self.max - self.min
        if self.shape == "gaussian":
            inside = min(max(share, 1e-9), 1 - 1e-9)
            return NormalDist(self.mean, self.stddev).inv_cdf(inside)
        if self.shape in ("uniform", "sequence"):
            end = self.max + (self.shape == "uniform")
            return share * end + (1 - share) * self.min
        if share >= 1 or width == 1:
            return self.max
        reached: float = (-log(1 - share) / (log(width) / 2)) ** (1 / (self.exponent or 1))
        return self.min + width * reached


@dataclass(frozen=True, slots=True)
class Ratio:
    """A draw divided by a number."""

    law: Law
    divisor: int


def fixed(value: int) -> Law:
    """The distribution of a single number."""
    return Law(value, value)


WHOLE: Final = Ratio(fixed(1), 1)


def parse_count(text: str) -> int:
    """A whole number with k, m or b for thousands, millions and billions.

    Raises:
        SpecError: it is none, or too large.
    """
    match = matched(_COUNT, text, f"{shown(text)} is not a whole number such as 1000, 10k or 1M")
    count = int(match[1]) * _MULTIPLES[match[2].lower()]
    if abs(count) >= LARGEST:
        raise SpecError(f"{shown(text)} must stay below 2^63")
    return count


def parse_range(text: str) -> tuple[int, int]:
    """The ends of `1..100`.

    Raises:
        SpecError: it has no two ends in order.
    """
    ends = re.split(r"\.\.+", text)
    if len(ends) != 2:
        raise SpecError(f"{shown(text)} needs two ends, such as 1..100")
    low, high = map(parse_count, ends)
    if low > high:
        raise SpecError(f"{shown(text)} begins above its end; write the smaller number first")
    return low, high


def parse_law(text: str) -> Law:
    """A distribution.

    Raises:
        SpecError: it is none, or its numbers are invalid.
    """
    problem = f"{shown(text)} is not a distribution such as uniform(1..1M) or fixed(5)"
    match = matched(_LAW, text, problem)
    inverted, name = bool(match[1]), match[2]
    shape = _SHAPES.get(name.lower())
    if shape is None:
        raise SpecError(f"{shown(name)} is not a distribution{did_you_mean(name, _SHAPES)}")
    parameters = [part.strip() for part in match[3].split(",")]
    expected = _PARAMETERS.get(shape, (1,))
    if len(parameters) not in expected:
        counts = " or ".join(map(str, expected))
        raise SpecError(f"{shown(text)} has {len(parameters)} parameters; {name} has {counts}")
    if shape == "fixed":
        return fixed(parse_count(parameters[0]))
    low, high = parse_range(parameters[0])
    numbers = [_number(part, text) for part in parameters[1:]]
    if shape == "gaussian":
        mean, deviations = (low + high) / 2, numbers[0] if numbers else _DEVIATIONS
        stddev = (high - low) / 2 / deviations if deviations > 0 else 0.0
        if len(numbers) == 2:
            mean, stddev = numbers
        if stddev <= 0 and low < high:
            raise SpecError(f"{shown(text)} needs a standard deviation above 0")
        return Law(low, high, shape, mean=mean, stddev=stddev, inverted=inverted)
    exponent, steps = (*numbers, 0.0, 0.0)[:2]
    if numbers and exponent <= 0:
        raise SpecError(f"{shown(text)} needs a shape above 0")
    if shape == "quantized_extreme" and not (steps >= 1 and steps.is_integer()):
        raise SpecError(f"{shown(text)} needs a whole number of quantas from 1")
    return Law(low, high, shape, exponent=exponent, steps=int(steps), inverted=inverted)


def _number(text: str, law: str) -> float:
    try:
        if isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise SpecError(f"{shown(text)} in {shown(law)} is not a number")


def parse_partitions(text: str) -> Law:
    """The distribution of an operation's number of partitions.

    Raises:
        SpecError: it is none, or out of bounds.
    """
    law = parse_law(text)
    if law.min < 1 or law.max > _BATCH_MAX:
        raise SpecError(
            f"{shown(text)} must stay between 1 and {_BATCH_MAX:,} partitions, the largest number"
            " of statements in a batch"
        )
    return law


def parse_ratio(text: str) -> Ratio:
    """A distribution and its divisor: `fixed(1)/4`.

    Raises:
        SpecError: it is none, or not between 0 and 1.
    """
    law, slash, divisor = text.rpartition("/")
    if not slash:
        raise SpecError(f"{shown(text)} is not a ratio such as fixed(1)/4")
    ratio = Ratio(parse_law(law), parse_count(divisor))
    if ratio.divisor < 1:
        raise SpecError(f"{shown(text)} can't be divided by {ratio.divisor}")
    if ratio.law.min < 0 or ratio.law.max > ratio.divisor:
        raise SpecError(f"{shown(text)} must stay between 0 and 1")
    return ratio


def parse_select(text: str) -> Ratio:
    """A share of a partition's rows.

    Raises:
        SpecError: it is none, or never above 0.
    """
    if (share := parse_ratio(text)).law.max == 0:
        raise SpecError(f"{shown(text)} selects no row; give more than 0")
    return share


_NAME: Final = r'"[^"]+"|\w+'
_HEAD: Final = rf"\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:(?:{_NAME})\s*\.\s*)?({_NAME})\s*\((.*)\)"
_TABLE: Final = re.compile(rf"\s*CREATE\s+(?:TABLE|COLUMNFAMILY){_HEAD}", re.IGNORECASE | re.DOTALL)
_TYPE: Final = re.compile(rf"\s*CREATE\s+TYPE{_HEAD}", re.IGNORECASE | re.DOTALL)
_CREATE: Final = re.compile(
    r"\s*(CREATE\s+(?:KEYSPACE|TABLE|COLUMNFAMILY|TYPE|(?:CUSTOM\s+)?INDEX|MATERIALIZED\s+VIEW))"
    r"\s+(?!IF\s+NOT\s+EXISTS)",
    re.IGNORECASE,
)
_TYPE_BEGIN: Final = re.compile(r"\s*CREATE\s+TYPE(?!\S)", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Type:
    """A CQL type: its name in lower case, and its inner types."""

    name: str
    of: tuple[Type, ...] = ()
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns, in order, and its key."""

    name: str
    columns: Mapping[str, Type]
    partition: tuple[str, ...]
    clustering: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The columns outside the key, in Cassandra's order."""
        return tuple(sorted(self.columns.keys() - {*self.partition, *self.clustering}))

    @property
    def order(self) -> tuple[str, ...]:
        """All columns: partition key, clustering columns, values."""
        return (*self.partition, *self.clustering, *self.values)


def create_if_missing(text: str) -> str:
    """The CREATE statement with IF NOT EXISTS."""
    return _CREATE.sub(r"\1 IF NOT EXISTS ", text.strip().rstrip(";"), count=1)


def read_table(text: str) -> Table:
    """The table of a CREATE TABLE statement.

    Raises:
        SpecError: it can't be parsed.
    """
    match = _TABLE.match(_COMMENT.sub(" ", text))
    if match is None:
        raise SpecError("table_definition must be a CREATE TABLE statement")
    columns: dict[str, Type] = {}
    partition: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    for part in _parts(match[2]):
        key = re.match(r"PRIMARY\s+KEY\s*\((.*)\)\s*$", part, re.IGNORECASE | re.DOTALL)
        if key is not None:
            first, *rest = _parts(key[1])
            inner = first[1:-1] if first.startswith("(") else first
            partition, clustering = tuple(map(_bare, _parts(inner))), tuple(map(_bare, rest))
            continue
        name, kind = _column(part)
        primary = re.search(r"\s+PRIMARY\s+KEY\s*$", kind, re.IGNORECASE)
        if primary is not None:
            kind, partition = kind[: primary.start()], (name,)
        columns[name] = _type(re.sub(r"\s+STATIC\s*$", "", kind, flags=re.IGNORECASE))
    for name in (*partition, *clustering):
        if name not in columns:
            raise SpecError(f"table_definition: the key's {shown(name)} is not one of its columns")
    if not partition:
        raise SpecError("table_definition names no PRIMARY KEY")
    return Table(_bare(match[1]), columns, partition, clustering)


def read_types(texts: tuple[str, ...]) -> Mapping[str, Mapping[str, Type]]:
    """The fields of the user-defined types that statements create."""
    types: dict[str, Mapping[str, Type]] = {}
    for text in texts:
        match = _TYPE.match(_COMMENT.sub(" ", text))
        if match is not None:
            fields = map(_column, _parts(match[2]))
            types[_bare(match[1])] = {name: _type(kind) for name, kind in fields}
    return types


def _parts(text: str) -> Iterator[str]:
    """The parts between commas outside brackets, up to an unmatched closing bracket."""
    depth, start, end = 0, 0, len(text)
    for place, char in enumerate(text):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(char, 0)
        if depth < 0:
            end = place
            break
        if char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:end].strip():
        yield text[start:end].strip()


def _column(text: str) -> tuple[str, str]:
    match = re.match(rf"({_NAME})\s+(.+)$", text, re.DOTALL)
    if match is None:
        raise SpecError(f"{shown(text)} is not a column and its type")
    return _bare(match[1]), match[2].strip()


def _type(text: str) -> Type:
    name, bracket, rest = text.strip().partition("<")
    if not bracket:
        return Type(_bare(name))
    inner = tuple(map(_type, _parts(rest.rsplit(">", 1)[0])))
    if name.strip().lower() == "frozen":
        return replace(inner[0], frozen=True)
    return Type(name.strip().lower(), inner)


def _bare(name: str) -> str:
    """A name as Cassandra stores it: lower case unless quoted."""
    name = name.strip()
    return name[1:-1] if name.startswith('"') else name.rpartition(".")[2].lower()


def _parsed(parse: Callable[[str], object]) -> BeforeValidator:
    """Parses a text; a complaint gets the key's place in the file."""

    def validate(value: object) -> object:
        try:
            return parse(str(value))
        except SpecError as problem:
            raise PydanticCustomError("quantity", "{s}", {"s": problem.message}) from None

    return BeforeValidator(validate)


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


_Law = Annotated[Any, _parsed(parse_law)]
_Level = Annotated[str | None, BeforeValidator(_lower)]


class ColumnSpec(Strict):
    """Distributions of a column's values; None for cassandra-stress's defaults."""

    name: str
    size: _Law | None = None
    population: _Law | None = None
    cluster: _Law | None = None


class _Insert(Strict):
    partitions: Annotated[Any, _parsed(parse_partitions)] = fixed(1)
    batchtype: Annotated[Literal["unlogged", "logged", "counter"], BeforeValidator(_lower)] = (
        "logged"
    )
    select: Annotated[Any, _parsed(parse_select)] = WHOLE
    row_population: Annotated[Any, _parsed(parse_ratio)] = Field(WHOLE, alias="row-population")
    condition: str | None = None


class Query(Strict):
    """A statement of a profile."""

    cql: str
    fields: Annotated[Literal["samerow", "multirow"], BeforeValidator(_lower)] = "multirow"
    consistency: _Level = Field(default=None, alias="consistencyLevel")
    serial_consistency: _Level = Field(default=None, alias="serialConsistencyLevel")


class RangeQuery(Strict):
    """A query of whole token ranges."""

    columns: str = "*"
    page_size: int = 5000


class Profile(Strict):
    """A profile's file."""

    specname: str | None = None
    keyspace: Annotated[str, Field(pattern=r"^\w+$")]
    keyspace_definition: str | None = None
    table_name: str = Field(alias="table")
    table_definition: str
    extra_definitions: tuple[str, ...] = ()
    columnspec: tuple[ColumnSpec, ...] = ()
    insert: _Insert = _Insert()
    queries: Mapping[str, Query] = {}
    ranges: Mapping[str, RangeQuery] = Field({}, alias="token_range_queries")

    @property
    def name(self) -> str:
        """Qualifies the names of its operations."""
        return self.specname or f"{self.keyspace}.{self.table_name}"

    @cached_property
    def table(self) -> Table:
        """Its table."""
        return read_table(self.table_definition)

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, Type]]:
        """The fields of its user-defined types."""
        return read_types(self.extra_definitions)

    @cached_property
    def columns(self) -> Mapping[str, ColumnSpec]:
        """The distributions of its columns."""
        columns: dict[str, ColumnSpec] = {}
        for one in self.columnspec:
            name = one.name if one.name in self.table.columns else one.name.lower()
            if name not in self.table.columns:
                hint = did_you_mean(one.name, self.table.columns)
                raise SpecError(f"columnspec: the table has no column {shown(one.name)}{hint}")
            columns[name] = one
        return columns

    def column(self, name: str) -> ColumnSpec:
        """The distributions of a column."""
        return self.columns.get(name, ColumnSpec(name=name))

    @property
    def prepare(self) -> tuple[str, ...]:
        """Statements that create keyspace, types, table and more if they are missing."""
        types = [one for one in self.extra_definitions if _TYPE_BEGIN.match(one)]
        others = [one for one in self.extra_definitions if one not in types]
        return (
            *map(create_if_missing, filter(None, [self.keyspace_definition])),
            f'USE "{self.keyspace}"',
            # Types come before the table that uses them, indexes and views after it.
            *map(create_if_missing, types),
            marked(create_if_missing(self.table_definition)),
            *map(create_if_missing, others),
        )


def load_profile(path: Path) -> Profile:
    """Reads a profile's file.

    Raises:
        SpecError: it can't be read, or is invalid.
    """
    return read_profile(read_text(path), str(path))


def read_profile(text: str, file: str) -> Profile:
    """Reads a profile; `file` is its name in errors.

    Raises:
        SpecError: it is invalid.
    """
    profile = parse_yaml(text, file, Profile)
    try:
        name, made = profile.table_name, profile.table.name
        if made not in (name, name.lower().strip('"')):
            raise SpecError(f"table is {shown(name)}, but table_definition makes {shown(made)}")
        _ = profile.columns
        if "insert" in profile.queries or "insert" in profile.ranges:
            raise SpecError(
                "queries: 'insert' is an operation of cassandra-stress; use another name"
            )
        _ = profile.types
    except SpecError as problem:
        raise problem.at(file=file) from None
    return profile
