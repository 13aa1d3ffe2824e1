"""`--verify` and the check of reads: faults planted at a proxy, and data changed during a run."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from command_line import Exits, Kvmark, levels, run_folders
from fault_proxy import WRITES, Ask, RedisFaults, Serve, proxy, redis_serve
from fault_proxy_cql import CqlFaults
from real_servers import command_counts, redis_up

from kvmark.testbed.console import connect
from kvmark.testbed.state import Node, Testbed
from waiting import wait_until

Sweep = dict[str, Any]
Step = Callable[[], object]
Wrong = Callable[[str], str | None]


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


def check(sweep: Sweep, faults: RedisFaults | CqlFaults) -> None:
    """The sweep reports the planted faults."""
    planted = {} if faults.fault == "none" else {COUNTERS[faults.fault]: PLANTED}
    names = (*LOST, "unacknowledged", "unread")
    assert len(faults.victims.keys) == sum(planted.values())
    assert {name: sweep[name] for name in names if sweep[name]} == planted
    first = sweep["lost_writes"]["first"] if any(sweep[name] for name in LOST) else ()
    keys = {key.rpartition(b":")[2] for key in faults.victims.keys}
    assert {one["key"].encode() for one in first} == (keys if first else set())
    assert sweep["records"] == RECORDS


def exits_of(fault: str) -> Exits:
    return 1 if COUNTERS.get(fault) in LOST else (0, 1)


def sweep_through(user: Kvmark, node: Node, serve: Serve, words: str, exits: Exits) -> Sweep:
    """The result of reading back the records of a run through a proxy."""
    host, _, port = node.address.rpartition(":")
    with proxy(host, int(port), serve) as own:
        return user.sweep(words.format(own) + " --workers 2 --load always", exits)


def sweep_redis(user: Kvmark, workload: str, serve: Serve, exits: Exits, more: str = "") -> Sweep:
    (user.folder / "strings.yaml").write_text(STRINGS)
    count = "" if workload == "ycsb/delete" else "--operations 1500"
    system = f"--system redis://127.0.0.1:{{}} --records {RECORDS} --clients 6"
    words = f"run {workload} {system} {count} {more}"
    return sweep_through(user, redis_up(user).nodes[0], serve, words, exits)


@pytest.mark.parametrize(("workload", "fault"), REDIS_CASES)
def test_each_fault_of_redis_is_reported(user: Kvmark, workload: str, fault: str) -> None:
    faults = RedisFaults(fault, 0 if fault == "none" else PLANTED)
    # Nothing is lost: exit code 0.
    exits = 0 if fault == "none" else exits_of(fault)
    check(sweep_redis(user, workload, redis_serve(faults), exits), faults)


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
def test_broken_connections_hide_no_fault(user: Kvmark, fault: str) -> None:
    faults = RedisFaults(fault, 0 if fault == "none" else PLANTED)
    serve = redis_serve(disturbed(faults))
    sweep = sweep_redis(user, "strings.yaml", serve, 1, "--timeout 2s")
    lost = {name: sweep[name] for name in LOST if sweep[name]}
    assert lost == ({} if fault == "none" else {COUNTERS[fault]: PLANTED})


@pytest.mark.parametrize("fault", ["none", *COUNTERS])
def test_each_fault_of_cassandra_is_reported(kvmark: Kvmark, node: Testbed, fault: str) -> None:
    kvmark.variables["KVMARK_TESTBEDS"] = str(node.folder.parent)
    # A record of the test before would hide a lost write.
    connect(node, node.nodes[0], timeout_s=120).ask(f"DROP TABLE IF EXISTS {TABLE}")
    mix, keys, operations = MIXES.get(fault, ALL_WRITES)
    text = TABLES.replace("@MIX@", mix).replace("@KEYS@", keys)
    (kvmark.folder / "tables.yaml").write_text(text)
    faults = CqlFaults(fault, 0 if fault == "none" else PLANTED, TABLE)
    words = f"run tables.yaml --system cql://127.0.0.1:{{}} --operations {operations} --clients 4"
    check(sweep_through(kvmark, node.nodes[0], faults, words, exits_of(fault)), faults)


PIPELINES = """
dataset: {{records: 16, fields: {{count: 1, length: 20}}, key: {{prefix: "k", order: ordered}}}}
arguments: {{value: field}}
statements:
  WRITE: {{does: update, run: "{write}", commands: 16}}
  LOAD: {{does: insert, run: "{load}"}}
  LOOK: {{does: read, run: "{look}", expect: [value]}}
  GONE: {{does: delete, run: "DEL {{key}}"}}
load: LOAD
probe: LOOK
groups: [{{mix: {{WRITE: 1{mix}}}, keys: sequential}}]
"""
"""Each write updates all 16 records."""
SET, GET = "SET {key} {value}", "GET {key}"


class Server:
    """A Redis server, and a connection with it."""

    def __init__(self, user: Kvmark) -> None:
        testbed = redis_up(user)
        self.url, self.port = testbed.url, testbed.nodes[0].port
        self.ask = connect(testbed, testbed.nodes[0]).ask

    def record_keys(self) -> list[str]:
        return sorted(str(key) for key in self.ask("KEYS", "*[0-9]"))

    def calls(self, name: str) -> int:
        return command_counts(self.port).get(name, 0)


@pytest.fixture
def server(user: Kvmark) -> Server:
    return Server(user)


def sweep_after(user: Kvmark, command: str, measures: Step, damage: Step) -> Sweep:
    """The result of reading back after damage during the measurement."""
    started = user.start(command, "--duration", "8s", "--verify", "-q", "--json")
    wait_until(measures, "the run measures")
    damage()
    document = started.finish(exits=(0, 1)).json
    sweep: Sweep = document["summary"]["sweep"]
    lost = sweep["records"] - sweep["intact"]
    assert ("lost_writes" in levels(document["verdict"])) == (lost > 0)
    return sweep


def test_runs_that_look_for_losses_write_values_of_their_own(kvmark: Kvmark) -> None:
    for _ in range(2):
        kvmark(
            "run ycsb/a --system lmdb:db --records 50 --operations 100 --verify -q", exits=(0, 1)
        )
    kvmark("run ycsb/a --system lmdb:db --records 50 --operations 100 -q", exits=(0, 1))
    seeds = [one["plan"]["seeds"] for one in kvmark.manifests()]
    assert len({one["values"] for one in seeds}) == 3
    assert len({one["keys"] for one in seeds}) == 1


def test_removed_fields_and_records_are_lost_writes(user: Kvmark, server: Server) -> None:
    ask = server.ask

    def damage() -> None:
        keys = server.record_keys()
        for number, key in enumerate(keys[:58]):
            assert ask("HDEL", key, f"field{number % 10}") == 1
        assert ask("DEL", *keys[58:65]) == 7
        for key in keys[65:70]:
            assert ask("HSET", key, "field3", "something else") == 0

    command = f"run ycsb/c --system {server.url} --records 1000 --rate 500"
    sweep = sweep_after(user, command, lambda: server.calls("hgetall") > 100, damage)
    names = ("records", "incomplete", "missing", "stale", "intact")
    assert [sweep[name] for name in names] == [1000, 58, 7, 5, 930]


def pipelines(user: Kvmark, url: str, write: str, load: str, look: str, mix: str = "") -> str:
    """A workload whose 16 records are loaded."""
    text = PIPELINES.format(write=write, load=load, look=look, mix=mix)
    (user.folder / "pipelines.yaml").write_text(text)
    user(f"run pipelines.yaml --system {url} --operations 1 -q --json")
    return "pipelines.yaml"


def test_commands_after_a_miss_in_a_pipeline_are_verified(user: Kvmark, server: Server) -> None:
    file = pipelines(user, server.url, f"{SET} XX", SET, GET)
    keys = server.record_keys()
    # From now on the response to one command of each pipeline is null.
    assert server.ask("DEL", keys[0]) == 1
    before = server.calls("set")

    def damage() -> None:
        assert server.ask("DEL", *keys[11:]) == 5

    command = f"run {file} --system {server.url} --load never --rate 50"
    sweep = sweep_after(user, command, lambda: server.calls("set") > before + 32, damage)
    assert [sweep[name] for name in ("records", "intact", "missing")] == [15, 10, 5]


def test_commands_after_an_error_in_a_pipeline_are_verified(user: Kvmark, server: Server) -> None:
    write = "HSET {key} f {value}"
    file = pipelines(user, server.url, write, write, "HGET {key} f")
    server.ask("SET", server.record_keys()[0], "of another type")
    words = f"run {file} --system {server.url} --load never --operations 5"
    sweep = user.sweep(words, exits=(0, 1, 3))
    assert (sweep["records"], sweep["intact"]) == (15, 15)


def test_a_set_that_returns_the_previous_value_is_a_write(user: Kvmark, server: Server) -> None:
    file = pipelines(user, server.url, f"{SET} GET", SET, GET, mix=", GONE: 1")
    sweep = user.sweep(f"run {file} --system {server.url} --operations 400")
    assert sweep["records"] == sweep["intact"] == 16


@pytest.mark.parametrize("verb", ["APPEND", "DEL"])
def test_a_value_changed_in_place_is_not_verifiable(user: Kvmark, verb: str) -> None:
    file = user.folder / "changed.yaml"
    file.write_text(PIPELINES.format(write=f"{verb} {{key}} {{value}}", load=SET, look=GET, mix=""))
    sentence = user.refuses(f"run {file} --system redis://127.0.0.1:1 --verify")
    assert f"{verb} in WRITE" in sentence


WRONG: dict[str, Wrong] = {
    "another record's value": lambda value: "0" * 8 + value[8:],
    "a byte short": lambda value: value[:-1],
    "empty": lambda _: "",
    "removed": lambda _: None,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_a_mismatch(user: Kvmark, server: Server, wrong: Wrong) -> None:
    words = f"run ycsb/c --system {server.url} --records 10 --operations 2000 -q"
    user(words, exits=(0, 1))
    assert mismatches(user) == 0
    key = server.record_keys()[0]
    value = wrong(str(server.ask("HGET", key, "field3")))
    if value is None:
        server.ask("HDEL", key, "field3")
    else:
        server.ask("HSET", key, "field3", value)
    verdict = user(words, "--json", exits=(0, 1)).json["verdict"]
    assert 0 < mismatches(user) < 2000
    assert "mismatches" in levels(verdict)
    assert verdict["judgement"] == "INVALID"


def replace_values(server: Server, value: str) -> None:
    """Replaces all fields of all records."""
    for key in server.record_keys():
        for field in range(10):
            server.ask("HSET", key, f"field{field}", value)


def test_fields_of_another_tool_are_counted_and_measured(user: Kvmark, server: Server) -> None:
    words = f"run ycsb/c --system {server.url} --records 10 --operations 2000 -q"
    user(words, exits=(0, 1))
    replace_values(server, "x" * 100)
    user(words, exits=(0, 1))
    assert mismatches(user) == 0
    events = (run_folders(user.runs)[-1] / "events.jsonl").read_text()
    assert events.count("values_untagged") == 1
    server.ask("HSET", server.record_keys()[0], "field0", "x" * 99)
    user(words, exits=(0, 1))
    assert mismatches(user) > 0


def test_only_records_with_our_tags_are_reloaded(user: Kvmark, server: Server) -> None:
    words = f"--system {server.url} --records 10 --operations 500 -q"
    user(f"run ycsb/c {words}", exits=(0, 1))
    shorter = user.folder / "shorter.yaml"
    shorter.write_text("dataset: {fields: {length: 50}}\ngroups: [{mix: {read: 1}}]\n")
    user(f"run {shorter} {words}", exits=(0, 1))
    assert mismatches(user) == 0
    assert {server.ask("HSTRLEN", key, "field0") for key in server.record_keys()} == {50}
    # A value without room for a tag may come from another tool.
    replace_values(server, "x")
    user(f"run {shorter} {words}", exits=1)
    assert mismatches(user) == 500
    values = {str(server.ask("HGET", key, "field0")) for key in server.record_keys()}
    assert values == {"x"}


def mismatches(user: Kvmark) -> int:
    """The mismatches among the reads of the newest run."""
    totals = user.manifest()["engine"]["totals"]
    return sum(total["count"] for total in totals if total["outcome"] == "mismatch")
