"""Prints what ten thousand clients take in one process, beside a published test's machines.

python -m bench.scale [--clients 10000] [--duration 10] [--nodes 3] [--only TEXT] [--results FOLDER]

Generator and server share this machine: the figures are the generator's memory and its processor
time per operation, not the system's throughput. A system that fails is named below the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.common.console import carried_out, publish, say
from bench.common.limits import SPARE_FILES, raise_file_limit
from bench.common.table import peers_of
from bench.scale.cases import Facts, RunFailedError, cases, measured
from bench.scale.published import CORES_EACH, MACHINES, published_at

from kvmark.analysis.peers import PeerCase, PeerFigure, PeerRun, Peers
from kvmark.errors import KvmarkError

FIGURES = (
    PeerFigure(name="throughput", heading="ops/s"),
    PeerFigure(name="failed", heading="failed, %"),
    PeerFigure(name="client CPU per operation", heading="client CPU µs/op"),
    PeerFigure(name="peak memory", heading="peak memory, MB"),
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--duration", type=int, default=10, help="seconds to measure")
    parser.add_argument("--nodes", type=int, default=3, help="of Cassandra; 0 to leave it out")
    parser.add_argument("--only", default="", help="systems with this text in their name")
    parser.add_argument("--results", type=Path, help="folder for every figure as JSON")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    return parser.parse_args(arguments)


def figures(facts: Facts) -> dict[str, float]:
    """A system's figures by their names."""
    found = (
        facts.ops_per_s,
        100 * facts.failed,
        facts.cpu_ns_per_operation / 1e3,
        facts.peak_bytes / 1e6,
    )
    return dict(zip((one.name for one in FIGURES), found, strict=True))


def beside(clients: int) -> Iterator[str]:
    """The published set-up in words."""
    for one in published_at(clients):
        yield (
            f"Published, {one.operation} at {clients:,} clients: {one.ops_per_s:,.0f} ops/s from"
            f" {MACHINES} machines of {CORES_EACH} vCPU, {one.cpu_us_at_hand:,.0f} µs of vCPU at"
            " hand for each operation."
        )


def kept(runs: Sequence[PeerRun], given: argparse.Namespace) -> Peers:
    """Everything that was measured."""
    names = dict.fromkeys(run.case for run in runs)
    return peers_of(
        f"{given.clients:,} clients of kvmark in one process",
        f"generator and system share the cores, {given.duration} s each",
        FIGURES,
        [PeerCase(name=name, programs=("kvmark",)) for name in names],
        runs,
    )


def run(given: argparse.Namespace) -> bool:
    """Measures every system and prints; whether nothing failed."""
    # Before servers start: they may open as many files as we may.
    if not raise_file_limit(given.clients + SPARE_FILES):
        limit = given.clients + SPARE_FILES
        say(f"too few files may be open: raise it with `ulimit -Hn {limit}`")
        return False
    found: list[PeerRun] = []
    failures: list[str] = []
    for case in cases(given.nodes):
        if given.only.lower() not in case.name.lower():
            continue
        try:
            facts = measured(case, given.clients, given.duration)
            say(f"{case.name}: {facts}")
            one = PeerRun(block=0, case=case.name, program="kvmark", figures=figures(facts))
            found.append(one)
        except (RunFailedError, KvmarkError) as failure:
            failures.append(f"{case.name} failed: {failure}")
            say(failures[-1])
        except KeyboardInterrupt:
            failures.append(f"{case.name} was interrupted, and what would have come after it")
            break
    peers = kept(found, given)
    publish(peers, "bench-scale", given.results, [*failures, *beside(given.clients)])
    return not failures


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a system failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
