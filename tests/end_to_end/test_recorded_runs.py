"""Runs recorded as traces: each operation with its three instants; replays; killed runs."""

import shutil
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from command_line import Kvmark, totals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import rows

from kvmark.trace import Trace
from waiting import wait_until

VIRTUAL = "--system sim:?clock=virtual&mean_us=100"


def recorded(trace: Path) -> pl.DataFrame:
    return rows(trace, "issued_ns", "completed_ns", "outcome", "group")


def by_key(trace: Path) -> list[list[tuple[object, ...]]]:
    """The operations on each key, in their order."""
    operations: dict[object, list[tuple[object, ...]]] = {}
    columns = ("kind", "key", "key_size", "value_size")
    table = recorded(trace).sort("at_ns", "issued_ns", maintain_order=True).select(columns)
    for kind, key, *sizes in table.iter_rows():
        # A client that sets a value does not ask whether the key exists.
        verb = "write" if kind in {"insert", "update"} else kind
        operations.setdefault(key, []).append((verb, *sizes))
    return sorted(operations.values(), key=repr)


@pytest.mark.parametrize("system", [VIRTUAL, "--system null:", "--system rocksdb:store"])
def test_a_trace_has_each_measured_operation_once(kvmark: Kvmark, system: str) -> None:
    words = f"run ycsb/f {system} --records 500 --clients 3 --warmup 200ms --operations 4000"
    kvmark(f"{words} --record t.trace -q")
    trace = recorded(kvmark.folder / "t.trace")
    counted = trace.group_by("kind", "outcome").len().iter_rows()
    assert {(kind, outcome): count for kind, outcome, count in counted} == {
        (one["operation"].lower().replace("-", "_"), one["outcome"]): one["count"]
        for one in totals(kvmark.manifest())
        if not one["part"]
    }
    assert trace["at_ns"].is_sorted()
    assert (trace["issued_ns"] >= trace["at_ns"]).all()
    assert (trace["completed_ns"] >= trace["issued_ns"]).all()
    assert set(trace["client"]) <= {0, 1, 2}
    assert trace["group"].n_unique() == 1
    assert (trace["value_size"].is_null() == (trace["kind"] == "read")).all()
    assert Trace.open(kvmark.folder / "t.trace").info.source.startswith("a run of ycsb/f on ")


def test_load_and_warm_up_are_not_recorded(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/a {VIRTUAL} --records 300 --operations 50 --warmup 1s --record t.trace -q")
    assert Trace.open(kvmark.folder / "t.trace").info.operations == 50


def test_a_trace_has_the_instants_of_its_run(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/c {VIRTUAL} --rate 1000 --clients 64 --duration 2s --record t.trace -q")
    trace = recorded(kvmark.folder / "t.trace")
    assert trace["at_ns"].diff().drop_nulls().unique().to_list() == [1_000_000]
    assert len(trace) == 2000


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(1, 10**6),
    workload=st.sampled_from(["ycsb/a", "ycsb/b", "ycsb/d", "ycsb/f"]),
    clients=st.integers(1, 20),
)
def test_replays_of_replays_have_the_operations_of_the_run(
    kvmark: Kvmark, seed: int, workload: str, clients: int
) -> None:
    names = [f"{number}-{seed}-{clients}-{workload[-1]}.trace" for number in range(3)]
    words = f"run {workload} --rate 5000 --clients {clients} --seed {seed} {VIRTUAL} -q"
    kvmark(f"{words} --records 40 --operations 400 --record {names[0]}", exits=(0, 1))
    for source, trace in pairwise(names):
        kvmark(f"replay {source} {VIRTUAL} -q --record {trace}", exits=(0, 1))
    traces = [kvmark.folder / name for name in names]
    assert by_key(traces[0]) == by_key(traces[1]) == by_key(traces[2])
    at_ns = [rows(trace)["at_ns"].to_list() for trace in traces]
    assert at_ns[0] == at_ns[1] == at_ns[2]
    for trace in traces:
        shutil.rmtree(trace)


def test_a_replay_on_rocksdb_records_the_same_operations(kvmark: Kvmark) -> None:
    words = "run ycsb/a --system rocksdb:a --records 200 --clients 4 --rate 4000 --operations 3000"
    kvmark(f"{words} --record a.trace -q", exits=(0, 1))
    kvmark("replay a.trace --system rocksdb:b --record b.trace -q", exits=(0, 1))
    assert by_key(kvmark.folder / "a.trace") == by_key(kvmark.folder / "b.trace")


def test_the_recording_of_a_killed_run_can_be_imported(kvmark: Kvmark) -> None:
    words = "run ycsb/a --system sim:?mean_us=100 --load never -q --duration 1h --interval 50ms"
    log = kvmark.folder / "t.trace" / "operations.log"
    started = kvmark.start(f"{words} --record t.trace")
    wait_until(lambda: log.exists() and log.stat().st_size > 100 * 64, "operations are logged")
    kvmark.kill(started)
    with log.open("ab") as file:
        file.write(b"half a record")
    advice = "make a trace of what is there by kvmark trace import"
    assert advice in kvmark.refuses("trace show t.trace")
    kvmark.import_trace("t.trace", "u.trace")
    info = Trace.open(kvmark.folder / "u.trace").info
    assert info.operations >= 100
    assert "the recording was interrupted" in info.told[0]


MAGIC = b"KVRUNLOG01".ljust(64, b"\0")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (MAGIC[:9] * 8, "isn't a log of a run"),
        (MAGIC + bytes([255]) * 64, "has operations that no run can have"),
        (MAGIC, "has no operations"),
    ],
    ids=["no log", "damaged", "empty"],
)
def test_a_damaged_log_is_refused(kvmark: Kvmark, content: bytes, part: str) -> None:
    folder = kvmark.folder / "t.trace"
    folder.mkdir()
    (folder / "tapes.json").write_text('{"format": 1, "source": "a run"}')
    (folder / "operations.jsonl").write_text('{"outcomes": ["ok"]}\n')
    (folder / "operations.log").write_bytes(content)
    assert part in kvmark.refuses("trace import t.trace -o u.trace")
    assert not (kvmark.folder / "u.trace").exists()


def test_wrong_use_is_refused(kvmark: Kvmark) -> None:
    words = f"run ycsb/c {VIRTUAL} --operations 10 -q --record"
    assert "x doesn't end in .trace" in kvmark.refuses(words, "x")
    several = kvmark.refuses(words, "x.trace", "--repetitions", "3")
    assert "--record is for one run on one machine" in several
    kvmark(words, "x.trace")
    assert "x.trace is there already" in kvmark.refuses(words, "x.trace")
    part = "ab 'ycsb/c --record y.trace' --base '--system sim:' --candidate '--seed 2'"
    assert "--record is not for a part of a command" in kvmark.refuses(part)


def test_a_run_that_cannot_start_leaves_no_trace(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system redis://127.0.0.1:1 --operations 10 -q --record x.trace"
    kvmark(words, exits=(2, 3, 4, 5))
    assert not (kvmark.folder / "x.trace").exists()
