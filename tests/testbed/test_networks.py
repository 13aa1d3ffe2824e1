"""Servers in network namespaces, on links that can be disturbed; and the refusals."""

import ipaddress
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.spec.faults import FaultSpec, parse_fault
from kvmark.testbed import control, network
from kvmark.testbed.console import connect
from kvmark.testbed.network import Network
from kvmark.testbed.state import Testbed
from programs import script
from redis_testbeds import PATIENCE_S, Up, answers

Programs = Callable[..., Path]
BENCHMARKS = ipaddress.ip_network("198.18.0.0/15")
PLANNED = Network(name="kv1", prefix="198.18.7", servers=("one", "two", "three"))
SOON_S = 0.3


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Replaces the programs `ip`, `tc` and `nsenter`."""

    def put(**refused: str) -> Path:
        """The file of all arguments; the programs reject these arguments."""
        log, folder = tmp_path / "words", tmp_path / "programs"
        for name in ("ip", "tc", "nsenter"):
            rejected = f'*"{refused.get(name, "none")}"*) echo "No: $2" >&2; exit 2'
            script(folder / name, f'echo "{name} $@" >> {log}\ncase "$*" in {rejected};; esac')
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        return log

    return put


def output(*command: str) -> str:
    """The output of a program."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def fault(text: str) -> FaultSpec:
    """A fault that begins at once."""
    return parse_fault(f"0s {text}")


def copies(testbed: Testbed, within_s: float = PATIENCE_S) -> object:
    """The number of replicas with a write after that time."""
    client = connect(testbed, testbed.node("primary-1"), 2 * PATIENCE_S)
    client.ask("INCR", "writes")
    return client.ask("WAIT", 1, round(within_s * 1000))


def test_servers_have_own_addresses_and_no_way_out_until_they_are_down(pair: Testbed) -> None:
    assert pair.network is not None
    hosts = [node.host for node in pair.nodes]
    assert len(set(hosts)) == 2
    assert all(ipaddress.ip_address(host) in BENCHMARKS for host in hosts)
    assert copies(pair) == 1
    for node in pair.nodes:
        routes = output("ip", "-n", pair.network.namespace(node.name), "route").splitlines()
        assert [line.split()[0] for line in routes] == [pair.network.subnet]
    settings = (pair.folder / "primary-1" / "redis.conf").read_text()
    assert "protected-mode no" in settings
    assert "bind 0.0.0.0\n" in settings
    name = pair.network.name
    assert name in output("ip", "netns", "list")
    control.take_down(pair.folder.parent)
    assert name not in output("ip", "netns", "list")
    assert name not in output("ip", "link", "show")


@pytest.mark.parametrize(
    ("text", "cut_off"), [("partition replica-1 from primary-1", []), ("partition replica-1", [1])]
)
def test_a_partition_cuts_only_these_links(pair: Testbed, text: str, cut_off: list[int]) -> None:
    cut = fault(text)
    assert control.begin_fault(pair, cut)
    assert copies(pair, SOON_S) == 0
    assert answers(pair, "primary-1")
    assert answers(pair, "replica-1", SOON_S if cut_off else PATIENCE_S) == (not cut_off)
    assert control.end_fault(pair, cut) == pair
    assert answers(pair, "replica-1")
    assert copies(pair) == 1


def test_a_killed_server_has_no_link_and_starts_again_on_it(pair: Testbed) -> None:
    control.kill_node(pair, "primary-1")
    assert not control.begin_fault(pair, fault("partition primary-1"))
    again = control.restart_node(pair, "primary-1")
    assert answers(again, "primary-1")


def test_only_a_replica_that_clients_find_can_be_promoted(up: Up, pair: Testbed) -> None:
    with pytest.raises(UsageError, match="primary-1 is no replica, and only those"):
        control.check_fault(pair, fault("promote primary-1"))
    control.check_fault(pair, fault("promote replica-1"))
    plain = up(replicas=1)
    sentence = r"couldn't find another primary: start it with .*--network"
    with pytest.raises(UsageError, match=sentence):
        control.check_fault(plain, fault("promote replica-1"))


def test_an_incomplete_network_is_removed(up: Up, root: Path, programs: Programs) -> None:
    log = programs(ip="type veth")
    with pytest.raises(UsageError, match=r"network: .* \(`ip -n kv\w+-switch link add .*No: "):
        up(network=True)
    assert not list(root.iterdir())
    words = log.read_text().splitlines()
    made = [line.split()[-1] for line in words if "netns add" in line]
    removed = [line.split()[-1] for line in words if "netns delete" in line]
    assert sorted(removed) == sorted(made)
    assert len(made) == 2


def test_networks_need_root_and_tools(up: Up, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"network: .*\(only root may .*leave --network out"):
        up(network=True)
    assert not root.exists()
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(UsageError, match=r"the program ip is missing: apt-get install iproute2"):
        network.choose_network(["one"])


def test_a_kernel_without_netem_is_reported_before_a_fault(programs: Programs) -> None:
    log = programs(tc="qdisc add")
    with pytest.raises(UsageError, match=r"kernel knows no delay of packets .*sch_netem"):
        network.check_disturbance(PLANNED, fault("delay one by 1ms"))
    words = log.read_text().splitlines()
    assert all(line.startswith("tc -n kv1-switch") and line.split()[-1] for line in words)
    assert words[-1] == "tc -n kv1-switch qdisc delete root dev lo"
    # Every kernel can take a link off the switch.
    network.check_disturbance(PLANNED, fault("partition one from two"))


@pytest.mark.parametrize(
    ("text", "netem"), [("delay two by 20ms", "delay 20000us"), ("loss two by 5%", "loss 5.0000%")]
)
def test_both_ends_of_a_link_are_disturbed(programs: Programs, text: str, netem: str) -> None:
    log = programs()
    network.disturb(PLANNED, fault(text))
    network.heal(PLANNED, fault(text))
    assert log.read_text().splitlines() == [
        f"tc -n kv1-two qdisc add dev eth0 root netem limit 100000 {netem}",
        f"tc -n kv1-switch qdisc add dev two root netem limit 100000 {netem}",
        "tc -n kv1-two qdisc delete root dev eth0",
        "tc -n kv1-switch qdisc delete root dev two",
    ]


def test_a_delay_towards_one_server_leaves_the_others_alone(programs: Programs) -> None:
    log = programs()
    network.disturb(PLANNED, fault("delay two by 1ms from three"))
    own = [line for line in log.read_text().splitlines() if "kv1-two" in line]
    assert own == [
        "tc -n kv1-two qdisc add dev eth0 root handle 1: prio bands 2 priomap" + " 0" * 16,
        "tc -n kv1-two qdisc add dev eth0 parent 1:2 netem limit 100000 delay 1000us",
        "tc -n kv1-two filter add dev eth0 parent 1: protocol ip u32 match ip dst 198.18.7.3/32"
        " flowid 1:2",
    ]


def test_a_disturbance_that_fails_halfway_is_undone(programs: Programs) -> None:
    log = programs(tc="dev two")
    with pytest.raises(SystemUnderTestError, match="the link can't be changed: `tc"):
        network.disturb(PLANNED, fault("loss two by 50%"))
    assert "tc -n kv1-two qdisc delete root dev eth0" in log.read_text()
