"""kvmark, a bare loop and YCSB on copies of one loaded RocksDB database, interleaved in blocks.

    python -m bench.rocksdb.compare [--records 1000000] [--operations 1000000] [--blocks 10]

A block runs every case with every peer once, in an order of its own, so that drift of the machine
is shared. Ratios are those of the pairs within a block: geometric mean, with a 95 % t-interval on
the logarithms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.common.blocks import Repetition, repetitions
from bench.common.console import carried_out, parser, publish, say
from bench.common.figures import CPU, MEMORY, THROUGHPUT, Measured, Program
from bench.common.table import case_of, figure_of, peers_of, run_of
from bench.rocksdb.peers import PEERS, USUAL, Case, Job, Tools, build, load

from kvmark.analysis.peers import Peers

OPTIONS = {
    "write_buffer_bytes": str(64 << 20),
    "block_cache_bytes": str(32 << 20),
    "compression": "lz4",
}
FIGURES = (THROUGHPUT, CPU, MEMORY)


def copy_database(loaded: Path, place: Path) -> Path:
    """A copy that may be changed; table files never change, so they are linked."""
    place.mkdir()
    for file in loaded.iterdir():
        if file.suffix == ".sst":
            os.link(file, place / file.name)
        else:
            shutil.copyfile(file, place / file.name)
    return place


def read_through(loaded: Path) -> None:
    """Brings the table files into the page cache, which all peers then share."""
    for file in loaded.glob("*.sst"):
        with file.open("rb") as stream:
            while stream.read(1 << 20):
                pass


def run_once(tools: Tools, job: Job, peer: str, loaded: Path) -> Measured:
    """One peer on a fresh copy, which is removed again."""
    place = copy_database(loaded, loaded.parent / "copy")
    try:
        return PEERS[peer](tools, replace(job, database=place))
    finally:
        shutil.rmtree(place)


def run_blocks(
    tools: Tools, job: Job, loaded: Path, wanted: argparse.Namespace
) -> Iterator[Repetition]:
    """All repetitions, as they end."""

    def measured(case: Case, peer: str, block: int) -> Measured:
        return run_once(tools, replace(job, case=case, seed=wanted.seed + block), peer, loaded)

    programs: dict[str, Program] = dict.fromkeys(wanted.peers, ())
    for one in repetitions(cases(wanted), programs, wanted.blocks, wanted.seed, measured):
        say(one.said(wanted.blocks))
        yield one


def cases(wanted: argparse.Namespace) -> list[Case]:
    """What was asked for, in the table's order."""
    peers = tuple(wanted.peers)
    return [
        Case(name, n, peers) for name in sorted(wanted.workloads) for n in sorted(wanted.threads)
    ]


def kept(found: Sequence[Repetition], wanted: argparse.Namespace) -> Peers:
    """Everything that was measured; the first peer is divided by each other one."""
    return peers_of(
        "kvmark, a bare loop and YCSB on one RocksDB database",
        f"RocksDB; {wanted.records:,} records of 1 KB, {wanted.operations:,} operations",
        [figure_of(one) for one in FIGURES],
        [case_of(case) for case in cases(wanted)],
        [run_of(one, FIGURES) for one in found],
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    made = parser("bench.rocksdb.compare", __doc__, blocks=10, records=1_000_000)
    made.add_argument("--operations", type=int, default=1_000_000, help="per run")
    made.add_argument("--workloads", nargs="+", default=["c", "a"], choices=["a", "b", "c"])
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    made.add_argument("--peers", nargs="+", default=list(USUAL), choices=list(PEERS))
    made.add_argument("--folder", type=Path, help="where the databases go for the time being")
    return made.parse_args(arguments)


def measure(wanted: argparse.Namespace) -> list[Repetition]:
    """Builds, loads, and runs all blocks; the databases are removed afterwards."""
    say("building")
    tools = build(wanted.peers)
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder:
        loaded = Path(folder) / "loaded"
        case = Case("load", 1)
        job = Job(case, loaded, wanted.records, wanted.operations, wanted.seed, OPTIONS)
        say(f"loading {wanted.records:,} records")
        load(tools, job)
        read_through(loaded)
        return list(run_blocks(tools, job, loaded, wanted))


def run(wanted: argparse.Namespace) -> bool:
    """Measures and prints; whether nothing failed."""
    found = measure(wanted)
    peers = kept(found, wanted)
    publish(peers, "bench-rocksdb", wanted.results)
    return not any(repetition.failed for repetition in found)


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a peer failed."""
    wanted = parse(arguments)
    return carried_out(lambda: run(wanted), anyway=wanted.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
