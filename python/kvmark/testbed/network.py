"""Where servers listen: free ports of loopback addresses, or a network of the testbed's own.

On loopback addresses nothing between two servers can be slow, lost or cut. In a network, each
server is in a namespace, with an address and a link to a switch. A fault disturbs the link of one
server, for everyone or for some other servers. The kernel's `netem` delays and loses packets. Every
kernel can cut a link: it is taken off the switch, or, for some other servers, each gets an unused
hardware address for the other.

The addresses are of the range for benchmarks (198.18.0.0/15, RFC 2544) and exist on this machine
only: the namespaces have no other way out. The switch has its own namespace, so that the machine's
firewall doesn't see the packets that it forwards.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.spec.faults import FaultSpec
from kvmark.testbed.process import run_captured

HOST: Final = "127.0.0.1"
"""Testbeds listen on this machine only."""

_LOWEST_PORT: Final = 10_000
_HIGHEST_PORT: Final = 65_535
_PORT_ATTEMPTS: Final = 1000
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

_MOST_SERVERS: Final = 250
_SERVICE: Final = 253
_GENERATOR: Final = 254
_SUBNETS: Final = 512
_ATTEMPTS: Final = 20
_BRIDGE: Final = "switch"
_LINK: Final = "eth0"
"""The name of a server's end of its link, in the server's namespace."""
_UNUSED: Final = "02:00:00:00:00:01"
"""A hardware address that no link has: packets to it are lost without an error."""
# Far more packets than are on their way at any time: else a delay would lose some.
_QUEUED_PACKETS: Final = 100_000


def choose_ports(
    wanted: int | None,
    count: int = 1,
    companion: int = 0,
    *,
    hosts: Sequence[str] = (HOST,),
    usual: int | None = None,
    but: Iterable[int] = (),
) -> list[int]:
    """Ports for `count` servers: from `wanted` upwards, or free ones.

    Free ones lie below the range from which the kernel takes ports of outgoing connections. While a
    server is down, a client that reconnects to a port of that range may get that port itself, and
    then nothing can listen there.

    Args:
        wanted: the first port, or None.
        count: the number of ports.
        companion: distance of a second port that each server needs; 0 for none.
        hosts: the addresses of this machine on which each port has to be free.
        usual: the preferred port, or None.
        but: ports that the same servers need for another purpose.

    Raises:
        UsageError: the wanted port is in use, or isn't a port.
        SystemUnderTestError: no free port was found.
    """
    if wanted is not None:
        ports = consecutive_ports(wanted, count, companion)
        for port, host in product(ports, hosts):
            for each in (port, port + companion):
                if not is_free(each, host):
                    raise UsageError(
                        f"port {each} of {host} is in use: give another --port, or none for a free"
                        " one"
                    )
        return ports
    ports, taken = [], set(but)
    for port in chain(filter(None, [usual]), _random_ports(count, companion)):
        own = {port, port + companion}
        if taken.isdisjoint(own) and all(is_free(*place) for place in product(own, hosts)):
            ports.append(port)
            taken |= own
            if len(ports) == count:
                return sorted(ports)
    raise SystemUnderTestError(
        f"no {count} free ports were found on {', '.join(hosts)}: stop other servers"
    )


def consecutive_ports(first: int, count: int, companion: int = 0) -> list[int]:
    """Ports for `count` servers, free or not.

    Raises:
        UsageError: one isn't a port.
    """
    ports = list(range(first, first + count))
    for port in (first, *(each + companion for each in ports)):
        if not 0 < port <= _HIGHEST_PORT:
            raise UsageError(f"port {port} is not one: choose one up to {_HIGHEST_PORT}")
    return ports


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as attempt:
        # As servers do: a connection that ended a moment ago doesn't block the port.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
            attempt.listen(1)
        except OSError:
            return False
    return True


def _random_ports(count: int, companion: int) -> Iterator[int]:
    """Ports below those of outgoing connections, if there are that many."""
    end = _HIGHEST_PORT
    with suppress(OSError, ValueError, IndexError):
        end = int(_OUTGOING.read_text().split()[0])
    most = (end if end - companion > _LOWEST_PORT + count else _HIGHEST_PORT) - companion
    return (secrets.choice(range(_LOWEST_PORT, most)) for _ in range(_PORT_ATTEMPTS))


class Network(BaseModel):
    """Namespaces and addresses of servers, in the servers' order."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Unique on the machine; also the name of the generator's link."""
    prefix: str
    """The first three numbers of all addresses, such as `198.18.7`."""
    servers: tuple[str, ...]

    @property
    def subnet(self) -> str:
        """All addresses, such as `198.18.7.0/24`."""
        return f"{self.prefix}.0/24"

    @property
    def switch(self) -> str:
        """The namespace of the switch."""
        return f"{self.name}-{_BRIDGE}"

    @property
    def service(self) -> str:
        """An address that moves between servers; none has it before `move_service`."""
        return f"{self.prefix}.{_SERVICE}"

    def host(self, server: str) -> str:
        """The address of a server."""
        return f"{self.prefix}.{self.servers.index(server) + 1}"

    def namespace(self, server: str) -> str:
        """The namespace of a server."""
        return f"{self.name}-{server}"


def choose_network(servers: Sequence[str]) -> Network:
    """A network with unused addresses. Nothing is made.

    Raises:
        UsageError: this user, or this machine, can't have one.
    """
    for program in ("ip", "tc", "nsenter"):
        if shutil.which(program) is None:
            raise _refused(f"the program {program} is missing: apt-get install iproute2 util-linux")
    if os.geteuid() != 0:
        raise _refused("only root may make namespaces")
    if len(servers) > _MOST_SERVERS:
        raise _refused(f"it has room for {_MOST_SERVERS} servers and not for {len(servers)}")
    for _ in range(_ATTEMPTS):
        number = secrets.randbelow(_SUBNETS)
        network = Network(
            name=f"kv{secrets.token_hex(4)}",
            prefix=f"198.{18 + number // 256}.{number % 256}",
            servers=tuple(servers),
        )
        if not _is_routed(network.subnet):
            return network
    raise _refused("the addresses 198.18.0.0/15 are in use here")


def build_network(network: Network) -> None:
    """Makes all namespaces and links. After a failure, `remove_network` removes the parts.

    Raises:
        UsageError: the kernel or a permission prevents it.
    """
    problem = _first_problem(_building(network))
    if problem is not None:
        raise _refused(problem)


def rebuild_network(network: Network) -> None:
    """Makes a network again that was removed, or that a reboot left incomplete.

    Raises:
        UsageError: its addresses are in use, or the kernel doesn't allow it.
    """
    remove_network(network)
    if shutil.which("ip") is None:
        raise _refused("the program ip is missing: apt-get install iproute2")
    if _is_routed(network.subnet):
        raise _refused(f"the addresses {network.subnet}, which it had, are in use by another")
    build_network(network)


def remove_network(network: Network) -> None:
    """Removes all parts of a network whose servers have ended."""
    _run(f"ip link delete {network.name}")
    for namespace in (*map(network.namespace, network.servers), network.switch):
        _run(f"ip netns delete {namespace}")


def inside(network: Network | None, server: str, command: Sequence[str]) -> tuple[str, ...]:
    """The command, run in the server's namespace if there is a network, in the same process."""
    if network is None:
        return tuple(command)
    return ("nsenter", f"--net=/run/netns/{network.namespace(server)}", *command)


def check_disturbance(network: Network, fault: FaultSpec) -> None:
    """Tries a fault of a link where it has no effect: on the switch's loopback link.

    Raises:
        UsageError: the kernel can't do it.
    """
    if fault.do == "partition":
        return
    try:
        problem = _first_problem(_rules(network, network.switch, "lo", fault, "src"))
    finally:
        _run(_no_rules(network.switch, "lo"))
    if problem is not None:
        raise UsageError(
            f"this machine's kernel knows no {fault.do} of packets ({problem}):"
            " load its modules sch_netem, sch_prio and cls_u32, or use another machine"
        )


def disturb(network: Network, fault: FaultSpec) -> None:
    """Begins a fault of a server's link.

    Raises:
        SystemUnderTestError: it failed; the link is as before.
    """
    changes = list(_changes(network, fault))
    problem = _first_problem(chain.from_iterable(disturbing for disturbing, _ in changes))
    if problem is not None:
        for _, healing in changes:
            _run(healing)
        raise _unchangeable(problem)


def heal(network: Network, fault: FaultSpec) -> None:
    """Ends a fault of a server's link.

    Raises:
        SystemUnderTestError: the link doesn't exist any more.
    """
    # All commands run, even if one fails.
    problems = [_run(healing) for _, healing in _changes(network, fault)]
    for problem in filter(None, problems):
        raise _unchangeable(problem)


def move_service(network: Network, server: str) -> None:
    """Moves the service address to a server.

    Raises:
        SystemUnderTestError: it failed.
    """
    namespaces = [network.namespace(each) for each in network.servers]
    address = f"{network.service}/32 dev {_LINK}"
    for namespace in namespaces:
        # At most one has it.
        _run(f"ip -n {namespace} address delete {address}")
    problem = _run(f"ip -n {network.namespace(server)} address add {address}")
    if problem is not None:
        raise _unchangeable(problem)
    # Otherwise, neighbours would use the former link for a while.
    forget = f"neighbour flush to {network.service} dev"
    _run(f"ip {forget} {network.name}")
    for namespace in namespaces:
        _run(f"ip -n {namespace} {forget} {_LINK}")


def _building(network: Network) -> Iterator[str]:
    """The commands that make a network: the switch, each server's link, and the generator's."""
    there = f"ip -n {network.switch}"
    yield f"ip netns add {network.switch}"
    yield f"{there} link add {_BRIDGE} type bridge"
    yield f"{there} link set {_BRIDGE} up"
    for server in network.servers:
        own = network.namespace(server)
        yield f"ip netns add {own}"
        yield f"{there} link add {server} type veth peer name {_LINK} netns {own}"
        yield f"{there} link set {server} master {_BRIDGE} up"
        yield f"ip -n {own} address add {network.host(server)}/24 dev {_LINK}"
        yield f"ip -n {own} link set {_LINK} up"
        yield f"ip -n {own} link set lo up"
    yield f"ip link add {network.name} type veth peer name generator netns {network.switch}"
    yield f"{there} link set generator master {_BRIDGE} up"
    yield f"ip address add {network.prefix}.{_GENERATOR}/24 dev {network.name}"
    yield f"ip link set {network.name} up"


def _changes(network: Network, fault: FaultSpec) -> Iterator[tuple[Iterable[str], str]]:
    """The commands that disturb a part of a link, and the one that restores it."""
    own, switch = network.namespace(fault.node), network.switch
    if fault.do != "partition":
        for namespace, device, side in ((own, _LINK, "dst"), (switch, fault.node, "src")):
            rules = _rules(network, namespace, device, fault, side)
            yield rules, _no_rules(namespace, device)
        return
    if not fault.others:
        link = f"ip -n {switch} link set {fault.node}"
        yield [f"{link} nomaster"], f"{link} master {_BRIDGE}"
    for other in fault.others:
        for here, there in ((fault.node, other), (other, fault.node)):
            neighbour, host = f"ip -n {network.namespace(here)} neighbour", network.host(there)
            unreachable = f"{host} lladdr {_UNUSED} nud permanent dev {_LINK}"
            yield [f"{neighbour} replace {unreachable}"], f"{neighbour} delete {host} dev {_LINK}"


def _rules(
    network: Network, namespace: str, device: str, fault: FaultSpec, side: str
) -> Iterator[str]:
    """The commands that disturb outgoing packets of a device.

    If other servers are named, only packets with their addresses on that `side` are disturbed.
    """
    if fault.do == "delay":
        amount = f"delay {max(fault.delay_ns // 1000, 1)}us"
    else:
        amount = f"loss {fault.loss:.4%}"
    netem = f"netem limit {_QUEUED_PACKETS} {amount}"
    add = f"tc -n {namespace} qdisc add dev {device}"
    if not fault.others:
        yield f"{add} root {netem}"
        return
    yield f"{add} root handle 1: prio bands 2 priomap" + " 0" * 16
    yield f"{add} parent 1:2 {netem}"
    match_ = f"filter add dev {device} parent 1: protocol ip u32 match ip {side}"
    for other in fault.others:
        yield f"tc -n {namespace} {match_} {network.host(other)}/32 flowid 1:2"


def _no_rules(namespace: str, device: str) -> str:
    return f"tc -n {namespace} qdisc delete root dev {device}"


def _is_routed(subnet: str) -> bool:
    """Whether this machine has a route to some of the addresses, other than the default route."""
    for direction in ("match", "root"):
        shown = run_captured(["ip", "-4", "route", "show", direction, subnet])
        if any(not line.startswith("default") for line in shown.stdout.splitlines()):
            return True
    return False


def _run(command: str) -> str | None:
    """The error of a command; None when it succeeds."""
    done = run_captured(command.split())
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return f"`{command}`: {lines[0].removeprefix('RTNETLINK answers: ')}"


def _first_problem(commands: Iterable[str]) -> str | None:
    """Runs commands until one fails; its error."""
    return next(filter(None, map(_run, commands)), None)


def _unchangeable(problem: str) -> SystemUnderTestError:
    return SystemUnderTestError(f"the link can't be changed: {problem}")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"network: servers can't have a network of their own here ({why}): be root on a Linux with"
        " network namespaces, or leave --network out"
    )
