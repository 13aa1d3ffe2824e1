"""When the servers of a memcached testbed are healthy."""

from __future__ import annotations

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.console import Console, connect
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

__all__ = ["told", "wait_for_answer"]


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_until(lambda: _answers(testbed, node), "answer stats", testbed.watched(node), within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and is ours: another program may have taken the port."""
    try:
        pid = told(connect(testbed, node)).get("pid")
    except SystemUnderTestError:
        return False
    return node.process is not None and pid == str(node.process.pid)


def told(console: Console, *of: str) -> dict[str, str]:
    """What a server tells of itself in lines `STAT name value`."""
    lines = (line.split(" ", 2) for line in console.ask("stats", *of).splitlines())
    return {words[1]: words[2] for words in lines if words[0] == "STAT"}
