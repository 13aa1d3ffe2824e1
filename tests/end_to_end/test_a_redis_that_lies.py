"""`--verify` on a real Redis behind a proxy that lies: each fault is found, and no other."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark
from lying_proxy import WRITES, Ask, RedisLiar, proxy, redis_serve

from kvmark.testbed import redis

RECORDS = 60
PLANTED = 4
# What is found of each fault: the counter of the sweep, and the records at each place of a fault.
FOUND = {
    "lose_record": "missing",
    "lose_field": "incomplete",
    "return_older": "stale",
    "swap_records": "stale",
    "tear_value": "torn",
    "resurrect_record": "resurrected",
    "apply_failed": "unacknowledged",
    "apply_refused": "stale",
}
LOST = ("missing", "incomplete", "torn", "stale", "resurrected")
# Single commands and pipelines, of which each record is written again.
STRINGS = f"""
name: strings
dataset: {{records: {RECORDS}, fields: {{count: 1, length: 40}}}}
arguments: {{value: field}}
statements:
  SET: {{does: update, run: "SET {{key}} {{value}}"}}
  PIPE: {{does: update, run: "SET {{key}} {{value}}", commands: 8}}
  GET: {{does: read, run: "GET {{key}}", expect: [value]}}
load: SET
probe: GET
groups: [{{mix: {{SET: 1, PIPE: 1, GET: 1}}, keys: uniform}}]
"""
WORKLOADS = {
    # One command, or eight, each of which writes or reads a record.
    "strings": (
        "return_older",
        "tear_value",
        "swap_records",
        "lose_record",
        "apply_failed",
        "apply_refused",
    ),
    # Reads, and reads with an update of one field of ten.
    "ycsb/f": ("lose_record", "lose_field", "swap_records"),
    # Each record is removed once.
    "ycsb/delete": ("resurrect_record",),
}
CASES = [(workload, fault) for workload, faults in WORKLOADS.items() for fault in faults]

Answer = Callable[[list[bytes], Ask], bytes]


@pytest.fixture
def verify(user: Kvmark, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a workload through a proxy that answers so, and returns what reading back found."""
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    host, _, port = testbed.nodes[0].address.rpartition(":")
    (tmp_path / "strings.yaml").write_text(STRINGS)

    def run(workload: str, answer: Answer, *more: object, exits: int | tuple[int, ...]) -> Any:
        name = "strings.yaml" if workload == "strings" else workload
        with proxy((host, int(port)), redis_serve(answer)) as (_, own):
            words = ("run", name, "--system", f"redis://127.0.0.1:{own}", "--records", RECORDS)
            counted = () if workload == "ycsb/delete" else ("--operations", 1500)
            words = (*words, *counted, "--clients", 6, "--workers", 2, "--load", "always")
            result = user(*words, "--verify", *more, "-q", "--json", exits=exits)
        return result.json["summary"]["sweep"]

    return run


@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_honest_store_has_lost_nothing(verify: Callable[..., Any], workload: str) -> None:
    sweep = verify(workload, RedisLiar("none", 0), exits=0)
    assert sweep["records"] == sweep["intact"] == RECORDS


@pytest.mark.parametrize(("workload", "fault"), CASES)
def test_each_planted_fault_is_found_and_no_other(
    verify: Callable[..., Any], workload: str, fault: str
) -> None:
    liar = RedisLiar(fault, PLANTED)
    counter = FOUND[fault]
    exits = 1 if counter in LOST else (0, 1)
    sweep = verify(workload, liar, exits=exits)
    assert len(liar.victims.keys) == PLANTED
    found = {name: sweep[name] for name in (*LOST, "unacknowledged") if sweep[name]}
    assert found == {counter: PLANTED}
    assert sweep["records"] == RECORDS
    assert sweep["unread"] == 0


def disturbed(answer: Answer) -> Answer:
    """Of some writes the connection breaks after they took effect; others take long."""
    writes = itertools.count(1)

    def serve(words: list[bytes], ask: Ask) -> bytes:
        reply = answer(words, ask)
        number = next(writes) if words[0] in WRITES else 1
        if number > RECORDS and number % 97 == 0:
            raise ConnectionError("planted")
        if number > RECORDS and number % 1511 == 0:
            time.sleep(2.5)
        return reply

    return serve


@pytest.mark.parametrize("fault", ["none", "lose_record", "tear_value"])
def test_broken_connections_and_timeouts_hide_no_fault_and_look_like_none(
    verify: Callable[..., Any], fault: str
) -> None:
    liar = RedisLiar(fault, 0 if fault == "none" else PLANTED)
    sweep = verify("strings", disturbed(liar), "--timeout", "2s", exits=1)
    found = {name: sweep[name] for name in LOST if sweep[name]}
    assert found == ({} if fault == "none" else {FOUND[fault]: PLANTED})
