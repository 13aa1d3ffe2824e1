"""`--verify` on real servers behind a proxy that plants faults: it reports each fault, no other."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from command_line import Exits, Kvmark
from fault_proxy import WRITES, Ask, RedisFaults, Serve, proxy, redis_serve
from fault_proxy_cql import CqlFaults
from real_servers import redis_up

from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed

Sweep = Callable[..., dict[str, Any]]
RECORDS = 60
PLANTED = 4
# The counter that reports each fault.
COUNTERS = {
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
# Each record is written again, by single commands and by pipelines.
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
REDIS = {
    "strings.yaml": (
        "none", "return_older", "tear_value", "swap_records", "lose_record", "apply_failed",
        "apply_refused",
    ),
    # Reads, and updates of one field of ten.
    "ycsb/f": ("none", "lose_record", "lose_field", "swap_records"),
    # Removes each record once.
    "ycsb/delete": ("none", "resurrect_record"),
}  # fmt: skip
REDIS_CASES = [(workload, fault) for workload, faults in REDIS.items() for fault in faults]
TABLE = "kvmark.faults"
WRITE = f'"INSERT INTO {TABLE} (k, a, b) VALUES ({{key}}, {{a}}, {{b}})"'
TABLES = f"""
name: tables
dataset: {{records: {RECORDS}, fields: {{count: 2, length: 40}}}}
prepare:
  - >-
    CREATE KEYSPACE IF NOT EXISTS kvmark
    WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}
  - CREATE TABLE IF NOT EXISTS {TABLE} (k text PRIMARY KEY, a text, b text)
arguments:
  a: {{generator: field, field: 0}}
  b: {{generator: field, field: 1}}
statements:
  INSERT: {{does: update, run: {WRITE}}}
  PIPE: {{does: update, run: {WRITE}, commands: 4}}
  BATCH: {{does: update, run: {WRITE}, commands: 4, options: {{batch: unlogged}}}}
  SELECT: {{does: read, run: "SELECT a, b FROM {TABLE} WHERE k = {{key}}", expect: [a, b]}}
  DELETE: {{does: delete, run: "DELETE FROM {TABLE} WHERE k = {{key}}"}}
load: INSERT
probe: SELECT
groups: [{{mix: {{@MIX@}}, keys: @KEYS@}}]
"""
MIXES = {
    "resurrect_record": ("DELETE: 1", "sequential", RECORDS),
    # An error answers a whole batch.
    "apply_failed": ("INSERT: 1, PIPE: 1, SELECT: 1", "uniform", 800),
    "apply_refused": ("INSERT: 1, PIPE: 1, SELECT: 1", "uniform", 800),
}
ALL_WRITES = ("INSERT: 1, PIPE: 1, BATCH: 1, SELECT: 1", "uniform", 800)


def check(sweep: dict[str, Any], faults: RedisFaults | CqlFaults) -> None:
    """The sweep reports the planted faults."""
    planted = {} if faults.fault == "none" else {COUNTERS[faults.fault]: PLANTED}
    names = (*LOST, "unacknowledged", "unread")
    assert len(faults.victims.keys) == sum(planted.values())
    assert {name: sweep[name] for name in names if sweep[name]} == planted
    assert sweep["records"] == RECORDS
    assert sweep["intact"] == RECORDS or planted


def exits(fault: str) -> Exits:
    return 0 if fault == "none" else 1 if COUNTERS[fault] in LOST else (0, 1)


@pytest.fixture
def sweep_redis(user: Kvmark) -> Sweep:
    """Runs a workload through a proxy and returns the result of reading back."""
    host, _, port = redis_up(user).nodes[0].address.rpartition(":")
    (user.folder / "strings.yaml").write_text(STRINGS)

    def run(workload: str, serve: Serve, *options: object, exits: Exits) -> dict[str, Any]:
        with proxy(host, int(port), serve) as own:
            words = f"run {workload} --system redis://127.0.0.1:{own} --records {RECORDS}"
            count = () if workload == "ycsb/delete" else ("--operations", 1500)
            work = ("--clients", 6, "--workers", 2, "--load", "always", "--verify")
            result = user(words, *count, *work, *options, "-q", "--json", exits=exits)
        sweep: dict[str, Any] = result.json["summary"]["sweep"]
        return sweep

    return run


@pytest.mark.parametrize(("workload", "fault"), REDIS_CASES)
def test_each_fault_of_redis_is_reported_and_no_other(
    sweep_redis: Sweep, workload: str, fault: str
) -> None:
    faults = RedisFaults(fault, 0 if fault == "none" else PLANTED)
    check(sweep_redis(workload, redis_serve(faults), exits=exits(fault)), faults)


def disturbed(faults: RedisFaults) -> Callable[[list[bytes], Ask], bytes]:
    """Breaks the connection after some writes took effect, and delays others."""
    writes = itertools.count(1)

    def answer(words: list[bytes], ask: Ask) -> bytes:
        reply = faults(words, ask)
        number = next(writes) if words[0] in WRITES else 1
        if number > RECORDS and number % 97 == 0:
            raise ConnectionError("planted")
        if number > RECORDS and number % 1511 == 0:
            time.sleep(2.5)
        return reply

    return answer


@pytest.mark.parametrize("fault", ["none", "lose_record", "tear_value"])
def test_broken_connections_hide_no_fault(sweep_redis: Sweep, fault: str) -> None:
    faults = RedisFaults(fault, 0 if fault == "none" else PLANTED)
    serve = redis_serve(disturbed(faults))
    sweep = sweep_redis("strings.yaml", serve, "--timeout", "2s", exits=1)
    lost = {name: sweep[name] for name in LOST if sweep[name]}
    assert lost == ({} if fault == "none" else {COUNTERS[fault]: PLANTED})


@pytest.mark.parametrize("fault", ["none", *COUNTERS])
def test_each_fault_of_cassandra_is_reported_and_no_other(
    kvmark: Kvmark, node: Testbed, fault: str
) -> None:
    kvmark.variables["KVMARK_TESTBEDS"] = str(node.folder.parent)
    # A record of the test before would hide a lost write.
    connect(node, node.nodes[0], timeout_s=120).ask(f"DROP TABLE IF EXISTS {TABLE}")
    mix, keys, operations = MIXES.get(fault, ALL_WRITES)
    text = TABLES.replace("@MIX@", mix).replace("@KEYS@", keys)
    (kvmark.folder / "tables.yaml").write_text(text)
    faults = CqlFaults(fault, 0 if fault == "none" else PLANTED, TABLE)
    host, _, port = node.nodes[0].address.rpartition(":")
    with proxy(host, int(port), faults) as own:
        words = f"run tables.yaml --system cql://127.0.0.1:{own} --operations {operations}"
        work = " --clients 4 --workers 2 --load always --verify -q --json"
        result = kvmark(words + work, exits=(0, 1) if fault == "none" else exits(fault))
    check(result.json["summary"]["sweep"], faults)
