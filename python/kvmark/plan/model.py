"""The plan as Python sees it, field for field the engine's types in `crates/plan`.

Nothing has a default and no field is unknown; durations and instants are nanoseconds, rates
operations per second, sizes bytes. The meaning of each field is documented where the engine
defines it, and `plan.schema.json` is generated from there; a test holds both against each other.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from itertools import accumulate
from typing import Annotated, Final, Literal, TypeAlias

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from typing_extensions import TypeAliasType

from kvmark.errors import PlanError
from kvmark.spec.laws import ArrivalProcess

FORMAT: Final = 1
"""The version of the plan's format."""

U32 = Annotated[int, Interval(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Interval(ge=0, le=2**64 - 1)]
I64 = Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)]
Finite = Annotated[float, Interval(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A finite number."""
Positive = Annotated[float, Interval(ge=0.0, le=sys.float_info.max)]
"""A finite number that is not negative, as every number with a fraction in a plan is."""

Kind = Literal["read", "update", "insert", "scan", "read_modify_write", "delete"]
PhaseName = Literal["load", "settle", "warm_up", "measure", "verify"]
FieldChoice = Literal["all", "one", "all_by_name"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class System(_Part):
    """The system under test and its driver's options."""

    driver: str
    options: dict[str, JsonValue]


class Seeds(_Part):
    """One number per source of chance."""

    schedule: U64
    keys: U64
    values: U64
    mix: U64


class Share(_Part):
    """Engine `index` of `of`."""

    index: U32
    of: U32


class KeyText(_Part):
    """How an ordinal becomes a key."""

    prefix: str
    zero_padding: U32
    order: Literal["hashed", "ordered", "sized"]


class ConstantSize(_Part):
    """Always the same."""

    law: Literal["constant"]
    size: U64


class RangeSize(_Part):
    """From `min` to `max`: each equally likely, or zipfian with theta 0.99, the smallest first."""

    law: Literal["uniform", "zipfian"]
    min: U64
    max: U64


class HistogramSize(_Part):
    """Bucket i has size `(i + 1) * block_size`."""

    law: Literal["histogram"]
    block_size: U64
    weights: tuple[U64, ...]


SizeLaw = Annotated[ConstantSize | RangeSize | HistogramSize, Field(discriminator="law")]


class FieldLayout(_Part):
    """The fields of a record."""

    count: U32
    name_prefix: str
    length: SizeLaw


class Dataset(_Part):
    """The records that exist or are to be loaded: ordinals `start .. start + count`."""

    table: str
    start: U64
    count: U64
    full_at: U64 | None
    key: KeyText
    fields: FieldLayout
    values: Literal["random", "integrity", "sized"]
    probe: U32 | None


class PlainShape(_Part):
    """All alike, exponential, or one after the other."""

    law: Literal["uniform", "exponential", "sequence"]


class GaussianShape(_Part):
    """Normally distributed."""

    law: Literal["gaussian"]
    mean: Finite
    stddev: Positive


class ExtremeShape(_Part):
    """Weibull."""

    law: Literal["extreme"]
    shape: Positive


class QuantizedExtremeShape(_Part):
    """Weibull in steps."""

    law: Literal["quantized_extreme"]
    shape: Positive
    steps: U32


Shape = Annotated[
    PlainShape | GaussianShape | ExtremeShape | QuantizedExtremeShape, Field(discriminator="law")
]


class RowLaw(_Part):
    """A law between two bounds."""

    min: I64
    max: I64
    shape: Shape
    inverted: bool


class PlainValue(_Part):
    """What needs nothing said."""

    type: Literal["digits", "bytes", "text", "boolean", "uuid", "time_uuid", "timestamp", "inet"]


class IntegerValue(_Part):
    """The lowest bits."""

    type: Literal["integer"]
    bits: U32


class FractionValue(_Part):
    """A number with a fraction."""

    type: Literal["fraction"]
    single: bool


class ListValue(_Part):
    """Several of one kind."""

    type: Literal["list"]
    of: RowColumn


class TupleValue(_Part):
    """Several of different kinds."""

    type: Literal["tuple"]
    of: tuple[RowColumn, ...]


class MapValue(_Part):
    """Keys and their values."""

    type: Literal["map"]
    keys: RowColumn
    values: RowColumn


Becomes = TypeAliasType(
    "Becomes",
    Annotated[
        PlainValue | IntegerValue | FractionValue | ListValue | TupleValue | MapValue,
        Field(discriminator="type"),
    ],
)
"""What a drawn number becomes."""


class RowColumn(_Part):
    """How a column's values are drawn."""

    label: str
    becomes: Becomes
    identity: RowLaw
    size: RowLaw
    count: RowLaw


class EachRow(_Part):
    """Each row with a probability."""

    rows: Literal["each"]
    law: RowLaw
    of: U64


class OneRow(_Part):
    """One row at random, or a random one for each argument."""

    rows: Literal["one", "several"]


Visit = Annotated[EachRow | OneRow, Field(discriminator="rows")]


class RowShare(_Part):
    """A draw divided by a number."""

    law: RowLaw
    of: U64


class Rows(_Part):
    """The columns of a table, which partitions an operation is about, and which of their rows."""

    partition: tuple[RowColumn, ...]
    clustering: tuple[RowColumn, ...]
    values: tuple[RowColumn, ...]
    sorted: bool
    visit: Visit
    ends: tuple[U64, ...]
    partitions: tuple[U64, ...]
    partitions_in_all: U64 | None
    filled: RowShare

    @property
    def mean_partitions(self) -> float:
        """Partitions of an operation."""
        return sum(self.partitions) / len(self.partitions)

    def visited(self, operations: int) -> int:
        """Partitions of this number of first operations."""
        rounds, rest = divmod(operations, len(self.partitions))
        count = rounds * sum(self.partitions) + sum(self.partitions[:rest])
        return count if self.partitions_in_all is None else min(count, self.partitions_in_all)

    def operations_for(self, partitions: int) -> int:
        """The number of operations that reach this number of partitions."""
        rounds, rest = divmod(partitions, sum(self.partitions))
        reached = bisect_left(tuple(accumulate(self.partitions)), rest) + 1 if rest else 0
        return rounds * len(self.partitions) + reached


class PlainLaw(_Part):
    """Each key equally likely, YCSB's scrambled zipfian, the newest first, or in order."""

    law: Literal["uniform", "ycsb_zipfian", "latest", "sequential"]


class Zipfian(_Part):
    """Exact zipfian over the count."""

    law: Literal["zipfian"]
    theta: Positive
    scrambled: bool


class Newest(_Part):
    """A uniform choice among this number of the newest acknowledged records."""

    law: Literal["newest"]
    window: U64


class Hotspot(_Part):
    """A share of the operations goes to a share of the keys."""

    law: Literal["hotspot"]
    data_fraction: Positive
    operation_fraction: Positive


class Exponential(_Part):
    """`percentile` percent of the operations fall in the first `fraction` of the keys."""

    law: Literal["exponential"]
    percentile: Positive
    fraction: Positive


class RowDistribution(_Part):
    """A law of cassandra-stress, which draws the ordinal itself."""

    law: Literal["row"]
    of: RowLaw


class Head(_Part):
    """The most popular keys have given shares, the others fall as rank^-theta."""

    law: Literal["head"]
    shares: tuple[Positive, ...]
    theta: Positive


class Again(_Part):
    """A share of the operations asks for the key of an earlier one, the others by a law."""

    law: Literal["again"]
    share: Positive
    gaps: tuple[U64, ...]
    of: Distribution


_Laws: TypeAlias = PlainLaw | Zipfian | Newest | Hotspot | Exponential | RowDistribution
Distribution = TypeAliasType(
    "Distribution", Annotated[_Laws | Head | Again, Field(discriminator="law")]
)


class KeyChoice(_Part):
    """How keys are chosen among ordinals `start .. start + count`."""

    start: U64
    count: U64
    distribution: Distribution


class PlainGenerator(_Part):
    """The record's key or ordinal, a truth value, a random UUID, or the length of a tape's scan."""

    generator: Literal["key", "ordinal", "boolean", "uuid", "scan_length"]


class FieldGenerator(_Part):
    """What the record's field of this index holds."""

    generator: Literal["field"]
    field: U32


class ColumnGenerator(_Part):
    """What the statement's column of this place holds in the row."""

    generator: Literal["column"]
    column: U32


class NumberGenerator(_Part):
    """A whole number by a law."""

    generator: Literal["number"]
    choice: KeyChoice


class NameGenerator(_Part):
    """A prefix and such a number in decimal."""

    generator: Literal["name"]
    text: KeyText
    choice: KeyChoice


class GaussianGenerator(_Part):
    """A whole number, normally distributed and cut off at both ends."""

    generator: Literal["gaussian"]
    min: I64
    max: I64
    mean: Finite
    stddev: Positive


class FractionGenerator(_Part):
    """A number with a fraction, each as likely as any other."""

    generator: Literal["fraction"]
    min: Finite
    max: Finite


class NoiseGenerator(_Part):
    """Printable ASCII, or bytes of any value."""

    generator: Literal["text", "blob"]
    length: SizeLaw


class TimestampGenerator(_Part):
    """Milliseconds since 1970, `step_ms` more for each element drawn before."""

    generator: Literal["timestamp"]
    start_ms: I64
    step_ms: I64


class TtlGenerator(_Part):
    """The time to live that a tape says."""

    generator: Literal["ttl"]
    unit_ms: U64


class ComputedGenerator(_Part):
    """A whole number computed from another."""

    generator: Literal["computed"]
    of: Literal["ordinal", "operation", "place"]
    divisor: U64
    modulus: U64 | None
    factor: I64
    start: I64
    step: I64


class SplitGenerator(_Part):
    """One of two whole numbers that add up to the record's ordinal."""

    generator: Literal["split"]
    rest: bool


class FormatPart(_Part):
    """A literal, then an argument."""

    literal: str
    argument: U32 | None
    zero_padding: U32


class FormatGenerator(_Part):
    """Text put together from literals and earlier arguments."""

    generator: Literal["format"]
    parts: tuple[FormatPart, ...]


class CheckedGenerator(_Part):
    """A value that carries its own checksum."""

    generator: Literal["checked"]
    prefix: U32
    length: SizeLaw
    ascii: bool


class ListGenerator(_Part):
    """Several of one kind."""

    generator: Literal["list"]
    of: Generator
    length: SizeLaw


class TupleGenerator(_Part):
    """Several of different kinds."""

    generator: Literal["tuple"]
    of: tuple[Generator, ...]


class MapGenerator(_Part):
    """Keys and their values."""

    generator: Literal["map"]
    keys: Generator
    values: Generator
    length: SizeLaw


_OfRecords: TypeAlias = FieldGenerator | ColumnGenerator | ComputedGenerator | SplitGenerator
_Numbers: TypeAlias = NumberGenerator | GaussianGenerator | FractionGenerator | TimestampGenerator
_Texts: TypeAlias = NameGenerator | NoiseGenerator | FormatGenerator | CheckedGenerator
_Several: TypeAlias = ListGenerator | TupleGenerator | MapGenerator
Generator = TypeAliasType(
    "Generator",
    Annotated[
        PlainGenerator | TtlGenerator | _OfRecords | _Numbers | _Texts | _Several,
        Field(discriminator="generator"),
    ],
)
"""How an argument is drawn."""


class Argument(_Part):
    """A value that is drawn for each operation, command or item."""

    name: str
    each: Literal["operation", "command", "item"]
    generator: Generator


class RowsCheck(_Part):
    """How many rows there are."""

    check: Literal["rows"]
    least: U64
    most: U64 | None


class ColumnCheck(_Part):
    """Every row's value equals the argument, or all of them add up to it."""

    check: Literal["each", "sum"]
    column: U32
    argument: U32


class SameCheck(_Part):
    """All rows have the same value."""

    check: Literal["same"]
    column: U32


Check = Annotated[RowsCheck | ColumnCheck | SameCheck, Field(discriminator="check")]
"""Requirements on the rows of a reply."""


class Statement(_Part):
    """An operation in the system's own language."""

    name: str
    texts: tuple[str, ...]
    commands: SizeLaw
    items: SizeLaw
    record: Literal["operation", "command", "item"]
    rows: Rows | None
    arguments: tuple[Argument, ...]
    expects: tuple[U32, ...]
    checks: tuple[Check, ...]
    when_full: U32 | None
    options: dict[str, JsonValue]


class RatePoint(_Part):
    """The rate at one instant of the phase."""

    at_ns: U64
    rate: Positive


class Closed(_Part):
    """Closed model: due when the last one ended, plus the think time."""

    process: Literal["closed"]
    think_time_ns: U64


class AtRates(_Part):
    """Open model: due at a rate, independent of answers."""

    process: ArrivalProcess
    rates: tuple[RatePoint, ...]


class OnTape(_Part):
    """Operations as a tape has them, when they were due there."""

    process: Literal["tape"]
    path: str
    speed: Positive | None
    order: Literal["key", "client", "none"]
    loops: U32
    length_ns: U64
    trace: str
    told: tuple[str, ...]


Arrival = Annotated[Closed | AtRates | OnTape, Field(discriminator="process")]


class Weight(_Part):
    """One operation of a mix: its kind, its statement if it has one, its weight."""

    kind: Kind
    statement: U32 | None
    weight: Positive


class Group(_Part):
    """Clients that behave alike."""

    name: str
    clients: U32
    arrival: Arrival
    mix: tuple[Weight, ...]
    keys: KeyChoice
    read_fields: FieldChoice
    write_fields: FieldChoice
    scan_length: SizeLaw
    check_values: Literal["none", "tag", "full"]


class ActiveGroup(_Part):
    """A group's part in a phase."""

    group: U32
    operations: U64 | None


class Until(_Part):
    """Stop when the mean rate is known well enough, or doesn't move any more."""

    rule: Literal["cassandra-stress", "precision", "stationary"]
    bound: Positive
    min_intervals: U32
    max_intervals: U32 | None


class Phase(_Part):
    """A stretch of a run with one purpose and one rate law."""

    name: PhaseName
    groups: tuple[ActiveGroup, ...]
    only_if_missing: bool
    duration_ns: U64 | None
    until: Until | None


class Plan(_Part):
    """Everything decided for one run."""

    format: U32
    name: str
    system: System
    seeds: Seeds
    share: Share
    dataset: Dataset
    prepare: tuple[str, ...]
    statements: tuple[Statement, ...]
    groups: tuple[Group, ...]
    phases: tuple[Phase, ...]
    interval_ns: U64
    timeout_ns: U64 | None
    drain_limit_ns: U64
    verify_memory_bytes: U64 | None
    stall_limit_ns: U64 | None
    workers: U32
    pin: tuple[U32, ...]

    def to_json(self) -> str:
        """The text the engine reads."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Reads a plan; raises `PlanError` when the text is none."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as problem:
            first = problem.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "plan"
            raise PlanError(f"{place}: {first['msg'].lower()}") from None
