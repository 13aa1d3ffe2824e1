"""Free ports of the loopback address for servers."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvmark.errors import SystemUnderTestError, UsageError

HOST: Final = "127.0.0.1"
"""Testbeds listen on this machine only."""

_LOWEST: Final = 10_000
_HIGHEST: Final = 65_535
_ATTEMPTS: Final = 1000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def choose_ports(wanted: int | None, count: int, companion: int = 0) -> list[int]:
    """Ports for `count` servers: from `wanted` upwards, or free ones.

    Free ones lie below the range from which the kernel takes ports of outgoing connections: a
    client that reconnects to a port of that range while its server is down may get that very port,
    and then nothing can listen there.

    Args:
        wanted: the first port, or None.
        count: how many servers.
        companion: distance of a second port that each server needs; 0 for none.

    Raises:
        UsageError: a port is in use, or isn't one.
        SystemUnderTestError: no free port was found.
    """
    if wanted is None:
        return _free_ports(count, companion)
    ports = list(range(wanted, wanted + count))
    for port in ports:
        for each in {port, port + companion}:
            if not 0 < each <= _HIGHEST:
                raise UsageError(f"port {each} is not one: choose one up to {_HIGHEST}")
            if not is_free(each):
                raise UsageError(_in_use(each, HOST))
    return ports


def ports_elsewhere(first: int, count: int, companion: int = 0) -> list[int]:
    """Ports for `count` servers on addresses where nobody else listens: from `first` upwards.

    Raises:
        UsageError: one isn't a port.
    """
    ports = list(range(first, first + count))
    for port in (ports[0], ports[-1] + companion):
        if not 0 < port <= _HIGHEST:
            raise UsageError(f"port {port} is not one: choose one up to {_HIGHEST}")
    return ports


def common_port(
    hosts: Sequence[str], usual: int | None, wanted: int | None = None, *, but: Sequence[int] = ()
) -> int:
    """One port for servers on several addresses of this machine.

    Args:
        hosts: the addresses.
        usual: the port to take if it is free on all of them, or None.
        wanted: the only port that will do, or None.
        but: ports that the same servers need for something else.

    Raises:
        UsageError: the wanted port is in use, or isn't one.
        SystemUnderTestError: no free port was found.
    """
    if wanted is None:
        outgoing = _first_outgoing()
        highest = outgoing if outgoing > _LOWEST else _HIGHEST
        tried = (secrets.randbelow(highest - _LOWEST) + _LOWEST for _ in range(_ATTEMPTS))
        for port in tried if usual is None else (usual, *tried):
            if port not in but and all(is_free(port, host) for host in hosts):
                return port
        raise SystemUnderTestError(
            f"no port that is free on {', '.join(hosts)} was found: stop other servers"
        )
    if not 0 < wanted <= _HIGHEST:
        raise UsageError(f"port {wanted} is not one: choose one up to {_HIGHEST}")
    for host in hosts:
        if not is_free(wanted, host):
            raise UsageError(_in_use(wanted, host))
    return wanted


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as attempt:
        # As servers do: a connection that ended a moment ago doesn't keep the port.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
            attempt.listen(1)
        except OSError:
            return False
    return True


def _in_use(port: int, host: str) -> str:
    return f"port {port} of {host} is in use: give another --port, or none for a free one"


def _free_ports(count: int, companion: int) -> list[int]:
    highest = _first_outgoing() - companion
    choices = range(_LOWEST, highest if highest > _LOWEST + count else _HIGHEST - companion)
    found: list[int] = []
    for _ in range(_ATTEMPTS):
        port = secrets.choice(choices)
        taken = {each + distance for each in found for distance in (0, companion)}
        if {port, port + companion} & taken:
            continue
        if is_free(port) and is_free(port + companion):
            found.append(port)
        if len(found) == count:
            return sorted(found)
    raise SystemUnderTestError(f"no {count} free ports were found on {HOST}: stop other servers")


def _first_outgoing() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST
