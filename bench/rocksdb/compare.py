"""kvmark, a bare loop and YCSB on copies of one loaded RocksDB database, interleaved in blocks.

    python -m bench.rocksdb.compare [--records 1000000] [--operations 1000000] [--blocks 10]

A block runs every case with every peer once, in an order of its own, so that drift of the machine
is shared. Ratios are those of the pairs within a block: geometric mean, with a 95 % t-interval on
the logarithms.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from bench.common.console import say
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
from scipy import stats

COVERAGE = 0.95
OPTIONS = {
    "write_buffer_bytes": str(64 << 20),
    "block_cache_bytes": str(32 << 20),
    "compression": "lz4",
}
Figure = Callable[[Measured], float]
FIGURES: dict[str, Figure] = {
    "throughput": lambda measured: measured.ops_per_s,
    "client CPU per operation": lambda measured: measured.cpu_ns_per_operation,
    "peak memory": lambda measured: measured.max_resident_bytes,
}


@dataclass(frozen=True)
class Repetition:
    """One peer's measurement of one case in one block."""

    block: int
    case: Case
    peer: str
    measured: Measured


@dataclass(frozen=True)
class Ratio:
    """A ratio with its confidence interval, from n pairs."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Geometric mean of the paired ratios, with a t-interval on their logarithms."""
    logs = np.log(np.asarray(ours) / np.asarray(theirs))
    mean, n = float(logs.mean()), len(logs)
    if n < 2:
        return Ratio(math.exp(mean), 0.0, math.inf, n)
    half = float(stats.t.ppf((1 + COVERAGE) / 2, n - 1) * logs.std(ddof=1) / math.sqrt(n))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)


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


def values(repetitions: Sequence[Repetition], case: Case, peer: str, figure: Figure) -> list[float]:
    """A figure of one peer in one case, block by block."""
    chosen = [
        repetition
        for repetition in repetitions
        if repetition.case == case and repetition.peer == peer
    ]
    return [
        figure(repetition.measured)
        for repetition in sorted(chosen, key=lambda repetition: repetition.block)
    ]


def peer_row(repetitions: Sequence[Repetition], case: Case, peer: str) -> str:
    """A peer's means over the blocks."""
    rate, cpu_ns, memory = (
        float(np.mean(values(repetitions, case, peer, figure))) for figure in FIGURES.values()
    )
    return f"{case!s:<14}{peer:<14}{rate:>12,.0f}{cpu_ns / 1e3:>16.2f}{memory / 2**20:>16.0f}"


def pairs(peers: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Whose figures are divided by whose: ours by the others', and one build's by the other's."""
    for peer in peers:
        if "kvmark" in peers and peer not in ("kvmark", "bare-crate"):
            yield "kvmark", peer
    if {"bare", "bare-crate"} <= set(peers):
        yield "bare", "bare-crate"


def ratio_rows(
    repetitions: Sequence[Repetition], case: Case, peers: Sequence[str]
) -> Iterator[str]:
    """Each pair, figure by figure."""
    for upper, lower in pairs(peers):
        for name, figure in FIGURES.items():
            ours = values(repetitions, case, upper, figure)
            theirs = values(repetitions, case, lower, figure)
            yield f"{case!s:<14}{upper + '/' + lower:<22}{name:<26}{ratio(ours, theirs)!s:>24}"


def table(repetitions: Sequence[Repetition], peers: Sequence[str]) -> str:
    """Both tables: means by peer, then ratios with their intervals."""
    cases = list(dict.fromkeys(repetition.case for repetition in repetitions))
    cases.sort(key=lambda case: (case.workload, case.threads))
    lines = [f"{'case':<14}{'peer':<14}{'ops/s':>12}{'CPU µs/op':>16}{'peak MiB':>16}"]
    lines += [peer_row(repetitions, case, peer) for case in cases for peer in peers]
    if any(pairs(peers)):
        blocks = len({repetition.block for repetition in repetitions})
        lines += ["", f"ratios with 95 % intervals, {blocks} paired blocks"]
        lines += [row for case in cases for row in ratio_rows(repetitions, case, peers)]
    return "\n".join(lines)


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
    parser.add_argument("--results", type=Path, help="JSON file for every single repetition")
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
    if wanted.results:
        wanted.results.write_text(
            json.dumps([asdict(repetition) for repetition in repetitions], indent=1)
        )
    sys.stdout.write(table(repetitions, wanted.peers) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
