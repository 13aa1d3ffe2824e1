"""The columns of a trace, and what its `trace.json` says. Documented in docs/reference/trace.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import polars as pl
from pydantic import ConfigDict

__all__ = ["COLUMNS", "FORMAT", "KINDS", "OPTIONAL", "REQUIRED", "TraceInfo", "sentences"]

FORMAT: Final = 1

KINDS: Final = (
    "read", "update", "insert", "scan", "read_modify_write", "delete", "other",
)  # fmt: skip

COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    "at_ns": pl.Int64,
    "client": pl.UInt32,
    "kind": pl.String,
    "statement": pl.String,
    "key": pl.UInt64,
    "key_size": pl.UInt32,
    "value_size": pl.UInt32,
    "ttl_ms": pl.UInt64,
    "items": pl.UInt16,
}
"""The columns and their types, in order. Rows rise with `at_ns`, which is since the first of them.
Null is what the source doesn't say; `statement` is the command with its key and value left out. An
operation on several keys has a row for each: `items` is their number on the first row, else 0."""

OPTIONAL: Final[dict[str, type[pl.DataType]]] = {
    "issued_ns": pl.Int64,
    "completed_ns": pl.Int64,
    "outcome": pl.String,
    "group": pl.String,
}
"""Columns that a trace has whose source knows them, behind the others; instants as `at_ns`."""

REQUIRED: Final = ("at_ns", "client", "kind", "statement", "key", "key_size", "items")
"""Columns without nulls."""


def sentences(told: Sequence[str]) -> list[str]:
    """What is told of a trace, each as a whole sentence."""
    return [f"{one[0].upper()}{one[1:]}." for one in told]


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """What is known of a whole trace."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    format: Literal[1]
    source: str
    """What it was made of: the form of the file that was imported."""
    operations: int
    rows: int
    """Keys of operations; more than operations where some have several."""
    clients: int
    end_ns: int
    """The last operation's instant, since the first."""
    keys: Literal["hashed"]
    told: tuple[str, ...]
    """What the reader of a figure should know of how the trace was made."""
