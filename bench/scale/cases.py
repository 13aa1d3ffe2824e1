"""The systems that ten thousand clients ask: a simulated one, Redis, and Cassandra."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cql.cases import HEAP_MIB
from bench.cql.server import serving as serving_cassandra
from bench.redis.server import serving as serving_redis

from kvmark.records import Records, Run
from kvmark.records.model import WorkerRecord

WORKLOAD = "ycsb/a"
RECORDS = 10_000
SIMULATED = "sim:?servers=10000&service=exponential&mean_us=200000"
"""A server for each client: 50,000 operations per second at most, and none waits."""
SERVER_CORE = 1
LOADERS = 64
WARMING = 100_000
"""Operations of a few clients before all come: until then Java interprets Cassandra's way there."""
# An overloaded run answers no (1); it is measured all the same.
_MEASURED = (0, 1)


class RunFailedError(Exception):
    """kvmark didn't carry a run out; says what it said."""


@dataclass(frozen=True)
class Facts:
    """What a run says of its generator."""

    clients: int
    operations: int
    #: Operations that ended otherwise than ok, by their outcome.
    failures: Mapping[str, int]
    seconds: float
    #: Processor time of the whole process while it measured, without idle polling.
    cpu_ns_per_operation: float
    #: The most memory that the process had.
    peak_bytes: int

    @property
    def failed(self) -> float:
        """The share of operations that ended otherwise than ok."""
        return sum(self.failures.values()) / max(self.operations, 1)

    @property
    def ops_per_s(self) -> float:
        """Completed operations per second."""
        return self.operations / self.seconds


@dataclass(frozen=True)
class Case:
    """A system, and how it comes to be there."""

    name: str
    #: Takes the number of clients and gives the system's URL for as long as it is needed.
    served: Callable[[int], AbstractContextManager[str]]
    #: Operations of a few clients first, on records that they load; 0 for none.
    warming: int


@contextmanager
def _simulated(_: int) -> Iterator[str]:
    yield SIMULATED


@contextmanager
def _redis(clients: int) -> Iterator[str]:
    with serving_redis(SERVER_CORE, max(clients, LOADERS)) as server:
        yield server.testbed.url


@contextmanager
def _cassandra(nodes: int) -> Iterator[str]:
    with serving_cassandra(nodes, HEAP_MIB, ()) as testbed:
        yield testbed.url


def cases(nodes: int) -> list[Case]:
    """All of them, with Cassandra where it is asked for."""
    found = [Case("simulated", _simulated, warming=0), Case("Redis", _redis, warming=1)]
    if nodes:
        name = f"Cassandra, {nodes} node{'' if nodes == 1 else 's'}"
        found.append(Case(name, lambda _: _cassandra(nodes), WARMING))
    return found


def measured(case: Case, clients: int, seconds: int) -> Facts:
    """Starts the system, loads it with a few clients, and measures it with all.

    Raises:
        RunFailedError: there is no measurement.
        KvmarkError: the system doesn't start.
    """
    with case.served(clients) as url, tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        runs = Path(folder)
        if case.warming:
            few = ("--clients", str(LOADERS), "--operations", str(case.warming))
            _run(runs, url, "--load", "always", *few)
        length = ("--duration", f"{seconds}s", "--warmup", "5s")
        _run(runs, url, "--load", "never", "--clients", str(clients), *length)
        return _facts(Records(runs).open("last"), clients)


def _run(runs: Path, url: str, *words: str) -> None:
    command = [str(Path(sys.executable).with_name("kvmark")), "run", WORKLOAD, "--system", url]
    command += ["--records", str(RECORDS), "--json", "--quiet", *words]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        env={**os.environ, "KVMARK_RUNS": str(runs)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in _MEASURED:
        raise RunFailedError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _facts(run: Run, clients: int) -> Facts:
    phase = run.counted[0]
    totals = [total for total in run.totals(phase.index) if not total.part]
    outcomes: Counter[str] = Counter()
    for total in totals:
        outcomes[total.outcome] += total.count
    process = phase.process
    idle_ns = sum(map(_idle_ns, phase.workers))
    cpu_ns = (process.cpu_user_ns or 0) + (process.cpu_system_ns or 0) - idle_ns
    return Facts(
        clients=clients,
        operations=outcomes.total(),
        failures={outcome: n for outcome, n in outcomes.items() if outcome != "ok" and n},
        seconds=phase.window_ns / 1e9,
        cpu_ns_per_operation=cpu_ns / max(outcomes.total(), 1),
        peak_bytes=process.max_resident_bytes or 0,
    )


def _idle_ns(worker: WorkerRecord) -> int:
    """Processor time spent on polling; it is known as elapsed time, in which a core was missing."""
    polled_ns = worker.idle_spin_ns - (worker.waiting_for_core_ns or 0)
    return max(0, min(polled_ns, worker.cpu_ns or 0))
