"""cassandra-stress's rows in a plan, field for field the engine's types in `crates/plan`."""

from __future__ import annotations

import sys
from bisect import bisect_left
from itertools import accumulate
from typing import Annotated, Literal

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

_U32 = Annotated[int, Interval(ge=0, le=2**32 - 1)]
_U64 = Annotated[int, Interval(ge=0, le=2**64 - 1)]
_I64 = Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)]
_Finite = Annotated[float, Interval(ge=-sys.float_info.max, le=sys.float_info.max)]
_Positive = Annotated[float, Interval(ge=0.0, le=sys.float_info.max)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlainShape(_Part):
    """All alike, exponential, or one after the other."""

    law: Literal["uniform", "exponential", "sequence"]


class GaussianShape(_Part):
    """Normally distributed."""

    law: Literal["gaussian"]
    mean: _Finite
    stddev: _Positive


class ExtremeShape(_Part):
    """Weibull."""

    law: Literal["extreme"]
    shape: _Positive


class QuantizedExtremeShape(_Part):
    """Weibull in steps."""

    law: Literal["quantized_extreme"]
    shape: _Positive
    steps: _U32


Shape = Annotated[
    PlainShape | GaussianShape | ExtremeShape | QuantizedExtremeShape, Field(discriminator="law")
]


class RowLaw(_Part):
    """A law between two bounds."""

    min: _I64
    max: _I64
    shape: Shape
    inverted: bool


class PlainValue(_Part):
    """What needs nothing said."""

    type: Literal["digits", "bytes", "text", "boolean", "uuid", "time_uuid", "timestamp", "inet"]


class IntegerValue(_Part):
    """The lowest bits."""

    type: Literal["integer"]
    bits: _U32


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
    of: _U64


class OneRow(_Part):
    """One row at random, or a random one for each argument."""

    rows: Literal["one", "several"]


Visit = Annotated[EachRow | OneRow, Field(discriminator="rows")]


class RowShare(_Part):
    """A draw divided by a number."""

    law: RowLaw
    of: _U64


class Rows(_Part):
    """The columns of a table, which partitions an operation is about, and which of their rows."""

    partition: tuple[RowColumn, ...]
    clustering: tuple[RowColumn, ...]
    values: tuple[RowColumn, ...]
    sorted: bool
    visit: Visit
    ends: tuple[_U64, ...]
    partitions: tuple[_U64, ...]
    partitions_in_all: _U64 | None
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
