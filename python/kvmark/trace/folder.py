"""A trace's folder: its columns and its `trace.json`. See docs/reference/trace.md.

It is written file by file, and read batch by batch.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

import polars as pl
from pydantic import ConfigDict, TypeAdapter, ValidationError

from kvmark.errors import RunError, UsageError
from kvmark.removal import discard_folder

FORMAT: Final = 1
NOTES: Final = tomllib.loads((files(__package__) / "notes.toml").read_text("utf-8"))
"""Notes for readers of a trace and of its replays."""

KINDS: Final = (
    "read", "update", "insert", "scan", "read_modify_write", "delete", "other",
)  # fmt: skip
ENGINE_KINDS: Final = KINDS[:-1]
"""The engine's kinds, in its order."""

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
"""The columns and their types, in order. Rows are sorted by `at_ns`, the time since the first row.
Null is unknown; `statement` is the command without its key and value. An operation on several keys
has a row for each: `items` is their number on the first row, else 0."""

OPTIONAL: Final[dict[str, type[pl.DataType]]] = {
    "count": pl.UInt32,
    "key_content": pl.Binary,
    "value_content": pl.Binary,
    "issued_ns": pl.Int64,
    "completed_ns": pl.Int64,
    "outcome": pl.String,
    "group": pl.String,
}
"""Columns after the others, if the source has them: the number of records of a scan; the bytes of
keys and written values, if the user keeps them; and for a run the issue and the completion of an
operation (instants as `at_ns`), and its outcome. Null is unknown."""

_REQUIRED: Final = ("at_ns", "client", "kind", "statement", "key", "key_size", "items")
"""Columns without nulls."""

BATCH_ROWS: Final = 1 << 20
_FILE_ROWS: Final = BATCH_ROWS
_GROUP_ROWS: Final = 1 << 17
_INFO: Final = "trace.json"
OWN_FILES: Final = re.compile(
    rf"({re.escape(_INFO)}|operations-\d{{6,}}\.parquet)(\.part)?|tapes\.json"
    r"|tape-\d+\.(tape|jsonl)|operations\.(log|jsonl)"
)
"""Every name in the folder of a trace: its files, and the tapes and logs of a recording."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The contents in a trace, in addition to hashes of keys and sizes of values."""

    keys: bool = False
    values: bool = False
    """Written values."""

    def words(self) -> str:
        """The contents as text; empty without any."""
        names = (("keys", self.keys), ("values that are written", self.values))
        return " and ".join(name for name, kept in names if kept)


HASHED: Final = Keep()


def sentences(told: Sequence[str]) -> list[str]:
    """The notes on a trace as sentences."""
    return [f"{one[0].upper()}{one[1:]}." for one in told]


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """The content of `trace.json`."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    format: Literal[1]
    source: str
    """The format of the imported file."""
    operations: int
    rows: int
    """Keys of operations; more than operations if some have several."""
    clients: int
    end_ns: int
    """The last operation's instant, since the first."""
    keys: Literal["hashed", "kept"]
    told: tuple[str, ...]
    """Notes on the making of the trace for readers of figures."""
    values: Literal["sizes", "kept"] = "sizes"

    @property
    def keep(self) -> Keep:
        """Its contents."""
        return Keep(keys=self.keys == "kept", values=self.values == "kept")


_TRACE_INFO: Final = TypeAdapter(TraceInfo)


@dataclass(frozen=True)
class Trace:
    """A complete trace, open for reading."""

    path: Path
    info: TraceInfo
    files: tuple[Path, ...]
    optional: frozenset[str]
    """Its columns of `OPTIONAL`."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads a trace's `trace.json`, and checks the columns of its files.

        Raises:
            UsageError: it doesn't exist, isn't complete, or can't be read.
        """
        try:
            text = (path / _INFO).read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(_missing(path)) from None
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(f"{path / _INFO} can't be read: {problem}") from problem
        try:
            info = _TRACE_INFO.validate_json(text)
        except ValidationError as problem:
            wrong = problem.errors()[0]
            place = ".".join(map(str, wrong["loc"])) or "its content"
            raise UsageError(
                f"{path / _INFO} isn't that of a trace of format {FORMAT}: {place}: {wrong['msg']}"
            ) from problem
        if min(info.operations, info.rows, info.clients, info.end_ns) < 0:
            raise UsageError(f"{path / _INFO} has numbers below 0")
        files = tuple(sorted(path.glob("operations-*.parquet")))
        checked = [_checked(file) for file in files]
        rows = sum(count for count, _ in checked)
        columns = [names for _, names in checked]
        optional = frozenset.intersection(*columns) if columns else frozenset()
        for name, kept in (("key_content", info.keep.keys), ("value_content", info.keep.values)):
            if kept != (name in optional):
                verb = "has" if name in optional else "lacks"
                raise UsageError(f"{path} {verb} the column {name}, against its {_INFO}")
        if rows != info.rows:
            raise UsageError(f"{path} has {rows:,} of its {info.rows:,} rows: a file is missing")
        return cls(path, info, files, optional)

    @property
    def digest(self) -> str:
        """Identifies the trace and the state of its files."""
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in self.files]
        return repr((str(self.path.resolve()), _TRACE_INFO.dump_json(self.info), facts))

    def kinds(self) -> dict[str, int]:
        """The number of rows of each kind.

        Raises:
            UsageError: a file is damaged.
        """
        counts: Counter[str] = Counter()
        for batch in self.batches(("kind",)):
            counts.update(dict(batch["kind"].value_counts().iter_rows()))
        return counts

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Some columns of the operations in order; the memory is that of a batch.

        Raises:
            UsageError: a file is damaged.
        """
        # The last instant of earlier batches.
        after_ns = 0
        for file in self.files:
            try:
                lazy = pl.scan_parquet(file).select(columns)
                for batch in lazy.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
                    after_ns = self._check(batch, file, after_ns)
                    yield batch
            except (pl.exceptions.PolarsError, OSError) as problem:
                raise UsageError(f"{file} is damaged: {first_line(problem)}") from problem

    def _check(self, batch: pl.DataFrame, file: Path, after_ns: int) -> int:
        """Rejects invalid rows; returns the last instant."""
        for name in _REQUIRED:
            if name in batch.columns and batch[name].null_count():
                raise UsageError(f"{file} has rows without {name}")
        if "at_ns" in batch.columns and not batch.is_empty():
            first_ns, last_ns = batch["at_ns"][0], batch["at_ns"][-1]
            rises = after_ns <= first_ns and batch["at_ns"].is_sorted()
            if not (rises and last_ns <= self.info.end_ns):
                raise UsageError(f"{file}: its at_ns don't rise from 0 to {self.info.end_ns}")
            return int(last_ns)
        return after_ns


class TraceWriter:
    """A trace that is being written. Its folder is removed if that fails."""

    def __init__(self, path: Path, source: str, keep: Keep = HASHED) -> None:
        """Creates the folder.

        Raises:
            UsageError: the folder exists or can't be created.
        """
        if path.suffix != ".trace":
            raise UsageError(f"{path} doesn't end in .trace, as a trace's folder does")
        try:
            # It may contain keys and values: only the user may read it.
            path.mkdir(0o700)
        except FileExistsError:
            raise UsageError(f"{path} is there already; remove it or choose another") from None
        except OSError as problem:
            raise UsageError(f"{path} can't be made: {problem.strerror}") from problem
        self.path = path
        self._source, self._keep = source, keep
        self._optional: list[str] | None = None
        self._waiting: list[pl.DataFrame] = []
        self._files = self._rows = self._operations = self._clients = self._end_ns = 0

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Removes an incomplete trace."""
        if kind is not None:
            discard_folder(self.path, OWN_FILES)

    def add(self, frame: pl.DataFrame) -> None:
        """The next operations, with all columns, and the same optional columns in each call."""
        if frame.is_empty():
            return
        if self._optional is None:
            kept = {"key_content": self._keep.keys, "value_content": self._keep.values}
            names = (name for name in OPTIONAL if kept.get(name, True))
            self._optional = [name for name in names if name in frame.columns]
        self._waiting.append(frame.select(*COLUMNS, *self._optional))
        clients, self._end_ns = frame.select("client", "at_ns").max().row(0)
        self._clients = max(self._clients, 1 + clients)
        while sum(map(len, self._waiting)) >= _FILE_ROWS:
            self._write(_FILE_ROWS)

    def close(self, notes: Sequence[str]) -> TraceInfo:
        """Writes the rest, and then `trace.json`."""
        contents = self._keep.words()
        kept = [f"{contents} are kept as they were"] if contents else []
        while self._waiting:
            self._write(_FILE_ROWS)
        info = TraceInfo(
            format=FORMAT,
            source=self._source,
            operations=self._operations,
            rows=self._rows,
            clients=self._clients,
            end_ns=self._end_ns,
            keys="kept" if self._keep.keys else "hashed",
            told=(*kept, *notes),
            values="kept" if self._keep.values else "sizes",
        )
        content = _TRACE_INFO.dump_json(info, indent=2)
        self._put(self.path / _INFO, lambda path: path.write_bytes(content))
        return info

    def _write(self, rows: int) -> None:
        everything = pl.concat(self._waiting)
        part, rest = everything.head(rows), everything.tail(-rows)
        self._waiting = [] if rest.is_empty() else [rest]
        path = self.path / f"operations-{self._files:06}.parquet"
        self._put(path, lambda path: part.write_parquet(path, row_group_size=_GROUP_ROWS))
        self._files += 1
        self._rows += len(part)
        self._operations += int((part["items"] > 0).sum())

    def _put(self, path: Path, write: Callable[[Path], object]) -> None:
        """Writes a file under its name only when it is complete."""
        beside = path.with_name(f"{path.name}.part")
        try:
            write(beside)
            beside.rename(path)
        except (OSError, pl.exceptions.PolarsError) as problem:
            raise RunError(f"{path} can't be written: {first_line(problem)}") from problem


def _checked(file: Path) -> tuple[int, frozenset[str]]:
    """The number of rows and the optional columns of a file with valid columns."""
    try:
        schema = pl.read_parquet_schema(file)
        rows = int(pl.scan_parquet(file).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise UsageError(f"{file} can't be read: {first_line(problem)}") from problem
    for name, kind in (COLUMNS | OPTIONAL).items():
        if name in schema and schema[name] != kind:
            raise UsageError(f"{file}: its column {name} is {schema[name]} and not {kind}")
        if name not in schema and name in COLUMNS:
            raise UsageError(f"{file} has no column {name}, as a trace of format {FORMAT} has")
    return rows, frozenset(OPTIONAL.keys() & schema.keys())


def _missing(path: Path) -> str:
    if path.is_dir() and (path / "tapes.json").is_file():
        return (
            f"{path} isn't complete: its recording goes on, or didn't come to its end; make a trace"
            f" of what is there by kvmark trace import {path} -o Y.trace"
        )
    if path.is_dir() and any(path.glob("operations-*")):
        return f"{path} isn't complete: it has no {_INFO}; import it again"
    return (
        f"there is no trace {path}: a trace is a folder with a {_INFO}; make one by kvmark"
        " trace import or kvmark trace record"
    )


def first_line(problem: Exception) -> str:
    """The reason of a read or write failure in one line."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem).partition("\n")[0]
