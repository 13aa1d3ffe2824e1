"""Traces: made of files, of MONITOR and of runs; described, replayed and learnt."""

import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Exits, Kvmark, Result, phase, totals, trace_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvmark.trace.folder import Trace
from learn.planted import AGAIN, ZIPFIAN, drawn, poisson, written
from waiting import wait_until

# Four seconds in the format of twitter/cache-trace, one write among five operations.
TWITTER = "".join(
    f"{number // 500},key{number * number % 37},12,{number % 500 + 1},{number % 7},"
    f"{'set' if number % 5 == 0 else 'get'},{3600 if number % 5 == 0 else 0}\n"
    for number in range(2000)
)
SIM = "--system sim:?clock=virtual"


def imported(kvmark: Kvmark, text: str, trace: str, options: str = "") -> Result:
    """Makes a trace of a text."""
    source = Path(trace).with_suffix(".txt").name
    (kvmark.folder / source).write_text(text)
    return kvmark(f"trace import {source} -o {trace} {options}")


@pytest.fixture
def traced(kvmark: Kvmark) -> Kvmark:
    """The program with t.trace."""
    out = imported(kvmark, TWITTER, "t.trace").out
    assert "t.txt is twitter/cache-trace, now t.trace: 2,000 operations of 7 clients" in out
    return kvmark


def measured(answer: Any) -> Any:
    """The measured phase of a run's answer."""
    return phase({"engine": answer["summary"]})


def operations(answer: Any) -> dict[str, int]:
    return {one["operation"]: one["count"] for one in measured(answer)["operations"]}


def test_a_trace_is_described_as_text_json_and_page(traced: Kvmark) -> None:
    out = traced("trace show t.trace").out
    assert "2,000 operations of 7 clients" in out
    assert "Instants were whole seconds" in out
    assert re.search(r"get \{key\} +1,600 +80\.00", out)
    assert re.search(r"set \{key\} \{value\} \{ttl\} +400 +20\.00", out)
    assert "An LRU cache's hit ratio of reads" in out
    answer = traced("trace show t.trace --json --report t.html").json["answer"]
    assert answer["operations"] == 2000
    assert answer["rate"]["mean"] == pytest.approx(500, rel=0.02)
    assert answer["keys"] == len({number * number % 37 for number in range(2000)})
    page = (traced.folder / "t.html").read_text()
    assert "Hit ratio of an LRU cache" in page
    assert "Rate over time" in page
    info = traced("trace import t.txt -o u.trace --json").json["info"]
    assert (info["operations"], info["clients"], info["keys"]) == (2000, 7, "hashed")
    # It doesn't contain keys.
    content = b"".join(path.read_bytes() for path in (traced.folder / "t.trace").iterdir())
    assert b"key1" not in content


def test_a_run_can_offer_the_rates_of_a_trace(traced: Kvmark) -> None:
    traced("trace show t.trace --rates r.csv --every 1s")
    header, *lines = (traced.folder / "r.csv").read_text().splitlines()
    assert header == "seconds,rate"
    assert lines == [f"{slot},500" for slot in range(4)]
    system = f"{SIM} --load never --clients 64 --duration 20s -q --json"
    answer = traced(f"run ycsb/c --rate file:r.csv?hold {system}").json
    assert measured(answer)["throughput"]["value"] == pytest.approx(500, rel=0.01)


def test_a_trace_is_replayed_at_its_rate(traced: Kvmark) -> None:
    for speed in (1, 2):
        answer = traced(f"replay t.trace {SIM} --speed {speed} -q --json").json
        throughput = measured(answer)["throughput"]["value"]
        assert throughput == pytest.approx(500 * speed, rel=0.02)
    # The length of a replay is known, so that its interval can be as short as the error needs.
    assert traced.manifest()["plan"]["interval_ns"] == 10**8


def test_replays_are_swept_repeated_and_resumed(traced: Kvmark) -> None:
    sweep = "--sweep speed=2,4 --sweep scale_keys=0.5,1 --repetitions 2"
    words = f"replay t.trace {SIM} -q --from 1s {sweep}"
    out = traced(words).out
    assert re.search(r"^ *2 +1 +1,0\d\d", out, re.MULTILINE), out
    assert re.search(r"^ *4 +1 +2,0\d\d", out, re.MULTILINE), out
    runs = set(traced.runs.glob("*/manifest.json"))
    assert len(runs) == 8
    traced(words, "--resume")
    assert set(traced.runs.glob("*/manifest.json")) == runs
    # Another trace of this name makes another study.
    (traced.folder / "t.trace").rename(traced.folder / "old.trace")
    imported(traced, TWITTER.replace("key3,", "other,"), "t.trace")
    traced.refuses(words, "--resume")


STUDY = """
name: traced
question: How fast is it?
system: "sim:?clock=virtual"
workload: t.trace
run: {until: 2s, clients: 4}
factors:
  speed: [1, max]
"""


def test_a_trace_is_the_workload_of_a_study_and_of_both_sides(traced: Kvmark) -> None:
    (traced.folder / "own.yaml").write_text(STUDY)
    out = traced("study own.yaml --report none -q").out
    assert re.search(r"^ *1 +50\d\b", out, re.MULTILINE), out
    sides = f"--base '{SIM}&mean_us=100' --candidate '{SIM}&mean_us=120'"
    words = f"ab 't.trace --speed max' {sides} --max-blocks 4 -q"
    assert "Throughput fell by 16.7 %" in traced(words).out


def test_a_replay_loads_the_keys_of_reads_and_verifies_writes(traced: Kvmark) -> None:
    words = "replay t.trace --speed max --system rocksdb:store --verify -q --json"
    assert operations(traced(words, exits=(0, 1)).json) == {"READ": 1600, "INSERT": 400}
    manifest = traced.manifest()
    written = {number * number % 37 for number in range(0, 2000, 5)}
    sweep = phase(manifest, "verify")["sweep"]
    assert sweep.pop("records") == sweep.pop("written") == len(written)
    assert not any(sweep.values())
    assert phase(manifest, "load")["groups"][0]["issued"] > 0


SCANS = "at,key,kind,value,count\n" + "".join(
    f"{number},key{number % 100:03},{'scan,,3' if number % 4 == 3 else f'update,value {number},'}\n"
    for number in range(400)
)


def test_scans_are_replayed_with_kept_keys_and_refused_without(kvmark: Kvmark) -> None:
    words = "--system rocksdb:store?create=true --speed max --clients 1 -q"
    imported(kvmark, SCANS, "hashed.trace")
    sentence = kvmark.refuses(f"replay hashed.trace {words}")
    assert "scan (100) (scans need --keep-keys where a trace is made" in sentence
    imported(kvmark, SCANS, "kept.trace", "--keep-keys --keep-values")
    answer = kvmark(f"replay kept.trace {words} --json", exits=(0, 1)).json
    assert operations(answer) == {"INSERT": 300, "SCAN": 100}
    (scans,) = [one for one in measured(answer)["operations"] if one["operation"] == "SCAN"]
    assert scans["rows"] > 200
    content = b"".join(file.read_bytes() for file in (kvmark.folder / "store").iterdir())
    assert b"key000" in content


def test_other_operations_of_a_trace_are_left_out_on_request(kvmark: Kvmark) -> None:
    lines = ('"PING"', '"SET" "k" "v"', '"EVAL" "return 1" "0"', '"GET" "k"')
    log = "".join(f"1339518083.10741{n} [0 127.0.0.1:6] {line}\n" for n, line in enumerate(lines))
    imported(kvmark, log, "m.trace")
    words = f"replay m.trace {SIM} -q"
    assert "eval (1), ping (1); leave them out by --skip eval,ping" in kvmark.refuses(words)
    assert "left out on purpose: eval (1)" in kvmark(words, "--skip", "other").out


# Runs as traces.

VIRTUAL = f"{SIM}&mean_us=100"


def recorded(trace: Path) -> pl.DataFrame:
    return trace_rows(trace, "issued_ns", "completed_ns", "outcome", "group")


def by_key(trace: Path) -> list[tuple[object, ...]]:
    """The operations on each key, in their order."""
    table = recorded(trace).sort("at_ns", "issued_ns", maintain_order=True)
    # A client that sets a value does not ask whether the key exists.
    verb = pl.col("kind").replace({"insert": "write", "update": "write"})
    keys = table.group_by("key").agg(verb.alias("verb"), "key_size", "value_size")
    return sorted(keys.drop("key").rows(), key=repr)


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


def test_a_trace_has_the_instants_of_its_run(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/c {VIRTUAL} --rate 1000 --clients 64 --duration 2s --record t.trace -q")
    at_ns = trace_rows(kvmark.folder / "t.trace")["at_ns"]
    assert at_ns.diff().drop_nulls().unique().to_list() == [1_000_000]
    assert len(at_ns) == 2000


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(1, 10**6),
    workload=st.sampled_from(["ycsb/a", "ycsb/b", "ycsb/d", "ycsb/f"]),
    clients=st.integers(1, 20),
)
def test_replays_equal_their_run(kvmark: Kvmark, seed: int, workload: str, clients: int) -> None:
    names = [f"{number}-{seed}-{clients}-{workload[-1]}.trace" for number in range(3)]
    words = f"run {workload} --rate 5000 --clients {clients} --seed {seed} {VIRTUAL} -q"
    kvmark(f"{words} --records 40 --operations 400 --record {names[0]}", exits=(0, 1))
    for source, trace in pairwise(names):
        kvmark(f"replay {source} {VIRTUAL} -q --record {trace}", exits=(0, 1))
    traces = [kvmark.folder / name for name in names]
    assert by_key(traces[0]) == by_key(traces[1]) == by_key(traces[2])
    at_ns = [trace_rows(trace)["at_ns"].to_list() for trace in traces]
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
    started = kvmark.start(f"{words} --record t.trace")
    log = kvmark.folder / "t.trace" / "operations.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 100 * 64, "operations are logged")
    started.kill()
    with log.open("ab") as file:
        file.write(b"half a record")
    advice = "make a trace of what is there by kvmark trace import"
    assert advice in kvmark.refuses("trace show t.trace")
    kvmark("trace import t.trace -o u.trace")
    info = Trace.open(kvmark.folder / "u.trace").info
    assert info.operations >= 100
    assert "the recording was interrupted" in info.told[0]


MAGIC = b"KVRUNLOG01".ljust(64, b"\0")
DAMAGED = {
    "isn't a log of a run": MAGIC[:9] * 8,
    "has operations that no run can have": MAGIC + bytes([255]) * 64,
    "has no operations": MAGIC,
}


@pytest.mark.parametrize(("part", "content"), DAMAGED.items(), ids=DAMAGED)
def test_a_damaged_log_is_refused(kvmark: Kvmark, part: str, content: bytes) -> None:
    folder = kvmark.folder / "t.trace"
    folder.mkdir()
    (folder / "tapes.json").write_text('{"format": 1, "source": "a run"}')
    (folder / "operations.jsonl").write_text('{"outcomes": ["ok"]}\n')
    (folder / "operations.log").write_bytes(content)
    assert part in kvmark.refuses("trace import t.trace -o u.trace")
    assert not (kvmark.folder / "u.trace").exists()


def test_a_run_that_cannot_start_leaves_no_trace(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system redis://127.0.0.1:1 --operations 10 -q --record x.trace"
    kvmark(words, exits=(2, 3, 4, 5))
    assert not (kvmark.folder / "x.trace").exists()


# Workloads of traces.


@pytest.fixture
def learnt(kvmark: Kvmark) -> Kvmark:
    """The program with X.trace and the workload that was learnt from it."""
    written(kvmark.folder, drawn(AGAIN), poisson(60_000, 5000))
    kvmark("trace learn X.trace -o twin.yaml")
    return kvmark


def check(kvmark: Kvmark, exits: Exits, change: str = "", options: str = "") -> dict[str, str]:
    """The judgements of a learnt workload, by figure, after the change of one of its lines."""
    text = (kvmark.folder / "twin.yaml").read_text()
    if change:
        text, count = re.subn(change.partition(" ")[0] + " .*", change, text)
        assert count == 1
    (kvmark.folder / "own.yaml").write_text(text)
    words = f"trace learn X.trace --check own.yaml {SIM} -q --json {options}"
    answer = kvmark(words, exits=exits).json
    assert len(answer["runs"]) == 10
    judgements = {one["name"]: one["judgement"] for one in answer["figures"]}
    return {"": answer["judgement"], **judgements}


@pytest.mark.parametrize("options", ["", "--speed 2"])
def test_a_learnt_workload_is_like_its_trace(learnt: Kvmark, options: str) -> None:
    judgements = check(learnt, (0, 1), options=options)
    # A dozen seconds are few for a p99: it may be undecided, and the total, too.
    assert judgements.pop("") == judgements.pop("p99") != "unlike"
    assert set(judgements.values()) == {"alike"}


def test_another_rate_or_order_makes_a_workload_unlike_its_trace(learnt: Kvmark) -> None:
    half = check(learnt, 1, "rate: 2500")
    assert half[""] == half["throughput"] == "unlike"
    # The popularity is the same.
    shuffled = check(learnt, 1, "share: 0")
    assert shuffled[""] == shuffled["hit ratio of 1 % of the keys"] == "unlike"
    assert shuffled["throughput"] == "alike"


def test_a_learnt_workload_runs_like_any_other(learnt: Kvmark) -> None:
    for options in ("", "--records 100000 --rate 1000"):
        words = f"run twin.yaml {SIM} -q --duration 2s --json {options}"
        assert learnt(words).json["verdict"]["judgement"] != "INVALID"


def test_wrong_use_is_refused(traced: Kvmark) -> None:
    (traced.folder / "short").write_bytes(b"12345")
    written(traced.folder, drawn(ZIPFIAN, 900), poisson(900, 5000))
    (traced.folder / "x.trace").mkdir()
    imports, check = "trace import t.txt -o n.trace", "trace learn X.trace --check twin.yaml"
    (traced.folder / "twin.yaml").write_text(traced("workloads ycsb/a").out)
    (traced.folder / "fills.yaml").write_text("groups: [{mix: {read: 1}, on_miss: insert}]\n")
    record = f"run ycsb/c {SIM} --operations 10 -q --record"
    for words, part in (
        ("trace import t.txt", "missing option '--output' / '-o'"),
        ("trace import t.txt -o t.trace", "t.trace is there already; remove it"),
        ("trace import t.txt -o t", "t doesn't end in .trace"),
        ("trace import no.csv -o n.trace", "no.csv can't be read: No such file"),
        (f"{imports} --hash-key short", "short has 5 bytes and not"),
        (f"{imports} --columns at", "isn't a name and a column"),
        ("trace show t.trace --rates r.csv --every 1us", "at most 40,000 slots"),
        ("trace show no.trace", "there is no trace no.trace"),
        ("trace show t.txt", "there is no trace t.txt"),
        (f"replay no.trace {SIM}", "there is no trace no.trace"),
        (f"replay ycsb/a {SIM}", "ycsb/a is no trace; kvmark run takes other workloads"),
        (f"run ycsb/a {SIM} --speed 2", "no such option: --speed"),
        (f"run t.trace {SIM}", "t.trace is a trace; replay it with kvmark replay"),
        (f"replay t.trace {SIM} --speed fast", "'fast' is no speed"),
        (f"replay t.trace {SIM} --rate 5", "rate: not for a replay"),
        (f"replay t.trace {SIM} --map fills.yaml", "on_miss: not for a replay"),
        (f"replay t.trace {SIM} --sweep speed=1,fast", "speed: 'fast' is no speed"),
        (f"run ycsb/a {SIM} --sweep speed=1,2", "speed is for a trace, X.trace"),
        (f"replay t.trace {SIM} --scale-keys 1.5", "or the part of them that is kept"),
        (f"replay t.trace {SIM} --from 9s", "no operation in the part"),
        (f"replay t.trace {SIM} --from 2s --until 1s", "must end behind"),
        (
            "ab 'ycsb/a --speed 2' --base '--system sim:' --candidate '--system sim:'",
            "base: --speed is for a trace, X.trace, and ycsb/a is none",
        ),
        (f"{record} x", "x doesn't end in .trace"),
        (f"{record} n.trace --repetitions 3", "--record is for one run on one machine"),
        (f"{record} x.trace", "x.trace is there already"),
        (
            "ab 'ycsb/c --record y.trace' --base '--system sim:' --candidate '--seed 2'",
            "--record is not for a part of a command",
        ),
        ("trace learn X.trace", "give -o FILE to make a workload, or --check FILE to judge one"),
        ("trace learn X.trace -o twin.txt", "twin.txt doesn't end in .yaml"),
        ("trace learn X.trace -o y.yaml --speed 2", "--speed is for --check"),
        ("trace learn X.trace -o y.yaml", "there must be 1,000"),
        (check, "give --system"),
        (f"{check} {SIM} --records 5", "has the number of records"),
        (f"{check} {SIM} --blocks 2", "must be at least 4"),
    ):
        assert part in traced.refuses(words), words
    assert not (traced.folder / "n.trace").exists()
