"""Three real nodes that lose one at a time, from the words a user types."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import polars as pl
import psutil
import pytest
from command_line import Kvmark, wait_until

from kvmark.errors import SystemUnderTestError
from kvmark.records import Records
from kvmark.testbed import cassandra
from kvmark.testbed.cassandra.client import Client, ReplyError
from kvmark.testbed.cassandra.health import connect
from kvmark.testbed.control import kill_node, restart_node, take_down, wait_until_healthy
from kvmark.testbed.observe import Observer
from kvmark.testbed.state import Testbed

HEAP_BYTES = 512 * 2**20
NEEDED_BYTES = 8 * 2**30
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
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} isn't installed")
    available = psutil.virtual_memory().available
    if available < NEEDED_BYTES:
        pytest.skip(
            f"three nodes of Cassandra need {NEEDED_BYTES / 1e9:.1f} GB of free memory, and"
            f" {available / 1e9:.1f} GB are free"
        )
    root = tmp_path_factory.mktemp("testbeds")
    wanted = cassandra.Wanted(nodes=3, heap_bytes=HEAP_BYTES, settings=SETTINGS)
    try:
        yield cassandra.up(wanted, root, lambda _: None)
    finally:
        take_down(root)


@pytest.fixture
def user(kvmark: Kvmark, nodes: Testbed) -> Kvmark:
    """Someone who knows where the testbeds are, and is patient with restarts."""
    kvmark.more["KVMARK_TESTBEDS"] = str(nodes.folder.parent)
    kvmark.patience_s = 300.0
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


def carried_bytes(user: Kvmark, run: str) -> int:
    """What all nodes together sent and received while a run went."""
    rows = Records(user.runs).open(run).resources.filter(pl.col("node").str.starts_with("node-"))
    traffic = pl.col("network_sent_bytes") + pl.col("network_received_bytes")
    rises = rows.group_by("node").agg(rise=traffic.max() - traffic.min())
    return int(rises["rise"].sum())


def test_a_client_that_knows_who_holds_a_row_spares_the_nodes_a_detour(
    user: Kvmark, nodes: Testbed
) -> None:
    words = ("--operations", "3000", "--records", "300", "--clients", "16", "-q", "--json")
    carried = {}
    for aware in ("true", "false"):
        url = f"{nodes.url}/held?replication=simple:1&consistency=one&token_aware={aware}"
        document = user("run", "ycsb/c", "--system", url, *words, exits=(0, 1)).json
        assert measured(user.manifest(document["run"])) == {"ok": 3000}
        carried[aware] = carried_bytes(user, document["run"])
    # Two of three requests meet a node that has to ask another one.
    assert carried["false"] > 1.5 * carried["true"]


def test_a_killed_node_is_named_and_comes_back_with_what_a_quorum_wrote(nodes: Testbed) -> None:
    assert [node.host for node in nodes.nodes] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len({node.port for node in nodes.nodes}) == 1
    with Observer(nodes) as observer:
        assert [row["node"] for row in observer.sample()] == ["node-1", "node-2", "node-3"]
    with connect(nodes, nodes.nodes[0], 30) as client:
        client.ask(
            "CREATE KEYSPACE quorum WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        client.ask("CREATE TABLE quorum.rows (k int PRIMARY KEY)")
        kill_node(nodes, "node-2")
        write_until_it_succeeds(client, "INSERT INTO quorum.rows (k) VALUES (1)")
    with pytest.raises(SystemUnderTestError, match="cassandra/node-1 did not"):
        wait_until_healthy(nodes, 0.1)
    now = restart_node(nodes, "node-2")
    wait_until_healthy(now)
    with connect(now, now.node("node-2"), 30) as client:
        assert client.ask("SELECT k FROM quorum.rows", consistency="QUORUM") == [{"k": 1}]


def write_until_it_succeeds(client: Client, statement: str) -> None:
    """A write may time out until the others have seen that a node is gone; it is tried again."""
    for _ in range(30):
        try:
            client.ask(statement, consistency="QUORUM")
        except ReplyError:
            continue
        return
    raise AssertionError("no write succeeded")


def test_a_quorum_of_three_loses_no_acknowledged_write_when_nodes_fail_in_turn(
    user: Kvmark, nodes: Testbed
) -> None:
    (user.folder / "faults.yaml").write_text(
        "faults:\n"
        "  - {at: 2s, do: kill, node: node-1, for: 1s}\n"
        "  - {at: 12s, do: restart, node: node-2}\n"
        "  - {at: 20s, do: pause, node: node-3, for: 1s}\n"
    )
    url = f"{nodes.url}/kept?replication=simple:3&consistency=quorum"
    words = ("--rate", "200", "--clients", "64", "--duration", "22s", "--interval", "250ms")
    words = (*words, "--records", "500", "--load", "always", "--verify")
    words = (*words, "--faults", "faults.yaml", "-q", "--json")
    document = user("run", "ycsb/a", "--system", url, *words, exits=(0, 1)).json
    sweep = document["summary"]["sweep"]
    lost = {what: sweep[what] for what in ("missing", "stale", "unread")}
    assert lost == {"missing": 0, "stale": 0, "unread": 0}
    assert sweep["intact"] == 500
    effects = document["summary"]["faults"]
    assert effects[0]["text"] == "2s kill node-1 for 1s"
    assert effects[0]["ended_ns"] > effects[0]["begun_ns"] + 1_000_000_000
    assert effects[0]["without_service_ns"] < effects[0]["ended_ns"] - effects[0]["begun_ns"]
    reasons = {each["code"] for each in document["verdict"]["reasons"]}
    assert "lost_writes" not in reasons
    shown = user("show", document["run"]).out
    assert "Fault" in shown
    assert "500 records written: 500 intact" in shown


def test_with_two_copies_and_both_to_be_written_two_thirds_of_the_writes_find_too_few(
    user: Kvmark, nodes: Testbed
) -> None:
    (user.folder / "writes.yaml").write_text(WRITES)
    url = f"{nodes.url}/two?replication=simple:2&write_consistency=two&read_consistency=one"
    load = ("--load", "always", "--operations", "100", "-q", "--json")
    user("run", "writes.yaml", "--system", url, *load, exits=(0, 1))
    now = Testbed.read(nodes.folder)
    kill_node(now, "node-3")
    try:
        for name in ("node-1", "node-2"):
            wait_until(lambda name=name: knows_of_a_loss(now, name), f"{name} misses node-3")
        words = ("--load", "never", "--operations", "3000", "--clients", "32", "-q", "--json")
        document = user("run", "writes.yaml", "--system", url, *words, exits=1).json
    finally:
        wait_until_healthy(restart_node(now, "node-3"))
    counts = measured(user.manifest(document["run"]))
    assert set(counts) == {"ok", "unavailable"}
    assert counts["unavailable"] / sum(counts.values()) == pytest.approx(2 / 3, abs=0.05)
    reasons = {each["code"]: each["level"] for each in document["verdict"]["reasons"]}
    assert reasons["unavailable"] == "INVALID"


def knows_of_a_loss(testbed: Testbed, name: str) -> bool:
    """Whether a node refuses to read from all nodes without asking them."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    with connect(testbed, testbed.node(name), 30) as client:
        try:
            client.ask(statement, consistency="ALL")
        except ReplyError as refused:
            return "annot achieve" in str(refused)
    return False
