"""The log of a run, in which the engine writes down every measured operation, as a trace.

The log has a record for each key of an operation, in the order in which operations ended (the
crate `kvmark-trace`, module `log`); a trace has them in the order of their intended instants. What
a killed run left is whole up to its last record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import numpy as np
import polars as pl

from kvmark.errors import ImportFileError, KvmarkError, RunError
from kvmark.removal import discard_folder, remove_file
from kvmark.trace.folder import KINDS, OWN_FILES, TraceInfo, TraceWriter
from kvmark.trace.recording import ABOUT, write_about

_LOG: Final = "operations.log"
_STATEMENTS: Final = "operations.jsonl"
_MAGIC: Final = b"KVRUNLOG01".ljust(64, b"\0")
_RECORD: Final = np.dtype(
    [
        ("intended_ns", "<u8"), ("issued_ns", "<u8"), ("completed_ns", "<u8"), ("key", "<u8"),
        ("ttl_ms", "<u8"), ("client", "<u4"), ("value_size", "<u4"), ("key_size", "<u4"),
        ("statement", "<u2"), ("items", "<u2"), ("outcome", "u1"), ("spare", "V7"),
    ]
)  # fmt: skip
_INSTANTS: Final = ("intended_ns", "issued_ns", "completed_ns")
_UNKNOWN: Final = 2**32 - 1
_AT_ONCE: Final = 1 << 20
_Rows: TypeAlias = np.ndarray[Any, Any]


class RunRecording:
    """A run that is being recorded, as a context at whose end its folder is a trace.

    The folder stays as the engine left it where no trace can be made of it, and goes away where
    nothing was recorded.
    """

    def __init__(self, path: Path, source: str, hash_key: bytes) -> None:
        """Makes the folder.

        Raises:
            UsageError: there is one by that name, or none can be made.
        """
        self.hash_key = hash_key
        self.info: TraceInfo | None = None
        self.told: tuple[str, ...] = ()
        """What a reader of the trace should know; to be set before the end."""
        self._writer = TraceWriter(path, source)
        write_about(path, source)

    @property
    def folder(self) -> Path:
        """Where the engine writes."""
        return self._writer.path

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Makes the trace, whatever ended the run.

        Raises:
            RunError: it can't be made.
        """
        try:
            seal_log(self.folder, self._writer)
            info = self._writer.close(self.told)
        except KvmarkError as wrong:
            if kind is None:
                raise RunError(f"{wrong}; what was recorded is kept in {self.folder}") from wrong
            return
        if not info.operations:
            discard_folder(self.folder, OWN_FILES)
            return
        self.info = info
        for name in (ABOUT, _LOG, _STATEMENTS):
            remove_file(self.folder / name)


def is_log(folder: Path) -> bool:
    """Whether what was recorded there is a run."""
    return (folder / _LOG).is_file()


def seal_log(folder: Path, writer: TraceWriter) -> None:
    """Gives all operations of a log to the writer, in the order of their intended instants.

    Memory is that of the operations that ended before one that was to begin before them.

    Raises:
        ImportFileError: the log is damaged.
    """
    if not is_log(folder):
        # The run didn't come to its beginning.
        return
    rows = _rows(folder / _LOG)
    if not len(rows):
        return
    statements, outcomes = _named(folder / _STATEMENTS)
    clients: dict[int, int] = {}
    begin_ns = int(rows["intended_ns"].min())
    for part in _sorted(rows):
        _check(part, len(statements), len(outcomes), folder / _LOG)
        writer.add(_frame(part, begin_ns, statements, outcomes, clients))


def _rows(path: Path) -> _Rows:
    """The whole records of a log, which stay on the disk."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ImportFileError(f"{path} isn't a log of a run that this kvmark can read")
        count = (path.stat().st_size - len(_MAGIC)) // _RECORD.itemsize
        if not count:
            return np.empty(0, dtype=_RECORD)
        return np.memmap(path, dtype=_RECORD, mode="r", offset=len(_MAGIC), shape=(count,))
    except (OSError, ValueError) as problem:
        raise ImportFileError(f"{path} can't be read: {problem}") from problem


def _sorted(rows: _Rows) -> Iterator[_Rows]:
    """The records by their intended instants, and where these are equal in the order of issue."""
    parts = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
    # What is before all that still comes can go.
    least = [int(part["intended_ns"].min()) for part in parts]
    held = np.empty(0, dtype=_RECORD)
    for number, part in enumerate(parts, start=1):
        held = np.concatenate([held, part])
        held = held[np.lexsort((held["issued_ns"], held["intended_ns"]))]
        rest = least[number:]
        count = int(np.searchsorted(held["intended_ns"], min(rest))) if rest else len(held)
        if count:
            yield held[:count]
        held = held[count:]


def _named(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """What records name by number: statements and outcomes."""
    try:
        first, *lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
        statements = [{name: str(line[name]) for name in _NAMED} for line in lines]
        outcomes = list(map(str, first["outcomes"]))
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise ImportFileError(f"{path} can't be read: it names no statements") from problem
    if not all(one["kind"] in KINDS for one in statements):
        raise ImportFileError(f"{path}: a statement is of no known kind")
    return statements, outcomes


_NAMED: Final = ("statement", "kind", "group")


def _check(rows: _Rows, statements: int, outcomes: int, path: Path) -> None:
    """Refuses what no engine can have meant."""
    late = any(int(rows[name].max()) >= 2**63 for name in _INSTANTS)
    unknown = int(rows["statement"].max()) >= statements or int(rows["outcome"].max()) >= outcomes
    if late or unknown or rows["items"][0] == 0:
        raise ImportFileError(f"{path} is damaged: it has operations that no run can have")


def _frame(
    rows: _Rows,
    begin_ns: int,
    statements: Sequence[dict[str, str]],
    outcomes: Sequence[str],
    clients: dict[int, int],
) -> pl.DataFrame:
    """Records with a trace's columns."""

    def column(name: str) -> pl.Series:
        return pl.Series(np.ascontiguousarray(rows[name]))

    def named(values: Sequence[str], numbers: pl.Series) -> pl.Series:
        return pl.Series(values, dtype=pl.String).gather(numbers.cast(pl.UInt32))

    def instant(name: str) -> pl.Series:
        return pl.Series(rows[name].astype(np.int64) - begin_ns)

    statement = column("statement")
    client = column("client")
    for number in client.unique(maintain_order=True):
        clients.setdefault(number, len(clients))
    columns = {
        "at_ns": instant("intended_ns"),
        "client": client.replace_strict(clients, return_dtype=pl.UInt32),
        "kind": named([one["kind"] for one in statements], statement),
        "statement": named([one["statement"] for one in statements], statement),
        **{name: column(name) for name in ("key", "key_size", "value_size", "ttl_ms", "items")},
        "issued_ns": instant("issued_ns"),
        "completed_ns": instant("completed_ns"),
        "outcome": named(outcomes, column("outcome")),
        "group": named([one["group"] for one in statements], statement),
    }
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.col("value_size") != _UNKNOWN).then(pl.col("value_size")),
        pl.when(pl.col("ttl_ms") != 0).then(pl.col("ttl_ms")),
    )
