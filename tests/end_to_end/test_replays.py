"""Traces replayed from the words a user types, on stores that are there."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Kvmark

from kvmark.testbed import redis
from kvmark.trace import Trace
from waiting import wait_until

TWITTER = "".join(
    f"{number // 500},key{number * number % 37},12,{number % 500 + 1},{number % 7},"
    f"{'set' if number % 5 == 0 else 'get'},{3600 if number % 5 == 0 else 0}\n"
    for number in range(2000)
)
"""Four seconds of 500 operations each."""


@pytest.fixture
def made(kvmark: Kvmark) -> Kvmark:
    (kvmark.folder / "t.csv").write_text(TWITTER)
    kvmark("trace", "import", "t.csv", "-o", "t.trace")
    return kvmark


def measured(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The measured phase of a run's answer."""
    phases: list[Mapping[str, Any]] = answer["summary"]["phases"]
    return next(phase for phase in phases if phase["name"] == "measure")


def test_a_trace_is_replayed_at_its_own_rate(made: Kvmark) -> None:
    words = ("replay", "t.trace", "--system", "sim:?clock=virtual", "-q", "--json")
    phase = measured(made(*words).json)
    assert phase["throughput"]["value"] == pytest.approx(500, rel=0.02)
    twice = measured(made(*words, "--speed", "2").json)
    assert twice["throughput"]["value"] == pytest.approx(1000, rel=0.02)
    # Intervals are as short as its error needs, for it is known how long it lasts.
    assert made.manifest()["plan"]["interval_ns"] == 10**8


def test_replays_are_swept_and_repeated_and_gone_on_with(made: Kvmark) -> None:
    words = ("replay", "t.trace", "--system", "sim:?clock=virtual", "-q", "--from", "1s")
    swept = ("--sweep", "speed=2,4", "--sweep", "scale_keys=0.5,1", "--repetitions", "2")
    told = made(*words, *swept).out
    assert re.search(r"^ *2 +1 +1,0\d\d", told, re.MULTILINE), told
    assert re.search(r"^ *4 +1 +2,0\d\d", told, re.MULTILINE), told
    runs = set(made.runs.glob("*/manifest.json"))
    assert len(runs) == 8
    made(*words, *swept, "--resume")
    assert set(made.runs.glob("*/manifest.json")) == runs
    # Another trace of this name is another study.
    (made.folder / "t.csv").write_text(TWITTER.replace("key3,", "other,"))
    made("trace", "import", "t.csv", "-o", "other.trace")
    (made.folder / "t.trace").rename(made.folder / "old.trace")
    (made.folder / "other.trace").rename(made.folder / "t.trace")
    made.refuses(*words, *swept, "--resume")


def test_a_trace_is_the_workload_of_a_study(made: Kvmark) -> None:
    (made.folder / "own.yaml").write_text("""
name: traced
question: How fast does it go?
system: "sim:?clock=virtual"
workload: t.trace
run: {until: 2s, clients: 4}
factors:
  speed: [1, max]
""")
    told = made("study", "own.yaml", "--report", "none", "-q").out
    assert re.search(r"^ *1 +50\d\b", told, re.MULTILINE), told


def test_a_replay_on_rocksdb_loads_what_is_read_first_and_reads_back_what_it_wrote(
    made: Kvmark,
) -> None:
    words = ("replay", "t.trace", "--speed", "max", "--system", "rocksdb:store", "--verify")
    phase = measured(made(*words, "-q", "--json", exits=(0, 1)).json)
    counted = {one["operation"]: one["count"] for one in phase["operations"]}
    assert counted == {"READ": 1600, "INSERT": 400}
    phases = {one["name"]: one for one in made.manifest()["engine"]["phases"]}
    written = {number * number % 37 for number in range(0, 2000, 5)}
    sweep = phases["verify"]["sweep"]
    assert sweep.pop("records") == sweep.pop("written") == len(written)
    assert not any(sweep.values())
    assert phases["load"]["groups"][0]["issued"] > 0


SCANS = "at,key,kind,value,count\n" + "".join(
    f"{number},key{number % 100:03},{'scan' if number % 4 == 3 else 'update'},"
    f"{'' if number % 4 == 3 else f'value {number}'},{3 if number % 4 == 3 else ''}\n"
    for number in range(400)
)


def test_scans_are_replayed_over_the_very_keys_and_refused_without(kvmark: Kvmark) -> None:
    (kvmark.folder / "s.csv").write_text(SCANS)
    words = ("--speed", "max", "--clients", "1", "-q")
    kvmark("trace", "import", "s.csv", "-o", "hashed.trace")
    system = ("--system", "rocksdb:store?create=true")
    refused = kvmark.refuses("replay", "hashed.trace", *system, *words)
    assert "scan (100) (scans need --keep-keys where a trace is made" in refused
    kvmark("trace", "import", "s.csv", "-o", "kept.trace", "--keep-keys", "--keep-values")
    phase = measured(kvmark("replay", "kept.trace", *system, *words, "--json", exits=(0, 1)).json)
    counted = {one["operation"]: one["count"] for one in phase["operations"]}
    assert counted == {"INSERT": 300, "SCAN": 100}
    (scans,) = [one for one in phase["operations"] if one["operation"] == "SCAN"]
    assert scans["rows"] > 200
    files = b"".join(file.read_bytes() for file in (kvmark.folder / "store").iterdir())
    assert b"key000" in files


def test_words_that_are_wrong_are_refused_in_one_sentence(made: Kvmark) -> None:
    sim = ("--system", "sim:?clock=virtual")
    for words, sentence in (
        (("replay", "no.trace", *sim), "there is no trace no.trace"),
        (("replay", "ycsb/a", *sim), "ycsb/a is no trace; kvmark run takes other workloads"),
        (("run", "ycsb/a", *sim, "--speed", "2"), "no such option: --speed"),
        (("run", "t.trace", *sim), "t.trace is a trace; replay it with kvmark replay"),
        (
            ("ab", "ycsb/a --speed 2", "--base", "--system sim:", "--candidate", "--system sim:"),
            "base: --speed is for a trace, X.trace, and ycsb/a is none",
        ),
        (("replay", "t.trace", *sim, "--speed", "fast"), "'fast' is no speed"),
        (("replay", "t.trace", *sim, "--rate", "5"), "rate: not for a replay"),
        (("replay", "t.trace", *sim, "--sweep", "speed=1,fast"), "speed: 'fast' is no speed"),
        (("run", "ycsb/a", *sim, "--sweep", "speed=1,2"), "speed is for a trace, X.trace"),
        (("replay", "t.trace", *sim, "--scale-keys", "1.5"), "or the part of them that is kept"),
        (("replay", "t.trace", *sim, "--from", "9s"), "no operation in the part"),
        (("replay", "t.trace", *sim, "--from", "2s", "--until", "1s"), "must end behind"),
    ):
        assert sentence in made.refuses(*words)


def test_a_trace_of_other_operations_says_how_they_are_left_out(kvmark: Kvmark) -> None:
    lines = ('"PING"', '"SET" "k" "v"', '"EVAL" "return 1" "0"', '"GET" "k"')
    log = "".join(f"1339518083.10741{n} [0 127.0.0.1:6] {line}\n" for n, line in enumerate(lines))
    (kvmark.folder / "m.txt").write_text(log)
    kvmark("trace", "import", "m.txt", "-o", "m.trace")
    sim = ("replay", "m.trace", "--system", "sim:?clock=virtual", "-q")
    assert "eval (1), ping (1); leave them out by --skip eval,ping" in kvmark.refuses(*sim)
    told = kvmark(*sim, "--skip", "other").out
    assert "left out on purpose: eval (1)" in told


def test_two_sides_replay_the_same_trace(made: Kvmark) -> None:
    sides = [f"--system 'sim:?clock=virtual&mean_us={mean_us}'" for mean_us in (100, 120)]
    words = ("ab", "t.trace --speed max", "--base", sides[0], "--candidate", sides[1])
    result = made(*words, "--max-blocks", "4", "--allow", "system", "-q")
    assert "Throughput fell by 16.7 %" in result.out


def issued(path: Path) -> list[tuple[object, ...]]:
    """A trace's operations, with keys by number in the order in which they appear."""
    columns = ("kind", "key", "key_size", "value_size", "ttl_ms")
    rows = pl.concat(Trace.open(path).batches(columns))
    keys = {key: number for number, key in enumerate(rows["key"].unique(maintain_order=True))}
    return [
        # What a read returned, MONITOR doesn't tell.
        (kind, keys[key], key_size, value_size if kind == "update" else None, ttl_ms)
        for kind, key, key_size, value_size, ttl_ms in rows.iter_rows()
    ]


def test_what_a_replay_sends_to_redis_is_the_trace_again(user: Kvmark) -> None:
    (user.folder / "t.csv").write_text(TWITTER)
    user("trace", "import", "t.csv", "-o", "t.trace")
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    told, port = user.folder / "m.txt", str(testbed.nodes[0].port)
    words = ("--system", testbed.url, "--speed", "max", "--load", "never", "-q")
    with told.open("w") as file:
        monitor = subprocess.Popen(["redis-cli", "-p", port, "monitor"], stdout=file)
        try:
            wait_until(lambda: told.read_text().startswith("OK"), "MONITOR to begin")
            user("replay", "t.trace", *words, "--clients", "1", exits=(0, 1))
            subprocess.run(["redis-cli", "-p", port, "echo", "the end"], check=True)
            wait_until(lambda: '"the end"' in told.read_text(), "the last command")
        finally:
            monitor.terminate()
            monitor.wait()
    sent = [line for line in told.read_text().splitlines() if re.search('"(SET|GET)"', line)]
    (user.folder / "sent.txt").write_text("\n".join(sent))
    user("trace", "import", "sent.txt", "-o", "sent.trace")
    assert issued(user.folder / "sent.trace") == issued(user.folder / "t.trace")
