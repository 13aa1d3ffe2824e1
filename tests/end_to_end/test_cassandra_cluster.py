"""Three real nodes of Cassandra, which fail one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psutil
import pytest
from command_line import Kvmark, levels, totals
from real_servers import cassandra_up

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.cassandra.server import connect
from kvmark.testbed.console import Console
from kvmark.testbed.control import kill_node, restart_node, wait_until_healthy
from kvmark.testbed.observe import Observer
from kvmark.testbed.state import Testbed
from waiting import PATIENCE_S, wait_until

HEAP_BYTES = 512 * 2**20
NEEDED_BYTES = 8 * 2**30
# The nodes detect a failure in less than twenty seconds, and a busy machine causes no timeout.
SETTINGS = (
    ("phi_convict_threshold", "5"),
    ("read_request_timeout", "30s"),
    ("write_request_timeout", "30s"),
)
WRITES = """
name: writes
dataset: {records: 1000, fields: {count: 1, length: 100}}
groups:
  - {name: writers, mix: {update: 1}, keys: uniform}
"""
QUORUM = (
    "CREATE KEYSPACE quorum WITH replication ="
    " {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE quorum.rows (k int PRIMARY KEY)",
)
FAULTS = """
faults:
  - {at: 1s, do: kill, node: node-1, for: 1s}
  - {at: 10s, do: restart, node: node-2}
  - {at: 14s, do: pause, node: node-3, for: 1s}
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Three nodes for all tests of this file."""
    available = psutil.virtual_memory().available
    if available < NEEDED_BYTES:
        need = f"three nodes of Cassandra need {NEEDED_BYTES / 1e9:.1f} GB of free memory"
        pytest.skip(f"{need}, and {available / 1e9:.1f} GB are free")
    root = tmp_path_factory.mktemp("testbeds")
    with cassandra_up(root, nodes=3, heap_bytes=HEAP_BYTES, settings=SETTINGS) as nodes:
        yield nodes


@pytest.fixture
def user(kvmark: Kvmark, nodes: Testbed) -> Kvmark:
    """The program with the folder of the testbed."""
    kvmark.variables["KVMARK_TESTBEDS"] = str(nodes.folder.parent)
    return kvmark


def measured(manifest: dict[str, Any]) -> Counter[str]:
    """The measured operations by outcome."""
    whole = [total for total in totals(manifest) if not total["part"]]
    return sum((Counter({one["outcome"]: one["count"]}) for one in whole), Counter())


def network_bytes(nodes: Testbed) -> int:
    """The bytes that all nodes have sent and received; a late node is observed again."""
    by_node: dict[str, int] = {}

    def is_complete() -> bool:
        for row in observer.sample():
            if row["network_sent_bytes"] is not None and row["node"] not in by_node:
                by_node[row["node"]] = row["network_sent_bytes"] + row["network_received_bytes"]
        return len(by_node) == len(nodes.nodes)

    with closing(Observer(nodes)) as observer:
        wait_until(is_complete, "the counters of all nodes are read")
    return sum(by_node.values())


def test_a_token_aware_client_saves_traffic_between_nodes(user: Kvmark, nodes: Testbed) -> None:
    traffic = {}
    for aware in ("true", "false"):
        url = f"{nodes.url}/held?replication=simple:1&consistency=one&token_aware={aware}"
        before = network_bytes(nodes)
        words = f"run ycsb/c --system {url} --operations 6000 --records 300 --clients 16 -q"
        user(words, exits=(0, 1))
        assert measured(user.manifest()) == {"ok": 6000}
        traffic[aware] = network_bytes(nodes) - before
    # Two of three requests reach a node that asks another one; the nodes have traffic, too.
    assert traffic["false"] > 1.3 * traffic["true"]


def write_until_it_succeeds(client: Console, statement: str) -> None:
    """Repeats a write, which may time out until the other nodes have detected the failure."""
    for _ in range(30):
        try:
            client.ask(statement)
        except SystemUnderTestError:
            continue
        return
    raise AssertionError("no write succeeded")


def has_detected_failure(testbed: Testbed, name: str) -> bool:
    """Whether a node refuses a read from all nodes without asking them."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    client = connect(testbed, testbed.node(name), PATIENCE_S, "all")
    try:
        client.ask(statement)
    except SystemUnderTestError as refused:
        return "annot achieve" in str(refused)
    return False


def test_an_outage_makes_two_thirds_of_the_writes_unavailable(user: Kvmark, nodes: Testbed) -> None:
    (user.folder / "writes.yaml").write_text(WRITES)
    url = f"{nodes.url}/two?replication=simple:2&write_consistency=two&read_consistency=one"
    words = f"run writes.yaml --system {url} -q --json"
    user(f"{words} --load always --operations 100", exits=(0, 1))
    client = connect(nodes, nodes.node("node-1"), PATIENCE_S, "quorum")
    for statement in QUORUM:
        client.ask(statement)
    kill_node(nodes, "node-3")
    try:
        write_until_it_succeeds(client, "INSERT INTO quorum.rows (k) VALUES (1)")
        with pytest.raises(SystemUnderTestError, match=r"^cassandra/node-1 did not"):
            wait_until_healthy(nodes, 0.1)
        for name in ("node-1", "node-2"):
            wait_until(lambda name=name: has_detected_failure(nodes, name), f"{name} misses node-3")
        work = "--load never --operations 3000 --clients 32"
        verdict = user(f"{words} {work}", exits=1).json["verdict"]
    finally:
        restarted = restart_node(nodes, "node-3")
    counts = measured(user.manifest())
    assert set(counts) == {"ok", "unavailable"}
    assert counts["unavailable"] / counts.total() == pytest.approx(2 / 3, abs=0.05)
    assert levels(verdict)["unavailable"] == "INVALID"
    # The node that failed reads the write of a quorum with another one.
    wait_until_healthy(restarted)
    client = connect(restarted, restarted.node("node-3"), PATIENCE_S, "quorum")
    assert client.ask("SELECT k FROM quorum.rows") == [{"k": 1}]


def test_each_node_has_an_address_and_is_observed_by_name(nodes: Testbed) -> None:
    assert [node.host for node in nodes.nodes] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len({node.port for node in nodes.nodes}) == 1
    with closing(Observer(nodes)) as observer:
        assert [row["node"] for row in observer.sample()] == ["node-1", "node-2", "node-3"]


def test_a_quorum_of_failing_nodes_loses_no_write(user: Kvmark, nodes: Testbed) -> None:
    (user.folder / "faults.yaml").write_text(FAULTS)
    url = f"{nodes.url}/kept?replication=simple:3&consistency=quorum"
    words = f"run ycsb/a --system {url} --rate 200 --clients 64 --duration 16s --interval 250ms"
    load = "--records 500 --load always --verify --faults faults.yaml -q --json"
    document = user(f"{words} {load}", exits=(0, 1)).json
    sweep = document["summary"]["sweep"]
    assert [sweep[name] for name in ("missing", "stale", "unread", "intact")] == [0, 0, 0, 500]
    effect = document["summary"]["faults"][0]
    assert effect["text"] == "1s kill node-1 for 1s"
    assert effect["ended_ns"] > effect["begun_ns"] + 1_000_000_000
    assert effect["without_service_ns"] < effect["ended_ns"] - effect["begun_ns"]
    assert "lost_writes" not in levels(document["verdict"])
    text = user("show", document["run"]).out
    assert "Fault" in text
    assert "500 records written: 500 intact" in text
