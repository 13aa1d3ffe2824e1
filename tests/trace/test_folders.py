"""A trace's folder: complete, or rejected with its error."""

import json
from pathlib import Path

import polars as pl
import pytest

from kvmark.errors import UsageError
from kvmark.trace.folder import COLUMNS, Trace, TraceWriter
from tables import table


def frame(count: int, first: int = 0) -> pl.DataFrame:
    numbers = pl.int_range(first, first + count)
    return pl.select(
        at_ns=numbers, client=pl.lit(0), kind=pl.lit("read"), statement=pl.lit("get {key}"),
        key=numbers, key_size=pl.lit(3), value_size=pl.lit(None), ttl_ms=pl.lit(None),
        items=pl.lit(1),
    ).cast(dict(COLUMNS))  # fmt: skip


def made(folder: Path) -> Path:
    with TraceWriter(folder / "X.trace", "a test") as writer:
        writer.add(frame(10))
        writer.add(frame(5, first=10))
        info = writer.close(("a thing to know",))
    assert (info.operations, info.clients, info.end_ns) == (15, 1, 14)
    return folder / "X.trace"


def test_a_written_trace_is_read(tmp_path: Path) -> None:
    trace = Trace.open(made(tmp_path))
    assert trace.info.told == ("a thing to know",)
    assert pl.concat(trace.batches(tuple(COLUMNS))).equals(frame(15))


def test_files_in_another_order_are_rejected(tmp_path: Path) -> None:
    path = made(tmp_path)
    for file, part in (("operations-000000", frame(5, 10)), ("operations-000001", frame(10))):
        part.write_parquet(path / f"{file}.parquet")
    with pytest.raises(UsageError, match=r"000001\.parquet: its at_ns don't rise"):
        list(Trace.open(path).batches(("at_ns",)))


def test_an_existing_or_invalid_name_is_rejected(tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(UsageError, match="is there already"):
        TraceWriter(path, "a test")
    with pytest.raises(UsageError, match=r"doesn't end in \.trace"):
        TraceWriter(tmp_path / "X", "a test")
    with pytest.raises(UsageError, match="can't be made"):
        TraceWriter(tmp_path / "no" / "X.trace", "a test")


def test_a_folder_without_a_trace_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no trace"):
        Trace.open(tmp_path / "no.trace")
    path = made(tmp_path)
    (path / "trace.json").unlink()
    with pytest.raises(UsageError, match="isn't complete"):
        Trace.open(path)


@pytest.mark.parametrize(("changes", "sentence"), table(__file__, "errors.toml")["descriptions"])
def test_an_invalid_description_is_rejected(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    path = made(tmp_path)
    info = json.loads((path / "trace.json").read_text())
    (path / "trace.json").write_text(json.dumps({**info, **changes}))
    with pytest.raises(UsageError, match=sentence):
        Trace.open(path)


def test_a_truncated_or_damaged_file_is_rejected(tmp_path: Path) -> None:
    path = made(tmp_path)
    (file,) = path.glob("*.parquet")
    content = file.read_bytes()
    damaged = content[:8] + bytes(192) + content[200:]
    for changed in (damaged, *(content[:length] for length in range(0, len(content), 97))):
        file.write_bytes(changed)
        with pytest.raises(UsageError, match=r"operations-000000\.parquet"):
            list(Trace.open(path).batches(tuple(COLUMNS)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda one: one.drop("key"), "has no column key"),
        (lambda one: one.with_columns(pl.col("key").cast(pl.String)), "column key is String"),
        (lambda one: one.head(3), "has 3 of its 15 rows: a file is missing"),
        (lambda one: one.with_columns(key=pl.lit(None, dtype=pl.UInt64)), "has rows without key"),
        (lambda one: one.with_columns(pl.col("at_ns") + 1), "at_ns don't rise from 0 to 14"),
        (lambda one: one.with_columns(pl.col("at_ns") - 1), "at_ns don't rise from 0 to 14"),
        (lambda one: one.reverse(), "at_ns don't rise from 0 to 14"),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, change: object, sentence: str) -> None:
    path = made(tmp_path)
    (file,) = path.glob("*.parquet")
    assert callable(change)
    change(pl.read_parquet(file)).write_parquet(file)
    with pytest.raises(UsageError, match=sentence):
        list(Trace.open(path).batches(tuple(COLUMNS)))
