"""kvmark, a bare loop and YCSB on copies of one loaded RocksDB database.

    python -m bench.rocksdb.compare [--records 1000000] [--operations 1000000] [--blocks 10]

Ratios are geometric means over the pairs within a block, with a 95 % t-interval on the logarithms.
All have the same options. CPU time is that of the operations, without the start; memory is the
peak. Of kvmark both include its two processes, the generator and the command. The bare loop can be
linked to RocksDB's compiled parts, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.common.comparison import CPU, MEMORY, THROUGHPUT, Benchmark, Figures, say
from bench.common.kvmark import kvmark_once
from bench.common.peers import YCSB_THROUGHPUT, ycsb_values, ycsb_words
from bench.common.process import ALL_CORES, Program, execute
from bench.common.tools import KVMARK, Find, find_example, find_ycsb

from kvmark.analysis.peers import PeerCase

OPTIONS: Final[Mapping[str, object]] = {
    "write_buffer_bytes": 64 << 20,
    "block_cache_bytes": 32 << 20,
    "compression": "lz4",
}
YCSB_MIX: Final = {"a": (0.5, 0.5), "b": (0.95, 0.05), "c": (1.0, 0.0)}
bare_loop: Final = partial(find_example, "kvmark-driver-rocksdb", "bare_loop")
BENCHMARK: Final = Benchmark(
    "bench-rocksdb",
    "kvmark, a bare loop and YCSB on one RocksDB database",
    (THROUGHPUT, CPU, MEMORY),
)


class Case(PeerCase):
    """A core workload of YCSB, with a number of threads."""

    workload: str
    threads: int


@dataclass(frozen=True)
class Job:
    """One run of a case on a copy of the database."""

    case: Case
    database: Path
    records: int
    operations: int
    seed: int


def figures(rate: float, cpu_ns: float, peak_bytes: float) -> Figures:
    """The figures of a run; CPU time is that of one operation."""
    return {THROUGHPUT.name: rate, CPU.name: cpu_ns / 1e3, MEMORY.name: peak_bytes / 1e6}


def run_kvmark(_: Program, job: Job) -> Figures:
    """A run of kvmark; its figures are in its records."""
    options = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
    words: list[object] = ["run", f"ycsb/{job.case.workload}", "--system"]
    words += [f"rocksdb:{job.database}?{options}", "--records", job.records, "--operations"]
    words += [job.operations, "--clients", job.case.threads, "--seed", job.seed]
    once = kvmark_once(words, ALL_CORES)
    return figures(once.ops_per_s, once.cpu_ns / once.operations, once.peak_bytes)


def run_bare(program: Program, job: Job) -> Figures:
    """A loop without a benchmark over the same crate; a load has one operation per record."""
    words = {
        "path": job.database,
        "workload": job.case.workload,
        "records": job.records,
        "operations": job.operations,
        "threads": job.case.threads,
        "seed": job.seed,
        **OPTIONS,
    }
    command = [*program, *(f"{name}={value}" for name, value in words.items())]
    printed = json.loads(execute(command, ALL_CORES).output)
    cpu_ns = (printed["cpu_user_s"] + printed["cpu_system_s"]) * 1e9 / printed["operations"]
    return figures(printed["ops_per_s"], cpu_ns, printed["max_resident_bytes"])


def run_ycsb(program: Program, job: Job) -> Figures:
    """YCSB 0.17.0's core with a RocksDB binding."""
    options = {"path": job.database, **OPTIONS}
    properties = {f"rocksdb.{name}": value for name, value in options.items()}
    mix = YCSB_MIX[job.case.workload]
    words = ycsb_words(job.records, job.operations, mix, properties)
    command = [*program, "-threads", job.case.threads, *words]
    printed = ycsb_values(execute(command, ALL_CORES), job.operations)
    cpu_ns = printed["[PROCESS], CpuTime(ms)"] * 1e6 / job.operations
    peak_bytes = printed["[PROCESS], MaxResident(KiB)"] * 1024
    return figures(printed[YCSB_THROUGHPUT], cpu_ns, peak_bytes)


PROGRAMS: Final[Mapping[str, tuple[Find, Callable[[Program, Job], Figures]]]] = {
    "kvmark": (lambda: KVMARK, run_kvmark),
    "bare": (bare_loop, run_bare),
    "YCSB": (partial(find_ycsb, "RocksDbBinding"), run_ycsb),
    "bare-unity": (partial(bare_loop, "unity"), run_bare),
}


def copy_database(loaded: Path, place: Path) -> Path:
    """A copy that may be changed; table files never change, so they are linked."""
    place.mkdir()
    for file in loaded.iterdir():
        if file.suffix == ".sst":
            os.link(file, place / file.name)
        else:
            shutil.copyfile(file, place / file.name)
    return place


def load(program: Program, job: Job) -> None:
    """Loads the records, and reads the table files into the page cache."""
    run_bare(program, job)
    for file in job.database.glob("*.sst"):
        with file.open("rb") as stream:
            while stream.read(1 << 20):
                pass


def measure(given: argparse.Namespace) -> bool:
    """Builds, loads, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: a program can't be built, or the database isn't loaded.
    """
    say("building")
    programs = {name: PROGRAMS[name][0]() for name in dict.fromkeys((*given.peers, "bare"))}
    cases = [
        Case(
            name=f"{workload.upper()}, {threads} thread{'s' if threads > 1 else ''}",
            workload=workload,
            threads=threads,
            programs=tuple(given.peers),
        )
        for workload in sorted(given.workloads)
        for threads in sorted(given.threads)
    ]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        loaded = Path(folder) / "loaded"
        say(f"loading {given.records:,} records")
        loading = Case(name="load", workload="load", threads=1, programs=())
        load(programs["bare"], Job(loading, loaded, given.records, given.records, given.seed))

        def compared(case: Case, peer: str, block: int) -> Figures:
            place = copy_database(loaded, Path(folder) / "copy")
            job = Job(case, place, given.records, given.operations, given.seed + block)
            try:
                return PROGRAMS[peer][1](programs[peer], job)
            finally:
                shutil.rmtree(place)

        found = BENCHMARK.repetitions(cases, compared, given)
    system = f"RocksDB; {given.records:,} records of 1 KB, {given.operations:,} operations"
    return BENCHMARK.publish(system, cases, found, given)


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 10, 1_000_000)
    made.set_defaults(records=1_000_000)
    made.add_argument("--workloads", nargs="+", default=["c", "a"], choices=list(YCSB_MIX))
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    usual = ["kvmark", "bare", "YCSB"]
    made.add_argument("--peers", nargs="+", default=usual, choices=list(PROGRAMS))
    made.add_argument("--folder", type=Path, help="for the databases")
    BENCHMARK.run(measure, made)
