"""What the servers of a testbed use of their machine, as rows of `resources`, one a server.

A row has the columns of the generator's own, and `gc_count` and `gc_time_s`, the collections of
garbage and the time they took, which only servers on a Java virtual machine know. Counters began
with the server's process: a smaller value than before means that it was started again. A value that
can't be known is None.
"""

from __future__ import annotations

import time
from typing import Any, Self

import psutil

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Meter
from kvmark.testbed.systems import system_of

__all__ = ["Observer"]


class Observer:
    """Looks at a testbed's servers. Call `sample` once a second, from one thread."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._system = system_of(testbed)
        self._seen: dict[str, _Seen] = {}

    def __enter__(self) -> Self:
        """Begins without looking."""
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the servers."""
        self.close()

    def close(self) -> None:
        """Lets go of the servers."""
        for seen in self._seen.values():
            seen.meter.close()
        self._seen.clear()

    def sample(self) -> list[dict[str, Any]]:
        """A row for each server that is there; one that was started again is found again.

        It takes a fraction of a second at most, even if a server doesn't answer.
        """
        if not self._testbed.lives:
            self._read_again()
        rows = (self._row(node) for node in self._testbed.nodes if node.lives)
        return [row for row in rows if row is not None]

    def _read_again(self) -> None:
        try:
            self._testbed = Testbed.read(self._testbed.folder)
        except SystemUnderTestError:
            # The folder was removed with its servers: there is nothing to see.
            return

    def _row(self, node: Node) -> dict[str, Any] | None:
        try:
            seen = self._look_at(node)
            with seen.process.oneshot():
                times, memory = seen.process.cpu_times(), seen.process.memory_info()
        except psutil.NoSuchProcess:
            return None
        disk = _disk(seen.process)
        counted = seen.meter.look()
        return {
            "at_wall_ns": time.time_ns(),
            "node": node.name,
            "cpu_user_s": times.user,
            "cpu_system_s": times.system,
            "resident_bytes": memory.rss,
            "disk_read_bytes": disk[0] if disk else None,
            "disk_written_bytes": disk[1] if disk else None,
            "network_sent_bytes": counted.network_sent_bytes,
            "network_received_bytes": counted.network_received_bytes,
            # The machine is the generator's, whose rows have it.
            "machine_cpu_percent": None,
            "gc_count": counted.gc_count,
            "gc_time_s": counted.gc_time_s,
        }

    def _look_at(self, node: Node) -> _Seen:
        pid = node.process.pid if node.process else 0
        seen = self._seen.get(node.name)
        if seen is None or seen.process.pid != pid:
            if seen is not None:
                seen.meter.close()
            seen = _Seen(psutil.Process(pid), self._system.meter(self._testbed, node))
            self._seen[node.name] = seen
        return seen


class _Seen:
    """A server's process and the way to ask it."""

    def __init__(self, process: psutil.Process, meter: Meter) -> None:
        self.process = process
        self.meter = meter


def _disk(process: psutil.Process) -> tuple[int, int] | None:
    """Bytes read from and written to disks; the kernel may keep them to itself."""
    try:
        counters = process.io_counters()
    except (psutil.AccessDenied, NotImplementedError):
        return None
    return counters.read_bytes, counters.write_bytes
