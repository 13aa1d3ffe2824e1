"""Making a Redis Cluster of servers that don't know each other yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvmark.testbed.console import Console, connect
from kvmark.testbed.process import wait_until
from kvmark.testbed.redis.health import SLOTS, facts_in
from kvmark.testbed.state import Node, Testbed

__all__ = ["form_cluster", "slots_of"]


def slots_of(index: int, primaries: int) -> range:
    """The slots of one of so many primaries: equal shares, in order."""
    return range(index * SLOTS // primaries, (index + 1) * SLOTS // primaries)


def form_cluster(testbed: Testbed, replicas: int, within_s: float) -> None:
    """Gives the slots to the primaries, lets all servers meet, and each replica follow its primary.

    The primaries come first among the nodes; then the replicas, `replicas` for each primary in
    turn.

    Raises:
        SystemUnderTestError: a server ends, or the time is over.
    """
    primaries = [node for node in testbed.nodes if node.role == "primary"]
    followers = [node for node in testbed.nodes if node.role == "replica"]
    for index, node in enumerate(primaries):
        console = connect(testbed, node)
        console.ask("CLUSTER", "ADDSLOTS", *slots_of(index, len(primaries)))
        console.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
    _introduce(testbed, testbed.nodes, within_s)
    for index, node in enumerate(followers):
        _follow(testbed, node, primaries[index // replicas], within_s)
    # Whom it follows, and how far, a server tells when it greets: else the news takes long.
    _introduce(testbed, followers, within_s)
    for node in testbed.nodes:
        _wait(testbed, node, _tells_of_all, "tell clients of all servers", within_s)


def _introduce(testbed: Testbed, nodes: Sequence[Node], within_s: float) -> None:
    """Lets each of some servers greet all others, and waits until all know each other."""
    for node in nodes:
        console = connect(testbed, node)
        for other in testbed.nodes:
            if other != node:
                console.ask("CLUSTER", "MEET", other.host, other.port)
    for node in testbed.nodes:
        _wait(testbed, node, _knows_all, "know all servers", within_s)


def _follow(testbed: Testbed, node: Node, primary: Node, within_s: float) -> None:
    """Lets a replica follow its primary, and waits until something has come down the stream.

    A replica to which nothing has come yet isn't told of to clients.
    """
    source, follower = connect(testbed, primary), connect(testbed, node)
    follower.ask("CLUSTER", "REPLICATE", source.ask("CLUSTER", "MYID"))

    def something_came() -> bool:
        # Waiting in vain for more replicas than there are sends each a question.
        source.ask("WAIT", len(testbed.nodes), 10)
        known = facts_in(follower.ask("INFO", "replication"))
        return int(known.get("slave_repl_offset", 0)) > 0

    wait_until(something_came, "follow its primary", testbed.watched(node, primary), within_s)


def _wait(
    testbed: Testbed,
    node: Node,
    condition: Callable[[Console, Testbed], bool],
    what: str,
    within_s: float,
) -> None:
    console = connect(testbed, node)
    wait_until(lambda: condition(console, testbed), what, testbed.watched(node), within_s)


def _knows_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server knows all servers, and is greeting none any more."""
    known = console.ask("CLUSTER", "NODES")
    return len(known.splitlines()) == len(testbed.nodes) and "handshake" not in known


def _tells_of_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server's map of the slots has all servers, replicas included."""
    shares = console.ask("CLUSTER", "SLOTS")
    told = {port for _, _, *servers in shares for _, port, *_ in servers}
    return told == {node.port for node in testbed.nodes}
