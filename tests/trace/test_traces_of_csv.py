"""CSV files as traces: complete, with equal hashes of equal keys, and errors with their line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvmark.errors import ImportFileError
from kvmark.trace import COLUMNS, HASHED, KINDS, Keep, Trace, TraceWriter, import_csv, layout_of

S = 10**9
TWITTER = (
    "100,a,5,70,1,get,0",
    "100,b,5,71,2,set,60",
    "100,a,5,70,1,gets,0",
    "101,c,5,0,3,incr,0",
    "103,b,5,71,2,delete,0",
)


def imported(
    folder: Path,
    content: str,
    name: str = "X.trace",
    named: Mapping[str, str] = MappingProxyType({}),
    time: str = "s",
    keep: Keep = HASHED,
    hash_key: bytes = bytes(range(16)),
) -> Trace:
    file = folder / "operations.csv"
    file.write_text(content)
    layout = layout_of(file, named, time)
    with TraceWriter(folder / name, layout.name, keep) as writer:
        import_csv(file, layout, writer, hash_key, keep)
    return Trace.open(folder / name)


def rows(trace: Trace, columns: Sequence[str] = tuple(COLUMNS)) -> pl.DataFrame:
    return pl.concat(trace.batches(columns))


def test_a_trace_of_twitter_is_recognised_by_its_rows(tmp_path: Path) -> None:
    trace = imported(tmp_path, "\n".join(TWITTER) + "\n")
    found = rows(trace)
    assert trace.info.source == "twitter/cache-trace"
    assert found["kind"].to_list() == ["read", "update", "read", "update", "delete"]
    assert found["statement"].to_list() == [
        "get {key}", "set {key} {value} {ttl}", "gets {key}", "incr {key}", "delete {key}",
    ]  # fmt: skip
    assert found["client"].to_list() == [0, 1, 0, 2, 1]
    assert found["ttl_ms"].to_list() == [None, 60_000, None, None, None]
    assert found["key_size"].to_list() == [5] * 5
    assert found["value_size"].to_list() == [70, 71, 70, 0, 71]
    a, b, _, c, last = found["key"].to_list()
    assert (a, b) == (found["key"][2], last)
    assert len({a, b, c}) == 3


def test_operations_of_one_second_are_spread_over_it_with_a_note(tmp_path: Path) -> None:
    trace = imported(tmp_path, "\n".join(TWITTER))
    assert rows(trace)["at_ns"].to_list() == [0, S // 3, 2 * S // 3, S, 3 * S]
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


@pytest.mark.parametrize(
    ("content", "sentence", "options"),
    [
        ("", "is empty", {}),
        ("at,key,kind\n", "has no operations", {}),
        ("at,kind\n0,read\n", "line 1: which column is key", {}),
        ("at,key,kind\n5,x,read\n3,x,read\n", "line 3: time goes back by 2 s; sort the file", {}),
        ("at,key,kind\n5,x,read\nsoon,x,read\n", "line 3: the time is 'soon', and not a", {}),
        ("at,key,kind,ttl\n5,x,read,1\n6,x,read,long\n", "line 3: ttl is 'long', and not", {}),
        ("at,key,kind\n5,x,read\n6,x,read,more\n", "line 3: it has 4 fields and not 3", {}),
        ("at,key,kind,value_size\n5,x,read,5000000000\n", "line 2: value_size is '5000000000'", {}),
        ("at,key,kind\n0,x,read\n", "there is no column 'ts'", {"named": {"at": "ts"}}),
        ("at,key,kind\n0,x,read\n", "'when' is none of at, key", {"named": {"when": "at"}}),
        ("at,key,kind\n0,x,read\n", "name one by --columns value=", {"keep": Keep(values=True)}),
    ],
)
def test_an_error_is_reported_with_its_line_and_leaves_no_trace(
    tmp_path: Path, content: str, sentence: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ImportFileError, match=sentence):
        imported(tmp_path, content, **options)
    assert not (tmp_path / "X.trace").exists()


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 5 * S),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
        st.sampled_from(KINDS[:-1]),
        st.integers(0, 2**32 - 1),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=50,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(OPERATIONS)
def test_every_operation_of_a_file_is_in_its_trace(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[int, str, str, int, int]],
) -> None:
    operations.sort(key=lambda one: one[0])
    names = ("at", "key", "kind", "value_size", "client")
    table = pl.DataFrame(operations, schema=list(names), orient="row")
    trace = imported(
        tmp_path_factory.mktemp("csv"), table.write_csv(quote_style="always"), time="ns"
    )
    found = rows(trace)
    first = operations[0][0]
    assert found["at_ns"].to_list() == [one[0] - first for one in operations]
    assert found["kind"].to_list() == [one[2] for one in operations]
    assert found["value_size"].to_list() == [one[3] for one in operations]
    assert found["key_size"].to_list() == [len(one[1].encode()) for one in operations]
    for name, place in (("key", 1), ("client", 4)):
        # Equal values have equal numbers, and different ones have different numbers.
        pairs = {*zip(found[name], (one[place] for one in operations), strict=True)}
        assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_a_large_file_is_cut_into_files_and_comes_back_in_order(tmp_path: Path) -> None:
    count = 4_500_000
    table = pl.select(at=pl.int_range(count), key=pl.int_range(count) % 1000, kind=pl.lit("read"))
    trace = imported(tmp_path, table.write_csv(), time="us")
    assert len(list(trace.path.glob("operations-*.parquet"))) == 5
    found = rows(trace, ("at_ns", "key"))
    assert found["at_ns"].to_list()[:: count // 9] == list(
        range(0, count * 1000, count // 9 * 1000)
    )
    assert found["key"].n_unique() == 1000


KEPT = "at,key,kind,value,count\n0,a,update,one,\n1,é,scan,,7\n2,a,read,,\n"


def test_contents_are_there_only_where_they_were_to_be_kept(tmp_path: Path) -> None:
    for keys, values in ((False, False), (True, False), (False, True), (True, True)):
        keep = Keep(keys=keys, values=values)
        trace = imported(tmp_path, KEPT, f"{keys}{values}.trace", keep=keep)
        kept = {"key_content"} if keys else set()
        kept |= {"value_content"} if values else set()
        assert trace.optional == {"count", *kept}
        assert trace.info.keep == keep
        files = b"".join(file.read_bytes() for file in trace.path.glob("*.parquet"))
        assert (b"key_content" in files, b"value_content" in files) == (keys, values)
        names = ("count", "value_size", *sorted(kept))
        contents = {
            "count": [None, 7, None],
            "value_size": [3, None, None],
            "key_content": [b"a", "é".encode(), b"a"],
            "value_content": [b"one", None, None],
        }
        assert rows(trace, names).to_dict(as_series=False) == {one: contents[one] for one in names}
