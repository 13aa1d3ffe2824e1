"""CSV files and the output of Redis' MONITOR as traces: instants, hashed keys, numbered clients.

CSV files are twitter/cache-trace's, or have named columns. MONITOR has the server's clock, but no
replies. Commands of scripts are excluded and counted: a replay of the script would send them again.

Rows are converted in batches, not one by one in Python, so that a core reads a million operations a
second.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from kvmark import _engine
from kvmark._engine import hash_keys, kind_of, shape_of
from kvmark.errors import ImportFileError
from kvmark.trace.folder import BATCH_ROWS, HASHED, Keep, TraceInfo, TraceWriter, first_line

_OURS: Final = ("at", "key", "kind", "value_size", "key_size", "client", "ttl", "count", "value")
_NUMBERS: Final = frozenset({"value_size", "key_size", "ttl", "count"})
_TWITTER: Final = ("at", "key", "key_size", "value_size", "client", "kind", "ttl")
_LARGEST: Final = 2**32 - 1
_TIME_UNITS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
"""Nanoseconds of each unit of time; `iso` are dates and times as in 2026-11-24T09:00:00.5."""
_S: Final = 10**9

MONITOR: Final = "Redis' MONITOR"
_LINE: Final = re.compile(r'(\d+\.\d+) \[(\d+) ([^\]]*)\]((?: "(?:[^"\\]|\\.)*")+)\s*')
_WORD: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_SIGNS: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
_MONITOR_BATCH: Final = 1 << 17
_MONITOR_COLUMNS: Final = {
    "row": pl.Int64,
    **dict.fromkeys(("at", "client", "key", "kind", "key_size", "value_size", "ttl"), pl.String),
    "items": pl.UInt16,
    "key_content": pl.Binary,
    "value_content": pl.Binary,
}


def number_clients(clients: pl.Series, numbers: dict[object, int]) -> pl.Series:
    """Clients as numbers by order of appearance; `numbers` is shared by all batches."""
    for client in clients.unique(maintain_order=True):
        numbers.setdefault(client, len(numbers))
    return clients.replace_strict(numbers, return_dtype=pl.UInt32).alias("client")


@dataclass(slots=True)
class _Conversion:
    """The state between the batches of a file.

    A batch has texts of the source: `at`, `key` and `kind`, and if the source has them `client`,
    `key_size`, `value_size`, `value`, `count` and `ttl` in seconds; and the numbers `row` and
    `items`, see `folder.COLUMNS`. Binary contents are in `key_content` and `value_content`.
    """

    hash_key: bytes
    time: str
    """The unit of `at`, one of `_TIME_UNITS`."""
    file: Path
    before: int = 0
    """The number of lines before row 0 and of its line, for messages."""
    rows: int = 0
    others: Counter[str] = field(default_factory=Counter)
    clients: dict[object, int] = field(default_factory=dict)
    begin_ns: int | None = None
    last_ns: int = 0
    whole_seconds: bool = False
    keep: Keep = HASHED
    more_notes: list[str] = field(default_factory=list)

    def write(self, batches: Iterable[pl.DataFrame], writer: TraceWriter) -> TraceInfo:
        """Passes all operations to the writer, and ends the trace with notes.

        Raises:
            ImportFileError: time goes back, or there are no operations.
            PolarsError: a text isn't the number that it should be.
        """
        held: list[pl.DataFrame] = []
        for batch in batches:
            timed = pl.concat([*held, self._timed(batch)])
            held = []
            if self.whole_seconds:
                # The operations of a second are spread together: its last batch must be complete.
                is_last = pl.col("at_ns") == pl.col("at_ns").max()
                held = [timed.filter(is_last)]
                timed = _spread(timed.filter(~is_last))
            writer.add(self._made(timed))
        for last in held:
            writer.add(self._made(_spread(last)))
        if not self.rows:
            raise ImportFileError(f"{self.file} has no operations")
        notes = []
        if self.whole_seconds:
            notes.append("instants were whole seconds: the operations of each are spread evenly")
        if self.others:
            counts = ", ".join(f"{verb} ({n:,})" for verb, n in self.others.most_common(5))
            notes.append(f"operations of no known kind: {counts}")
        if not self.clients:
            notes.append("the file names no clients: all operations are of one")
        return writer.close([*notes, *self.more_notes])

    def _timed(self, batch: pl.DataFrame) -> pl.DataFrame:
        """With `at_ns` since the first operation, which must not decrease."""
        if self.time == "iso":
            read = pl.col("at").str.to_datetime(time_unit="ns", strict=True).dt.epoch("ns")
        else:
            read = _exact(_TIME_UNITS[self.time])
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
                f"{self.file} line {int(timed['row'][place]) + self.before}: time goes back by"
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
        verbs, columns = self._verbs(timed), timed.columns
        client: pl.Expr | pl.Series = pl.lit(0, pl.UInt32)
        if "client" in columns:
            client = number_clients(timed["client"].fill_null(""), self.clients)
        size = pl.col("value").str.len_bytes() if "value" in columns else pl.lit(None)
        value_size = pl.col("value_size") if "value_size" in columns else size
        made: dict[str, pl.Expr | pl.Series] = {
            "client": client,
            "kind": verbs["kind"],
            "statement": verbs["statement"],
            "key": pl.Series(np.frombuffer(hashed, dtype="<u8"), dtype=pl.UInt64),
            "key_size": (pl.col("key_size") if "key_size" in columns else sizes).cast(pl.UInt32),
            "value_size": value_size.cast(pl.Int64).cast(pl.UInt32),
            "ttl_ms": (_ttl(timed) * 1000).round().cast(pl.UInt64),
            "items": (pl.col("items") if "items" in columns else pl.lit(1)).cast(pl.UInt16),
        }
        if "count" in columns:
            made["count"] = pl.col("count").cast(pl.UInt32)
        contents = (("key", self.keep.keys), ("value", self.keep.values))
        for text, name in ((text, f"{text}_content") for text, kept in contents if kept):
            made[name] = pl.col(name if name in columns else text).cast(pl.Binary)
        return timed.with_columns(**made)

    def _verbs(self, timed: pl.DataFrame) -> pl.DataFrame:
        """The kind and the statement of each row."""
        rows = timed.select(verb=pl.col("kind").fill_null(""), expires=_ttl(timed).is_not_null())
        named = []
        for verb, expires, count in rows.group_by("verb", "expires").len().iter_rows():
            named.append((verb, expires, kind_of(verb), shape_of(verb, expires)))
            if named[-1][2] == "other":
                self.others[verb] += count
        kinds = pl.DataFrame(named, ["verb", "expires", "kind", "statement"], orient="row")
        return rows.join(kinds, on=["verb", "expires"], how="left", maintain_order="left")


def _exact(unit_ns: int) -> pl.Expr:
    """Nanoseconds of a number, exact in its whole part; null for other texts."""
    whole = pl.col("at").str.extract(r"^\s*(\d+)(?:\.\d+)?\s*$", 1).cast(pl.Int64)
    part = pl.col("at").str.extract(r"^\s*\d+(\.\d+)?\s*$", 1).fill_null("0").cast(pl.Float64)
    return whole * unit_ns + (part * unit_ns).round().cast(pl.Int64)


def _spread(timed: pl.DataFrame) -> pl.DataFrame:
    """Spreads the operations of each second evenly."""
    place = pl.int_range(pl.len()).over("at_ns")
    return timed.with_columns(pl.col("at_ns") + place * _S // pl.len().over("at_ns"))


def _ttl(timed: pl.DataFrame) -> pl.Expr:
    """Seconds to live; null for 0, which means forever."""
    seconds = pl.col("ttl").cast(pl.Float64) if "ttl" in timed.columns else pl.lit(None, pl.Float64)
    return pl.when(seconds > 0).then(seconds)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file."""

    name: str
    columns: Mapping[str, str]
    """The file's column for each of ours: `at`, `key`, `kind`, and optional ones."""
    time: str = "s"
    """One of `_TIME_UNITS`."""
    header: bool = True


def layout_of(path: Path, named: Mapping[str, str], time: str) -> Layout:
    """The layout of a file: as named, else by the names of its columns, else twitter/cache-trace's.

    Raises:
        ImportFileError: the layout is unknown, or a column is missing.
    """
    header = [word.strip() for word in _first_row(path)]
    if not named and len(header) == len(_TWITTER):
        row = dict(zip(_TWITTER, header, strict=True))
        numbers = (row[name].isdigit() for name in ("at", "key_size", "value_size", "ttl"))
        if row["kind"].isalpha() and all(numbers):
            columns = {ours: f"column_{place}" for place, ours in enumerate(_TWITTER)}
            return Layout("twitter/cache-trace", columns, header=False)
    unknown = [ours for ours in named if ours not in _OURS]
    if unknown:
        raise ImportFileError(f"--columns: {unknown[0]!r} is none of {', '.join(_OURS)}")
    absent = [theirs for theirs in named.values() if theirs not in header]
    if absent:
        raise ImportFileError(f"{path} line 1: there is no column {absent[0]!r}")
    columns = {ours: named.get(ours, ours) for ours in _OURS if named.get(ours, ours) in header}
    missing = [ours for ours in ("at", "key", "kind") if ours not in columns]
    if missing:
        raise ImportFileError(
            f"{path} line 1: which column is {' and which is '.join(missing)}? Name it, as in"
            " --columns at=timestamp,key=id,kind=command"
        )
    return Layout("a CSV file", columns, time)


def import_csv(
    path: Path, layout: Layout, writer: TraceWriter, hash_key: bytes, keep: Keep = HASHED
) -> TraceInfo:
    """Reads a file into a trace.

    Raises:
        ImportFileError: a line isn't one of such a file, with its number.
    """
    if keep.values and "value" not in layout.columns:
        raise ImportFileError(
            f"--keep-values: {path} has no column of values; name one by --columns value=NAME, or"
            " leave it out"
        )
    conversion = _Conversion(hash_key, layout.time, path, 1 + layout.header, keep=keep)
    try:
        lazy = pl.scan_csv(
            path,
            has_header=layout.header,
            infer_schema=False,
            quote_char='"' if layout.header else None,
            row_index_name="row",
        ).select("row", **{ours: pl.col(theirs) for ours, theirs in layout.columns.items()})
        batches = lazy.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        return conversion.write(batches, writer)
    except pl.exceptions.PolarsError as problem:
        wrong = _wrong_line(path, layout)
        raise ImportFileError(wrong or f"{path} can't be read: {first_line(problem)}") from problem


def _first_row(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            row = next(csv.reader(file), None)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise ImportFileError(f"{path} can't be read: {first_line(problem)}") from problem
    if row is None:
        raise ImportFileError(f"{path} is empty")
    return row


def _wrong_line(path: Path, layout: Layout) -> str | None:
    """The error in the first invalid line, searched row by row."""
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        rows = csv.reader(file) if layout.header else csv.reader(file, quoting=csv.QUOTE_NONE)
        names = (
            next(rows) if layout.header else [f"column_{place}" for place in range(len(_TWITTER))]
        )
        places = {ours: names.index(theirs) for ours, theirs in layout.columns.items()}
        for row in rows:
            wrong = _wrong(row, places, len(names), layout.time) if row else None
            if wrong is not None:
                return f"{path} line {rows.line_num}: {wrong}"
    return None


def _wrong(row: list[str], places: Mapping[str, int], columns: int, time: str) -> str | None:
    if len(row) != columns:
        return f"it has {len(row)} fields and not {columns}"
    for name in sorted(_NUMBERS & places.keys()):
        text = row[places[name]].strip()
        if text and not (text.isdigit() and int(text) <= _LARGEST):
            return f"{name} is {text!r}, and not a whole number below 2^32"
    at = row[places["at"]].strip()
    if time == "iso":
        try:
            datetime.fromisoformat(at)
        except ValueError:
            return f"the time is {at!r}, and not as 2026-11-24T09:00:00"
        return None
    return None if at.replace(".", "", 1).isdigit() else f"the time is {at!r}, and not a number"


def is_monitor(path: Path) -> bool:
    """Whether a file begins like MONITOR's output."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = [line for line in islice(file, 2) if line.strip() != "OK"]
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem
    return bool(first) and _LINE.fullmatch(first[0]) is not None


def import_monitor(
    path: Path, writer: TraceWriter, hash_key: bytes, keep: Keep = HASHED
) -> TraceInfo:
    """Reads a file into a trace.

    Raises:
        ImportFileError: a line isn't one of MONITOR's, with its number.
    """
    notes = ["MONITOR contains no replies"]
    conversion = _Conversion(hash_key, "s", path, keep=keep, more_notes=notes)
    lines = _monitor_rows(path, notes)
    batches = (
        pl.DataFrame(rows, schema=_MONITOR_COLUMNS, orient="row")
        for rows in iter(lambda: list(islice(lines, _MONITOR_BATCH)), [])
    )
    return conversion.write(batches, writer)


def _monitor_rows(path: Path, notes: list[str]) -> Iterator[tuple[object, ...]]:
    """The rows of all commands of clients; those of scripts are noted."""
    scripts = 0
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                if line.strip() in {"", "OK"}:
                    continue
                match = _LINE.fullmatch(line)
                if match is None:
                    raise ImportFileError(
                        f"{path} line {number}: this isn't a line of MONITOR, such as"
                        ' 1339518083.107412 [0 127.0.0.1:60866] "get" "x"'
                    )
                at, _, client, words = match.groups()
                if client == "lua":
                    scripts += 1
                    continue
                for row in command_rows(words):
                    yield (number, at, client, *row)
        if scripts:
            notes.append(f"commands that scripts sent are left out: {scripts:,}")
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem


def command_rows(words: str) -> Iterator[tuple[object, ...]]:
    """The rows of a command of Redis, one for each of its keys, and at least one.

    A row is the columns from `key` on; unknown sizes are none.
    """
    command = [_bytes(word) for word in _WORD.findall(words)]
    places, values, size, ttl_ms = _engine.redis_command(command)
    keys = [command[place] for place in places] or [b""]
    written = b"".join(command[place] for place in values) if values else None
    for place, key in enumerate(keys):
        yield (
            # Bytes that are no text remain distinct by their code.
            key.decode(errors="backslashreplace"),
            command[0].decode(errors="replace").upper(),
            str(len(key)),
            None if size is None else str(size),
            None if ttl_ms is None else str(ttl_ms / 1000),
            len(keys) if place == 0 else 0,
            key,
            written if place == 0 else None,
        )


def _bytes(word: str) -> bytes:
    """A word without its escapes."""
    if "\\" not in word:
        return word.encode(errors="surrogateescape")

    def plain(escape: re.Match[str]) -> str:
        sign = escape[1]
        # Bytes beyond ASCII become surrogates, as in Python's texts.
        if len(sign) == 3:
            code = int(sign[1:], 16)
            return chr(code) if code < 128 else chr(0xDC00 + code)
        return _SIGNS.get(sign, sign)

    return _ESCAPE.sub(plain, word).encode(errors="surrogateescape")
