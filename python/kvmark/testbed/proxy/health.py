"""When a proxy is up: it accepts connections, and it is the very process that was started."""

from __future__ import annotations

import socket

import psutil

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

__all__ = ["check_target", "wait_for_proxy"]

_CONNECTS_WITHIN_S = 5.0


def check_target(host: str, port: int) -> None:
    """Makes sure that something listens where the proxy would pass operations on.

    Raises:
        SystemUnderTestError: nothing does.
    """
    try:
        socket.create_connection((host, port), timeout=_CONNECTS_WITHIN_S).close()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SystemUnderTestError(
            f"to: {host}:{port} can't be reached ({reason}): start the system first, or"
            " correct --to"
        ) from problem


def wait_for_proxy(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a proxy accepts.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    what = "accept connections"
    wait_until(lambda: _accepts(node), what, testbed.watched(node), within_s)


def _accepts(node: Node) -> bool:
    """Whether the proxy listens: another program may have taken the port.

    Asked of the kernel: a connection would be one more for the system behind it.
    """
    if node.process is None:
        return False
    try:
        found = psutil.Process(node.process.pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == node.port for one in found)
