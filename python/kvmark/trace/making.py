"""Rows of any source made into a trace's: instants, hashes of keys, clients by number.

Nothing is done row by row in Python, so that a million operations a second and core are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from kvmark._engine import hash_keys, kind_of, shape_of
from kvmark.errors import ImportFileError
from kvmark.trace.folder import HASHED, Keep

TIME_UNITS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
"""Nanoseconds of each unit of time; `iso` are dates and times as in 2026-11-24T09:00:00.5."""
_S: Final = 10**9


@dataclass(slots=True)
class Making:
    """What goes from batch to batch.

    A batch has texts, as the source has them: `at`, `key` and `kind`, and where it says so
    `client`, `key_size`, `value_size`, `value`, `count` and `ttl`, which is seconds; and of `row`
    its number, of `items` the keys of its operation, see `folder.COLUMNS`. What is no text has its
    bytes in `key_content` and `value_content`, where these are kept.
    """

    hash_key: bytes
    time: str
    """The unit of `at`, one of `TIME_UNITS`."""
    place: Callable[[int], str]
    """Where a row stands, for people."""
    rows: int = 0
    others: dict[str, int] = field(default_factory=dict)
    clients: dict[str, int] = field(default_factory=dict)
    begin_ns: int | None = None
    last_ns: int = 0
    whole_seconds: bool = False
    keep: Keep = HASHED

    def frames(self, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The operations with a trace's columns.

        Raises:
            ImportFileError: time goes back.
            PolarsError: a text isn't the number that it should be.
        """
        held: pl.DataFrame | None = None
        for batch in batches:
            timed = self._timed(batch)
            if held is not None:
                timed = pl.concat([held, timed])
            if not self.whole_seconds:
                yield self._made(timed)
                held = None
                continue
            # A second's operations are spread over it together, so its last batch is waited for.
            is_last = pl.col("at_ns") == pl.col("at_ns").max()
            held = timed.filter(is_last)
            yield self._made(_spread(timed.filter(~is_last)))
        if held is not None:
            yield self._made(_spread(held))

    def told(self) -> list[str]:
        """What should be known of the trace."""
        told = []
        if self.whole_seconds:
            told.append("instants were whole seconds: the operations of each are spread evenly")
        if self.others:
            most = sorted(self.others.items(), key=lambda one: -one[1])[:5]
            named = ", ".join(f"{verb} ({count:,})" for verb, count in most)
            told.append(f"operations of no known kind: {named}")
        if not self.clients:
            told.append("the file names no clients: all operations are of one")
        return told

    def _timed(self, batch: pl.DataFrame) -> pl.DataFrame:
        """With `at_ns` since the first operation, which must not fall."""
        if self.time == "iso":
            read = pl.col("at").str.to_datetime(time_unit="ns", strict=True).dt.epoch("ns")
        else:
            read = _exact(TIME_UNITS[self.time])
        if self.time == "s" and (self.begin_ns is None or self.whole_seconds):
            self.whole_seconds = bool(batch["at"].str.contains(r"^\d+$").all())
        timed = batch.with_columns(read.alias("at_ns"))
        if timed["at_ns"].null_count():
            raise pl.exceptions.ComputeError("a time is no number")
        if self.begin_ns is None and not timed.is_empty():
            self.begin_ns = self.last_ns = int(timed["at_ns"][0])
        before = timed["at_ns"].shift(1, fill_value=self.last_ns)
        falls = (timed["at_ns"] < before).arg_true()
        if len(falls):
            place = int(falls[0])
            back_s = (int(before[place]) - int(timed["at_ns"][place])) / _S
            raise ImportFileError(
                f"{self.place(int(timed['row'][place]))}: time goes back by"
                f" {back_s:g} s; sort the file by time"
            )
        if not timed.is_empty():
            self.last_ns = int(timed["at_ns"][-1])
        return timed.with_columns(pl.col("at_ns") - (self.begin_ns or 0))

    def _made(self, timed: pl.DataFrame) -> pl.DataFrame:
        """The columns of a trace."""
        if timed.is_empty():
            return timed
        self.rows += len(timed)
        keys = timed["key"].fill_null("")
        sizes = keys.str.len_bytes()
        hashed = hash_keys(
            self.hash_key,
            str(keys.str.join("")[0]).encode(),
            sizes.cast(pl.UInt32).to_numpy().astype("<u4").tobytes(),
        )
        verbs = self._verbs(timed)
        there = timed.columns
        size = pl.col("key_size").cast(pl.UInt32) if "key_size" in there else sizes.cast(pl.UInt32)
        return timed.with_columns(
            self._client(timed),
            verbs["kind"],
            verbs["statement"],
            pl.Series("key", _numbers(hashed), dtype=pl.UInt64),
            size.alias("key_size"),
            _value_size(timed).cast(pl.UInt32).alias("value_size"),
            (_ttl(timed) * 1000).round().cast(pl.UInt64).alias("ttl_ms"),
            (pl.col("items") if "items" in there else pl.lit(1)).cast(pl.UInt16).alias("items"),
            *self._contents(there),
        )

    def _contents(self, there: Collection[str]) -> Iterator[pl.Expr]:
        """What is optional in a trace, as far as the source says it and it is to be kept."""
        if "count" in there:
            yield pl.col("count").cast(pl.UInt32)
        for name, text, kept in (
            ("key_content", "key", self.keep.keys),
            ("value_content", "value", self.keep.values),
        ):
            if kept:
                yield pl.col(name if name in there else text).cast(pl.Binary).alias(name)

    def _verbs(self, timed: pl.DataFrame) -> pl.DataFrame:
        """The kind and the statement of each row, of the few that there are."""
        asked = timed.select(
            pl.col("kind").fill_null("").alias("verb"),
            (_ttl(timed) > 0).fill_null(False).alias("expires"),
        )
        few = asked.group_by("verb", "expires").len()
        made = few.with_columns(
            pl.Series("kind", [kind_of(verb) for verb in few["verb"]], dtype=pl.String),
            pl.Series(
                "statement",
                [shape_of(verb, expires) for verb, expires, _ in few.iter_rows()],
                dtype=pl.String,
            ),
        )
        for verb, count in made.filter(pl.col("kind") == "other").select("verb", "len").iter_rows():
            self.others[verb] = self.others.get(verb, 0) + count
        return asked.join(made, on=["verb", "expires"], how="left", maintain_order="left")

    def _client(self, timed: pl.DataFrame) -> pl.Series:
        """Clients by number, in the order in which they appear."""
        if "client" not in timed.columns:
            return pl.Series("client", [0], dtype=pl.UInt32).new_from_index(0, len(timed))
        named = timed["client"].fill_null("")
        for name in named.unique(maintain_order=True):
            self.clients.setdefault(name, len(self.clients))
        numbers = named.replace_strict(self.clients, return_dtype=pl.UInt32)
        return numbers.alias("client")


def _exact(unit_ns: int) -> pl.Expr:
    """Nanoseconds of a number, its whole part exactly; null where it is none."""
    whole = pl.col("at").str.extract(r"^\s*(\d+)(?:\.\d+)?\s*$", 1).cast(pl.Int64)
    part = pl.col("at").str.extract(r"^\s*\d+(\.\d+)?\s*$", 1).fill_null("0").cast(pl.Float64)
    return whole * unit_ns + (part * unit_ns).round().cast(pl.Int64)


def _spread(timed: pl.DataFrame) -> pl.DataFrame:
    """The operations of each second, evenly over it."""
    place = pl.int_range(pl.len()).over("at_ns")
    return timed.with_columns(pl.col("at_ns") + place * _S // pl.len().over("at_ns"))


def _numbers(hashed: bytes) -> pl.Series:
    return pl.Series(np.frombuffer(hashed, dtype="<u8"))


def _value_size(timed: pl.DataFrame) -> pl.Expr:
    if "value" in timed.columns and "value_size" not in timed.columns:
        return pl.col("value").str.len_bytes()
    return _optional(timed, "value_size")


def _optional(timed: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int64) if name in timed.columns else pl.lit(None, dtype=pl.Int64)


def _ttl(timed: pl.DataFrame) -> pl.Expr:
    """Seconds to live; null where it is 0, which means forever."""
    seconds = pl.col("ttl").cast(pl.Float64) if "ttl" in timed.columns else pl.lit(None, pl.Float64)
    return pl.when(seconds > 0).then(seconds)
