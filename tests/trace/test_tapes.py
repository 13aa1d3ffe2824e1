"""The tapes that a trace is replayed from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import UsageError
from kvmark.trace.folder import COLUMNS, HASHED, OPTIONAL, Keep, Trace, TraceWriter
from kvmark.trace.recording import HEAP_MAX, RECORD
from kvmark.trace.tapes import TapePart, Tapes, tapes

Row = tuple[int, str, str, int, int, int | None]
"""at_ns, kind, statement, key, key_size, value_size."""
KINDS = ("read", "update", "insert", "scan", "read_modify_write", "delete")
HEAD_BYTES = 64
WHOLE = TapePart()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def trace(
    folder: Path,
    rows: Sequence[Row],
    name: str = "X.trace",
    clients: int = 1,
    ttl_ms: Mapping[int, int] | None = None,
    keep: Keep = HASHED,
    **optional: Sequence[object],
) -> Trace:
    """A trace of these rows, some of which have a time to live by their number."""
    columns = ("at_ns", "kind", "statement", "key", "key_size", "value_size")
    frame = pl.DataFrame(rows, schema={one: COLUMNS[one] for one in columns}, orient="row")
    lives = [(ttl_ms or {}).get(number) for number in range(len(rows))]
    whole = frame.with_columns(
        pl.Series("ttl_ms", lives, dtype=pl.UInt64),
        client=pl.int_range(pl.len()) // 10 % clients,
        items=pl.lit(1),
    )
    more = [pl.Series(name, said, dtype=OPTIONAL[name]) for name, said in optional.items()]
    with TraceWriter(folder / name, "a test", keep) as writer:
        writer.add(whole.cast(dict(COLUMNS)).with_columns(more))
        writer.close(())
    return Trace.open(folder / name)


def blocks(path: Path) -> Iterator[tuple[npt.NDArray[np.void], bytes]]:
    """The records of each block of a tape, and its heap."""
    data, place, before = path.read_bytes(), 0, 0
    while place < len(data):
        assert data[place : place + 8] == b"KVTAPE01"
        count, length = np.frombuffer(data, "<u4", 2, place + 8)
        assert length <= HEAP_MAX
        assert np.frombuffer(data, "<u8", 1, place + 32)[0] == before
        records = np.frombuffer(data, RECORD, count, place + HEAD_BYTES)
        heap = place + HEAD_BYTES + records.nbytes
        place, before = heap + int(length), before + len(records)
        yield records, data[heap:place]


def read(path: Path) -> npt.NDArray[np.void]:
    """All records of a tape."""
    return np.concatenate([np.zeros(0, RECORD), *(records for records, _ in blocks(path))])


def contents(path: Path) -> list[bytes]:
    """The content of each record in the heaps of a tape."""
    found: list[bytes] = []
    for records, heap in blocks(path):
        ends = (*records["heap"][1:], len(heap))
        found += [heap[first:end] for first, end in zip(records["heap"], ends, strict=True)]
    return found


def made(folder: Path, rows: Sequence[Row], part: TapePart = WHOLE) -> Tapes:
    return tapes(trace(folder, rows), part)


MIXED: Sequence[Row] = (
    (0, "read", "GET {key}", 1 << 20, 12, None),
    (5, "update", "SET {key} {value}", 1 << 20, 12, 30),
    (5, "update", "SET {key} {value}", 2 << 20, 12, 50),
    (9, "delete", "DEL {key}", 2 << 20, 12, None),
    (9, "read", "GET {key}", 2 << 20, 12, None),
)


def test_a_tape_has_each_operation_in_its_order(tmp_path: Path) -> None:
    found = made(tmp_path, MIXED)
    records = read(found.path)
    mix = (("delete", "delete", 1), ("insert", "insert", 2), ("read", "read", 2))
    assert (found.operations, found.mix) == (5, mix)
    taken = [row[1].replace("update", "insert") for row in MIXED]
    assert [KINDS[kind] for kind in records["kind"]] == taken
    assert [found.mix[number][0] for number in records["statement"]] == taken
    assert list(records["at_ns"]) == [0, 5, 5, 9, 9]
    assert list(records["key"]) == [row[3] | 12 for row in MIXED]
    assert list(records["value_size"]) == [0, 30, 50, 0, 0]


@pytest.mark.parametrize(
    ("rows", "part", "loaded"),
    [
        # Its size is unknown: the mean of the others.
        (MIXED, WHOLE, [(1 << 20 | 12, 40)]),
        # A read that returned nothing.
        ([(0, "read", "get {key}", 256, 10, 0), (1, "read", "get {key}", 512, 10, 7)], WHOLE,
         [(512 | 10, 7)]),
        # One without a size, while others of its verb have sizes, returned nothing, too.
        ([(0, "read", "GET {key}", 256, 10, None), (1, "read", "GET {key}", 512, 10, 7),
          (2, "read", "EXISTS {key}", 768, 10, None)], TapePart(statements=(("READ", "read"),)),
         [(512 | 10, 7), (768 | 10, 7)]),
    ],
    ids=["written before it is read", "nothing returned", "no size"],
)  # fmt: skip
def test_only_what_is_read_before_it_is_written_is_loaded_first(
    tmp_path: Path, rows: Sequence[Row], part: TapePart, loaded: list[tuple[int, int]]
) -> None:
    found = made(tmp_path, rows, part)
    records = read(found.preload_path)
    assert list(zip(records["key"], records["value_size"], strict=True)) == loaded
    assert found.preloaded == len(loaded)


def test_a_sample_has_all_operations_of_its_keys(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    keys = [int(key) for key in chance.integers(1, 2**56, 400)]
    rows: Sequence[Row] = [(n, "read", "get {key}", keys[n * n % 400] << 8, 20, 5)
                           for n in range(4000)]  # fmt: skip
    recorded = trace(tmp_path, rows)
    every = list(read(tapes(recorded, WHOLE).path)["key"])
    kept: dict[float, set[int]] = {}
    for part in (0.1, 0.5):
        found = tapes(recorded, TapePart(scale_keys=part))
        records = read(found.path)
        kept[part] = set(records["key"])
        assert list(records["key"]) == [key for key in every if key in kept[part]]
        assert abs(len(kept[part]) / len(set(every)) - part) < 0.1
        (told,) = [one for one in found.told if one.startswith("operations of other keys")]
        assert told.endswith(f"the rate falls with them: {4000 - found.operations:,}")
    assert kept[0.1] < kept[0.5]


def test_part_of_a_trace_begins_at_0_and_ends_with_the_trace_at_the_latest(tmp_path: Path) -> None:
    recorded = trace(tmp_path, MIXED)
    assert list(read(tapes(recorded, TapePart(from_ns=5, until_ns=9)).path)["at_ns"]) == [0, 0]
    parts = (TapePart(from_ns=5, until_ns=until_ns) for until_ns in (None, 7, 1000))
    assert [tapes(recorded, part).length_ns for part in parts] == [5, 2, 5]


def test_a_statement_is_chosen_by_expiry_and_verb_before_kind(tmp_path: Path) -> None:
    rows: Sequence[Row] = [
        (0, "update", "SET {key} {value}", 256, 12, 5),
        (1, "update", "SET {key} {value} {ttl}", 256, 12, 5),
        (2, "update", "HSET {key} {value}", 256, 12, 5),
        (3, "insert", "HSET {key} {value} {ttl}", 256, 12, 5),
        (4, "other", "PING", 0, 0, None),
    ]
    recorded = trace(tmp_path, rows, ttl_ms={1: 60_000, 3: 5_000})
    names = (("UPDATE", "update"), ("UPDATE_TTL", "update"), ("HSET", "update"), ("PING", "read"))
    found = tapes(recorded, TapePart(statements=names))
    records = read(found.path)
    taken = [found.mix[number][0] for number in records["statement"]]
    assert taken == ["UPDATE", "UPDATE_TTL", "HSET", "HSET", "PING"]
    assert list(records["ttl_ms"]) == [0, 60_000, 0, 5_000, 0]
    assert [KINDS[kind] for kind in records["kind"]] == ["update"] * 4 + ["read"]
    assert found.expiring
    assert "a time to live is left out: 1" in found.told


def test_changes_of_the_replay_are_reported_with_their_count(tmp_path: Path) -> None:
    rows: Sequence[Row] = [(0, "read", "GET {key}", 256, 3, None),
                           (1, "update", "SET {key} {value}", 512, 300, 1 << 25)]  # fmt: skip
    told = made(tmp_path, rows).told
    assert "keys shorter than 10 bytes or longer than 255 are as long as these: 2" in told
    assert "values are no longer than 16 MiB: 1" in told


def test_keys_are_scaled_by_clients(tmp_path: Path) -> None:
    rows: Sequence[Row] = [(n, "read", "get {key}", n % 10 << 20, 20, 5) for n in range(1000)]
    with pytest.raises(UsageError, match="names no clients"):
        made(tmp_path, rows, TapePart(scale_keys=2))
    recorded = trace(tmp_path, rows, "clients.trace", clients=4)
    for times, keys in ((1, 10), (2, 20), (4, 40), (8, 40)):
        found = tapes(recorded, TapePart(scale_keys=times))
        assert len(set(read(found.path)["key"])) == keys
        assert set(read(found.preload_path)["key"]) == set(read(found.path)["key"])


SCANNED: Sequence[Row] = (*MIXED, (9, "scan", "scan {key}", 3 << 20, 12, None))
KEYS = (b"a", b"a", b"bb", b"bb", b"bb", b"c")


def test_a_tape_has_kept_keys_and_values(tmp_path: Path) -> None:
    values = (None, b"one", b"three", None, None, None)
    keep = Keep(keys=True, values=True)
    said = {"key_content": KEYS, "value_content": values, "count": (None,) * 5 + (7,)}
    found = tapes(trace(tmp_path, SCANNED, keep=keep, **said), WHOLE)
    records = read(found.path)
    assert contents(found.path) == [b"a", b"aone", b"bbthree", b"bb", b"bb", b"c"]
    assert list(records["key_size"]) == [1, 1, 2, 2, 2, 1]
    assert list(records["value_size"]) == [0, 3, 5, 0, 0, 0]
    assert list(records["flags"]) == [1, 3, 3, 1, 1, 1]
    assert list(records["count"]) == [0, 0, 0, 0, 0, 7]
    assert KINDS[records["kind"][5]] == "scan"
    assert found.kept == "keys and values that are written"
    assert contents(found.preload_path) == [b"a"]
    assert found.told == ()


def test_scans_have_kept_keys_which_are_not_multiplied(tmp_path: Path) -> None:
    recorded = trace(tmp_path, SCANNED, "kept.trace", keep=Keep(keys=True), key_content=KEYS)
    without = (("READ", "read"), ("UPDATE", "update"), ("DELETE", "delete"))
    with pytest.raises(UsageError, match=r"for no single record elsewhere: scan \(1\)"):
        tapes(recorded, TapePart(statements=without))
    found = tapes(recorded, TapePart(statements=(*without, ("SCAN", "scan"))))
    assert ("SCAN", "scan", 1) in found.mix
    assert found.told == ("a scan without a number of records reads 100: 1",)
    with pytest.raises(UsageError, match="the very keys, which can't be multiplied"):
        tapes(recorded, TapePart(scale_keys=2))


def test_a_block_has_a_size_limit(tmp_path: Path) -> None:
    rows: Sequence[Row] = [(n, "update", "set {key}", n << 8, 20, 1 << 20) for n in range(150)]
    values = [bytes([n]) * (1 << 20) for n in range(150)]
    recorded = trace(tmp_path, rows, keep=Keep(values=True), value_content=values)
    assert contents(tapes(recorded, WHOLE).path) == values


def test_the_same_part_of_the_same_trace_is_made_once(tmp_path: Path) -> None:
    recorded = trace(tmp_path, MIXED)
    first = tapes(recorded, TapePart())
    changed_ns = first.path.stat().st_mtime_ns
    assert tapes(recorded, TapePart()) == first
    assert first.path.stat().st_mtime_ns == changed_ns
    assert tapes(recorded, TapePart(skip=("del",))).path != first.path
    first.preload_path.unlink()
    assert tapes(recorded, TapePart()) == first
    assert first.preload_path.exists()


@given(
    count=st.integers(1, 3000),
    keys=st.integers(1, 50),
    gap=st.integers(0, 3),
)
def test_blocks_have_the_operations_of_the_trace(
    tmp_path_factory: pytest.TempPathFactory, count: int, keys: int, gap: int
) -> None:
    rows = [
        (gap * number, "read", "get {key}", number % keys << 8, 20, None) for number in range(count)
    ]
    found = made(tmp_path_factory.mktemp("blocks"), rows)
    records = read(found.path)
    assert list(records["key"]) == [row[3] | 20 for row in rows]
    assert list(records["at_ns"]) == [row[0] for row in rows]
    assert sorted(read(found.preload_path)["key"]) == sorted({row[3] | 20 for row in rows})
