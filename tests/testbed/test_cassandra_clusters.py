"""Three real nodes, a node that can't start, and the commands: what one shared node can't show."""

import json
import re
import socket
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from kvmark.cli.main import main
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import cassandra
from kvmark.testbed.cassandra.client import Client, ReplyError
from kvmark.testbed.cassandra.health import connect
from kvmark.testbed.control import (
    describe,
    kill_node,
    restart_node,
    take_down,
    wait_until_healthy,
)
from kvmark.testbed.memory_group import make_group, remove_group
from kvmark.testbed.observe import Observer
from kvmark.testbed.state import Testbed

HEAP_BYTES = 512 * 2**20
GIB = 2**30
NEEDED_BYTES = 6 * 10**9
Output = pytest.CaptureFixture[str]


@pytest.fixture
def enough_memory(with_cassandra: None) -> None:
    available = psutil.virtual_memory().available
    if available < NEEDED_BYTES:
        pytest.skip(
            f"three nodes of Cassandra need {NEEDED_BYTES / 1e9:.0f} GB of memory, and"
            f" {available / 1e9:.1f} GB are available"
        )


def test_three_nodes_keep_a_quorums_writes_while_one_is_killed(
    root: Path, enough_memory: None
) -> None:
    testbed = cassandra.up(cassandra.Wanted(nodes=3, heap_bytes=HEAP_BYTES), root)
    hosts = [node.host for node in testbed.nodes]
    assert hosts == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len({node.port for node in testbed.nodes}) == 1
    with Observer(testbed) as observer:
        assert [row["node"] for row in observer.sample()] == ["node-1", "node-2", "node-3"]
    with connect(testbed, testbed.nodes[0], 30) as client:
        client.ask(
            "CREATE KEYSPACE kept WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        client.ask("CREATE TABLE kept.rows (k int PRIMARY KEY)")
        kill_node(testbed, "node-2")
        write_until_it_succeeds(client, "INSERT INTO kept.rows (k) VALUES (1)")
    with pytest.raises(SystemUnderTestError, match="cassandra/node-1 did not"):
        wait_until_healthy(testbed, 0.1)
    testbed = restart_node(testbed, "node-2")
    wait_until_healthy(testbed)
    with connect(testbed, testbed.node("node-2"), 30) as client:
        assert client.ask("SELECT k FROM kept.rows", consistency="QUORUM") == [{"k": 1}]
    (stopped,) = take_down(root, remove=True)
    assert len(stopped.nodes) == 3
    assert not list(root.iterdir())


def write_until_it_succeeds(client: Client, statement: str) -> None:
    """A write may time out until the others have seen that a node is gone; it is tried again."""
    for _ in range(30):
        try:
            client.ask(statement, consistency="QUORUM")
        except ReplyError:
            continue
        return
    raise AssertionError("no write succeeded")


def test_a_setting_that_cassandra_refuses_is_told_and_nothing_is_left(
    root: Path, with_cassandra: None, capsys: Output
) -> None:
    command = ["up", "cassandra", "--heap", "512M", "--set", "read_request_timeout=5"]
    assert main(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("kvmark: Cassandra refused a setting: read_request_timeout: Invalid dur")
    assert not list(root.iterdir())


def test_a_node_that_ends_leaves_the_log_that_the_error_names(
    root: Path, with_cassandra: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A heap that the virtual machine can't lay out in its regions.
    module = sys.modules["kvmark.testbed.cassandra.up"]
    monkeypatch.setattr(module, "check_memory", lambda *_: None)
    with pytest.raises(SystemUnderTestError) as ended:
        cassandra.up(cassandra.Wanted(heap_bytes=2**50), root)
    found = re.fullmatch(
        r"cassandra/node-1 ended by itself; line (\d+) of (.*) says: .+", str(ended.value)
    )
    assert found is not None
    assert len(Path(found[2]).read_text().splitlines()) >= int(found[1])


def test_one_more_port_that_is_in_use_is_refused(root: Path, with_cassandra: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.2 is in use: give another"):
            cassandra.up(cassandra.Wanted(nodes=2, heap_bytes=HEAP_BYTES, port=port), root)
    assert not root.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cassandra", "--cluster", "3"], "kvmark: --cluster is no option of cassandra: leave"),
        (["redis", "--nodes", "3"], "kvmark: --nodes is no option of redis: leave it out"),
        (["cassandra", "--heap", "much"], "kvmark: heap: 'much' is not a size; write it like"),
        (["cassandra", "--memory", "much"], "kvmark: memory: 'much' is not a size; write it"),
        (
            ["cassandra", "--heap", "512M", "--memory", "600M"],
            "kvmark: memory: a node with a heap of 512 MiB and 420 MiB beside it doesn't fit",
        ),
        (["redis", "--memory", "1G"], "kvmark: --memory is no option of redis: leave it out"),
        (["cassandra", "--version", "2.1"], "kvmark: version: '2.1' of Cassandra can't be"),
        (["cassandra", "--heap", "900000G"], "kvmark: 1 node with a heap of"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    root: Path, with_cassandra: None, words: list[str], sentence: str, capsys: Output
) -> None:
    assert main(["up", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence)
    assert said.count("\n") == 1


def bound() -> list[str]:
    """The words that bound a node's memory, where the kernel lets us."""
    try:
        remove_group(make_group(f"kvmark-test-{uuid.uuid4().hex}", GIB))
    except UsageError:
        return []
    return ["--memory", "1G"]


def test_up_and_down_speak_json_and_leave_no_bound_on_memory_behind(
    root: Path, with_cassandra: None, capsys: Output
) -> None:
    more = bound()
    assert main(["up", "cassandra", "--heap", "512M", "--name", "one", "--json", *more]) == 0
    printed = capsys.readouterr()
    testbed = Testbed.read(root / "one")
    (node,) = testbed.nodes
    if more:
        assert node.group is not None
        assert node.process is not None
        groups = Path(f"/proc/{node.process.pid}/cgroup").read_text()
        assert node.group.name in groups
        assert describe(testbed)["memory_bytes"] == GIB
    started = json.loads(printed.out)
    assert "Starting Cassandra 5.0.9, 1 node with a heap of 512 MiB" in printed.err
    assert started["url"] == f"cql://{started['nodes'][0]['address']}"
    assert main(["down", "one", "--remove", "--json"]) == 0
    (stopped,) = json.loads(capsys.readouterr().out)
    assert stopped["removed"]
    assert node.group is None or not node.group.exists()
    assert not list(root.iterdir())
