"""The nodes that all peers measure: our own, started and stopped here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.common.console import say

from kvmark.testbed import cassandra
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed


@contextmanager
def serving(nodes: int, heap_mib: int, cores: tuple[int, ...]) -> Iterator[Testbed]:
    """Starts the nodes on these cores, none for any, and stops them at the end.

    Raises:
        UsageError: they can't be started here.
        SystemUnderTestError: they don't start.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        root = Path(folder)
        wanted = cassandra.Wanted(nodes=nodes, heap_bytes=heap_mib << 20, cores=cores)
        try:
            yield cassandra.up(wanted, root, say)
        finally:
            take_down(root)
