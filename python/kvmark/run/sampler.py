"""Samples what the generator and the servers use of their machine, once a second in a run.

A sample has the time that a fixed amount of work takes, too: it says how fast a core is just now.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import cycle
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, Self

import psutil

from kvmark.errors import RunError
from kvmark.records import RunFolder
from kvmark.records.files import COORDINATOR, FIXED_WORK, GENERATOR
from kvmark.testbed.observe import NodeExporter, Observer
from kvmark.testbed.process import bound_to
from kvmark.testbed.state import Testbed

_PERIOD_S: Final = 1.0

_OBJECTS: Final = 4096
_READS: Final = 20_000
"""A third of a millisecond's."""


def sample(process: psutil.Process, node: str = GENERATOR) -> dict[str, Any]:
    """One row of ``resources``: counters since the process, or for network the machine, began."""
    network = psutil.net_io_counters()
    return {
        **_of_process(process, node),
        "network_sent_bytes": network.bytes_sent,
        "network_received_bytes": network.bytes_recv,
        "machine_cpu_percent": psutil.cpu_percent(interval=None),
    }


def _of_process(process: psutil.Process, node: str) -> dict[str, Any]:
    """A row without what is the machine's."""
    with process.oneshot():
        times, memory = process.cpu_times(), process.memory_info()
    disk = process.io_counters()
    return {
        "at_wall_ns": time.time_ns(),
        "node": node,
        "cpu_user_s": times.user,
        "cpu_system_s": times.system,
        "resident_bytes": memory.rss,
        "disk_read_bytes": disk.read_bytes,
        "disk_written_bytes": disk.write_bytes,
    }


class Sampler:
    """Appends a sample of this process when it is entered, each second, and when it is left.

    With testbeds there is a row for each of their servers too, and with node exporters one for each
    of their machines.
    """

    def __init__(
        self,
        folder: RunFolder,
        testbeds: Sequence[Testbed] = (),
        exporters: Sequence[NodeExporter] = (),
        processes: Mapping[str, int] = MappingProxyType({}),
        cores: Sequence[int] = (),
    ) -> None:
        """Looks at what is named.

        Args:
            folder: where the samples are written.
            testbeds: whose servers are watched.
            exporters: of other machines.
            processes: those that generate load on this machine, their numbers by what they are
                called.
            cores: what is under test has these; how fast they are is looked at in turn.
        """
        self._folder = folder
        self._servers = tuple(map(Observer, testbeds))
        self._exporters = tuple(exporters)
        self._own = psutil.Process()
        self._cores = cycle(cores or (None,))
        self._generators = {name: psutil.Process(number) for name, number in processes.items()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="kvmark-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Takes the first sample and goes on in the background."""
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the last sample."""
        self._over.set()
        self._thread.join()
        self._take()
        for servers in self._servers:
            servers.close()

    def _repeat(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self._take()

    def _take(self) -> None:
        rows: list[Mapping[str, Any]] = []
        # Who is gone has nothing to say; that it is gone is told elsewhere.
        with suppress(psutil.NoSuchProcess):
            rows += [sample(process, name) for name, process in self._generators.items()]
        take = _of_process if self._generators else sample
        rows.append({**take(self._own, COORDINATOR), FIXED_WORK: fixed_work_ns(next(self._cores))})
        for servers in self._servers:
            rows += servers.sample()
        rows += [row for one in self._exporters if (row := one.sample()) is not None]
        try:
            self._folder.append_resources(rows)
        except RunError:
            # Closing the run meets the same disk and says so.
            self._over.set()


def fixed_work_ns(core: int | None = None) -> int:
    """Processor time of this thread for reads of objects in an order of chance, from warm caches.

    Other threads may take the core meanwhile; that time isn't counted.

    Args:
        core: where it is done; anywhere where that isn't allowed, or nothing is said.
    """
    work = _work()
    cores = () if core is None else {core} & os.sched_getaffinity(0)
    with bound_to(cores):
        # What ran before has filled the caches with its own.
        work()
        before_ns = time.thread_time_ns()
        work()
        return time.thread_time_ns() - before_ns


@cache
def _work() -> Callable[[], object]:
    chance = random.Random(1)  # noqa: S311 - an order, not a secret
    objects = [1_000_000 + number for number in range(_OBJECTS)]
    chance.shuffle(objects)
    read = itemgetter(*chance.choices(range(_OBJECTS), k=_READS))
    return lambda: read(objects)
