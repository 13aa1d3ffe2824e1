"""CSV files and MONITOR's output as traces: complete, and errors with their line."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmark.errors import ImportFileError
from kvmark.trace.folder import COLUMNS, HASHED, KINDS, Keep, Trace, TraceWriter
from kvmark.trace.text_files import command_rows, import_csv, import_monitor, is_monitor, layout_of
from tables import table

S = 10**9
ERRORS = table(__file__, "errors.toml")
TWITTER = (
    "100,a,5,70,1,get,0\n100,b,5,71,2,set,60\n100,a,5,70,1,gets,0\n101,c,5,0,3,incr,0\n"
    "103,b,5,71,2,delete,0\n"
)
MONITOR = r"""OK
1339518083.107412 [0 127.0.0.1:60866] "set" "k" "value" "EX" "60"
1339518083.207412 [0 127.0.0.1:60866] "GET" "k"
1339518084.107412 [0 127.0.0.1:60867] "mget" "k" "l" "m"
1339518084.107412 [0 lua] "set" "inner" "x"
1339518085.107412 [0 unix:/tmp/redis.sock] "EVALSHA" "abc" "1" "k"
1339518086.107412 [0 127.0.0.1:60867] "HSET" "h\x00\"\n" "f" "12" "g" "345"
1339518087.107412 [0 127.0.0.1:60867] "PSETEX" "k" "1500" "v"
"""


def imported(
    folder: Path,
    content: str,
    name: str = "X.trace",
    keep: Keep = HASHED,
    hash_key: bytes = bytes(16),
    **csv: Any,
) -> Trace:
    """The trace of a text; `csv` has the names and the unit of time of columns."""
    file = folder / "operations"
    file.write_text(content)
    with TraceWriter(folder / name, "a test", keep) as writer:
        if is_monitor(file):
            import_monitor(file, writer, hash_key, keep)
        else:
            layout = layout_of(file, csv.get("named", {}), csv.get("time", "s"))
            import_csv(file, layout, writer, hash_key, keep)
    return Trace.open(folder / name)


def rows(trace: Trace, *columns: str) -> pl.DataFrame:
    return pl.concat(trace.batches(columns or tuple(COLUMNS)))


def test_a_trace_of_twitter_is_recognised_by_its_rows(tmp_path: Path) -> None:
    trace = imported(tmp_path, TWITTER)
    found = rows(trace)
    # Operations of one second are spread over it.
    assert found.drop("key", "items").rows() == [
        (0, 0, "read", "get {key}", 5, 70, None),
        (S // 3, 1, "update", "set {key} {value} {ttl}", 5, 71, 60_000),
        (2 * S // 3, 0, "read", "gets {key}", 5, 70, None),
        (S, 2, "update", "incr {key}", 5, 0, None),
        (3 * S, 1, "delete", "delete {key}", 5, 71, None),
    ]
    a, b, again, c, last = found["key"].to_list()
    assert (a, b) == (again, last)
    assert len({a, b, c}) == 3
    assert layout_of(tmp_path / "operations", {}, "s").name == "twitter/cache-trace"
    assert any("spread evenly" in sentence for sentence in trace.info.told)


@pytest.mark.parametrize(
    ("time", "instants"),
    [
        ("s", ("1700000000.5", "1700000000.75")),
        ("ms", ("1700000000500", "1700000000750")),
        ("us", ("1700000000500000", "1700000000750000")),
        ("ns", ("1700000000500000000", "1700000000750000000")),
        ("iso", ("2026-11-24T09:00:00.500", "2026-11-24T09:00:00.750")),
    ],
)
def test_times_have_the_given_unit(tmp_path: Path, time: str, instants: tuple[str, str]) -> None:
    content = "at,key,kind\n" + "".join(f"{at},k,read\n" for at in instants)
    assert rows(imported(tmp_path, content, time=time))["at_ns"].to_list() == [0, S // 4]


def test_columns_are_named(tmp_path: Path) -> None:
    content = "op,ts,id,len\nGET,5,x,\nput,6,y,12\nEVAL,7,x,\n"
    named = {"at": "ts", "key": "id", "kind": "op", "value_size": "len"}
    trace = imported(tmp_path, content, named=named)
    found = rows(trace)
    assert found["kind"].to_list() == ["read", "update", "other"]
    assert found["value_size"].to_list() == [None, 12, None]
    assert found["key_size"].to_list() == [1, 1, 1]
    assert "operations of no known kind: EVAL (1)" in trace.info.told


def test_keys_are_hashed_alike_under_one_hash_key_only(tmp_path: Path) -> None:
    content = "at,key,kind\n0,x,read\n1,ü,read\n"
    one, same, other = (
        rows(imported(tmp_path, content, f"{place}.trace", hash_key=key))["key"].to_list()
        for place, key in enumerate((bytes(16), bytes(16), bytes(range(16))))
    )
    assert one == same != other


@pytest.mark.parametrize(("content", "sentence", "options"), ERRORS["files"])
def test_an_error_is_reported_with_its_line_and_leaves_no_trace(
    tmp_path: Path, content: str, sentence: str, options: dict[str, Any]
) -> None:
    options = {**options, "keep": Keep(**options.get("keep", {}))}
    with pytest.raises(ImportFileError, match=sentence):
        imported(tmp_path, content, **options)
    assert not (tmp_path / "X.trace").exists()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5 * S),
            st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
            st.sampled_from(KINDS[:-1]),
            st.integers(0, 2**32 - 1),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=50,
    ).map(sorted)
)
def test_every_operation_of_a_file_is_in_its_trace(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[int, str, str, int, int]]
) -> None:
    names = ["at", "key", "kind", "value_size", "client"]
    content = pl.DataFrame(operations, schema=names, orient="row").write_csv(quote_style="always")
    found = rows(imported(tmp_path_factory.mktemp("csv"), content, time="ns"))
    assert found.select("at_ns", "kind", "value_size", "key_size").rows() == [
        (at - operations[0][0], kind, size, len(key.encode()))
        for at, key, kind, size, _ in operations
    ]
    for name, place in (("key", 1), ("client", 4)):
        # Equal values have equal numbers, and different ones have different numbers.
        pairs = {*zip(found[name], (one[place] for one in operations), strict=True)}
        assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_a_large_file_is_cut_into_files_and_comes_back_in_order(tmp_path: Path) -> None:
    count = 4_500_000
    table = pl.select(at=pl.int_range(count), key=pl.int_range(count) % 1000, kind=pl.lit("read"))
    trace = imported(tmp_path, table.write_csv(), time="us")
    assert len(list(trace.path.glob("operations-*.parquet"))) == 5
    found = rows(trace, "at_ns", "key")
    assert (found["at_ns"] == pl.int_range(count, eager=True) * 1000).all()
    assert found["key"].n_unique() == 1000


KEPT = "at,key,kind,value,count\n0,a,update,one,\n1,é,scan,,7\n2,a,read,,\n"


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("values", [False, True])
def test_contents_are_there_only_where_they_were_to_be_kept(
    tmp_path: Path, *, keys: bool, values: bool
) -> None:
    keep = Keep(keys=keys, values=values)
    trace = imported(tmp_path, KEPT, keep=keep)
    contents = {"count": [None, 7, None], "value_size": [3, None, None]}
    if keys:
        contents["key_content"] = [b"a", "é".encode(), b"a"]
    if values:
        contents["value_content"] = [b"one", None, None]
    assert trace.optional == contents.keys() - {"value_size"}
    assert trace.info.keep == keep
    files = b"".join(file.read_bytes() for file in trace.path.glob("*.parquet"))
    assert (b"key_content" in files, b"value_content" in files) == (keys, values)
    assert rows(trace, *contents).to_dict(as_series=False) == contents


def test_commands_of_monitor_become_rows(tmp_path: Path) -> None:
    trace = imported(tmp_path, MONITOR)
    found = rows(trace)
    assert (trace.info.operations, trace.info.rows, trace.info.clients) == (6, 8, 3)
    assert found.drop("key", "client").rows() == [
        (0, "update", "SET {key} {value} {ttl}", 1, 5, 60_000, 1),
        (S // 10, "read", "GET {key}", 1, None, None, 1),
        *((S, "read", "MGET {key}", 1, None, None, items) for items in (3, 0, 0)),
        (2 * S, "other", "EVALSHA", 0, None, None, 1),
        (3 * S, "update", "HSET {key} {value}", 4, 5, None, 1),
        (4 * S, "update", "PSETEX {key} {value} {ttl}", 1, 1, 1500, 1),
    ]
    assert found["key"][0] == found["key"][1] == found["key"][2] != found["key"][3]
    assert {
        "commands that scripts sent are left out: 1",
        "operations of no known kind: EVALSHA (1)",
        "MONITOR contains no replies",
    } <= {*trace.info.told}


def test_the_output_is_recognised_by_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for content, expected in (
        (MONITOR, True), (MONITOR[3:], True), ("at,key\n", False), ("OK\n", False),
    ):  # fmt: skip
        file.write_text(content)
        assert is_monitor(file) == expected


@pytest.mark.parametrize(("line", "sentence"), ERRORS["monitor"])
def test_an_invalid_line_is_named_by_its_number(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(ImportFileError, match=sentence):
        imported(tmp_path, f'1339518083.1 [0 127.0.0.1:1] "get" "k"\n{line}\n')
    assert not (tmp_path / "X.trace").exists()


def quoted(word: bytes) -> str:
    """As Redis' sdscatrepr writes a string."""
    signs = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
    plain = (signs.get(one) or (chr(one) if 32 <= one < 127 else f"\\x{one:02x}") for one in word)
    return f'"{"".join(plain)}"'


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_any_bytes_are_read_as_they_were_sent(key: bytes, value: bytes) -> None:
    (row,) = command_rows(f' "SET" {quoted(key)} {quoted(value)}')
    text = key.decode(errors="backslashreplace")
    assert row == (text, "SET", str(len(key)), str(len(value)), None, 1, key, value)


def test_contents_are_kept_verbatim_without_passwords(tmp_path: Path) -> None:
    login = '1339518088.1 [0 127.0.0.1:1] "HELLO" "3" "AUTH" "user" "hunter"\n'
    trace = imported(tmp_path, MONITOR + login, keep=Keep(keys=True, values=True))
    found = rows(trace, "key_content", "value_content")
    keys = [b"k", b"k", b"k", b"l", b"m", b"", b'h\x00"\n', b"k", b""]
    assert found["key_content"].to_list() == keys
    assert found["value_content"].to_list() == [b"value", *[None] * 5, b"12345", b"v", None]
