"""Thousands of clients on several nodes: what fails, in which class, and what memory it takes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import kvmark
from bench.common.figures import Program
from bench.common.process import execute, usable_cores
from bench.common.table import peers_of
from bench.cql.cases import CROWD_MOST_BYTES, CROWD_MOST_FAILED, CROWD_OWN_CONNECTIONS
from bench.cql.tools import HERE

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun, Peers
from kvmark.testbed.state import Testbed

LOADERS = 64
WARMING = 200_000
"""Reads by the loaders before all clients come: until then Java interprets the nodes' way there."""
WARMUP_S = 5
"""What all clients do before they are measured: they all ask at once in the beginning."""


@dataclass(frozen=True)
class Wanted:
    """How many clients, for how long, on what."""

    clients: int
    seconds: int
    records: int
    workers: int


@dataclass(frozen=True)
class Crowd:
    """What many clients did."""

    name: str
    clients: int
    connections: int
    operations: int
    ops_per_s: float
    #: Operations with an outcome other than ok, by that.
    failures: Mapping[str, int]
    response_p99_s: float
    peak_bytes: int

    @property
    def failed(self) -> float:
        """The share of operations that didn't go well."""
        return sum(self.failures.values()) / max(self.operations, 1)


def crowds(program: Program, testbed: Testbed, wanted: Wanted) -> Iterator[Crowd]:
    """The clients once over few connections that they share, and once over many.

    Raises:
        PeerFailedError: kvmark did not carry a run out.
    """
    warming = ("--clients", LOADERS, "--load", "always", "--operations", WARMING)
    _execute(program, testbed, wanted, *warming)
    yield _crowd("shared connections", program, testbed, wanted, 1)
    # The smallest number for each worker and node that makes so many in all.
    each = -(-CROWD_OWN_CONNECTIONS // (wanted.workers * len(testbed.nodes)))
    yield _crowd("own connections", program, testbed, wanted, each)


def _crowd(
    name: str, program: Program, testbed: Testbed, wanted: Wanted, connections: int
) -> Crowd:
    """One measurement, with so many connections of each worker to each node."""
    length = ("--duration", f"{wanted.seconds}s", "--warmup", f"{WARMUP_S}s")
    words = ("--clients", wanted.clients, "--load", "never", *length)
    manifest = _execute(program, testbed, wanted, *words, connections_per_node=connections)
    phase, totals = kvmark.measured(manifest)
    failures: dict[str, int] = {}
    for row in totals:
        if row["outcome"] != "ok" and row["count"]:
            failures[row["outcome"]] = failures.get(row["outcome"], 0) + row["count"]
    operations = sum(row["count"] for row in totals)
    seconds = (phase["drained_ns"] - phase["start_ns"]) / 1e9
    most = max(totals, key=lambda row: row["count"])
    return Crowd(
        name=name,
        clients=wanted.clients,
        connections=round(phase["statistics"]["connections"]["after"]),
        operations=operations,
        ops_per_s=operations / seconds,
        failures=failures,
        response_p99_s=most["response"]["p99"] / 1e9,
        peak_bytes=phase["process"]["max_resident_bytes"],
    )


def _execute(
    program: Program,
    testbed: Testbed,
    wanted: Wanted,
    *words: object,
    connections_per_node: int = 1,
) -> dict[str, object]:
    """The manifest of a run of ours on all cores."""
    hosts = ",".join(node.address for node in testbed.nodes)
    options = f"consistency=one&connections_per_node={connections_per_node}"
    command: list[object] = ["run", HERE / "reads.yaml"]
    command += ["--system", f"cql://{hosts}/ycsb?{options}", "--records", wanted.records]
    command += ["--workers", wanted.workers, "--json", "--quiet", *words]
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        said = [str(word) for word in command]
        variables = {"KVMARK_RUNS": folder}
        ended = execute([*program, *said], usable_cores(), kvmark.MEASURED, variables)
        return kvmark.newest_manifest(Path(folder), ended.errors)


def crowd_peers(system: str, crowds: Sequence[Crowd]) -> Peers:
    """Everything that was measured, with the bounds."""
    names = ("throughput", "failed", "response time p99", "peak memory")
    headings = ("ops/s", "failed, %", "response time p99, s", "peak memory, MB")
    bounds = (
        PeerBound(figure="failed", limit=100 * CROWD_MOST_FAILED),
        PeerBound(figure="peak memory", limit=CROWD_MOST_BYTES / 1e6),
    )
    figures = [
        PeerFigure(name=name, heading=heading)
        for name, heading in zip(names, headings, strict=True)
    ]
    titles = [f"{one.clients:,} clients, {one.name}" for one in crowds]
    return peers_of(
        "Many clients of kvmark on three Cassandra nodes",
        system,
        figures,
        [
            PeerCase(name=title, programs=("kvmark",), bounds=bounds)
            for title in dict.fromkeys(titles)
        ],
        [
            PeerRun(
                block=titles[:number].count(title),
                case=title,
                program="kvmark",
                figures=dict(zip(names, _figures(crowd), strict=True)),
            )
            for number, (title, crowd) in enumerate(zip(titles, crowds, strict=True))
        ],
    )


def _figures(crowd: Crowd) -> tuple[float, ...]:
    failed, peak_mb = 100 * crowd.failed, crowd.peak_bytes / 1e6
    return (crowd.ops_per_s, failed, crowd.response_p99_s, peak_mb)
