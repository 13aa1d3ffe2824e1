"""CSV files as traces: twitter/cache-trace's, or one whose columns are named."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import polars as pl

from kvmark.errors import ImportFileError
from kvmark.trace.folder import BATCH_ROWS, HASHED, Keep, TraceInfo, TraceWriter, first_line
from kvmark.trace.making import Making

_OURS: Final = ("at", "key", "kind", "value_size", "key_size", "client", "ttl", "count", "value")
_NUMBERS: Final = frozenset({"value_size", "key_size", "ttl", "count"})
_TWITTER: Final = ("at", "key", "key_size", "value_size", "client", "kind", "ttl")
_LARGEST: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a file has what."""

    name: str
    columns: Mapping[str, str]
    """The file's column for each of ours: `at`, `key`, `kind`, and more where there are."""
    time: str = "s"
    """One of `making.TIME_UNITS`."""
    header: bool = True


def layout_of(path: Path, named: Mapping[str, str], time: str) -> Layout:
    """The layout of a file: as named, else by the names of its columns, else twitter/cache-trace's.

    Raises:
        ImportFileError: it can't be told, or a column isn't there.
    """
    there = [word.strip() for word in _first_row(path)]
    if not named and len(there) == len(_TWITTER) and _is_twitter(there):
        columns = {ours: f"column_{place}" for place, ours in enumerate(_TWITTER)}
        return Layout("twitter/cache-trace", columns, header=False)
    unknown = [ours for ours in named if ours not in _OURS]
    if unknown:
        raise ImportFileError(f"--columns: {unknown[0]!r} is none of {', '.join(_OURS)}")
    absent = [theirs for theirs in named.values() if theirs not in there]
    if absent:
        raise ImportFileError(f"{path} line 1: there is no column {absent[0]!r}")
    columns = {ours: named.get(ours, ours) for ours in _OURS if named.get(ours, ours) in there}
    missing = [ours for ours in ("at", "key", "kind") if ours not in columns]
    if missing:
        raise ImportFileError(
            f"{path} line 1: which column is {' and which is '.join(missing)}? Say it, as in"
            " --columns at=timestamp,key=id,kind=command"
        )
    return Layout("a CSV file", columns, time)


def _is_twitter(row: list[str]) -> bool:
    places = (_TWITTER.index(name) for name in ("at", "key_size", "value_size", "ttl"))
    return all(row[place].isdigit() for place in places) and row[5].isalpha()


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
    place = f"{path} line"
    making = Making(
        hash_key, layout.time, lambda row: f"{place} {row + 1 + layout.header}", keep=keep
    )
    try:
        for frame in making.frames(_batches(path, layout)):
            writer.add(frame)
    except pl.exceptions.PolarsError as problem:
        wrong = _wrong_line(path, layout)
        raise ImportFileError(wrong or f"{path} can't be read: {first_line(problem)}") from problem
    if not making.rows:
        raise ImportFileError(f"{path} has no operations")
    return writer.close(making.told())


def _batches(path: Path, layout: Layout) -> Iterator[pl.DataFrame]:
    columns = layout.columns
    lazy = pl.scan_csv(
        path,
        has_header=layout.header,
        infer_schema=False,
        quote_char='"' if layout.header else None,
        row_index_name="row",
    ).select("row", **{ours: pl.col(theirs) for ours, theirs in columns.items()})
    yield from lazy.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)


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
    """What is wrong with the first line that isn't one, looked for row by row."""
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
