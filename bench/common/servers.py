"""The servers that are measured: testbeds that are started and removed here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.common.comparison import say

from kvmark.testbed import cassandra, memcached, redis
from kvmark.testbed.cassandra import CassandraOptions
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed


@contextmanager
def serving(start: Callable[[Path], Testbed]) -> Iterator[Testbed]:
    """Starts a testbed, and removes it at the end.

    Raises:
        UsageError: it can't be started here.
        SystemUnderTestError: it doesn't start.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        try:
            yield start(Path(folder))
        finally:
            take_down(Path(folder))


def serving_redis(cores: tuple[int, ...], clients: int) -> AbstractContextManager[Testbed]:
    """Redis without persistence."""
    options = redis.RedisOptions(cores=cores, maxclients=clients)
    return serving(lambda root: redis.up(options, root))


def serving_memcached(cores: tuple[int, ...]) -> AbstractContextManager[Testbed]:
    """A memcached with one thread and 256 MiB."""
    options = memcached.MemcachedOptions(cores=cores, threads=1, memory_bytes=256 << 20)
    return serving(lambda root: memcached.up(options, root))


def serving_cassandra(
    nodes: int, heap_mib: int, cores: tuple[int, ...]
) -> AbstractContextManager[Testbed]:
    """Nodes of Cassandra, each with this heap, on these cores or on all."""
    options = CassandraOptions(nodes=nodes, heap_bytes=heap_mib << 20, cores=cores)
    return serving(lambda root: cassandra.up(options, root, say))
