"""Reaching the servers of a memcached testbed, and when they are healthy."""

from __future__ import annotations

from pathlib import Path

from kvmark.testbed.connection import trusting
from kvmark.testbed.memcached.client import Client, ReplyError
from kvmark.testbed.memcached.wanted import USERNAME
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

__all__ = ["connect", "wait_for_answer"]


def connect(testbed: Testbed, node: Node, timeout_s: float = 5.0) -> Client:
    """A connection to a server, with the testbed's password and authority.

    Raises:
        OSError: the server doesn't answer, or the password's file can't be read.
        ReplyError: it refused the password.
    """
    password, authority = testbed.facts.get("password_file"), testbed.facts.get("ca_file")
    return Client(
        node.host,
        node.port,
        login=(USERNAME, Path(password).read_text(encoding="utf-8")) if password else None,
        encryption=trusting(Path(authority) if authority else None, node.host),
        timeout_s=timeout_s,
    )


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_until(lambda: _answers(testbed, node), "answer stats", testbed.watched(node), within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and is ours: another program may have taken the port."""
    try:
        with connect(testbed, node) as client:
            pid = client.told("stats").get("pid")
            return node.process is not None and pid == str(node.process.pid)
    except (OSError, ReplyError, ValueError):
        return False
