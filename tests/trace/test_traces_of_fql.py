"""The text of Cassandra's fqltool dump as a trace, from texts of both forms and from a real one."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import ImportFileError
from kvmark.trace import COLUMNS, Trace, TraceWriter, import_fql, is_fql

SELECT = "SELECT v FROM ks.t WHERE k = ?"
INSERT = "INSERT INTO ks.t (k, v, w) VALUES (?, ?, ?) USING TTL ?"


def hexadecimal(value: bytes) -> str:
    """A value as net.openhft.chronicle.bytes shows it."""
    lines, before, same = [], b"", False
    for at in range(0, len(value), 16):
        row = value[at : at + 16]
        is_last = at + 16 >= len(value)
        if not is_last and at and row == before:
            same = True
            continue
        if same:
            lines.append("........\n")
        before, same = row if not is_last else before, False
        shown = [f" {byte:02X}" for byte in row] + ["   "] * (16 - len(row))
        text = "".join(chr(byte) if 32 <= byte <= 126 else "·" for byte in row).ljust(16)
        halves = "".join(shown[:8]) + " " + "".join(shown[8:])
        lines.append(f"{at:08x}{halves} {text[:8]} {text[8:]}\n")
    return "".join(lines)


def query(text: str, values: Sequence[bytes], *, old: bool = False) -> str:
    said = f"Query: {text}\nValues: \n"
    for place, value in enumerate(values):
        said += hexadecimal(value[:1024]) + ("... truncated\n" if len(value) > 1024 else "")
        said += "" if old and place == 0 else "-----\n"
    return said


def record(at_ms: int, *queries: str, batch: bool = False) -> str:
    kind = "batch" if batch else "single-query"
    head = f"Type: {kind}\nQuery start time: {at_ms}\nProtocol version: 5\n"
    head += "Generated timestamp:-9223372036854775808\nGenerated nowInSeconds:1700000000\n"
    return head + ("Batch type: LOGGED\n" if batch else "") + "".join(queries) + "\n"


def imported(folder: Path, content: str, **key_columns: Sequence[str]) -> Trace:
    file = folder / "fql.txt"
    file.write_text(content)
    path = folder / "X.trace"
    with TraceWriter(path, "fql") as writer:
        import_fql(file, key_columns, writer, bytes(16))
    return Trace.open(path)


def rows(trace: Trace) -> pl.DataFrame:
    return pl.concat(trace.batches(tuple(COLUMNS)))


TTL = (60).to_bytes(4, "big")


@pytest.mark.parametrize("old", [False, True])
def test_queries_become_rows(tmp_path: Path, *, old: bool) -> None:
    values = (b"key-1", b"x" * 100, b"y" * 20, TTL)
    said = record(1000, query(INSERT, values, old=old))
    said += record(1005, query(SELECT, (b"key-1",), old=old))
    said += record(1002, query("SELECT v FROM ks.t WHERE k = 'key-1'", (), old=old))
    trace = imported(tmp_path, said)
    found = rows(trace)
    assert found["kind"].to_list() == ["insert", "read", "read"]
    assert found["at_ns"].to_list() == [0, 2_000_000, 5_000_000]
    assert found["value_size"].to_list() == [120, None, None]
    assert found["ttl_ms"].to_list() == [60_000, None, None]
    assert found["key_size"].to_list() == [5, 5, 5]
    assert found["key"].n_unique() == 1
    assert "keys of tables were taken to be: t by k; --key-column says others" in trace.info.told


def test_a_batch_is_an_operation_with_a_row_a_query(tmp_path: Path) -> None:
    said = [query(INSERT, (b"%d" % key, b"v", b"w", TTL)) for key in (1, 2, 1)]
    found = rows(imported(tmp_path, record(5, *said, batch=True)))
    assert found["items"].to_list() == [3, 0, 0]
    assert found["key"][0] == found["key"][2] != found["key"][1]


def test_the_key_is_the_first_equality_or_what_is_said(tmp_path: Path) -> None:
    update = "UPDATE t SET v = ? WHERE a = ? AND b = ? IF v = ?"
    said = record(1, query(update, (b"new", b"a1", b"b1", b"old")))
    said += record(2, query(update, (b"longer", b"a1", b"b2", b"old")))
    told = imported(tmp_path, said)
    assert rows(told)["key"].n_unique() == 1
    assert rows(told)["value_size"].to_list() == [3, 6]
    (tmp_path / "both").mkdir()
    both = imported(tmp_path / "both", said, t=("a", "b"))
    assert rows(both)["key"].n_unique() == 2
    assert "conditions (IF) aren't part of a trace: 2" in both.info.told


def test_what_is_left_out_is_counted_by_name(tmp_path: Path) -> None:
    said = record(1, query(SELECT, (b"k",)))
    said += record(2, query("CREATE TABLE ks.t (k text PRIMARY KEY,\n\n v text)", ()))
    said += record(3, query("SELECT * FROM system.local WHERE key='local'", ()))
    said += record(4, query("SELECT v FROM ks.t WHERE k IN (?)", (b"k",)))
    said += record(5, query(INSERT, (b"", b"v", b"w", TTL), old=True))
    told = imported(tmp_path, said).info.told
    assert "left out: CREATE (1)" in told
    assert "left out: queries of the system's own tables (1)" in told
    assert "left out: read on ks.t whose key, one, isn't said (1)" in told
    assert "left out: queries whose values can't be told apart (1)" in told


def test_a_value_that_was_cut_off_has_no_size(tmp_path: Path) -> None:
    trace = imported(tmp_path, record(1, query(INSERT, (b"k", bytes(1025), b"", TTL))))
    assert rows(trace)["value_size"].to_list() == [None]
    assert any("longer than 1,024 bytes" in one for one in trace.info.told)


@given(st.lists(st.binary(max_size=200) | st.integers(0, 90).map(bytes), min_size=4, max_size=4))
def test_values_of_any_bytes_have_their_sizes(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes]
) -> None:
    values = [values[0] or b"k", values[1], values[2], TTL]
    found = rows(imported(tmp_path_factory.mktemp("fql"), record(1, query(INSERT, values))))
    assert found["key_size"].to_list() == [len(values[0])]
    assert found["value_size"].to_list() == [len(values[1]) + len(values[2])]


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (("Protocol version: 5", "Protocol: 5"), 3),
        (("Values: ", "Value: "), 6),
        (("00000000", "00000010"), 8),
        (("single-query", "thrift"), 1),
    ],
)
def test_what_is_no_dump_is_refused_with_its_line(
    tmp_path: Path, broken: tuple[str, str], line: int
) -> None:
    with pytest.raises(ImportFileError, match=f"line {line}: "):
        imported(tmp_path, record(1, query(SELECT, (b"k",))).replace(*broken))
    assert not (tmp_path / "X.trace").exists()


def test_a_dump_is_told_from_its_first_lines(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for content, is_one in ((record(1, query(SELECT, (b"k",))), True), ("Type: batch\n", False)):
        file.write_text(content)
        assert is_fql(file) is is_one


def test_a_real_dump_has_the_operations_that_the_node_counted(tmp_path: Path) -> None:
    # Cassandra 5.0.9: cql/kv with 12 records and 30 operations, apps/CassandraBatchKeyValue with
    # 3 writes in batches of 10 and 3 reads. The node counted 70 statements outside of batches.
    dump = Path(__file__).with_name("data") / "fqltool-dump-5.0.9.txt"
    assert is_fql(dump)
    trace = imported(tmp_path, dump.read_text("utf-8"))
    found = rows(trace)
    left_out = {"queries of the system's own tables": 21, "CREATE": 4}
    assert trace.info.operations == 70 + 3 - sum(left_out.values())
    for name, count in left_out.items():
        assert f"left out: {name} ({count})" in trace.info.told
    counted = dict(found["kind"].value_counts().iter_rows())
    assert counted == {"read": 27 + 3, "insert": 12 + 3 + 3 * 10}
    assert found["items"].value_counts().sort("items").rows() == [(0, 27), (1, 45), (10, 3)]
    written = found.filter(pl.col("kind") == "insert")
    assert written["value_size"].null_count() == 0
    assert found.filter(pl.col("kind") == "read")["key"].is_in(written["key"].implode()).any()
