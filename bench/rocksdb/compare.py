"""kvmark, a bare loop and YCSB on copies of one loaded RocksDB database, interleaved in blocks.

    python -m bench.rocksdb.compare [--records 1000000] [--operations 1000000] [--blocks 10]

A block runs every case with every peer once, in an order of its own, so that drift of the machine
is shared. Ratios are those of the pairs within a block: geometric mean, with a 95 % t-interval on
the logarithms.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.common.console import keep, say
from bench.common.table import peers_of, text_of_peers
from bench.common.tools import PeerMissingError
from bench.rocksdb.peers import (
    PEERS,
    USUAL,
    Case,
    Job,
    Measured,
    PeerFailedError,
    Tools,
    build,
    load,
)

from kvmark.analysis.external.peers import PeerCase, PeerFigure, PeerRun, Peers

OPTIONS = {
    "write_buffer_bytes": str(64 << 20),
    "block_cache_bytes": str(32 << 20),
    "compression": "lz4",
}
Figure = Callable[[Measured], float]
FIGURES: dict[str, tuple[str, Figure]] = {
    "throughput": ("ops/s", lambda measured: measured.ops_per_s),
    "client CPU per operation": (
        "client CPU µs/op", lambda measured: measured.cpu_ns_per_operation / 1e3,
    ),
    "peak memory": ("peak MB", lambda measured: measured.max_resident_bytes / 1e6),
}  # fmt: skip


@dataclass(frozen=True)
class Repetition:
    """One peer's measurement of one case in one block."""

    block: int
    case: Case
    peer: str
    measured: Measured


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


def order(
    cases: Sequence[Case], peers: Sequence[str], chance: random.Random
) -> Iterator[tuple[Case, str]]:
    """Cases in random order, and each with its peers next to each other, in random order too."""
    for case in chance.sample(cases, len(cases)):
        for peer in chance.sample(peers, len(peers)):
            yield case, peer


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
    chance = random.Random(wanted.seed)  # noqa: S311  # an order, not a secret
    cases = [Case(workload, n) for workload in wanted.workloads for n in wanted.threads]
    for block in range(wanted.blocks):
        for case, peer in order(cases, wanted.peers, chance):
            here = replace(job, case=case, seed=wanted.seed + block)
            measured = run_once(tools, here, peer, loaded)
            say(f"block {block + 1}/{wanted.blocks}  {case}  {peer}: {measured.ops_per_s:,.0f}/s")
            yield Repetition(block, case, peer, measured)


def kept(repetitions: Sequence[Repetition], wanted: argparse.Namespace) -> Peers:
    """Everything that was measured; the first peer is divided by each other one."""
    cases = sorted({one.case for one in repetitions}, key=lambda one: (one.workload, one.threads))
    return peers_of(
        "kvmark, a bare loop and YCSB on one RocksDB database",
        f"RocksDB; {wanted.records:,} records of 1 KB, {wanted.operations:,} operations",
        [PeerFigure(name=name, heading=heading) for name, (heading, _) in FIGURES.items()],
        [PeerCase(name=str(case), programs=tuple(wanted.peers)) for case in cases],
        [
            PeerRun(
                block=one.block,
                case=str(one.case),
                program=one.peer,
                figures={name: figure(one.measured) for name, (_, figure) in FIGURES.items()},
            )
            for one in repetitions
        ],
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rocksdb.compare",
        description="Measure kvmark beside a bare loop and YCSB on embedded RocksDB.",
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="of 1 KB each")
    parser.add_argument("--operations", type=int, default=1_000_000, help="per run")
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--workloads", nargs="+", default=["c", "a"], choices=["a", "b", "c"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", default=list(USUAL), choices=list(PEERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the databases go for the time being")
    parser.add_argument("--results", type=Path, help="folder for every repetition as JSON")
    return parser.parse_args(arguments)


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


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 3 when a peer failed."""
    wanted = parse(arguments)
    try:
        repetitions = measure(wanted)
    except (PeerFailedError, PeerMissingError) as failure:
        say(str(failure))
        return 3
    peers = kept(repetitions, wanted)
    if wanted.results:
        keep(wanted.results, "bench-rocksdb", peers)
    sys.stdout.write(text_of_peers(peers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
