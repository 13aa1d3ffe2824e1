"""The plan as Python sees it, field for field the engine's types in `crates/plan`.

Nothing has a default and no field is unknown; durations and instants are nanoseconds, rates
operations per second, sizes bytes. The meaning of each field is documented where the engine
defines it, and `plan.schema.json` is generated from there; a test holds both against each other.
Laws, generators, checks and columns, which Python only writes, are in the engine's own words.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from itertools import accumulate
from typing import Annotated, Final, Literal, TypeAlias

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from kvmark.errors import PlanError
from kvmark.spec.laws import ArrivalProcess

FORMAT: Final = 1
"""The version of the plan's format."""

U32 = Annotated[int, Interval(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Interval(ge=0, le=2**64 - 1)]
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


class LineFile(_Part):
    """The lines of a text file, or the cells of a CSV column, in the engine's format."""

    path: str
    name: str
    column: str | None
    sha256: str
    count: U64


class Lines(_Part):
    """Keys or values that are the lines of a file."""

    lines: LineFile


class KeyText(_Part):
    """How an ordinal becomes a key."""

    prefix: str
    zero_padding: U32
    order: Literal["hashed", "ordered", "sized"] | Lines


Words: TypeAlias = dict[str, JsonValue]
"""A law, a generator, a check or a column in the words of the engine, which checks it. Files have
the same laws, checked when they are read; `kvmark.plan.statements` renames them."""


class FieldLayout(_Part):
    """The fields of a record."""

    count: U32
    name_prefix: str
    length: Words


class Compressible(_Part):
    """How far values can be compressed."""

    share: Positive
    text: bool


class CompressibleValues(_Part):
    """Random values with runs that compressors remove."""

    compressible: Compressible


class Dataset(_Part):
    """The records that exist or are to be loaded: ordinals `start .. start + count`."""

    table: str
    start: U64
    count: U64
    full_at: U64 | None
    key: KeyText
    fields: FieldLayout
    values: Literal["random", "integrity", "sized"] | CompressibleValues | Lines
    probe: U32 | None


class Rows(_Part):
    """The columns of a table, which partitions an operation is about, and which of their rows."""

    partition: tuple[Words, ...]
    clustering: tuple[Words, ...]
    values: tuple[Words, ...]
    sorted: bool
    visit: Words
    ends: tuple[U64, ...]
    partitions: tuple[U64, ...]
    partitions_in_all: U64 | None
    filled: Words

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


class KeyChoice(_Part):
    """How keys are chosen among ordinals `start .. start + count`."""

    start: U64
    count: U64
    distribution: Words


class Argument(_Part):
    """A value that is drawn for each operation, command or item."""

    name: str
    each: Literal["operation", "command", "item"]
    generator: Words


class Statement(_Part):
    """An operation in the system's own language."""

    name: str
    texts: tuple[str, ...]
    commands: Words
    items: Words
    record: Literal["operation", "command", "item"]
    rows: Rows | None
    arguments: tuple[Argument, ...]
    expects: tuple[U32, ...]
    checks: tuple[Words, ...]
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


class RetryPolicy(_Part):
    """When a failed request is made again."""

    attempts: U32
    jitter: Literal["none", "full"]
    backoff_ns: U64
    backoff_limit_ns: U64


class Fill(_Part):
    """The write that follows a read of a missing record."""

    statement: U32 | None


class Group(_Part):
    """Clients that behave alike."""

    name: str
    clients: U32
    arrival: Arrival
    mix: tuple[Weight, ...]
    keys: KeyChoice
    read_fields: FieldChoice
    write_fields: FieldChoice
    scan_length: Words
    check_values: Literal["none", "tag", "full"]
    retry: RetryPolicy | None
    on_miss: Fill | None


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
