"""Programs that do the same work as kvmark, and what an operation costs them.

A program does a case twice, once with a tenth of the operations. The difference of both CPU times,
divided by that of the operations, is the client's CPU time per operation: starting, connecting and
closing cancel. Records of kvmark have the CPU time of the measured phase alone. Throughput is what
the program prints of the longer run.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from bench.common.comparison import CPU, MEMORY, THROUGHPUT
from bench.common.process import Ended, PeerFailedError, Program, execute

from kvmark.analysis.peers import PeerCase
from kvmark.testbed.state import Testbed

SHORT: Final = 10
"""How many times fewer operations the shorter run has."""
YCSB_THROUGHPUT: Final = "[OVERALL], Throughput(ops/sec)"
C = TypeVar("C", bound=PeerCase)


@dataclass(frozen=True)
class Once:
    """One run of a program, and its cost from start to end."""

    operations: int
    ops_per_s: float
    cpu_ns: int
    #: 0 if its memory wasn't watched.
    peak_bytes: int = 0


@dataclass(frozen=True)
class Job(Generic[C]):
    """One run of a case."""

    case: C
    host: str
    port: int
    records: int
    operations: int
    seed: int
    cores: str

    @classmethod
    def on(cls, testbed: Testbed, given: argparse.Namespace, case: C, block: int = 0) -> Job[C]:
        """A run on the first node; each block has another seed."""
        node, seed = testbed.nodes[0], given.seed + block
        length = (given.records, given.operations, seed)
        return cls(case, node.host, node.port, *length, given.generator_core)


def twice(run: Callable[[int], Once], operations: int) -> dict[str, float]:
    """The figures of a program, from a shorter and a longer run.

    Raises:
        PeerFailedError: a run failed, or the longer one took no more time.
    """
    short, long = run(operations // SHORT), run(operations)
    if long.cpu_ns <= short.cpu_ns:
        raise PeerFailedError("too few operations to see their cost: give more --operations")
    each_us = (long.cpu_ns - short.cpu_ns) / (long.operations - short.operations) / 1e3
    figures = {THROUGHPUT.name: long.ops_per_s, CPU.name: each_us}
    return {**figures, MEMORY.name: long.peak_bytes / 1e6} if long.peak_bytes else figures


def measure(
    runs: Mapping[str, Callable[[Program, Job[C]], Once]],
    programs: Mapping[str, Program],
    job: Job[C],
    peer: str,
) -> dict[str, float]:
    """The figures of one program in a job.

    Raises:
        PeerFailedError: a run failed.
    """

    def once(operations: int) -> Once:
        return runs[peer](programs[peer], replace(job, operations=operations))

    return twice(once, job.operations)


def bare(
    program: Program, job: Job[C], *, watched: bool = False, **words: object
) -> tuple[Once, Mapping[str, Any]]:
    """A loop that does a driver's work and nothing else; also all that it printed."""
    given = {"address": f"{job.host}:{job.port}", "records": job.records}
    given |= {"operations": job.operations, "seed": job.seed}
    command = [*program, *(f"{name}={value}" for name, value in (given | words).items())]
    ended = execute(command, job.cores, watched=watched)
    printed = json.loads(ended.output)
    return Once(job.operations, printed["ops_per_s"], ended.cpu_ns, ended.peak_bytes), printed


def ycsb_words(
    records: int, operations: int, mix: tuple[float, float], properties: Mapping[str, object]
) -> list[str]:
    """Properties of YCSB on the command line; the mix is that of reads and updates."""
    properties = {
        "recordcount": records,
        "operationcount": operations,
        "readproportion": mix[0],
        "updateproportion": mix[1],
        "requestdistribution": "zipfian",
        **properties,
    }
    return [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]


def ycsb_values(ended: Ended, operations: int) -> dict[str, float]:
    """The figures that YCSB printed.

    Raises:
        PeerFailedError: it didn't do its work; its exit code is 0 even if a thread died.
    """
    lines = re.findall(r"^(\[[^\]]+\], [^,]+), ([0-9.E-]+)$", ended.output, re.MULTILINE)
    values = {name: float(value) for name, value in lines}
    done = sum(value for name, value in values.items() if name.endswith("Return=OK"))
    if YCSB_THROUGHPUT not in values or done != operations:
        raise PeerFailedError(f"YCSB did {done:.0f} of {operations} operations")
    return values


def ycsb_once(program: Program, words: list[str], job: Job[C], *, watched: bool = False) -> Once:
    """A run of YCSB's core."""
    ended = execute([*program, *words], job.cores, watched=watched)
    rate = ycsb_values(ended, job.operations)[YCSB_THROUGHPUT]
    return Once(job.operations, rate, ended.cpu_ns, ended.peak_bytes)
