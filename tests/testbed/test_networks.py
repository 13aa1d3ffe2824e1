"""Servers in namespaces of their own, on links that can be disturbed; and where that can't be."""

import ipaddress
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import network
from kvmark.testbed.console import Console, connect
from kvmark.testbed.control import (
    disturb_link,
    heal_link,
    kill_node,
    promotion_of,
    restart_node,
    take_down,
)
from kvmark.testbed.network import Disturbance, Network
from kvmark.testbed.redis.nodes import facts_in
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
Ask = Callable[..., Any]
BENCHMARKS = ipaddress.ip_network("198.18.0.0/15")
PLANNED = Network(name="kv1", prefix="198.18.7", servers=("one", "two", "three"))
SOON_S = 0.3
PATIENCE_S = 300.0


@pytest.fixture
def pair(up: Up) -> Testbed:
    """A primary and its replica, each with a link of its own."""
    try:
        return up(replicas=1, network=True)
    except UsageError as refused:
        pytest.skip(str(refused))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts programs of the test's own in the place of `ip`, `tc` and `nsenter`."""

    def put(**refused: str) -> Path:
        """The file of all words they were given; they complain where these words are among them."""
        log, folder = tmp_path / "words", tmp_path / "programs"
        folder.mkdir()
        for name in ("ip", "tc", "nsenter"):
            lines = [f'echo "{name} $@" >> {log}']
            if name in refused:
                lines.append(f'case "$*" in *"{refused[name]}"*) echo "No: $2" >&2; exit 2;; esac')
            (folder / name).write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        return log

    return put


def said(*words: str) -> str:
    """What a program of the machine prints."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def answers(testbed: Testbed, node: str, within_s: float = PATIENCE_S) -> bool:
    """Whether a server answers; who expects no answer waits for it a moment only."""
    try:
        return connect(testbed, testbed.node(node), within_s).ask("PING") == "PONG"
    except SystemUnderTestError:
        return False


def copies(testbed: Testbed, within_s: float = PATIENCE_S) -> object:
    """How many replicas have a write in that time."""
    client = connect(testbed, testbed.node("primary-1"), 2 * PATIENCE_S)
    client.ask("INCR", "writes")
    return client.ask("WAIT", 1, round(within_s * 1000))


def test_servers_have_addresses_of_their_own_and_no_way_out(pair: Testbed) -> None:
    assert pair.network is not None
    hosts = [node.host for node in pair.nodes]
    assert len(set(hosts)) == 2
    assert all(ipaddress.ip_address(host) in BENCHMARKS for host in hosts)
    assert copies(pair) == 1
    for node in pair.nodes:
        routes = said("ip", "-n", pair.network.namespace(node.name), "route").splitlines()
        assert [line.split()[0] for line in routes] == [pair.network.subnet]


def test_two_servers_that_are_cut_off_from_each_other_still_answer_clients(pair: Testbed) -> None:
    apart = Disturbance("partition", towards=("primary-1",))
    assert disturb_link(pair, "replica-1", apart)
    assert copies(pair, SOON_S) == 0
    assert answers(pair, "primary-1")
    assert answers(pair, "replica-1")
    heal_link(pair, "replica-1", apart)
    assert copies(pair) == 1


def test_a_server_that_is_cut_off_answers_nobody_until_its_link_is_healed(pair: Testbed) -> None:
    alone = Disturbance("partition")
    assert disturb_link(pair, "primary-1", alone)
    assert not answers(pair, "primary-1", SOON_S)
    assert answers(pair, "replica-1")
    heal_link(pair, "primary-1", alone)
    assert answers(pair, "primary-1")


def test_a_server_that_was_killed_starts_again_on_its_own_link(pair: Testbed) -> None:
    kill_node(pair, "primary-1")
    assert not disturb_link(pair, "primary-1", Disturbance("partition"))
    again = restart_node(pair, "primary-1")
    assert answers(again, "primary-1")


def test_a_replica_takes_its_primarys_place_and_gives_it_back(pair: Testbed, ask: Ask) -> None:
    def role(node: str) -> str:
        return facts_in(connect(pair, pair.node(node)).ask("INFO", "replication"))["role"]

    def holder() -> str:
        """Whom clients reach at the address that they know."""
        host, _, port = pair.facts["service"].partition(":")
        client = Console("redis", {"address": f"{host}:{int(port)}"})
        pid = facts_in(client.ask("INFO", "server"))["process_id"]
        names = {str(node.process and node.process.pid): node.name for node in pair.nodes}
        return names[pid]

    assert pair.url == f"redis://{pair.facts['service']}"
    assert (holder(), role("replica-1")) == ("primary-1", "slave")
    ask(pair, "primary-1", "SET", "before", "1")
    assert copies(pair) == 1
    promotion = promotion_of(pair)
    promotion.begin(pair, "replica-1")
    assert (holder(), role("replica-1"), role("primary-1")) == ("replica-1", "master", "slave")
    ask(pair, "replica-1", "SET", "meanwhile", "2")
    promotion.end(pair, "replica-1")
    assert (holder(), role("replica-1"), role("primary-1")) == ("primary-1", "slave", "master")
    assert [ask(pair, "primary-1", "GET", key) for key in ("before", "meanwhile")] == ["1", "2"]


def test_only_a_replica_whose_clients_find_it_can_be_promoted(up: Up, pair: Testbed) -> None:
    with pytest.raises(UsageError, match="primary-1 is no replica, and only those"):
        promotion_of(pair).check(pair, "primary-1")
    promotion_of(pair).check(pair, "replica-1")
    plain = up(replicas=1)
    with pytest.raises(
        UsageError, match=r"couldn't find another primary: start it with .*--network"
    ):
        promotion_of(plain).check(plain, "replica-1")


def test_a_testbed_that_is_down_leaves_no_namespace_and_no_link(pair: Testbed) -> None:
    assert pair.network is not None
    name = pair.network.name
    assert name in said("ip", "netns", "list")
    take_down(pair.folder.parent)
    assert name not in said("ip", "netns", "list")
    assert name not in said("ip", "link", "show")


def test_a_network_that_can_not_be_finished_leaves_nothing(
    up: Up, root: Path, programs: Callable[..., Path]
) -> None:
    log = programs(ip="type veth")
    with pytest.raises(UsageError, match=r"network: .* \(`ip -n kv\w+-switch link add .*No: "):
        up(network=True)
    assert not list(root.iterdir())
    words = log.read_text().splitlines()
    made = [line.split()[-1] for line in words if "netns add" in line]
    removed = [line.split()[-1] for line in words if "netns delete" in line]
    assert sorted(removed) == sorted(made)
    assert len(made) == 2


def test_who_is_not_root_has_no_network(
    up: Up, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"network: .*\(only root may .*leave --network out"):
        up(network=True)
    assert not root.exists()


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(UsageError, match=r"the program ip is missing: apt-get install iproute2"):
        network.choose_network(["one"])


def test_a_kernel_without_netem_is_told_before_anything_is_disturbed(
    programs: Callable[..., Path],
) -> None:
    log = programs(tc="qdisc add")
    with pytest.raises(UsageError, match=r"kernel knows no delay of packets .*sch_netem"):
        network.check_disturbance(PLANNED, Disturbance("delay", delay_ns=10**6))
    words = log.read_text().splitlines()
    assert all(line.startswith("tc -n kv1-switch") and line.split()[-1] for line in words)
    assert words[-1] == "tc -n kv1-switch qdisc delete root dev lo"
    # Every kernel can take a link off the switch.
    network.check_disturbance(PLANNED, Disturbance("partition", towards=("two",)))


@pytest.mark.parametrize(
    ("disturbance", "netem"),
    [
        (Disturbance("delay", delay_ns=20_000_000), "delay 20000us"),
        (Disturbance("loss", loss=0.05), "loss 5.0000%"),
    ],
)
def test_both_ends_of_a_link_are_disturbed_and_healed(
    programs: Callable[..., Path], disturbance: Disturbance, netem: str
) -> None:
    log = programs()
    network.disturb(PLANNED, "two", disturbance)
    network.heal(PLANNED, "two", disturbance)
    assert log.read_text().splitlines() == [
        f"tc -n kv1-two qdisc add dev eth0 root netem limit 100000 {netem}",
        f"tc -n kv1-switch qdisc add dev two root netem limit 100000 {netem}",
        "tc -n kv1-two qdisc delete root dev eth0",
        "tc -n kv1-switch qdisc delete root dev two",
    ]


def test_a_delay_towards_one_server_leaves_the_others_alone(
    programs: Callable[..., Path],
) -> None:
    log = programs()
    network.disturb(PLANNED, "two", Disturbance("delay", 1_000_000, towards=("three",)))
    own = [line for line in log.read_text().splitlines() if "kv1-two" in line]
    assert own == [
        "tc -n kv1-two qdisc add dev eth0 root handle 1: prio bands 2 priomap" + " 0" * 16,
        "tc -n kv1-two qdisc add dev eth0 parent 1:2 netem limit 100000 delay 1000us",
        "tc -n kv1-two filter add dev eth0 parent 1: protocol ip u32 match ip dst 198.18.7.3/32"
        " flowid 1:2",
    ]


def test_a_disturbance_that_fails_halfway_is_undone(programs: Callable[..., Path]) -> None:
    log = programs(tc="dev two")
    with pytest.raises(SystemUnderTestError, match="the link can't be changed: `tc"):
        network.disturb(PLANNED, "two", Disturbance("loss", loss=0.5))
    assert "tc -n kv1-two qdisc delete root dev eth0" in log.read_text()


def test_a_delay_is_in_every_answer(pair: Testbed, ask: Ask) -> None:
    slow = Disturbance("delay", delay_ns=30_000_000)
    assert pair.network is not None
    try:
        network.check_disturbance(pair.network, slow)
    except UsageError as refused:
        pytest.skip(str(refused))
    assert disturb_link(pair, "primary-1", slow)
    with pytest.raises(SystemUnderTestError, match="no connection within 50 ms"):
        # A question and its answer take twice the delay.
        connect(pair, pair.node("primary-1"), 0.05).ask("PING")
    heal_link(pair, "primary-1", slow)
    assert ask(pair, "primary-1", "PING") == "PONG"


def test_settings_of_a_testbed_with_a_network_let_this_machine_in(pair: Testbed) -> None:
    text = (pair.folder / "primary-1" / "redis.conf").read_text()
    assert "protected-mode no" in text
    assert "bind 0.0.0.0\n" in text


def test_a_command_becomes_itself_in_a_namespace() -> None:
    words = network.inside(PLANNED, "one", ("redis-server", "redis.conf"))
    assert " ".join(words) == "nsenter --net=/run/netns/kv1-one redis-server redis.conf"
