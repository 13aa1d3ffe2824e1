"""Resource usage of servers, as rows of `resources`, one for each server.

A row has the columns of the generator's row, and `gc_count` and `gc_time_s` for servers on a Java
virtual machine. Counters start with the server's process: a smaller value than before means a
restart. Unknown values are None. `kvmark.testbed.sources` observes other servers.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from typing import Any

import psutil

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.process import Identity, family
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Meter, system_of


def process_row(process: psutil.Process, node: str) -> dict[str, Any]:
    """The columns of a process.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    with process.oneshot():
        times, memory = process.cpu_times(), process.memory_info()
    disk = None
    with suppress(psutil.AccessDenied, NotImplementedError):
        disk = process.io_counters()
    return {
        "at_wall_ns": time.time_ns(),
        "node": node,
        "cpu_user_s": times.user,
        "cpu_system_s": times.system,
        "resident_bytes": memory.rss,
        "disk_read_bytes": disk and disk.read_bytes,
        "disk_written_bytes": disk and disk.write_bytes,
    }


class Observer:
    """Observes a testbed's servers. Call `sample` once a second, from one thread."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._system = system_of(testbed)
        self._observed: dict[Identity, tuple[psutil.Process, Meter]] = {}

    def close(self) -> None:
        """Closes the connections to the servers."""
        for _, meter in self._observed.values():
            meter.close()
        self._observed.clear()

    def sample(self) -> list[dict[str, Any]]:
        """A row for each living server, also after a restart.

        It takes a fraction of a second at most, even if a server doesn't answer.
        """
        if not self._testbed.lives:
            # The folder may have been removed with its servers.
            with suppress(SystemUnderTestError):
                self._testbed = Testbed.read(self._testbed.folder)
        rows = []
        for node in self._testbed.nodes:
            if node.process and node.lives:
                with suppress(psutil.NoSuchProcess):
                    rows.append(self._row(node, node.process))
        return rows

    def _row(self, node: Node, identity: Identity) -> dict[str, Any]:
        if identity not in self._observed:
            process = psutil.Process(identity.pid)
            self._observed[identity] = process, self._system.meter(self._testbed, node)
        process, meter = self._observed[identity]
        # The percentage of the machine is in the generator's row.
        row = _with_children(process_row(process, node.name), process, identity)
        return {**row, "machine_cpu_percent": None, **meter.read()}


def _with_children(
    row: dict[str, Any], process: psutil.Process, identity: Identity
) -> dict[str, Any]:
    """The row of a process with its children's usage; memory that they share counts once."""
    ended = process.cpu_times()
    row["cpu_user_s"] += ended.children_user
    row["cpu_system_s"] += ended.children_system
    for child in islice(family(identity), 1, None):
        with suppress(psutil.NoSuchProcess):
            one = psutil.Process(child.pid)
            usage = process_row(one, row["node"])
            usage["resident_bytes"] -= one.memory_info().shared
            for name, value in usage.items():
                if name not in {"at_wall_ns", "node"} and None not in (value, row[name]):
                    row[name] += value
    return row
