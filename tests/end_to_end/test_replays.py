"""Traces replayed on simulated and real stores."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, phase
from real_servers import monitored, redis_up
from trace_files import rows, twitter

TWITTER = twitter(2000, 500)
"""Four seconds."""
SIM = "--system sim:?clock=virtual"


@pytest.fixture
def traced(kvmark: Kvmark) -> Kvmark:
    """The program with t.trace."""
    (kvmark.folder / "t.csv").write_text(TWITTER)
    kvmark.import_trace("t.csv", "t.trace")
    return kvmark


def measured(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The measured phase of a run's answer."""
    return phase({"engine": answer["summary"]})


def operations(answer: Mapping[str, Any]) -> dict[str, int]:
    return {one["operation"]: one["count"] for one in measured(answer)["operations"]}


def test_a_trace_is_replayed_at_its_rate(traced: Kvmark) -> None:
    for speed in (1, 2):
        words = f"replay t.trace {SIM} --speed {speed} -q --json"
        throughput = measured(traced(words).json)["throughput"]["value"]
        assert throughput == pytest.approx(500 * speed, rel=0.02)
    # The length of a replay is known, so that its interval can be as short as the error needs.
    assert traced.manifest()["plan"]["interval_ns"] == 10**8


def test_replays_are_swept_repeated_and_resumed(traced: Kvmark) -> None:
    words = (
        f"replay t.trace {SIM} -q --from 1s --sweep speed=2,4 --sweep scale_keys=0.5,1"
        " --repetitions 2"
    )
    out = traced(words).out
    assert re.search(r"^ *2 +1 +1,0\d\d", out, re.MULTILINE), out
    assert re.search(r"^ *4 +1 +2,0\d\d", out, re.MULTILINE), out
    runs = set(traced.runs.glob("*/manifest.json"))
    assert len(runs) == 8
    traced(words, "--resume")
    assert set(traced.runs.glob("*/manifest.json")) == runs
    # Another trace of this name makes another study.
    (traced.folder / "t.csv").write_text(TWITTER.replace("key3,", "other,"))
    (traced.folder / "t.trace").rename(traced.folder / "old.trace")
    traced.import_trace("t.csv", "t.trace")
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


def test_a_trace_is_the_workload_of_a_study(traced: Kvmark) -> None:
    (traced.folder / "own.yaml").write_text(STUDY)
    out = traced("study own.yaml --report none -q").out
    assert re.search(r"^ *1 +50\d\b", out, re.MULTILINE), out


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
    f"{number},key{number % 100:03},{'scan' if number % 4 == 3 else 'update'},"
    f"{'' if number % 4 == 3 else f'value {number}'},{3 if number % 4 == 3 else ''}\n"
    for number in range(400)
)


def test_scans_are_replayed_with_kept_keys_and_refused_without(kvmark: Kvmark) -> None:
    (kvmark.folder / "s.csv").write_text(SCANS)
    words = "--system rocksdb:store?create=true --speed max --clients 1 -q"
    kvmark.import_trace("s.csv", "hashed.trace")
    sentence = kvmark.refuses(f"replay hashed.trace {words}")
    assert "scan (100) (scans need --keep-keys where a trace is made" in sentence
    kvmark.import_trace("s.csv", "kept.trace", "--keep-keys", "--keep-values")
    answer = kvmark(f"replay kept.trace {words} --json", exits=(0, 1)).json
    assert operations(answer) == {"INSERT": 300, "SCAN": 100}
    (scans,) = [one for one in measured(answer)["operations"] if one["operation"] == "SCAN"]
    assert scans["rows"] > 200
    content = b"".join(file.read_bytes() for file in (kvmark.folder / "store").iterdir())
    assert b"key000" in content


def test_wrong_use_is_refused(traced: Kvmark) -> None:
    for words, part in (
        ("replay no.trace", "there is no trace no.trace"),
        ("replay ycsb/a", "ycsb/a is no trace; kvmark run takes other workloads"),
        ("run ycsb/a --speed 2", "no such option: --speed"),
        ("run t.trace", "t.trace is a trace; replay it with kvmark replay"),
        ("replay t.trace --speed fast", "'fast' is no speed"),
        ("replay t.trace --rate 5", "rate: not for a replay"),
        ("replay t.trace --sweep speed=1,fast", "speed: 'fast' is no speed"),
        ("run ycsb/a --sweep speed=1,2", "speed is for a trace, X.trace"),
        ("replay t.trace --scale-keys 1.5", "or the part of them that is kept"),
        ("replay t.trace --from 9s", "no operation in the part"),
        ("replay t.trace --from 2s --until 1s", "must end behind"),
    ):
        assert part in traced.refuses(f"{words} {SIM}")
    sides = "ab 'ycsb/a --speed 2' --base '--system sim:' --candidate '--system sim:'"
    sentence = traced.refuses(sides)
    assert "base: --speed is for a trace, X.trace, and ycsb/a is none" in sentence


def test_other_operations_of_a_trace_are_left_out_on_request(kvmark: Kvmark) -> None:
    lines = ('"PING"', '"SET" "k" "v"', '"EVAL" "return 1" "0"', '"GET" "k"')
    log = "".join(f"1339518083.10741{n} [0 127.0.0.1:6] {line}\n" for n, line in enumerate(lines))
    (kvmark.folder / "m.txt").write_text(log)
    kvmark.import_trace("m.txt", "m.trace")
    words = f"replay m.trace {SIM} -q"
    assert "eval (1), ping (1); leave them out by --skip eval,ping" in kvmark.refuses(words)
    assert "left out on purpose: eval (1)" in kvmark(words, "--skip", "other").out


def test_two_sides_replay_the_same_trace(traced: Kvmark) -> None:
    sides = [f"'{SIM}&mean_us={mean_us}'" for mean_us in (100, 120)]
    words = f"ab 't.trace --speed max' --base {sides[0]} --candidate {sides[1]}"
    out = traced(f"{words} --max-blocks 4 --allow system -q").out
    assert "Throughput fell by 16.7 %" in out


def requests(trace: Path) -> list[tuple[object, ...]]:
    """The operations of a trace, with keys by number in the order in which they appear."""
    table = rows(trace)
    numbers = {key: number for number, key in enumerate(table["key"].unique(maintain_order=True))}
    columns = table.select("kind", "key", "key_size", "value_size", "ttl_ms").iter_rows()
    return [
        # MONITOR prints no result of a read.
        (kind, numbers[key], key_size, value_size if kind == "update" else None, ttl_ms)
        for kind, key, key_size, value_size, ttl_ms in columns
    ]


def test_a_replay_sends_the_operations_of_its_trace_to_redis(user: Kvmark) -> None:
    (user.folder / "t.csv").write_text(TWITTER)
    user.import_trace("t.csv", "t.trace")
    testbed = redis_up(user)
    log = user.folder / "m.txt"
    with monitored(testbed.nodes[0].port, log):
        words = f"replay t.trace --system {testbed.url} --speed max --load never --clients 1 -q"
        user(words, exits=(0, 1))
    sent = [line for line in log.read_text().splitlines() if re.search('"(SET|GET)"', line)]
    (user.folder / "sent.txt").write_text("\n".join(sent))
    user.import_trace("sent.txt", "sent.trace")
    assert requests(user.folder / "sent.trace") == requests(user.folder / "t.trace")
