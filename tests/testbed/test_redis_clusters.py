"""Several real Redis servers: a replicated pair and a cluster."""

from pathlib import Path

import pytest

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.control import kill_node, restart_node, take_down, wait_until_healthy
from kvmark.testbed.redis import slots_of
from redis_testbeds import Ask, Up


def test_a_replica_has_its_primarys_data_also_after_it_was_killed(up: Up, ask: Ask) -> None:
    testbed = up(replicas=1, password=Secret("sesame"))
    assert [node.role for node in testbed.nodes] == ["primary", "replica"]
    ask(testbed, "primary-1", "SET", "key", "value")
    assert ask(testbed, "primary-1", "WAIT", 1, 30_000) == 1
    assert ask(testbed, "replica-1", "GET", "key") == "value"
    kill_node(testbed, "replica-1")
    ask(testbed, "primary-1", "SET", "key", "other")
    testbed = restart_node(testbed, "replica-1")
    wait_until_healthy(testbed)
    assert ask(testbed, "replica-1", "GET", "key") == "other"


def test_servers_are_started_again_one_by_one_while_others_are_down(up: Up) -> None:
    testbed = up(replicas=1)
    for name in ("primary-1", "replica-1"):
        kill_node(testbed, name)
    for name in ("replica-1", "primary-1"):
        testbed = restart_node(testbed, name)
    wait_until_healthy(testbed)
    assert testbed.lives


def test_a_cluster_serves_all_slots_and_each_primary_has_its_replica(
    up: Up, ask: Ask, root: Path
) -> None:
    testbed = up(cluster=3, replicas=1)
    assert [node.role for node in testbed.nodes] == ["primary"] * 3 + ["replica"] * 3
    primaries = ",".join(node.address for node in testbed.nodes[:3])
    assert testbed.url == f"redis://{primaries}?cluster=true"
    assert "cluster_state:ok" in ask(testbed, "replica-3", "CLUSTER", "INFO")
    served = ask(testbed, "primary-2", "CLUSTER", "SLOTS")
    assert sum(last - first + 1 for first, last, *_ in served) == 16_384
    ports = [node.port for node in testbed.nodes]
    followed = {holders[0][1]: [one[1] for one in holders[1:]] for _, _, *holders in served}
    assert followed == {ports[index]: [ports[index + 3]] for index in range(3)}
    assert [len(one.nodes) for one in take_down(root, remove=True)] == [6]


def test_a_cluster_with_password_and_tls_sends_clients_to_the_right_server(
    up: Up, ask: Ask
) -> None:
    testbed = up(cluster=2, password=Secret("sesame"), tls=True)
    slot = ask(testbed, "primary-1", "CLUSTER", "KEYSLOT", "key")
    right = next(index for index in range(2) if slot in slots_of(index, 2))
    assert ask(testbed, testbed.nodes[right].name, "SET", "key", "value") == "OK"
    with pytest.raises(SystemUnderTestError, match=f"MOVED {slot} {testbed.nodes[right].address}"):
        ask(testbed, testbed.nodes[1 - right].name, "GET", "key")
