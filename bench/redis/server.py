"""The server that all peers measure: one of our own, on a core of its own, on a free port."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvmark.testbed import redis
from kvmark.testbed.console import connect
from kvmark.testbed.control import pause_node, resume_node, take_down
from kvmark.testbed.redis.nodes import facts_in
from kvmark.testbed.state import Testbed

SET_UP = ("cmdstat_client", "cmdstat_hello", "cmdstat_config")
FAILED = re.compile(r"(?:rejected|failed)_calls=(\d+)")


@dataclass(frozen=True)
class Counters:
    """What the server has counted since it started."""

    commands: int
    misses: int
    errors: int


@dataclass(frozen=True)
class Server:
    """A Redis server without persistence."""

    testbed: Testbed

    @property
    def host(self) -> str:
        """Its address."""
        return self.testbed.nodes[0].host

    @property
    def port(self) -> int:
        """Its port."""
        return self.testbed.nodes[0].port

    @property
    def version(self) -> str:
        """As it says itself."""
        return self.testbed.version

    def counters(self) -> Counters:
        """Its counters; asking is counted too."""
        console = connect(self.testbed, self.testbed.nodes[0])
        facts = facts_in(console.ask("INFO", "stats"))
        commands = facts_in(console.ask("INFO", "commandstats"))
        # A peer may set connections up with commands that this server doesn't know.
        used = (text for name, text in commands.items() if not name.startswith(SET_UP))
        return Counters(
            commands=int(facts["total_commands_processed"]),
            misses=int(facts["keyspace_misses"]),
            errors=sum(int(count) for text in used for count in FAILED.findall(text)),
        )

    def stall(self, seconds: float) -> float:
        """Stops the process and lets it go on; how long it stood, in seconds."""
        name = self.testbed.nodes[0].name
        pause_node(self.testbed, name)
        begun = time.monotonic()
        try:
            time.sleep(seconds)
        finally:
            stood = time.monotonic() - begun
            resume_node(self.testbed, name)
        return stood


def complaint(before: Counters, after: Counters) -> str | None:
    """What was wrong with the work between two looks as the server counted it; none if nothing."""
    if after.misses > before.misses:
        return f"{after.misses - before.misses} keys it read weren't there"
    if after.errors > before.errors:
        return f"{after.errors - before.errors} commands were answered with an error"
    return None


@contextmanager
def serving(core: int, clients: int) -> Iterator[Server]:
    """Starts the server on a core, and stops it at the end.

    Raises:
        UsageError: there is no redis-server, or not that core.
        SystemUnderTestError: it doesn't start.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        root = Path(folder)
        try:
            yield Server(redis.up(redis.Wanted(cores=(core,), maxclients=clients), root))
        finally:
            take_down(root)
