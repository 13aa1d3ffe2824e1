"""A network of a testbed's own: each server in a namespace, with an address and a link to a switch.

On the loopback address nothing between two servers can be slow, lost or cut. Here it can, on the
link of one server, towards everybody or towards some others. The kernel's `netem` delays and loses
packets. Every kernel can cut a link: it is taken off the switch, or, towards some others, they are
given a hardware address for each other that nobody has.

The addresses are of the range that is set aside for benchmarks (198.18.0.0/15, RFC 2544) and are
this machine's alone: the namespaces have no other way out. The switch is in a namespace too, so
that no firewall of the machine has a say in what it forwards.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from kvmark.errors import SystemUnderTestError, UsageError

_MOST_SERVERS: Final = 250
_SERVICE: Final = 253
_GENERATOR: Final = 254
_SUBNETS: Final = 512
_ATTEMPTS: Final = 20
_BRIDGE: Final = "switch"
_LINK: Final = "eth0"
"""What a server's end of its link is called in the server's namespace."""
_NOBODY: Final = "02:00:00:00:00:01"
"""A hardware address that no link has: what is sent there is gone, and nobody is told."""
_NO_RULES: Final = ("qdisc", "delete", "root", "dev")
# Far more packets than are on their way at any time: else a delay would lose some.
_WAITING_PACKETS: Final = "100000"


class Network(BaseModel):
    """Servers' namespaces and addresses, in the servers' order."""

    model_config = ConfigDict(frozen=True)

    name: str
    """No other network of the machine has it; the generator's own end has this name too."""
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
        """An address that goes from server to server; none has it before `move_service`."""
        return f"{self.prefix}.{_SERVICE}"

    def host(self, server: str) -> str:
        """A server's own address."""
        return f"{self.prefix}.{self.servers.index(server) + 1}"

    def namespace(self, server: str) -> str:
        """A server's namespace."""
        return f"{self.name}-{server}"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What is done to a server's link, in both directions."""

    kind: Literal["delay", "loss", "partition"]
    delay_ns: int = 0
    """What each packet waits, each way."""
    loss: float = 0.0
    """The share of packets that are lost."""
    towards: tuple[str, ...] = ()
    """The other servers that it concerns; everybody, clients too, when none is named."""


def choose_network(servers: Sequence[str]) -> Network:
    """A network that this machine hasn't yet. Nothing is made.

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
        if not _is_known(network.subnet):
            return network
    raise _refused("the addresses 198.18.0.0/15 are in use here")


def build_network(network: Network) -> None:
    """Makes all namespaces and links. What was made before a failure is left to `remove_network`.

    Raises:
        UsageError: the kernel, or who holds its keys, doesn't allow it.
    """
    for command in _building(network):
        problem = _run(command)
        if problem is not None:
            raise _refused(problem)


def rebuild_network(network: Network) -> None:
    """Makes a network again that was removed, or of which a reboot left only a part.

    Raises:
        UsageError: its addresses are another's now, or the kernel doesn't allow it.
    """
    remove_network(network)
    if shutil.which("ip") is None:
        raise _refused("the program ip is missing: apt-get install iproute2")
    if _is_known(network.subnet):
        raise _refused(f"the addresses {network.subnet}, which it had, are in use by another")
    build_network(network)


def remove_network(network: Network) -> None:
    """Removes what there is of a network whose servers have ended."""
    _run(["ip", "link", "delete", network.name])
    for namespace in (*map(network.namespace, network.servers), network.switch):
        _run(["ip", "netns", "delete", namespace])


def inside(network: Network, server: str, command: Sequence[str]) -> tuple[str, ...]:
    """A command that enters a server's namespace and then is the other, in the same process."""
    return ("nsenter", f"--net=/run/netns/{network.namespace(server)}", *command)


def check_disturbance(network: Network, disturbance: Disturbance) -> None:
    """Tries a disturbance where nobody is disturbed: on the switch's loopback link.

    Raises:
        UsageError: the kernel can't do it.
    """
    if disturbance.kind == "partition":
        return
    try:
        for rule in _rules("lo", disturbance, _others(network, disturbance), "src"):
            problem = _run(["tc", "-n", network.switch, *rule])
            if problem is not None:
                raise UsageError(
                    f"this machine's kernel knows no {disturbance.kind} of packets ({problem}):"
                    " load its modules sch_netem, sch_prio and cls_u32, or use another machine"
                )
    finally:
        _run(["tc", "-n", network.switch, *_NO_RULES, "lo"])


def disturb(network: Network, server: str, disturbance: Disturbance) -> None:
    """Does it to a server's link, until `heal`.

    Raises:
        SystemUnderTestError: it failed; then nothing is left of it.
    """
    try:
        for command in _doing(network, server, disturbance):
            _must(command)
    except SystemUnderTestError:
        for command in _undoing(network, server, disturbance):
            _run(command)
        raise


def heal(network: Network, server: str, disturbance: Disturbance) -> None:
    """Makes a server's link as it was before.

    Raises:
        SystemUnderTestError: the link isn't there any more.
    """
    # Each is tried: one that fails is no reason to leave the others undone.
    problems = [_run(command) for command in _undoing(network, server, disturbance)]
    for problem in filter(None, problems):
        raise _unchangeable(problem)


def move_service(network: Network, server: str) -> None:
    """Gives the service address to a server, and takes it from whoever has it.

    Raises:
        SystemUnderTestError: it failed.
    """
    namespaces = [network.namespace(each) for each in network.servers]
    address = [f"{network.service}/32", "dev", _LINK]
    for namespace in namespaces:
        # One has it at most.
        _run(["ip", "-n", namespace, "address", "delete", *address])
    _must(["ip", "-n", network.namespace(server), "address", "add", *address])
    # Who remembers where it was would ask there in vain for a while.
    forget = ["neighbour", "flush", "to", network.service, "dev"]
    _run(["ip", *forget, network.name])
    for namespace in namespaces:
        _run(["ip", "-n", namespace, *forget, _LINK])


def _building(network: Network) -> Iterator[list[str]]:
    """The commands that make a network: the switch, each server's link, and the generator's."""
    there = ["ip", "-n", network.switch]
    yield ["ip", "netns", "add", network.switch]
    yield [*there, "link", "add", _BRIDGE, "type", "bridge"]
    yield [*there, "link", "set", _BRIDGE, "up"]
    for server in network.servers:
        own = network.namespace(server)
        here = ["ip", "-n", own]
        yield ["ip", "netns", "add", own]
        pair = ["link", "add", server, "type", "veth", "peer", "name", _LINK]
        yield [*there, *pair, "netns", own]
        yield [*there, "link", "set", server, "master", _BRIDGE, "up"]
        yield [*here, "address", "add", f"{network.host(server)}/24", "dev", _LINK]
        yield [*here, "link", "set", _LINK, "up"]
        yield [*here, "link", "set", "lo", "up"]
    end = "generator"
    pair = ["link", "add", network.name, "type", "veth", "peer", "name", end]
    yield ["ip", *pair, "netns", network.switch]
    yield [*there, "link", "set", end, "master", _BRIDGE, "up"]
    yield ["ip", "address", "add", f"{network.prefix}.{_GENERATOR}/24", "dev", network.name]
    yield ["ip", "link", "set", network.name, "up"]


def _doing(network: Network, server: str, disturbance: Disturbance) -> Iterator[list[str]]:
    """The commands that disturb a link."""
    if disturbance.kind == "partition":
        if not disturbance.towards:
            yield ["ip", "-n", network.switch, "link", "set", server, "nomaster"]
        for here, there in _pairs(network, server, disturbance):
            nobody = [there, "lladdr", _NOBODY, "nud", "permanent", "dev", _LINK]
            yield ["ip", "-n", here, "neighbour", "replace", *nobody]
        return
    others = _others(network, disturbance)
    for (namespace, device), side in zip(_ends(network, server), ("dst", "src"), strict=True):
        for rule in _rules(device, disturbance, others, side):
            yield ["tc", "-n", namespace, *rule]


def _undoing(network: Network, server: str, disturbance: Disturbance) -> Iterator[list[str]]:
    """The commands that make it as it was."""
    if disturbance.kind == "partition":
        if not disturbance.towards:
            yield ["ip", "-n", network.switch, "link", "set", server, "master", _BRIDGE]
        for here, there in _pairs(network, server, disturbance):
            yield ["ip", "-n", here, "neighbour", "delete", there, "dev", _LINK]
        return
    for namespace, device in _ends(network, server):
        yield ["tc", "-n", namespace, *_NO_RULES, device]


def _pairs(network: Network, server: str, disturbance: Disturbance) -> Iterator[tuple[str, str]]:
    """A namespace and the address that it is kept from, in both directions."""
    for other in disturbance.towards:
        yield network.namespace(server), network.host(other)
        yield network.namespace(other), network.host(server)


def _ends(network: Network, server: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Namespace and device of both ends of a server's link: its own, and that on the switch."""
    return (network.namespace(server), _LINK), (network.switch, server)


def _others(network: Network, disturbance: Disturbance) -> list[str]:
    return [network.host(server) for server in disturbance.towards]


def _rules(
    device: str, disturbance: Disturbance, others: Sequence[str], side: str
) -> Iterator[list[str]]:
    """The words of `tc` that disturb what leaves by a device; `side` says where addresses stand.

    With others named, their packets alone take the way of a class that is disturbed.
    """
    if disturbance.kind == "delay":
        words = ["delay", f"{max(disturbance.delay_ns // 1000, 1)}us"]
    else:
        words = ["loss", f"{disturbance.loss:.4%}"]
    netem = ["netem", "limit", _WAITING_PACKETS, *words]
    if not others:
        yield ["qdisc", "add", "dev", device, "root", *netem]
        return
    undisturbed = ["priomap", *["0"] * 16]
    yield [
        "qdisc",
        "add",
        "dev",
        device,
        "root",
        "handle",
        "1:",
        "prio",
        "bands",
        "2",
        *undisturbed,
    ]
    yield ["qdisc", "add", "dev", device, "parent", "1:2", *netem]
    for address in others:
        match_ = ["match", "ip", side, f"{address}/32", "flowid", "1:2"]
        yield ["filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "u32", *match_]


def _is_known(subnet: str) -> bool:
    """Whether this machine knows a way to some of the addresses, other than that to everywhere."""
    for direction in ("match", "root"):
        said = subprocess.run(  # noqa: S603 - the words are ours
            ["ip", "-4", "route", "show", direction, subnet],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if any(not line.startswith("default") for line in said.stdout.splitlines()):
            return True
    return False


def _run(command: Sequence[str]) -> str | None:
    """What a command complains of; None when it succeeds."""
    done = subprocess.run(  # noqa: S603 - the words are ours
        command, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return f"`{' '.join(command)}`: {said[0].removeprefix('RTNETLINK answers: ')}"


def _must(command: Sequence[str]) -> None:
    problem = _run(command)
    if problem is not None:
        raise _unchangeable(problem)


def _unchangeable(problem: str) -> SystemUnderTestError:
    return SystemUnderTestError(f"the link can't be changed: {problem}")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"network: servers can't have a network of their own here ({why}): be root on a Linux with"
        " network namespaces, or leave --network out"
    )
