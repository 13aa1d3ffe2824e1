"""Three real nodes that lose one at a time, from the words a user types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from cassandra_node import cassandra_up
from command_line import Kvmark

from kvmark.errors import SystemUnderTestError
from kvmark.testbed import cassandra
from kvmark.testbed.cassandra.server import connect
from kvmark.testbed.console import Console
from kvmark.testbed.control import kill_node, restart_node, wait_until_healthy
from kvmark.testbed.observe import Observer
from kvmark.testbed.state import Testbed
from waiting import wait_until

HEAP_BYTES = 512 * 2**20
NEEDED_BYTES = 8 * 2**30
PATIENCE_S = 300.0
# A node that is gone is found out before twenty seconds, and a busy machine is no failure.
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

pytestmark = pytest.mark.three_nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Three nodes, which all tests of this file use."""
    available = psutil.virtual_memory().available
    if available < NEEDED_BYTES:
        pytest.skip(
            f"three nodes of Cassandra need {NEEDED_BYTES / 1e9:.1f} GB of free memory, and"
            f" {available / 1e9:.1f} GB are free"
        )
    root = tmp_path_factory.mktemp("testbeds")
    wanted = cassandra.CassandraOptions(nodes=3, heap_bytes=HEAP_BYTES, settings=SETTINGS)
    with cassandra_up(root, wanted) as nodes:
        yield nodes


@pytest.fixture
def user(kvmark: Kvmark, nodes: Testbed) -> Kvmark:
    """Someone who knows where the testbeds are."""
    kvmark.more["KVMARK_TESTBEDS"] = str(nodes.folder.parent)
    return kvmark


def measured(manifest: dict[str, Any]) -> dict[str, int]:
    """The operations of the phase that measures, by outcome."""
    phases = manifest["engine"]["phases"]
    index = next(one["index"] for one in phases if one["name"] == "measure")
    counts: dict[str, int] = {}
    for total in manifest["engine"]["totals"]:
        if total["phase"] == index and not total["part"]:
            counts[total["outcome"]] = counts.get(total["outcome"], 0) + total["count"]
    return counts


def carried_bytes(nodes: Testbed) -> int:
    """What all nodes together have sent and received; one that is late is asked again."""
    carried: dict[str, int] = {}

    def is_known() -> bool:
        for row in observer.sample():
            if row["network_sent_bytes"] is not None and row["node"] not in carried:
                carried[row["node"]] = row["network_sent_bytes"] + row["network_received_bytes"]
        return len(carried) == len(nodes.nodes)

    with closing(Observer(nodes)) as observer:
        wait_until(is_known, "all nodes say what they carried")
    return sum(carried.values())


def test_a_client_that_knows_who_holds_a_row_spares_the_nodes_a_detour(
    user: Kvmark, nodes: Testbed
) -> None:
    words = ("--operations", "6000", "--records", "300", "--clients", "16", "-q", "--json")
    carried = {}
    for aware in ("true", "false"):
        url = f"{nodes.url}/held?replication=simple:1&consistency=one&token_aware={aware}"
        before = carried_bytes(nodes)
        document = user("run", "ycsb/c", "--system", url, *words, exits=(0, 1)).json
        assert measured(user.manifest(document["run"])) == {"ok": 6000}
        carried[aware] = carried_bytes(nodes) - before
    # Two of three requests meet a node that has to ask another one; the rest is the nodes' own.
    assert carried["false"] > 1.3 * carried["true"]


def write_until_it_succeeds(client: Console, statement: str) -> None:
    """A write may time out until the others have seen that a node is gone; it is tried again."""
    for _ in range(30):
        try:
            client.ask(statement)
        except SystemUnderTestError:
            continue
        return
    raise AssertionError("no write succeeded")


def knows_of_a_loss(testbed: Testbed, name: str) -> bool:
    """Whether a node refuses to read from all nodes without asking them."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    client = connect(testbed, testbed.node(name), PATIENCE_S, "all")
    try:
        client.ask(statement)
    except SystemUnderTestError as refused:
        return "annot achieve" in str(refused)
    return False


@dataclass(frozen=True)
class Outage:
    """What was seen while one of three nodes was gone, and when it was back."""

    #: Whom a testbed that isn't whole names.
    named: str
    #: The answer to writes that need two copies of two.
    document: dict[str, Any]
    counts: dict[str, int]
    #: What the node that was gone read with another one.
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def outage(nodes: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Outage:
    """One node is killed and started again, for all that is claimed of it."""
    folder = tmp_path_factory.mktemp("outage")
    user = Kvmark(folder, folder / "runs", {"KVMARK_TESTBEDS": str(nodes.folder.parent)})
    (folder / "writes.yaml").write_text(WRITES)
    url = f"{nodes.url}/two?replication=simple:2&write_consistency=two&read_consistency=one"
    words = ("run", "writes.yaml", "--system", url, "-q", "--json")
    user(*words, "--load", "always", "--operations", "100", exits=(0, 1))
    client = connect(nodes, nodes.node("node-1"), PATIENCE_S, "quorum")
    client.ask(
        "CREATE KEYSPACE quorum WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 3}"
    )
    client.ask("CREATE TABLE quorum.rows (k int PRIMARY KEY)")
    kill_node(nodes, "node-3")
    try:
        write_until_it_succeeds(client, "INSERT INTO quorum.rows (k) VALUES (1)")
        with pytest.raises(SystemUnderTestError) as named:
            wait_until_healthy(nodes, 0.1)
        for name in ("node-1", "node-2"):
            wait_until(lambda name=name: knows_of_a_loss(nodes, name), f"{name} misses node-3")
        more = ("--load", "never", "--operations", "3000", "--clients", "32")
        document = user(*words, *more, exits=1).json
    finally:
        now = restart_node(nodes, "node-3")
    wait_until_healthy(now)
    client = connect(now, now.node("node-3"), PATIENCE_S, "quorum")
    rows = client.ask("SELECT k FROM quorum.rows")
    return Outage(str(named.value), document, measured(user.manifest(document["run"])), rows)


def test_nodes_have_addresses_of_their_own_and_are_observed_by_name(nodes: Testbed) -> None:
    assert [node.host for node in nodes.nodes] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len({node.port for node in nodes.nodes}) == 1
    with closing(Observer(nodes)) as observer:
        assert [row["node"] for row in observer.sample()] == ["node-1", "node-2", "node-3"]


def test_a_killed_node_makes_itself_known_and_comes_back_with_what_a_quorum_wrote(
    outage: Outage,
) -> None:
    assert outage.named.startswith("cassandra/node-1 did not")
    assert outage.rows == [{"k": 1}]


def test_with_two_copies_and_both_to_be_written_two_thirds_of_the_writes_find_too_few(
    outage: Outage,
) -> None:
    counts = outage.counts
    assert set(counts) == {"ok", "unavailable"}
    assert counts["unavailable"] / sum(counts.values()) == pytest.approx(2 / 3, abs=0.05)
    reasons = {each["code"]: each["level"] for each in outage.document["verdict"]["reasons"]}
    assert reasons["unavailable"] == "INVALID"


def test_a_quorum_of_three_loses_no_acknowledged_write_when_nodes_fail_in_turn(
    user: Kvmark, nodes: Testbed
) -> None:
    (user.folder / "faults.yaml").write_text(
        "faults:\n"
        "  - {at: 1s, do: kill, node: node-1, for: 1s}\n"
        "  - {at: 10s, do: restart, node: node-2}\n"
        "  - {at: 14s, do: pause, node: node-3, for: 1s}\n"
    )
    url = f"{nodes.url}/kept?replication=simple:3&consistency=quorum"
    words = ("--rate", "200", "--clients", "64", "--duration", "16s", "--interval", "250ms")
    words = (*words, "--records", "500", "--load", "always", "--verify")
    words = (*words, "--faults", "faults.yaml", "-q", "--json")
    document = user("run", "ycsb/a", "--system", url, *words, exits=(0, 1)).json
    sweep = document["summary"]["sweep"]
    lost = {what: sweep[what] for what in ("missing", "stale", "unread")}
    assert lost == {"missing": 0, "stale": 0, "unread": 0}
    assert sweep["intact"] == 500
    effects = document["summary"]["faults"]
    assert effects[0]["text"] == "1s kill node-1 for 1s"
    assert effects[0]["ended_ns"] > effects[0]["begun_ns"] + 1_000_000_000
    assert effects[0]["without_service_ns"] < effects[0]["ended_ns"] - effects[0]["begun_ns"]
    reasons = {each["code"] for each in document["verdict"]["reasons"]}
    assert "lost_writes" not in reasons
    shown = user("show", document["run"]).out
    assert "Fault" in shown
    assert "500 records written: 500 intact" in shown
