"""Runs recorded as traces: every operation with its three instants, replayed, killed."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Kvmark
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvmark.trace import COLUMNS, Trace
from waiting import wait_until

OPTIONAL = ("issued_ns", "completed_ns", "outcome", "group")
VIRTUAL = "sim:?clock=virtual&mean_us=100"


def rows(path: Path) -> pl.DataFrame:
    return pl.concat(Trace.open(path).batches((*COLUMNS, *OPTIONAL)))


def totals(manifest: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Operations of the measured phase by what they did and how they ended."""
    engine = manifest["engine"]
    (measured,) = [one["index"] for one in engine["phases"] if one["name"] == "measure"]
    return {
        (one["operation"].lower().replace("-", "_"), one["outcome"]): one["count"]
        for one in engine["totals"]
        if one["phase"] == measured and not one["part"]
    }


def asked(path: Path) -> list[tuple[object, ...]]:
    """Kinds and sizes in their order, and keys by where they were first."""
    found = rows(path).sort("at_ns", "issued_ns", maintain_order=True)
    first: dict[int, int] = {}
    keys = [first.setdefault(key, len(first)) for key in found["key"]]
    return list(zip(found["kind"], keys, found["key_size"], found["value_size"], strict=True))


def by_key(path: Path) -> list[list[tuple[object, ...]]]:
    """What is asked of each key, in its order."""
    lists: dict[object, list[tuple[object, ...]]] = {}
    for kind, key, *sizes in asked(path):
        # Whoever sets a value doesn't ask whether there is one.
        word = "write" if kind in {"insert", "update"} else kind
        lists.setdefault(key, []).append((word, *sizes))
    return sorted(lists.values(), key=repr)


@pytest.mark.parametrize("system", [VIRTUAL, "null:", "rocksdb:store"])
def test_a_record_has_every_measured_operation_once(kvmark: Kvmark, system: str) -> None:
    words = ("run", "ycsb/f", "--system", system, "--records", "500", "--clients", "3")
    kvmark(*words, "--warmup", "200ms", "--operations", "4000", "--record", "t.trace", "-q")
    found = rows(kvmark.folder / "t.trace")
    counted = found.group_by("kind", "outcome").len().iter_rows()
    assert {(kind, outcome): count for kind, outcome, count in counted} == totals(kvmark.manifest())
    assert found["at_ns"].is_sorted()
    assert (found["issued_ns"] >= found["at_ns"]).all()
    assert (found["completed_ns"] >= found["issued_ns"]).all()
    assert set(found["client"]) <= {0, 1, 2}
    assert found["group"].n_unique() == 1
    assert (found["value_size"].is_null() == (found["kind"] == "read")).all()
    assert Trace.open(kvmark.folder / "t.trace").info.source.startswith("a run of ycsb/f on ")


def test_nothing_is_recorded_of_load_and_warm_up(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/a", "--system", VIRTUAL, "--records", "300", "--operations", "50")
    kvmark(*words, "--warmup", "1s", "--record", "t.trace", "-q")
    assert Trace.open(kvmark.folder / "t.trace").info.operations == 50


def test_instants_are_those_of_the_run(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", VIRTUAL)
    kvmark(*words, "--rate", "1000", "--clients", "64", "--duration", "2s", "--record",
           "t.trace", "-q")  # fmt: skip
    found = rows(kvmark.folder / "t.trace")
    assert found["at_ns"].diff().drop_nulls().unique().to_list() == [1_000_000]
    assert len(found) == 2000


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(1, 10**6),
    workload=st.sampled_from(["ycsb/a", "ycsb/b", "ycsb/d", "ycsb/f"]),
    clients=st.integers(1, 20),
)
def test_a_recorded_run_replays_and_its_replay_does_too(
    kvmark: Kvmark, seed: int, workload: str, clients: int
) -> None:
    names = [f"{number}-{seed}-{clients}-{workload[-1]}.trace" for number in range(3)]
    run = ("run", workload, "--rate", "5000", "--clients", clients, "--seed", seed)
    kvmark(*run, "--system", VIRTUAL, "--records", "40", "--operations", "400", "-q",
           "--record", names[0], exits=(0, 1))  # fmt: skip
    for given_, made in pairwise(names):
        kvmark("replay", given_, "--system", VIRTUAL, "-q", "--record", made, exits=(0, 1))
    first, second, third = (by_key(kvmark.folder / name) for name in names)
    assert first == second == third
    at_ns = [rows(kvmark.folder / name)["at_ns"].to_list() for name in names]
    assert at_ns[0] == at_ns[1] == at_ns[2]
    for name in names:
        for file in (kvmark.folder / name).iterdir():
            file.unlink()
        (kvmark.folder / name).rmdir()


def test_a_replay_on_rocksdb_records_the_same_operations(kvmark: Kvmark) -> None:
    run = ("run", "ycsb/a", "--system", "rocksdb:a", "--records", "200", "--clients", "4")
    kvmark(*run, "--rate", "4000", "--operations", "3000", "--record", "a.trace", "-q",
           exits=(0, 1))  # fmt: skip
    kvmark("replay", "a.trace", "--system", "rocksdb:b", "--record", "b.trace", "-q", exits=(0, 1))
    assert by_key(kvmark.folder / "a.trace") == by_key(kvmark.folder / "b.trace")


def test_a_killed_run_leaves_its_operations(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/a", "--system", "sim:?mean_us=100", "--load", "never", "-q")
    log = kvmark.folder / "t.trace" / "operations.log"
    going = kvmark.start(*words, "--duration", "1h", "--interval", "50ms", "--record", "t.trace")
    wait_until(lambda: log.exists() and log.stat().st_size > 100 * 64, "operations are logged")
    kvmark.kill(going)
    with log.open("ab") as file:
        file.write(b"half a record")
    assert "make a trace of what is there by kvmark trace import" in kvmark.refuses(
        "trace", "show", "t.trace"
    )
    kvmark("trace", "import", "t.trace", "-o", "u.trace")
    trace = Trace.open(kvmark.folder / "u.trace")
    assert trace.info.operations >= 100
    assert "the recording was interrupted" in trace.info.told[0]


def test_a_log_that_was_damaged_is_refused(kvmark: Kvmark) -> None:
    folder = kvmark.folder / "t.trace"
    folder.mkdir()
    (folder / "tapes.json").write_text('{"format": 1, "source": "a run"}')
    (folder / "operations.jsonl").write_text('{"outcomes": ["ok"]}\n')
    magic = b"KVRUNLOG01".ljust(64, b"\0")
    for content, sentence in (
        (magic[:9] * 8, "isn't a log of a run"),
        (magic + bytes([255]) * 64, "has operations that no run can have"),
        (magic, "has no operations"),
    ):
        (folder / "operations.log").write_bytes(content)
        assert sentence in kvmark.refuses("trace", "import", "t.trace", "-o", "u.trace")
        assert not (kvmark.folder / "u.trace").exists()


def test_words_that_are_wrong_are_refused_in_one_sentence(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", VIRTUAL, "--operations", "10", "-q")
    for more, sentence in (
        (("--record", "x"), "x doesn't end in .trace"),
        (("--record", "x.trace", "--repetitions", "3"), "--record is for one run on one machine"),
    ):
        assert sentence in kvmark.refuses(*words, *more)
    kvmark(*words, "--record", "x.trace")
    assert "x.trace is there already" in kvmark.refuses(*words, "--record", "x.trace")
    part = ("ab", "ycsb/c --record y.trace", "--base", "--system sim:", "--candidate", "--seed 2")
    assert "--record is not for a part of a command" in kvmark.refuses(*part)


def test_a_run_that_cannot_begin_leaves_no_trace(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "redis://127.0.0.1:1", "--operations", "10", "-q")
    kvmark(*words, "--record", "x.trace", exits=(2, 3, 4, 5))
    assert not (kvmark.folder / "x.trace").exists()
