"""Samples resource usage of the generator and the servers, once a second in a run.

A sample includes the time for a fixed amount of work, which shows the current speed of a core.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
from kvmark.testbed.observe import Observer, process_row
from kvmark.testbed.process import bound_to
from kvmark.testbed.sources.sample import TIMEOUT_S, Source
from kvmark.testbed.state import Testbed

_PERIOD_S: Final = 1.0
_ANSWER_S: Final = 0.2
"""How long the sampler waits for observed servers; later answers are taken with the next sample."""

_OBJECTS: Final = 4096
_READS: Final = 20_000
"""They take a third of a millisecond."""


def sample(process: psutil.Process, node: str = GENERATOR) -> dict[str, Any]:
    """One row of ``resources``, with the network counters of the machine."""
    network = psutil.net_io_counters()
    return {
        **process_row(process, node),
        "network_sent_bytes": network.bytes_sent,
        "network_received_bytes": network.bytes_recv,
        "machine_cpu_percent": psutil.cpu_percent(interval=None),
    }


class ObservedServers:
    """Asks the sources of observed servers at the same time: none waits for another."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self._pool = ThreadPoolExecutor(max(1, len(sources)), "kvmark-observes")
        self._asked: dict[Source, Future[dict[str, Any] | None]] = {}

    def rows(self, wait_s: float) -> list[Mapping[str, Any]]:
        """The answers within that time, and those to earlier questions; asks idle sources."""
        answers = []
        for source in self._sources:
            earlier = self._asked.get(source)
            if earlier is not None and earlier.done():
                answers.append(self._asked.pop(source).result())
            if source not in self._asked:
                self._asked[source] = self._pool.submit(source.row)
        done = wait(self._asked.values(), wait_s).done
        answers += [asked.result() for asked in done]
        self._asked = {one: asked for one, asked in self._asked.items() if asked not in done}
        return [row for row in answers if row is not None]

    def close(self) -> None:
        """Asks nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Sampler:
    """Appends samples at its start, each second, and at its end.

    There is one row for each process, each server of a testbed, and each observed server.
    """

    def __init__(
        self,
        folder: RunFolder,
        testbeds: Sequence[Testbed] = (),
        sources: Sequence[Source] = (),
        processes: Mapping[str, int] = MappingProxyType({}),
        cores: Sequence[int] = (),
    ) -> None:
        """Connects to the sampled processes.

        Args:
            folder: the folder for the samples.
            testbeds: testbeds with sampled servers.
            sources: those of observed servers.
            processes: generators on this machine, by name.
            cores: the cores of the system under test; their speed is sampled in turn.
        """
        self._folder = folder
        self._servers = tuple(map(Observer, testbeds))
        self._observed = ObservedServers(sources)
        self._own = psutil.Process()
        self._cores = cycle(cores or (None,))
        self._generators = {name: psutil.Process(number) for name, number in processes.items()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="kvmark-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Takes the first sample and continues in the background."""
        self._take(TIMEOUT_S)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the last sample."""
        self._over.set()
        self._thread.join()
        self._take(TIMEOUT_S)
        self._observed.close()
        for servers in self._servers:
            servers.close()

    def _repeat(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self._take(_ANSWER_S)

    def _take(self, wait_s: float) -> None:
        rows: list[Mapping[str, Any]] = []
        # The end of a process is reported elsewhere.
        with suppress(psutil.NoSuchProcess):
            rows += [sample(process, name) for name, process in self._generators.items()]
        take = process_row if self._generators else sample
        rows.append({**take(self._own, COORDINATOR), FIXED_WORK: fixed_work_ns(next(self._cores))})
        rows += [row for servers in self._servers for row in servers.sample()]
        rows += self._observed.rows(wait_s)
        try:
            self._folder.append_resources(rows)
        except RunError:
            # Closing the run reports the same error.
            self._over.set()


def fixed_work_ns(core: int | None = None) -> int:
    """CPU time of this thread for reads of objects in random order, from warm caches.

    Time of other threads on the core isn't counted.

    Args:
        core: the core; any if it is None or can't be used.
    """
    work = _work()
    cores = () if core is None else {core} & os.sched_getaffinity(0)
    with bound_to(cores):
        # Other work has filled the caches.
        work()
        before_ns = time.thread_time_ns()
        work()
        return time.thread_time_ns() - before_ns


@cache
def _work() -> Callable[[], object]:
    generator = random.Random(1)  # noqa: S311 - an order, not a secret
    objects = [1_000_000 + number for number in range(_OBJECTS)]
    generator.shuffle(objects)
    read = itemgetter(*generator.choices(range(_OBJECTS), k=_READS))
    return lambda: read(objects)
