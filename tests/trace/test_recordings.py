"""A trace's folder, and tapes as a trace: complete, cut off by a killed writer, or rejected."""

import json
import shutil
import struct
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import ImportFileError, UsageError
from kvmark.trace.folder import COLUMNS, Keep, Trace, TraceWriter
from kvmark.trace.recording import ABOUT, about_tapes, are_tapes, import_tapes, write_about
from tables import table

RECORD = struct.Struct("<QQQQIIIIIHHBBB5x")
STATEMENTS = (("GET {key}", "read"), ("SET {key} {value} {ttl}", "update"))


OUTCOMES = ("ok", "miss", "timeout")
UNANSWERED = 255


def record(
    at_ns: int,
    client: int = 0,
    statement: int = 0,
    items: int = 1,
    ttl: int = 0,
    ended: tuple[int, int] = (0, UNANSWERED),
) -> bytes:
    size = 2**32 - 1 if statement == 0 else 5
    completed_ns, outcome = ended
    return RECORD.pack(
        at_ns, 7, completed_ns, ttl, client, size, 3, 0, 0, statement, items, 0, outcome, 0
    )


def block(records: Sequence[bytes]) -> bytes:
    return struct.pack("<8sII48x", b"KVTAPE01", len(records), 0) + b"".join(records)


def written(folder: Path, *tapes: bytes) -> Path:
    path = folder / "t.trace"
    path.mkdir()
    write_about(path, "a tap")
    named = ({"outcomes": OUTCOMES}, *({"statement": s, "kind": k} for s, k in STATEMENTS))
    lines = "".join(f"{json.dumps(line)}\n" for line in named)
    for number, tape in enumerate(tapes):
        (path / f"tape-{number:02}.tape").write_bytes(tape)
        (path / f"tape-{number:02}.jsonl").write_text(lines)
    return path


def imported(path: Path) -> pl.DataFrame:
    target = path.with_name("y.trace")
    with TraceWriter(target, *about_tapes(path)) as writer:
        import_tapes(path, writer)
    trace = Trace.open(target)
    return pl.concat(trace.batches((*COLUMNS, *sorted(trace.optional))))


def test_operations_of_all_tapes_are_sorted_by_their_instants(tmp_path: Path) -> None:
    one = block([record(5, 3), record(9, 3, 1, ttl=60)])
    other = block([record(6, 1, items=2), record(6, 1, items=0)]) + block([record(9, 2)])
    rows = imported(written(tmp_path, one, other))
    assert rows["at_ns"].to_list() == [0, 1, 1, 4, 4]
    assert rows["client"].to_list() == [0, 1, 1, 0, 2]
    assert rows["items"].to_list() == [1, 2, 0, 1, 1]
    assert rows["statement"].to_list()[3] == "SET {key} {value} {ttl}"
    assert rows["kind"].to_list() == ["read", "read", "read", "update", "read"]
    assert rows["value_size"].to_list() == [None, None, None, 5, None]
    assert rows["ttl_ms"].to_list() == [None, None, None, 60, None]


def test_operations_have_their_completion_and_outcome_if_known(tmp_path: Path) -> None:
    tape = block([record(5, ended=(9, 0)), record(6, ended=(6, 1)), record(7)])
    rows = imported(written(tmp_path, tape))
    assert rows["completed_ns"].to_list() == [4, 1, None]
    assert rows["outcome"].to_list() == ["ok", "miss", None]


def test_tapes_of_different_versions_are_not_mixed(tmp_path: Path) -> None:
    path = written(tmp_path, block([record(1)]), block([record(2)]))
    for line, sentence in (('{"outcomes": ["ok"]}', "other names"), ("{}", "have no names")):
        (path / "tape-01.jsonl").write_text(f"{line}\n")
        with pytest.raises(ImportFileError, match=sentence):
            imported(path)


@given(lengths=st.lists(st.integers(0, 4000), min_size=1, max_size=4), step=st.integers(1, 50))
def test_long_tapes_are_merged(
    lengths: list[int], step: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not any(lengths):
        return
    tapes = [
        b"".join(
            block([record(number * step * (1 + client), client) for number in range(first, end)])
            for first in range(0, length, 1000)
            for end in [min(first + 1000, length)]
        )
        for client, length in enumerate(lengths)
    ]
    rows = imported(written(tmp_path_factory.mktemp("t"), *tapes))
    steps = (range(0, length * step * n, step * n) for n, length in enumerate(lengths, start=1))
    assert rows["at_ns"].to_list() == sorted(chain.from_iterable(steps))


def test_a_truncated_tape_is_read_up_to_its_last_block(tmp_path: Path) -> None:
    first, second = block([record(1), record(2)]), block([record(3)])
    path = written(tmp_path, first + second)
    for cut in range(1, len(second)):
        (path / "tape-00.tape").write_bytes((first + second)[:-cut])
        assert len(imported(path)) == 2
        shutil.rmtree(path.with_name("y.trace"))


@pytest.mark.parametrize(
    ("tape", "sentence"),
    [
        (b"x" * 64, "damaged at byte 0: no block begins there"),
        (block([record(1)]) + b"y" * 64, "damaged at byte 128: no block begins there"),
        (block([record(2), record(1)]), "its instants don't rise"),
        (block([record(2**63)]), "its instants don't rise"),
        (block([record(1, statement=9)]), "it names a statement that isn't there"),
        (block([record(1, items=0)]), "an operation has no beginning"),
        (block([record(1, ended=(2, 3))]), "an operation has an unknown outcome"),
        (block([record(1, ended=(2**63, 0))]), "an operation ended at no possible instant"),
        (b"", "has no operations"),
    ],
)
def test_a_damaged_tape_is_rejected(tmp_path: Path, tape: bytes, sentence: str) -> None:
    path = written(tmp_path, tape)
    with pytest.raises(ImportFileError, match=sentence):
        imported(path)
    assert not path.with_name("y.trace").exists()


def test_a_folder_of_tapes_has_a_source_and_a_known_format(tmp_path: Path) -> None:
    path = written(tmp_path, block([record(1)]))
    assert are_tapes(path)
    (path / ABOUT).write_text("[]")
    with pytest.raises(ImportFileError, match="it names no source"):
        imported(path)
    (path / ABOUT).write_text(json.dumps({"format": 2, "source": "a later tap"}))
    with pytest.raises(ImportFileError, match="has format 2 and this kvmark reads 1"):
        imported(path)


def kept_block(*rows: tuple[bytes | None, bytes | None]) -> bytes:
    """Records of these keys and values, which are in the heap where they are kept."""
    records, heap = b"", b""
    for number, (key, value) in enumerate(rows):
        flags = (key is not None) | (value is not None) << 1
        sizes = (len(value or b"12345"), len(key or b"123"))
        records += RECORD.pack(number, 7, 0, 0, 0, *sizes, 0, len(heap), 1, 1, 0, 0, flags)
        heap += (key or b"") + (value or b"")
    return struct.pack("<8sII48x", b"KVTAPE01", len(rows), len(heap)) + records + heap


def test_kept_contents_are_only_in_a_trace_that_keeps_them(tmp_path: Path) -> None:
    block_of = kept_block((b"k\xff", b"value"), (b"other", None), (None, b"v"), (None, None))
    path = written(tmp_path, block_of, b"")
    assert "key_content" not in imported(path).columns
    write_about(path, "a tap", Keep(keys=True, values=True))
    (tmp_path / "y.trace").rename(tmp_path / "hashed.trace")
    rows = imported(path)
    assert rows["key_content"].to_list() == [b"k\xff", b"other", None, None]
    assert rows["value_content"].to_list() == [b"value", None, b"v", None]
    info = Trace.open(tmp_path / "y.trace").info
    assert info.keep == Keep(keys=True, values=True)
    assert info.told[0] == "keys and values that are written are kept as they were"


def test_a_record_without_its_content_is_rejected(tmp_path: Path) -> None:
    whole = kept_block((b"key", b"value"))
    path = written(tmp_path, whole[:12] + struct.pack("<I", 7) + whole[16:-1])
    write_about(path, "a tap", Keep(keys=True, values=True))
    with pytest.raises(ImportFileError, match="the content of a record is missing"):
        imported(path)


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


def test_a_trace_that_cannot_be_made_or_is_not_complete_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be made"):
        TraceWriter(tmp_path / "no" / "X.trace", "a test")
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
