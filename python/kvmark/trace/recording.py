"""Tapes, on which operations are recorded, as a trace.

A folder of tapes has, of each thread that recorded, `tape-NN.tape` with blocks of records (see
`kvmark_trace::tape`) and `tape-NN.jsonl` with the outcomes and then the statements that they name
by number. What a killed writer left is whole up to its last block.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
import polars as pl

from kvmark.errors import ImportFileError, RunError
from kvmark.trace.folder import HASHED, KINDS, Keep, TraceWriter, first_line

MAGIC: Final = b"KVTAPE01"
"""What each block begins with."""
RECORDS_MAX: Final = 1024
"""Most records of a block."""
HEAP_MAX: Final = 64 << 20
"""Most bytes that a block keeps of keys and values."""
KEY_KEPT: Final = 1
VALUE_KEPT: Final = 2
"""Flags of a record whose key, and whose value behind it, are in the block's heap."""
HEAD: Final = np.dtype(
    [
        ("magic", "S8"), ("records", "<u4"), ("heap", "<u4"),
        ("first_at_ns", "<u8"), ("last_at_ns", "<u8"), ("before", "<u8"), ("spare", "V24"),
    ]
)  # fmt: skip
"""The head of a block."""
RECORD: Final = np.dtype(
    [
        ("at_ns", "<u8"), ("key", "<u8"), ("completed_ns", "<u8"), ("ttl_ms", "<u8"),
        ("client", "<u4"), ("value_size", "<u4"), ("key_size", "<u4"), ("count", "<u4"),
        ("heap", "<u4"), ("statement", "<u2"), ("items", "<u2"),
        ("kind", "u1"), ("outcome", "u1"), ("flags", "u1"), ("spare", "V5"),
    ]
)  # fmt: skip
"""One key of one operation."""

ABOUT: Final = "tapes.json"
"""What is known of a recording from its beginning on."""
_FORMAT: Final = 1

_HEAD: Final = struct.Struct("<8sII")
_BYTES: Final = 64
_UNKNOWN: Final = 2**32 - 1
_UNANSWERED: Final = 255
_AT_ONCE: Final = 1 << 16
_CONTENTS: Final = ("key_content", "value_content")
_WITH_CONTENTS: Final = np.dtype(
    [*((name, RECORD[name]) for name in RECORD.names or ()), *((name, "O") for name in _CONTENTS)]
)
"""A record, and what was kept of its key and its value."""
_Rows: TypeAlias = np.ndarray[Any, Any]


def are_tapes(folder: Path) -> bool:
    """Whether operations were recorded there, and not yet made into a trace."""
    return (folder / ABOUT).is_file()


def about_tapes(folder: Path) -> tuple[str, Keep]:
    """What was recorded there, and what was kept of it.

    Raises:
        ImportFileError: it can't be read.
    """
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        source, written = str(about["source"]), about["format"]
        keep = Keep(keys=bool(about.get("keys")), values=bool(about.get("values")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise ImportFileError(f"{folder / ABOUT} can't be read: it names no source") from problem
    if written != _FORMAT:
        raise ImportFileError(
            f"{folder / ABOUT} has format {written} and this kvmark reads {_FORMAT}: update kvmark"
        )
    return source, keep


def write_about(folder: Path, source: str, keep: Keep = HASHED) -> None:
    """Writes what is recorded in a folder, and what is kept of it.

    Raises:
        RunError: it can't be written.
    """
    about = {"format": _FORMAT, "source": source, **asdict(keep)}
    try:
        (folder / ABOUT).write_text(json.dumps(about))
    except OSError as problem:
        raise RunError(f"{folder} can't be written: {first_line(problem)}") from problem


def seal(folder: Path, writer: TraceWriter, keep: Keep) -> None:
    """Gives all operations of a folder's tapes to the writer, in the order of their instants.

    Memory is that of a few blocks of each tape.

    Raises:
        ImportFileError: a tape is damaged.
    """
    names = _Names()
    with_contents = bool(keep.words())
    tapes = [
        _Tape(path, names, with_contents=with_contents)
        for path in sorted(folder.glob("tape-*.tape"))
    ]
    clients = _Clients()
    begin_ns: int | None = None
    try:
        for rows in _merged(tapes):
            if begin_ns is None:
                begin_ns = int(rows["at_ns"][0])
            writer.add(_frame(rows, begin_ns, names, clients))
    finally:
        for tape in tapes:
            tape.close()


class _Names:
    """Outcomes and statements of all tapes, by number."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.statements: list[str] = []
        self.kinds: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, statement: str, kind: str) -> int:
        if statement not in self._numbers:
            self._numbers[statement] = len(self.statements)
            self.statements.append(statement)
            self.kinds.append(kind)
        return self._numbers[statement]


class _Clients:
    """Clients by new numbers, in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def renamed(self, clients: _Rows) -> _Rows:
        found, first, inverse = np.unique(clients, return_index=True, return_inverse=True)
        for place in np.argsort(first):
            self._numbers.setdefault(int(found[place]), len(self._numbers))
        new = np.array([self._numbers[int(client)] for client in found], dtype=np.uint32)
        return new[inverse]


class _Tape:
    """One tape, read a few blocks at a time."""

    def __init__(self, path: Path, names: _Names, *, with_contents: bool) -> None:
        self.form = _WITH_CONTENTS if with_contents else RECORD
        self._path, self._names = path, names
        self._numbers: list[int] = []
        self._at_ns = 0
        self._place = 0
        try:
            self._file: IO[bytes] = path.open("rb")
            self._statements: IO[bytes] = path.with_suffix(".jsonl").open("rb")
        except OSError as problem:
            raise ImportFileError(
                f"{problem.filename} can't be read: {problem.strerror}"
            ) from problem
        self.rows: _Rows = np.empty(0, dtype=self.form)
        self.has_more = True

    def close(self) -> None:
        self._file.close()
        self._statements.close()

    def fill(self) -> None:
        """Reads until there are many rows, or no more."""
        if len(self.rows) >= _AT_ONCE or not self.has_more:
            return
        blocks = [self.rows]
        count = len(self.rows)
        while count < _AT_ONCE:
            block = self._block()
            if block is None:
                self.has_more = False
                break
            blocks.append(block)
            count += len(block)
        self.rows = np.concatenate(blocks)

    def take(self, until_ns: int | None) -> _Rows:
        """The rows up to an instant; all of them without one."""
        if until_ns is None:
            count = len(self.rows)
        else:
            count = int(np.searchsorted(self.rows["at_ns"], until_ns, side="right"))
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken

    def _block(self) -> _Rows | None:
        """The next block; none where no whole one is."""
        head = self._file.read(_BYTES)
        if len(head) < _BYTES:
            return None
        magic, records, heap = _HEAD.unpack_from(head)
        if magic != MAGIC or records > RECORDS_MAX or heap > HEAP_MAX:
            raise self._damaged("no block begins there")
        content = self._file.read(records * _BYTES + heap)
        if len(content) < records * _BYTES + heap:
            return None
        rows: _Rows = np.frombuffer(content, dtype=RECORD, count=records).copy()
        if self.form != RECORD:
            rows = self._with_contents(rows, memoryview(content)[records * _BYTES :])
        if records:
            self._check(rows)
            self._at_ns = int(rows["at_ns"][-1])
        self._place += _BYTES + len(content)
        return rows

    def _check(self, rows: _Rows) -> None:
        """Refuses what no writer can have meant, and gives statements their common numbers."""
        at_ns = rows["at_ns"]
        if at_ns[0] < self._at_ns or at_ns[-1] >= 2**63 or bool((at_ns[1:] < at_ns[:-1]).any()):
            raise self._damaged("its instants don't rise")
        if rows["items"][0] == 0:
            raise self._damaged("an operation has no beginning")
        if not self._numbers:
            self._name_outcomes()
        ended = rows["outcome"] != _UNANSWERED
        if bool((rows["outcome"][ended] >= len(self._names.outcomes)).any()):
            raise self._damaged("an operation ended in no known way")
        if bool((rows["completed_ns"][ended] >= 2**63).any()):
            raise self._damaged("an operation ended at no possible instant")
        largest = int(rows["statement"].max())
        while len(self._numbers) <= largest:
            self._numbers.append(self._statement())
        rows["statement"] = np.array(self._numbers, dtype=np.uint16)[rows["statement"]]

    def _with_contents(self, plain: _Rows, heap: memoryview) -> _Rows:
        """Rows with what the block's heap has of them."""
        rows = np.empty(len(plain), dtype=self.form)
        for column in RECORD.names or ():
            rows[column] = plain[column]
        for flag, name, size in (
            (KEY_KEPT, "key_content", "key_size"),
            (VALUE_KEPT, "value_content", "value_size"),
        ):
            rows[name] = None
            starts = rows["heap"].astype(np.int64)
            if flag == VALUE_KEPT:
                starts += np.where(rows["flags"] & KEY_KEPT, rows["key_size"], 0)
            ends = starts + rows[size]
            kept = np.flatnonzero(rows["flags"] & flag)
            if len(kept) and int(ends[kept].max()) > len(heap):
                raise self._damaged("what a record keeps isn't there")
            for place in kept:
                rows[name][place] = bytes(heap[starts[place] : ends[place]])
        return rows

    def _name_outcomes(self) -> None:
        try:
            outcomes = list(map(str, json.loads(self._statements.readline())["outcomes"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise self._damaged("its outcomes have no names") from problem
        if self._names.outcomes not in ([], outcomes):
            raise self._damaged("its outcomes have other names than those of the tape before")
        self._names.outcomes = outcomes

    def _statement(self) -> int:
        try:
            line = json.loads(self._statements.readline())
            statement, kind = line["statement"], line["kind"]
        except (ValueError, KeyError, TypeError) as problem:
            raise self._damaged("it names a statement that isn't there") from problem
        if not isinstance(statement, str) or kind not in KINDS:
            raise self._damaged("a statement of it is of no known kind")
        return self._names.number(statement, kind)

    def _damaged(self, what: str) -> ImportFileError:
        return ImportFileError(f"{self._path} is damaged at byte {self._place}: {what}")


def _merged(tapes: Sequence[_Tape]) -> Iterator[_Rows]:
    """All rows in the order of their instants; those of an operation stay together."""
    while True:
        for tape in tapes:
            tape.fill()
        # Behind the last row that is there of a tape, another may come before the others' rows.
        ends = [int(tape.rows["at_ns"][-1]) for tape in tapes if tape.has_more]
        until_ns = min(ends) if ends else None
        parts = [tape.take(until_ns) for tape in tapes]
        taken = np.concatenate(parts) if parts else np.empty(0, dtype=RECORD)
        if len(taken):
            yield taken[np.argsort(taken["at_ns"], kind="stable")]
        if not ends:
            return


def _frame(rows: _Rows, begin_ns: int, names: _Names, clients: _Clients) -> pl.DataFrame:
    """Rows with a trace's columns."""
    statements = pl.Series(rows["statement"].astype(np.uint32))
    outcomes = pl.Series(np.minimum(rows["outcome"], len(names.outcomes)).astype(np.uint32))
    columns = {
        "at_ns": pl.Series((rows["at_ns"] - np.uint64(begin_ns)).astype(np.int64)),
        "client": pl.Series(clients.renamed(rows["client"])),
        "kind": pl.Series(names.kinds, dtype=pl.String).gather(statements),
        "statement": pl.Series(names.statements, dtype=pl.String).gather(statements),
        "key": pl.Series(np.ascontiguousarray(rows["key"])),
        "key_size": pl.Series(np.ascontiguousarray(rows["key_size"])),
        "value_size": pl.Series(np.ascontiguousarray(rows["value_size"])),
        "ttl_ms": pl.Series(np.ascontiguousarray(rows["ttl_ms"])),
        "items": pl.Series(np.ascontiguousarray(rows["items"])),
        "completed_ns": pl.Series(rows["completed_ns"].astype(np.int64) - begin_ns),
        "outcome": pl.Series([*names.outcomes, None], dtype=pl.String).gather(outcomes),
    }
    if rows.dtype != RECORD:
        for name in _CONTENTS:
            columns[name] = pl.Series(rows[name].tolist(), dtype=pl.Binary)
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.col("value_size") != _UNKNOWN).then(pl.col("value_size")),
        pl.when(pl.col("ttl_ms") != 0).then(pl.col("ttl_ms")),
        pl.when(pl.col("outcome").is_not_null()).then(pl.col("completed_ns")),
    )
