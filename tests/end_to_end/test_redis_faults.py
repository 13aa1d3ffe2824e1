"""Faults planned for real Redis servers: pauses, kills, failovers and disturbed links."""

import json
from typing import Any

import pytest
from command_line import EVENTS, Kvmark, Started, levels, phase, run_folders, totals
from real_servers import key_count, redis_up

from kvmark.errors import UsageError
from kvmark.records.files import LOST_WRITES
from kvmark.spec.faults import parse_fault
from kvmark.testbed.console import connect
from kvmark.testbed.control import check_fault
from kvmark.testbed.redis import info_fields
from kvmark.testbed.state import Testbed
from redis_testbeds import pair, root, up, with_redis

__all__ = ["pair", "root", "up", "with_redis"]

FAILOVER = "--rate 300 --clients 128 --interval 250ms --timeout 1s --records 300 --verify -q --json"
DISTURBED = "--rate 200 --clients 64 --interval 300ms --records 100 -q"
KILLED = (
    "--duration 4s --rate 5000 --records 5000 --clients 4 --fault '500ms kill primary-1 for 200ms'"
)


def fault_states(user: Kvmark) -> list[dict[str, Any]]:
    """The events of faults in the newest run."""
    log = run_folders(user.runs)[-1] / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in events if event["kind"] == "fault"]


def interrupt_after(run: Started, state: str) -> None:
    """Interrupts a run of an hour when its fault has this state."""
    run.wait_for(f'"{state}"', EVENTS)
    run.interrupt()
    assert [event["state"] for event in fault_states(run.kvmark)] == ["begun", "ended"]


def test_a_pause_is_part_of_the_response_time_and_no_error(user: Kvmark) -> None:
    url = redis_up(user).url
    words = f"run ycsb/c --system {url} --rate 500 --clients 64 --duration 1h --interval 100ms"
    fault = ("--fault", "300ms pause primary-1 for 400ms", "--records", "100", "-q")
    interrupt_after(user.start(words, *fault), "ended")
    begun, ended = fault_states(user)
    manifest = user.manifest()
    start_ns = phase(manifest)["start_ns"]
    assert begun["at_ns"] >= start_ns + 300_000_000
    assert ended["at_ns"] >= start_ns + 700_000_000
    assert max(total["response"]["max"] for total in totals(manifest)) >= 350_000_000
    assert manifest["spec"]["faults"][0]["node"] == "primary-1"
    assert not {"errors", "errors_during_faults", "fault_not_carried_out"} & set(user.reasons())
    user("runs report last -o fault.html")
    assert "pause primary-1" in (user.folder / "fault.html").read_text()


def test_failures_while_a_server_is_killed_are_expected(user: Kvmark) -> None:
    testbed = redis_up(user, appendonly=True, appendfsync="always")
    fault = "faults: [{at: 300ms, do: kill, node: primary-1, for: 200ms}]"
    (user.folder / "faults.yaml").write_text(fault)
    words = f"run ycsb/a --system {testbed.url} --clients 4 --rate 500 --duration 1h"
    load = ("--interval", "100ms", "--timeout", "1m", "--records", "100", "-q")
    interrupt_after(user.start(words, *load, "--faults", "faults.yaml"), "ended")
    assert {total["outcome"] for total in totals(user.manifest())} > {"ok"}
    reasons = user.reasons()
    assert reasons["errors_during_faults"] == "NOTE"
    assert not {"errors", "misses", "fault_not_carried_out"} & set(reasons)
    assert key_count(testbed) == 101


def test_an_interrupted_run_leaves_its_servers_as_they_were(user: Kvmark) -> None:
    testbed = redis_up(user)
    words = f"run ycsb/c --system {testbed.url} --records 10 --duration 1h --drain-limit 1h"
    fault = ("--fault", "0s pause primary-1")
    interrupt_after(user.start(words, "--interval", "50ms", "-q", *fault), "begun")
    assert key_count(testbed) == 11


def test_only_a_killed_server_without_aof_loses_acknowledged_writes(user: Kvmark) -> None:
    # With "everysec" a write that meets a sync may be acknowledged before it is written.
    logging = redis_up(user, appendonly=True, appendfsync="no")
    sweep = user.sweep(f"run redis/set --system {logging.url} {KILLED}")
    assert [sweep[name] for name in ("records", "intact")] == [5000, 5000]
    sweep = user.sweep(f"run redis/set --system {redis_up(user, appendonly=False).url} {KILLED}")
    lines = (run_folders(user.runs)[-1] / LOST_WRITES).read_text().splitlines()
    assert len(lines) == sweep["missing"] + sweep["stale"] > 0
    (killed,) = user("show last --json").json["summary"]["faults"]
    assert sweep["lost_writes"]["acknowledged_until_ns"] < killed["ended_ns"]
    assert user.reasons()["lost_writes"] == "INVALID"


def role(testbed: Testbed, node: str) -> str:
    now = Testbed.read(testbed.folder)
    return info_fields(connect(now, now.node(node)).ask("INFO", "replication"))["role"]


def test_a_replica_of_a_cluster_takes_over_before_its_primary_is_back(user: Kvmark) -> None:
    fault = "1s kill primary-1 for 9s"
    testbed = redis_up(user, cluster=3, replicas=1, appendonly=True)
    assert role(testbed, "replica-1") == "slave"
    words = f"run redis/set --system {testbed.url} --duration 12s {FAILOVER}"
    run = user.start(words, "--fault", fault)
    run.wait_for('"begun"', EVENTS)
    # The others miss the primary after half a second instead of fifteen.
    for node in testbed.nodes:
        if node.name != "primary-1":
            connect(testbed, node).ask("CONFIG", "SET", "cluster-node-timeout", "500")
    answer = run.finish(exits=(0, 1)).json
    [effect] = answer["summary"]["faults"]
    assert effect["text"] == fault
    assert sum(effect["errors"].values()) > 0
    # Two thirds of the slots have their servers all the time.
    assert effect["without_service_ns"] < effect["ended_ns"] - effect["begun_ns"]
    assert answer["summary"]["sweep"]["unread"] == 0
    assert (role(testbed, "replica-1"), role(testbed, "primary-1")) == ("master", "slave")
    text = user("show", answer["run"], "--notes").out
    assert "80 % of the rate before again" in text
    lines = text.partition("Around the faults")[2].splitlines()
    names = ("before", fault, "after")
    assert [name for line in lines for name in names if line.startswith(f"{name} ")] == [*names]


def test_a_promoted_replica_serves_clients_during_the_outage_of_its_primary(user: Kvmark) -> None:
    kill, promote = "500ms kill primary-1 for 6s", "1s promote replica-1 for 6s"
    options = {"appendonly": True, "appendfsync": "always", "network": True}
    testbed = redis_up(user, replicas=1, **options)
    words = f"run redis/set --system {testbed.url}?reconnect_max_ms=100 --duration 11s {FAILOVER}"
    summary = user(words, "--fault", kill, "--fault", promote, exits=(0, 1)).json["summary"]
    killed, promoted = summary["faults"]
    assert (killed["text"], promoted["text"]) == (kill, promote)
    assert sum(killed["errors"].values()) + sum(promoted["errors"].values()) > 0
    # Without the replica no server answers until the primary is back.
    outage_ns = killed["ended_ns"] - killed["begun_ns"]
    assert killed["without_service_ns"] + promoted["without_service_ns"] < outage_ns
    # The primary has received the writes of the replica.
    sweep = summary["sweep"]
    assert (sweep["unread"], sweep["records"]) == (0, sweep["intact"] + sweep["stale"])
    assert (role(testbed, "primary-1"), role(testbed, "replica-1")) == ("master", "slave")


def test_operations_fail_only_during_a_partition(user: Kvmark, pair: Testbed) -> None:
    # The intervals are long compared with the moments in which the machine does something else.
    fault = "1200ms partition primary-1 for 1500ms"
    words = f"run redis/set --system {pair.url} {DISTURBED} --duration 6s --timeout 300ms --verify"
    document = user(words, "--json", "--fault", fault, exits=(0, 1)).json
    [effect] = document["summary"]["faults"]
    assert effect["text"] == fault
    assert effect["errors"]["timeout"] > 0
    assert effect["without_service_ns"] >= 750_000_000
    # All records are read after the run, so operations succeed again.
    sweep = document["summary"]["sweep"]
    assert sweep["intact"] > 0
    assert sweep["missing"] == 0
    assert "fault_not_carried_out" not in levels(document["verdict"])


def test_a_delay_is_part_of_every_response_time(user: Kvmark, pair: Testbed) -> None:
    delay = "0s delay primary-1 by 20ms"
    try:
        check_fault(pair, parse_fault(delay))
    except UsageError as refused:
        pytest.skip(str(refused))
    words = f"run redis/set --system {pair.url} {DISTURBED} --duration 2s"
    user(words, "--fault", f"{delay} for 10s", exits=(0, 1))
    # To the server and back.
    assert totals(user.manifest())[0]["response"]["p50"] >= 2 * 20_000_000


def test_a_fault_of_an_unknown_node_is_refused(user: Kvmark, pair: Testbed) -> None:
    for fault in ("1s kill primary-2", "0s partition primary-1 from primary-2 for 1s"):
        sentence = user.refuses(f"run ycsb/a --system {pair.url} --duration 1h --fault", fault)
        assert "has no node 'primary-2'; it has primary-1" in sentence
        assert key_count(pair) == 0
