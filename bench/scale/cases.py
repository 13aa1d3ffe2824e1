"""The systems that ten thousand clients ask: a simulated one, Redis, and Cassandra."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.redis.server import serving

from kvmark.records import Records, Run
from kvmark.testbed import cassandra
from kvmark.testbed.control import take_down

WORKLOAD = "ycsb/a"
RECORDS = 10_000
SIMULATED = "sim:?servers=10000&service=exponential&mean_us=200000"
"""A server for each client: 50,000 operations per second at most, and none waits."""
SERVER_CORE = 1
# An overloaded run answers no (1); it is measured all the same.
_MEASURED = (0, 1)


class RunFailedError(Exception):
    """kvmark didn't carry a run out; says what it said."""


@dataclass(frozen=True)
class Facts:
    """What a run says of its generator."""

    clients: int
    operations: int
    #: Operations that ended otherwise than ok.
    failed: int
    seconds: float
    #: Processor time of the whole process while it measured, without idle polling.
    cpu_ns_per_operation: float
    #: The most memory that the process had.
    peak_bytes: int

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
    #: Whether records must be loaded first.
    loads: bool


@contextmanager
def _simulated(_: int) -> Iterator[str]:
    yield SIMULATED


@contextmanager
def _redis(clients: int) -> Iterator[str]:
    with serving(SERVER_CORE, clients) as server:
        yield server.testbed.url


@contextmanager
def _cassandra(nodes: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        root = Path(folder)
        try:
            wanted = cassandra.Wanted(nodes=nodes)
            yield cassandra.up(wanted, root, _say).url
        finally:
            take_down(root)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def cases(nodes: int) -> list[Case]:
    """All of them, with Cassandra where it is asked for."""
    found = [Case("simulated", _simulated, loads=False), Case("Redis", _redis, loads=True)]
    if nodes:
        name = f"Cassandra, {nodes} node{'' if nodes == 1 else 's'}"
        found.append(Case(name, lambda _: _cassandra(nodes), loads=True))
    return found


def measured(case: Case, clients: int, seconds: int) -> Facts:
    """Starts the system, loads it with a few clients, and measures it with all.

    Raises:
        RunFailedError: there is no measurement.
        KvmarkError: the system doesn't start.
    """
    with case.served(clients) as url, tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        runs = Path(folder)
        if case.loads:
            _run(runs, url, "--load", "always", "--clients", "64", "--operations", "1")
        length = ("--duration", f"{seconds}s", "--warmup", "2s")
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
    operations = sum(total.count for total in totals)
    process = phase.process
    idle_ns = sum(min(worker.idle_spin_ns, worker.cpu_ns or 0) for worker in phase.workers)
    cpu_ns = (process.cpu_user_ns or 0) + (process.cpu_system_ns or 0) - idle_ns
    return Facts(
        clients=clients,
        operations=operations,
        failed=sum(total.count for total in totals if total.outcome != "ok"),
        seconds=phase.window_ns / 1e9,
        cpu_ns_per_operation=cpu_ns / max(operations, 1),
        peak_bytes=process.max_resident_bytes or 0,
    )
