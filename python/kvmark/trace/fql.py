"""The text of Cassandra's `fqltool dump` as a trace: what each client of a node asked.

Records are read in both forms that `org.apache.cassandra.fqltool.commands.Dump` has printed: single
queries and batches, each query with its bound values in hexadecimal. The dump names no schema, no
clients and no answers. Without a schema the partition key isn't known: it is taken to be the first
column that a WHERE clause holds equal to something, and the first one that an INSERT names, unless
it is said (`--key-column`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from kvmark.errors import ImportFileError
from kvmark.trace.cql_text import statement_of
from kvmark.trace.folder import TraceWriter
from kvmark.trace.making import Making
from kvmark.trace.schema import TraceInfo

__all__ = ["FQL", "import_fql", "is_fql"]

FQL: Final = "Cassandra's fqltool dump"

_SORTED: Final = 1 << 17
"""Rows that are sorted together: a query is logged when it ends, with the instant of its start."""
_ITEMS_MAX: Final = 65_535
_WRITES: Final = frozenset({"insert", "update"})
_SHOWN_BYTES: Final = 1024
"""Longer values are cut off in a dump, and their length isn't told."""
_TYPE: Final = re.compile(r"Type: (single-query|batch)")
_HEADS: Final = (
    re.compile(r"Query start time: (\d+)"),
    re.compile(r"Protocol version: \d+"),
    re.compile(r"Generated timestamp:-?\d+"),
    re.compile(r"Generated nowInSeconds:-?\d+"),
)
_BATCH_TYPE: Final = re.compile(r"Batch type: [A-Z]+")
_OFFSET: Final = re.compile(r"[0-9a-f]{8,16}")
_HEX_COLUMNS: Final = 67
"""Behind its offset a line has 16 bytes in hexadecimal, a gap in their middle, and their text."""
_TEXT_COLUMNS: Final = 18
_SAME: Final = "........"
_CUT: Final = "... truncated"
_VALUES: Final = "Values: "
_BEHIND: Final = "-----"
_NULL: Final = "null"


class _Value(NamedTuple):
    """A bound value: as many of its bytes as are known, and its length if that is."""

    known: bytes
    size: int | None


@dataclass(slots=True)
class _Query:
    text: str
    parts: list[list[_Value]]
    """See `_parts`."""


@dataclass(slots=True)
class _Counts:
    """What is left out, by name, and what is to be known."""

    left_out: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    several: int = 0
    conditional: int = 0
    keys: dict[str, str] = field(default_factory=dict)
    """By table: which columns were taken for its key."""


def is_fql(path: Path) -> bool:
    """Whether a file begins as a dump does."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [file.readline().rstrip("\n") for _ in range(2)]
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem
    return bool(_TYPE.fullmatch(lines[0])) and _HEADS[0].fullmatch(lines[1]) is not None


def import_fql(
    path: Path, key_columns: Mapping[str, Sequence[str]], writer: TraceWriter, hash_key: bytes
) -> TraceInfo:
    """Reads a file into a trace. `key_columns` names the columns of a table's partition key.

    Raises:
        ImportFileError: a line isn't one of a dump, with its number, or nothing is in it.
    """
    making = Making(hash_key, "ms", lambda row: f"{path} line {row}")
    counts = _Counts()
    for frame in making.frames(_batches(path, key_columns, counts)):
        writer.add(frame)
    if not making.rows:
        left = ", ".join(f"{name} ({count:,})" for name, count in counts.left_out.most_common(5))
        raise ImportFileError(
            f"{path} has no operations{f', only what is left out: {left}' if left else ''}"
        )
    unused = [table for table in key_columns if table not in counts.keys]
    if unused:
        raise ImportFileError(f"--key-column: {path} has no table {unused[0]!r}")
    return writer.close([*_told(counts), *making.told()])


def _told(counts: _Counts) -> Iterator[str]:
    """What should be known of the trace."""
    yield "instants are whole milliseconds, at which the node began with an operation"
    yield "the dump tells no answers"
    tables = sorted(counts.keys.items())
    if tables:
        named = ", ".join(f"{table} by {columns}" for table, columns in tables[:5])
        more = f" and {len(tables) - 5:,} more" if len(tables) > 5 else ""
        yield f"keys of tables were taken to be: {named}{more}; --key-column says others"
    for name, count in counts.left_out.most_common(10):
        yield f"left out: {name} ({count:,})"
    if counts.cut:
        yield (
            f"operations with values longer than {_SHOWN_BYTES:,} bytes, whose size a dump doesn't"
            f" tell: {counts.cut:,}"
        )
    if counts.conditional:
        yield f"conditions (IF) aren't part of a trace: {counts.conditional:,}"
    if counts.several:
        yield f"queries of batches, each of which is a key of one operation: {counts.several:,}"


_SCHEMA: Final = {
    "row": pl.Int64, "at": pl.String, "key": pl.String, "kind": pl.String, "key_size": pl.String,
    "value_size": pl.String, "ttl": pl.String, "items": pl.UInt16,
}  # fmt: skip


def _batches(
    path: Path, key_columns: Mapping[str, Sequence[str]], counts: _Counts
) -> Iterator[pl.DataFrame]:
    """Rows of texts in the order of their instants, those of an operation together."""
    held: list[tuple[object, ...]] = []
    for rows in _rows(path, key_columns, counts):
        held += rows
        if len(held) >= 2 * _SORTED:
            held.sort(key=_start)
            end = _SORTED
            while held[end][-1] == 0:
                end += 1
            yield pl.DataFrame(held[:end], schema=_SCHEMA, orient="row")
            held = held[end:]
    if held:
        held.sort(key=_start)
        yield pl.DataFrame(held, schema=_SCHEMA, orient="row")


def _start(row: tuple[object, ...]) -> int:
    return int(str(row[1]))


def _rows(
    path: Path, key_columns: Mapping[str, Sequence[str]], counts: _Counts
) -> Iterator[Sequence[tuple[object, ...]]]:
    """The rows of each operation."""
    for line, at, queries in _records(path):
        found = [row for query in queries if (row := _row(query, key_columns, counts)) is not None][
            :_ITEMS_MAX
        ]
        counts.several += len(found) if len(queries) > 1 else 0
        yield [(line, at, *row, len(found) if place == 0 else 0) for place, row in enumerate(found)]


def _row(
    query: _Query, key_columns: Mapping[str, Sequence[str]], counts: _Counts
) -> tuple[object, ...] | None:
    """Key, kind, sizes and time to live of a query; None of one that is left out."""
    said = statement_of(query.text)
    if isinstance(said, str):
        counts.left_out[said] += 1
        return None
    bound = _bound(query.parts, said.marks)
    if bound is None:
        counts.left_out["queries whose values can't be told apart"] += 1
        return None
    short = said.table.rpartition(".")[2]
    table = said.table if said.table in key_columns else short
    wanted = tuple(key_columns.get(table, tuple(said.equal)[:1]))
    if not wanted or not said.equal.keys() >= set(wanted):
        named = " and ".join(wanted) or "one"
        counts.left_out[f"{said.kind} on {said.table} whose key, {named}, isn't said"] += 1
        return None
    counts.keys.setdefault(table, " and ".join(wanted))

    def value(where: int | bytes) -> _Value:
        return _Value(where, len(where)) if isinstance(where, bytes) else bound[where]

    key = [value(said.equal[name]) for name in wanted]
    written = [value(where) for name, where in said.written if name not in wanted]
    sizes = [one.size for one in (*key, *written)]
    counts.cut += None in sizes
    counts.conditional += said.is_conditional
    sized = (
        None if None in sizes or said.kind not in _WRITES else sum(_size(one) for one in written)
    )
    ttl = None if said.ttl is None else _ttl(said.ttl, value(said.ttl))
    # Bytes of keys may be any, and texts can't have all.
    text = ",".join(one.known.hex() for one in key)
    return (
        f"{said.table}:{text}",
        said.kind,
        str(sum(map(_size, key))),
        None if sized is None else str(sized),
        ttl,
    )


def _size(value: _Value) -> int:
    return len(value.known) if value.size is None else value.size


def _ttl(where: int | bytes, value: _Value) -> str:
    """Seconds: a bound whole number, or what the text says."""
    if isinstance(where, bytes):
        return where.decode() if where.isdigit() else "0"
    return str(max(0, int.from_bytes(value.known, "big", signed=True)))


class _Lines:
    """The lines of a file, with a look at the next one and its number."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.number = 0
        self.next: str | None = None
        self.take()

    def take(self) -> str | None:
        """The next line, without its end; none behind the last."""
        taken, line = self.next, next(self._lines, None)
        self.next = None if line is None else line.removesuffix("\n")
        self.number += 1
        return taken


def _records(path: Path) -> Iterator[tuple[int, str, list[_Query]]]:
    """Each record's line, instant and queries."""
    try:
        # Only line feeds end lines here: texts of queries may hold anything else.
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            lines = _Lines(iter(file))
            while lines.next is not None:
                if not lines.next.strip():
                    lines.take()
                    continue
                yield _record(lines, path)
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem


def _record(lines: _Lines, path: Path) -> tuple[int, str, list[_Query]]:
    begin, at = lines.number, ""
    kind = _taken(lines, _TYPE, path)[1]
    for head in _HEADS:
        found = _taken(lines, head, path)
        at = at or found[1]
    queries: list[_Query] = []
    if kind == "batch":
        _taken(lines, _BATCH_TYPE, path)
    while lines.next is not None and lines.next.startswith("Query: "):
        queries.append(_query(lines, path))
    if kind == "single-query" and len(queries) != 1:
        raise _wrong(path, lines, "a query")
    if lines.next is None:
        raise ImportFileError(f"{path} line {begin}: the record isn't whole; dump it again")
    if lines.take():
        lines.number -= 1
        raise _wrong(path, lines, "an empty line behind a record")
    return begin, at, queries


def _taken(lines: _Lines, pattern: re.Pattern[str], path: Path) -> re.Match[str]:
    found = pattern.fullmatch(lines.next or "")
    if found is None:
        raise _wrong(path, lines, f"such as {pattern.pattern.partition('(')[0].strip()!r}")
    lines.take()
    return found


def _wrong(path: Path, lines: _Lines, what: str) -> ImportFileError:
    return ImportFileError(
        f"{path} line {lines.number}: this isn't a line of fqltool dump; it should be {what}"
    )


def _query(lines: _Lines, path: Path) -> _Query:
    """A query's text, which may have several lines, and its values."""
    begin = lines.number
    text = [(lines.take() or "").removeprefix("Query: ")]
    while lines.next != _VALUES:
        if lines.next is None or _TYPE.fullmatch(lines.next):
            raise ImportFileError(f"{path} line {begin}: no line {_VALUES!r} follows the query")
        text.append(lines.take() or "")
    lines.take()
    return _Query("\n".join(text), _parts(lines, path))


def _parts(lines: _Lines, path: Path) -> list[list[_Value]]:
    """The bound values, by the lines of dashes behind which they stand."""
    parts: list[list[_Value]] = [[]]
    known = bytearray()
    while (line := lines.next) is not None:
        if line == _BEHIND:
            parts.append([])
        elif line == _NULL:
            parts[-1].append(_Value(b"", 0))
        elif line == _CUT and parts[-1]:
            parts[-1][-1] = _Value(parts[-1][-1].known, None)
        elif line != _SAME:
            row = _hex(line)
            if row is None:
                break
            at = int(line[:-_HEX_COLUMNS], 16)
            if at == 0:
                known = bytearray()
                parts[-1].append(_Value(b"", 0))
            # Rows like the one before aren't printed.
            known += known[-16:] * ((at - len(known)) // 16)
            if len(known) != at or not parts[-1]:
                raise _wrong(path, lines, "the next bytes of a value")
            known += row
            parts[-1][-1] = _Value(bytes(known), len(known))
        lines.take()
    return parts


def _bound(parts: Sequence[Sequence[_Value]], count: int) -> list[_Value] | None:
    """So many bound values; None where they can't be told apart.

    Newer versions print a line of dashes behind each value, older ones behind each but the first,
    and all of them nothing for an empty value.
    """
    *before, last = parts
    if len(before) == count and not last and all(len(part) <= 1 for part in before):
        return [part[0] if part else _Value(b"", 0) for part in before]
    if len(before) + 1 != count:
        return None
    if not before:
        return [last[0] if last else _Value(b"", 0)] if len(last) <= 1 else None
    first, *rest = before
    if last or len(first) != 2 or any(len(part) > 1 for part in rest):
        return None
    return [*first, *(part[0] if part else _Value(b"", 0) for part in rest)]


def _hex(line: str) -> bytes | None:
    """The bytes of a line that shows some; None of another line."""
    offset, shown = line[:-_HEX_COLUMNS], line[-_HEX_COLUMNS:-_TEXT_COLUMNS]
    if len(offset) < 8 or not _OFFSET.fullmatch(offset):
        return None
    try:
        return bytes.fromhex(shown)
    except ValueError:
        return None
