"""The columns of a trace, and what its `trace.json` says. Documented in docs/reference/trace.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import polars as pl
from pydantic import ConfigDict

__all__ = [
    "COLUMNS",
    "FORMAT",
    "HASHED",
    "KINDS",
    "OPTIONAL",
    "REQUIRED",
    "Keep",
    "TraceInfo",
    "sentences",
]

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
    "count": pl.UInt32,
    "key_content": pl.Binary,
    "value_content": pl.Binary,
    "issued_ns": pl.Int64,
    "completed_ns": pl.Int64,
    "outcome": pl.String,
    "group": pl.String,
}
"""Columns that a trace has whose source knows them, behind the others: how many records a scan asks
for; the bytes of keys and of what is written, where they were kept on purpose; and of a run, when
an operation was issued and completed (instants as `at_ns`), and how. Null is what isn't known."""

REQUIRED: Final = ("at_ns", "client", "kind", "statement", "key", "key_size", "items")
"""Columns without nulls."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What a trace has of contents, beside hashes of keys and sizes of values."""

    keys: bool = False
    values: bool = False
    """Those that are written."""

    def words(self) -> str:
        """What is kept, for people; empty where nothing is."""
        names = (("keys", self.keys), ("values that are written", self.values))
        return " and ".join(name for name, kept in names if kept)

    def told(self) -> tuple[str, ...]:
        """What the reader of a trace should know of it."""
        return (f"{self.words()} are kept as they were",) if self.words() else ()


HASHED: Final = Keep()


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
    keys: Literal["hashed", "kept"]
    told: tuple[str, ...]
    """What the reader of a figure should know of how the trace was made."""
    values: Literal["sizes", "kept"] = "sizes"

    @property
    def keep(self) -> Keep:
        """What it has of contents."""
        return Keep(keys=self.keys == "kept", values=self.values == "kept")
