"""A real primary is killed, and its replica takes over, while both are measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Going, Kvmark

from kvmark.errors import UsageError
from kvmark.testbed import redis
from kvmark.testbed.console import connect
from kvmark.testbed.redis import info_fields
from kvmark.testbed.state import Testbed
from waiting import wait_until

FAULT = "1s kill primary-1 for 9s"
KILL = "500ms kill primary-1 for 6s"
PROMOTE = "1s promote replica-1 for 6s"


def role(testbed: Testbed, node: str) -> str:
    """What a server says it is."""
    now = Testbed.read(testbed.folder)
    return info_fields(connect(now, now.node(node)).ask("INFO", "replication"))["role"]


def miss_soon(testbed: Testbed) -> None:
    """Lets the servers that are there miss another after half a second instead of fifteen."""
    for node in testbed.nodes:
        if node.name != "primary-1":
            connect(testbed, node).ask("CONFIG", "SET", "cluster-node-timeout", "500")


def test_a_replica_of_a_cluster_takes_over_before_its_primary_is_back(
    user: Kvmark, going: Callable[..., Going]
) -> None:
    wanted = redis.RedisOptions(cluster=3, replicas=1, appendonly=True)
    testbed = redis.up(wanted, Path(user.more["KVMARK_TESTBEDS"]))
    assert role(testbed, "replica-1") == "slave"
    words = ("--rate", "300", "--clients", "128", "--duration", "12s", "--interval", "250ms")
    words = (*words, "--timeout", "1s", "--records", "300", "--fault", FAULT, "--verify")
    run = going("redis/set", "--system", testbed.url, *words, "-q", "--json")
    events = run.folder / "events.jsonl"
    wait_until(lambda: events.exists() and '"begun"' in events.read_text(), "it is killed")
    miss_soon(testbed)
    answer = user.finish(run.process, exits=(0, 1)).json
    [effect] = answer["summary"]["faults"]
    assert effect["text"] == FAULT
    assert sum(effect["errors"].values()) > 0
    # Two thirds of the slots have their servers all the time.
    assert effect["without_service_ns"] < effect["ended_ns"] - effect["begun_ns"]
    assert answer["summary"]["sweep"]["unread"] == 0
    assert (role(testbed, "replica-1"), role(testbed, "primary-1")) == ("master", "slave")
    shown = user("show", answer["run"]).out
    assert "80 % of the rate before again" in shown
    lines = shown.partition("Around the faults")[2].splitlines()
    names = ("before", FAULT, "after")
    assert [name for line in lines for name in names if line.startswith(f"{name} ")] == [*names]


def test_a_promoted_replica_serves_clients_while_its_primary_is_away(user: Kvmark) -> None:
    wanted = redis.RedisOptions(replicas=1, appendonly=True, appendfsync="always", network=True)
    try:
        testbed = redis.up(wanted, Path(user.more["KVMARK_TESTBEDS"]))
    except UsageError as refused:
        pytest.skip(str(refused))
    words = ("--rate", "300", "--clients", "128", "--duration", "11s", "--interval", "250ms")
    words = (*words, "--timeout", "1s", "--records", "300", "--verify", "-q", "--json")
    faults = ("--fault", KILL, "--fault", PROMOTE)
    url = f"{testbed.url}?reconnect_max_ms=100"
    answer: dict[str, Any] = user(
        "run", "redis/set", "--system", url, *words, *faults, exits=(0, 1)
    ).json
    killed, promoted = answer["summary"]["faults"]
    assert (killed["text"], promoted["text"]) == (KILL, PROMOTE)
    assert sum(killed["errors"].values()) + sum(promoted["errors"].values()) > 0
    # Without the replica nobody would answer until the primary is back.
    away_ns = killed["ended_ns"] - killed["begun_ns"]
    assert killed["without_service_ns"] + promoted["without_service_ns"] < away_ns
    # What the replica wrote came back to the primary.
    sweep = answer["summary"]["sweep"]
    assert (sweep["unread"], sweep["records"]) == (0, sweep["intact"] + sweep["stale"])
    assert (role(testbed, "primary-1"), role(testbed, "replica-1")) == ("master", "slave")
