"""Recordings as traces: the tapes of a tap between clients and a server, and the log of a run.

A folder of tapes has for each recording thread `tape-NN.tape` with blocks of records (see
`kvmark_trace::tape`), and `tape-NN.jsonl` with the outcomes and the statements that records refer
to by number. After a kill a tape is valid up to its last complete block.

The log of a run has a record for each key of an operation, in the order of completion (the crate
`kvmark-trace`, module `log`); a trace has them in the order of their intended instants. After a
kill a log is valid up to its last complete record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias

import numpy as np
import polars as pl

from kvmark import _engine
from kvmark.errors import ImportFileError, KvmarkError, RunError
from kvmark.removal import discard_folder, remove_file
from kvmark.trace.folder import (
    HASHED,
    KINDS,
    NOTES,
    OWN_FILES,
    Keep,
    TraceInfo,
    TraceWriter,
    first_line,
)
from kvmark.trace.text_files import number_clients

MAGIC: Final = b"KVTAPE01"
"""The begin of each block."""
RECORDS_MAX: Final = 1024
"""The most records of a block."""
HEAP_MAX: Final = 64 << 20
"""The most bytes of keys and values in a block."""
KEY_KEPT: Final = 1
VALUE_KEPT: Final = 2
"""Flags of a record with its key, and its value after it, in the block's heap."""
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
"""The description of a recording."""
_FORMAT: Final = 1

_BYTES: Final = 64
_UNKNOWN: Final = 2**32 - 1
_UNANSWERED: Final = 255
_AT_ONCE: Final = 1 << 16
_CONTENTS: Final = ("key_content", "value_content")
_WITH_CONTENTS: Final = np.dtype(
    [*((name, RECORD[name]) for name in RECORD.names or ()), *((name, "O") for name in _CONTENTS)]
)
"""A record with the contents of its key and its value."""
_Rows: TypeAlias = np.ndarray[Any, Any]

_LOG: Final = "operations.log"
_LOG_STATEMENTS: Final = "operations.jsonl"
_LOG_MAGIC: Final = b"KVRUNLOG01".ljust(64, b"\0")
_LOG_RECORD: Final = np.dtype(
    [
        ("intended_ns", "<u8"), ("issued_ns", "<u8"), ("completed_ns", "<u8"), ("key", "<u8"),
        ("ttl_ms", "<u8"), ("client", "<u4"), ("value_size", "<u4"), ("key_size", "<u4"),
        ("statement", "<u2"), ("items", "<u2"), ("outcome", "u1"), ("spare", "V7"),
    ]
)  # fmt: skip
_INSTANTS: Final = {
    "at_ns": "intended_ns", "issued_ns": "issued_ns", "completed_ns": "completed_ns",
}  # fmt: skip
"""A record's field for each column of a trace."""
_LOG_AT_ONCE: Final = 1 << 20
_LOG_NAMES: Final = ("statement", "kind", "group")


def are_tapes(folder: Path) -> bool:
    """Whether a folder contains a recording that isn't a trace yet."""
    return (folder / ABOUT).is_file()


def about_tapes(folder: Path) -> tuple[str, Keep]:
    """The source and the contents of a recording.

    Raises:
        ImportFileError: the description can't be read.
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
    """Writes the description of a recording.

    Raises:
        RunError: it can't be written.
    """
    about = {"format": _FORMAT, "source": source, **asdict(keep)}
    try:
        (folder / ABOUT).write_text(json.dumps(about))
    except OSError as problem:
        raise RunError(f"{folder} can't be written: {first_line(problem)}") from problem


def write_operations(folder: Path, writer: TraceWriter, keep: Keep) -> None:
    """Passes all operations of a folder's tapes to the writer, in the order of their instants.

    The memory is that of a few blocks of each tape.

    Raises:
        ImportFileError: a tape is damaged.
    """
    names = _Names()
    form = _WITH_CONTENTS if keep.words() else RECORD
    clients: dict[object, int] = {}
    begin_ns: int | None = None
    with ExitStack() as files:
        paths = sorted(folder.glob("tape-*.tape"))
        tapes = [_TapeReader(path, names, form, files) for path in paths]
        for rows in _merged(tapes):
            if begin_ns is None:
                begin_ns = int(rows["at_ns"][0])
            writer.add(_frame(rows, begin_ns, names, clients))


class _Names:
    """The outcomes of all tapes, and the kinds of their statements, by number."""

    def __init__(self) -> None:
        self.outcomes, self.kinds = list[str](), dict[str, str]()


class _TapeReader:
    """One tape, read a few blocks at a time."""

    def __init__(self, path: Path, names: _Names, form: np.dtype[Any], files: ExitStack) -> None:
        self._path, self._names, self._form = path, names, form
        self._numbers: list[int] = []
        self._at_ns = 0
        self._place = 0
        try:
            self._file: IO[bytes] = files.enter_context(path.open("rb"))
            statements = path.with_suffix(".jsonl").open("rb")
            self._statements: IO[bytes] = files.enter_context(statements)
        except OSError as problem:
            raise ImportFileError(
                f"{problem.filename} can't be read: {problem.strerror}"
            ) from problem
        self.rows: _Rows = np.empty(0, dtype=form)
        self.has_more = True

    def fill(self) -> None:
        """Reads until there are many rows, or the tape ends."""
        blocks = [self.rows]
        while self.has_more and sum(map(len, blocks)) < _AT_ONCE:
            block = self._block()
            self.has_more = block is not None
            blocks += [] if block is None else [block]
        self.rows = np.concatenate(blocks)

    def take(self, until_ns: int | None) -> _Rows:
        """Removes and returns the rows up to an instant, by default all rows."""
        count = len(self.rows)
        if until_ns is not None:
            count = int(np.searchsorted(self.rows["at_ns"], until_ns, side="right"))
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken

    def _block(self) -> _Rows | None:
        """The next complete block, if there is one."""
        head = self._file.read(_BYTES)
        if len(head) < _BYTES:
            return None
        begin = np.frombuffer(head, dtype=HEAD)[0]
        records, heap = int(begin["records"]), int(begin["heap"])
        if begin["magic"] != MAGIC or records > RECORDS_MAX or heap > HEAP_MAX:
            raise self._damaged("no block begins there")
        content = self._file.read(records * _BYTES + heap)
        if len(content) < records * _BYTES + heap:
            return None
        rows: _Rows = np.frombuffer(content, dtype=RECORD, count=records).copy()
        if self._form != RECORD:
            rows = self._with_contents(rows, memoryview(content)[records * _BYTES :])
        if records:
            self._check(rows)
            self._at_ns = int(rows["at_ns"][-1])
        self._place += _BYTES + len(content)
        return rows

    def _check(self, rows: _Rows) -> None:
        """Rejects invalid records, and gives statements their common numbers."""
        at_ns = rows["at_ns"]
        if at_ns[0] < self._at_ns or at_ns[-1] >= 2**63 or bool((at_ns[1:] < at_ns[:-1]).any()):
            raise self._damaged("its instants don't rise")
        if rows["items"][0] == 0:
            raise self._damaged("an operation has no beginning")
        if not self._numbers:
            self._name_outcomes()
        ended = rows["outcome"] != _UNANSWERED
        if bool((rows["outcome"][ended] >= len(self._names.outcomes)).any()):
            raise self._damaged("an operation has an unknown outcome")
        if bool((rows["completed_ns"][ended] >= 2**63).any()):
            raise self._damaged("an operation ended at no possible instant")
        largest = int(rows["statement"].max())
        while len(self._numbers) <= largest:
            self._numbers.append(self._statement())
        rows["statement"] = np.array(self._numbers, dtype=np.uint16)[rows["statement"]]

    def _with_contents(self, plain: _Rows, heap: memoryview) -> _Rows:
        """Rows with their contents in the block's heap."""
        rows = np.empty(len(plain), dtype=self._form)
        for column in RECORD.names or ():
            rows[column] = plain[column]
        starts = rows["heap"].astype(np.int64)
        for flag, name, size in (
            (KEY_KEPT, "key_content", "key_size"),
            (VALUE_KEPT, "value_content", "value_size"),
        ):
            rows[name] = None
            ends = starts + rows[size]
            kept = np.flatnonzero(rows["flags"] & flag)
            if len(kept) and int(ends[kept].max()) > len(heap):
                raise self._damaged("the content of a record is missing")
            for place in kept:
                rows[name][place] = bytes(heap[starts[place] : ends[place]])
            # The value follows the key.
            starts[kept] = ends[kept]
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
        self._names.kinds.setdefault(statement, kind)
        return list(self._names.kinds).index(statement)

    def _damaged(self, reason: str) -> ImportFileError:
        return ImportFileError(f"{self._path} is damaged at byte {self._place}: {reason}")


def _merged(tapes: Sequence[_TapeReader]) -> Iterator[_Rows]:
    """All rows in the order of their instants; the rows of an operation stay together."""
    while True:
        for tape in tapes:
            tape.fill()
        # Rows after the last row read of a tape can precede the next rows of that tape.
        ends = [int(tape.rows["at_ns"][-1]) for tape in tapes if tape.has_more]
        until_ns = min(ends) if ends else None
        parts = [tape.take(until_ns) for tape in tapes]
        taken = np.concatenate(parts) if parts else np.empty(0, dtype=RECORD)
        if len(taken):
            yield taken[np.argsort(taken["at_ns"], kind="stable")]
        if not ends:
            return


def _frame(rows: _Rows, begin_ns: int, names: _Names, clients: dict[object, int]) -> pl.DataFrame:
    """The rows of tapes with a trace's columns."""
    outcomes = pl.Series(np.minimum(rows["outcome"], len(names.outcomes)))
    columns = {
        "at_ns": pl.Series((rows["at_ns"] - np.uint64(begin_ns)).astype(np.int64)),
        "completed_ns": pl.Series(rows["completed_ns"].astype(np.int64) - begin_ns),
        "kind": _named([*names.kinds.values()], _column(rows, "statement")),
        "statement": _named([*names.kinds], _column(rows, "statement")),
        "outcome": _named([*names.outcomes, None], outcomes),
    }
    if rows.dtype != RECORD:
        for name in _CONTENTS:
            columns[name] = pl.Series(rows[name].tolist(), dtype=pl.Binary)
    frame = _common_columns(rows, clients).with_columns(**columns)
    ended = pl.col("outcome").is_not_null()
    return frame.with_columns(pl.when(ended).then(pl.col("completed_ns")))


def _common_columns(rows: _Rows, clients: dict[object, int]) -> pl.DataFrame:
    """The columns that records of tapes and of logs have in common."""
    names = ("key", "key_size", "value_size", "ttl_ms", "items")
    frame = pl.DataFrame({name: _column(rows, name) for name in names})
    return frame.with_columns(
        number_clients(_column(rows, "client"), clients),
        pl.when(pl.col("value_size") != _UNKNOWN).then(pl.col("value_size")),
        pl.when(pl.col("ttl_ms") != 0).then(pl.col("ttl_ms")),
    )


def _column(rows: _Rows, name: str) -> pl.Series:
    return pl.Series(np.ascontiguousarray(rows[name]))


def _named(values: Sequence[str | None], numbers: pl.Series) -> pl.Series:
    return pl.Series(values, dtype=pl.String).gather(numbers.cast(pl.UInt32))


@dataclass(frozen=True, slots=True)
class TapProgress:
    """The progress of a tap."""

    listens: str
    elapsed_ns: int
    connections: int
    operations: int
    bytes: int
    recording: bool
    probe: Sequence[int]
    """The bytes of a request with a short answer."""
    pools_clients: bool
    """Whether drivers spread the requests of all clients over a pool of connections."""


def record(
    settings: Mapping[str, Any],
    path: Path,
    source: str,
    hash_key: bytes,
    goes_on: Callable[[TapProgress], bool],
) -> TraceInfo:
    """Forwards and records while `goes_on` returns true, and makes a trace of it.

    Raises:
        UsageError: the port or the folder can't be used.
        RunError: nothing was recorded, or the trace can't be written; the tapes are kept then.
    """
    keep = Keep(keys=settings["keep_keys"], values=settings["keep_values"])
    writer = TraceWriter(path, source, keep)
    try:
        write_about(path, source, keep)
        counts = _engine.tap(
            json.dumps(settings), path, hash_key,
            lambda text: goes_on(TapProgress(**json.loads(text))),
        )  # fmt: skip
    except KvmarkError:
        # The recording didn't begin.
        discard_folder(path, OWN_FILES)
        raise
    try:
        write_operations(path, writer, keep)
    except KvmarkError as problem:
        raise RunError(f"{problem}; what was recorded is kept in {path}") from problem
    info = writer.close(tuple(_notes(json.loads(counts))))
    if not info.operations:
        discard_folder(path, OWN_FILES)
        why = "; ".join(info.told)
        raise RunError(f"nothing was recorded{': ' if why else ''}{why}")
    for tape in (path / ABOUT, *path.glob("tape-[0-9][0-9].*")):
        remove_file(tape)
    return info


def import_tapes(folder: Path, writer: TraceWriter) -> TraceInfo:
    """Makes a trace of an interrupted recording.

    Raises:
        ImportFileError: a tape is damaged, or all are empty.
    """
    if is_log(folder):
        write_logged_operations(folder, writer)
    else:
        write_operations(folder, writer, about_tapes(folder)[1])
    info = writer.close(("the recording was interrupted: pending operations are missing",))
    if not info.operations:
        raise ImportFileError(f"{folder} has no operations")
    return info


def _notes(counts: Mapping[str, Any]) -> Iterator[str]:
    """Notes for readers of the trace."""
    for name, text in NOTES["tap"].items():
        found, first = counts[name], counts.get(f"first_{name}")
        several = found.items() if isinstance(found, dict) else [(first, found)]
        yield from (text.format(count, first=reason) for reason, count in several if count)


class RunRecording:
    """A run that is being recorded, as a context at whose end its folder is a trace.

    If that fails, the folder stays as the engine left it. It is removed if nothing was recorded.
    """

    def __init__(self, path: Path, source: str, hash_key: bytes) -> None:
        """Creates the folder.

        Raises:
            UsageError: the folder exists or can't be created.
        """
        self.hash_key = hash_key
        self.info: TraceInfo | None = None
        self.told: tuple[str, ...] = ()
        """Notes for readers of the trace, to be set before the end."""
        self._writer = TraceWriter(path, source)
        write_about(path, source)

    @property
    def folder(self) -> Path:
        """The engine's folder."""
        return self._writer.path

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Makes the trace, also of a failed run.

        Raises:
            RunError: it can't be made.
        """
        try:
            write_logged_operations(self.folder, self._writer)
            info = self._writer.close(self.told)
        except KvmarkError as wrong:
            if kind is None:
                raise RunError(f"{wrong}; what was recorded is kept in {self.folder}") from wrong
            return
        if not info.operations:
            discard_folder(self.folder, OWN_FILES)
            return
        self.info = info
        for name in (ABOUT, _LOG, _LOG_STATEMENTS):
            remove_file(self.folder / name)


def is_log(folder: Path) -> bool:
    """Whether a recording is of a run."""
    return (folder / _LOG).is_file()


def write_logged_operations(folder: Path, writer: TraceWriter) -> None:
    """Passes all operations of a run's log to the writer, in the order of their intended instants.

    The memory is that of the operations that ended before an earlier intended one.

    Raises:
        ImportFileError: the log is damaged.
    """
    # A run that failed before its begin has no log.
    rows = _log_rows(folder / _LOG) if is_log(folder) else np.empty(0, dtype=_LOG_RECORD)
    if not len(rows):
        return
    statements, outcomes = _log_names(folder / _LOG_STATEMENTS)
    clients: dict[object, int] = {}
    begin_ns = int(rows["intended_ns"].min())
    for part in _sorted(rows):
        is_invalid = (
            any(int(part[name].max()) >= 2**63 for name in _INSTANTS.values())
            or int(part["statement"].max()) >= len(statements)
            or int(part["outcome"].max()) >= len(outcomes)
            or part["items"][0] == 0
        )
        if is_invalid:
            raise ImportFileError(
                f"{folder / _LOG} is damaged: it has operations that no run can have"
            )
        statement = _column(part, "statement")
        instants = {
            ours: pl.Series(part[name].astype(np.int64) - begin_ns)
            for ours, name in _INSTANTS.items()
        }
        names = {name: _named([one[name] for one in statements], statement) for name in _LOG_NAMES}
        outcome = _named(outcomes, _column(part, "outcome"))
        frame = _common_columns(part, clients)
        writer.add(frame.with_columns(outcome=outcome, **instants, **names))


def _log_rows(path: Path) -> _Rows:
    """The complete records of a log, mapped from the disk."""
    try:
        with path.open("rb") as file:
            if file.read(len(_LOG_MAGIC)) != _LOG_MAGIC:
                raise ImportFileError(f"{path} isn't a log of a run that this kvmark can read")
        offset = len(_LOG_MAGIC)
        count = (path.stat().st_size - offset) // _LOG_RECORD.itemsize
        if not count:
            return np.empty(0, dtype=_LOG_RECORD)
        return np.memmap(path, dtype=_LOG_RECORD, mode="r", offset=offset, shape=(count,))
    except (OSError, ValueError) as problem:
        raise ImportFileError(f"{path} can't be read: {problem}") from problem


def _sorted(rows: _Rows) -> Iterator[_Rows]:
    """The records by their intended instants, then by issue."""
    parts = [rows[start : start + _LOG_AT_ONCE] for start in range(0, len(rows), _LOG_AT_ONCE)]
    # Records before all later parts are complete.
    least = [int(part["intended_ns"].min()) for part in parts]
    pending = np.empty(0, dtype=_LOG_RECORD)
    for number, part in enumerate(parts, start=1):
        pending = np.concatenate([pending, part])
        pending = pending[np.lexsort((pending["issued_ns"], pending["intended_ns"]))]
        rest = least[number:]
        count = int(np.searchsorted(pending["intended_ns"], min(rest))) if rest else len(pending)
        if count:
            yield pending[:count]
        pending = pending[count:]


def _log_names(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """The statements and outcomes by number."""
    try:
        first, *lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
        statements = [{name: str(line[name]) for name in _LOG_NAMES} for line in lines]
        outcomes = list(map(str, first["outcomes"]))
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise ImportFileError(f"{path} can't be read: it names no statements") from problem
    if not all(one["kind"] in KINDS for one in statements):
        raise ImportFileError(f"{path}: a statement is of no known kind")
    return statements, outcomes
