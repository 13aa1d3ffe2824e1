"""Answers made from formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl

from kvmark.analysis.summary.faults import Segment
from kvmark.analysis.summary.imported import Curve
from kvmark.analysis.summary.run import OperationSummary, PhaseSummary, Quantile, Summary, Times
from kvmark.analysis.verdict.cases import CaseSummary, CaseVerdict, Published, SequenceRow
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records import Case, Entry, RunLine, TimeName
from kvmark.records.store import Judgement
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Fact, Provenance
from kvmark.stats import Counts, Estimate

WORKLOADS = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")
SIZES = (1_000, 3_000, 6_000, 10_000)

DRIFT = Reason(
    "not_stationary", Level.SUSPECT, "measure",
    "Throughput fell by 12 % over the phase (more than 10 %).",
    {"change_share": -0.1204, "p_value": 0.0031}, 0.10, "lengthen the warm-up",
)  # fmt: skip
UNPINNED = Reason(
    "unpinned", Level.NOTE, None, "The kernel chose the workers' cores.", {}, 0,
    "pin the workers (--pin)",
)  # fmt: skip
PROVENANCE = Provenance(
    facts=(
        Fact("System", "RocksDB 8.10.0"),
        Fact("kvmark", "0.1.0"),
        Fact("Host", "2 cores, 4 GB, Linux 6.1"),
        Fact("Seeds", "schedule 1, keys 2, values 3, mix 4"),
    ),
    command=("kvmark", "ycsb", "--records", "1000,3000,6000,10000"),
    documents={"Plan": {"format": 1, "name": "ycsb/a", "interval_ns": 1_000_000_000}},
)


def assert_golden(name: str, text: str) -> None:
    """The text equals the golden file, except for blanks at line ends."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    expected = (Path(__file__).parent / "golden" / name).read_text(encoding="utf-8")
    assert "\n".join(lines) + "\n" == expected


def estimate(value: float, relative_error: float | None, n: int, unit: str) -> Estimate:
    error = None if relative_error is None else value * relative_error
    low, high = (None, None) if error is None else (value - error, value + error)
    return Estimate(value, low, high, n, unit, "t")


def times(p50_ns: float, *, tail: bool = True) -> Times:
    """Quantiles in fixed proportion to the median; the tail not shown when operations were few."""
    laws = {"p50": (0.5, 1.0), "p95": (0.95, 2.31), "p99": (0.99, 5.77), "p999": (0.999, 14.2)}
    quantiles = {
        name: Quantile(order, int(p50_ns * factor), tail or factor < 3)
        for name, (order, factor) in laws.items()
    }
    return Times(1_000, p50_ns * 1.3, int(p50_ns * 61), quantiles)


def sequence_row(workload: str, records: int, *, runs: int = 20) -> SequenceRow:
    """A case whose throughput grows with its size and falls along the sequence."""
    place = WORKLOADS.index(workload)
    rate = 4e5 / (place + 1) ** 1.3 * (records / 1_000) ** 0.1
    error = 0.02 if runs > 1 else None
    verdict = CaseVerdict(Judgement.VALID, (UNPINNED,), runs)
    if (workload, records) == ("E", 1_000):
        verdict = CaseVerdict(Judgement.SUSPECT, (DRIFT, UNPINNED), runs)
    figures = CaseSummary(
        runs=tuple(f"run-{n}" for n in range(runs)),
        runtime_ms=estimate(records / rate * 1e3, error, runs, "ms"),
        throughput=estimate(rate, error, runs, "ops/s"),
        response=times(8e8 / rate),
        service=times(7.6e8 / rate),
        wait=times(900),
        response_counts=Counts.empty(),
        service_counts=Counts.empty(),
        verdict=verdict,
    )
    case, runtime_ms = (workload, "RocksDB", records), 250 + records**0.75
    published = Published(*case, runtime_ms, round(records / runtime_ms * 1e3, 2))
    is_known = workload not in ("delete", "reload")
    return SequenceRow(Case(*case), figures, published if is_known else None)


def curve(panel: str, time: TimeName, median_ns: float) -> Curve:
    """A log-logistic law's quantiles, so that the tail is heavy."""
    tails = [10 ** (step / 12) for step in range(1, 49)]
    points = [(1 - 1 / tail, int(median_ns * (tail - 1) ** 0.35)) for tail in tails]
    return Curve(panel, time, tuple(points))


def sequence_answer(title: str = "YCSB on RocksDB") -> SequenceAnswer:
    """The whole sequence at four sizes."""
    kinds: tuple[tuple[TimeName, int], ...] = (("response", 2_500), ("service", 2_000))
    curves = tuple(
        curve(workload, kind, median_ns * place)
        for place, workload in enumerate(WORKLOADS, 1)
        for kind, median_ns in kinds
    )
    return SequenceAnswer(
        title=title,
        question="The YCSB sequence with four sizes, one client, closed model, each case 20 times.",
        rows=tuple(sequence_row(workload, n) for workload in WORKLOADS for n in SIZES),
        curves=curves,
        provenance=PROVENANCE,
    )


def seconds(**columns: Callable[[int], object]) -> pl.DataFrame:
    """Sixty seconds; a column is a function of the second."""
    ends = {"start_ns": lambda n: n * 10**9, "end_ns": lambda n: (n + 1) * 10**9}
    return pl.DataFrame(
        {name: [value(n) for n in range(60)] for name, value in {**ends, **columns}.items()}
    )


def intervals() -> pl.DataFrame:
    """Rows of TOTAL: a warm-up, then a measured phase with a stall in its middle."""
    return seconds(
        phase_name=lambda n: "warm_up" if n < 10 else "measure",
        drain=lambda _: False,
        group=lambda _: "clients",
        count=lambda n: 1_200 if n == 40 else int(52_000 + 3_000 * math.sin(n / 4)),
        response_ns_p50=lambda _: 15_000,
        response_ns_p99=lambda n: 900_000_000 if n == 40 else 95_000,
        response_ns_max=lambda n: 1_000_000_000 if n == 40 else 800_000,
    )


def node(name: str, restarted: int | None = None) -> pl.DataFrame:
    """The resources of a node that may be restarted in a second."""
    return seconds(
        node=lambda _: name,
        cores=lambda n: None if n == restarted else 0.5 + n / 100,
        resident_bytes=lambda n: 200_000_000 + n * 10**6,
    )


def hump(low_ns: float, count: int) -> pl.DataFrame:
    """A number of operations of one response time in each second."""
    return seconds(
        low_ns=lambda _: low_ns,
        high_ns=lambda _: low_ns * 10**0.125,
        count=lambda _: count,
        share=lambda _: count / 50_000,
    )


def operation(name: str, count: int, *, part: bool = False, **others: int) -> OperationSummary:
    each = [times(p50_ns, tail=count > 1_000) for p50_ns in (15_000, 14_000, 900)]
    return OperationSummary("clients", name, part, count, count, *each, others)


def run_answer(title: str = "ycsb/f on RocksDB 8.10.0") -> RunAnswer:
    """One run of YCSB's workload F with a suspicious drift."""
    phase = PhaseSummary(
        phase=1,
        name="measure",
        runtime_ms=50_000.0,
        throughput=estimate(51_873.0, 0.008, 50, "ops/s"),
        completed=2_599_910,
        rows=None,
        operations=(
            operation("READ", 1_300_021, timeout=12),
            operation("READ-MODIFY-WRITE", 1_299_877),
            operation("READ", 1_299_877, part=True),
            operation("UPDATE", 1_299_877, part=True),
            operation("SCAN", 200),
        ),
        hit_ratio=1.0,
        errors={"timeout": 12},
        cpu_ns_per_operation=18_200.0,
        max_resident_bytes=312_000_000,
    )
    run = "20260301-101500-ycsb-f-0a1b"
    return RunAnswer(
        title=title,
        request=(
            Fact("Workload", "ycsb/f, 1,000,000 records of 10 fields of 100 bytes"),
            Fact("Load", "closed model, 8 clients"),
            Fact("Phases", "warm-up 10.0 s, measure 50.0 s"),
        ),
        summary=Summary(run, "ycsb/f", "RocksDB", "8.10.0", "2026-03-01T10:15:00Z", (phase,)),
        verdict=Verdict.of([DRIFT, UNPINNED]),
        phases=(Segment("warm_up", 0, 10 * 10**9), Segment("measure", 10 * 10**9, 60 * 10**9)),
        intervals=intervals(),
        provenance=PROVENANCE,
        curves=(
            curve("READ", "response", 15_000),
            curve("READ", "service", 14_000),
            curve("READ-MODIFY-WRITE", "response", 31_000),
            curve("READ-MODIFY-WRITE", "service", 30_000),
        ),
        # A busy generator and a restarted server, timeouts in the stall, and two humps.
        resources=pl.concat([node("generator"), node("primary-1", 30)]),
        failures=seconds(outcome=lambda _: "timeout", count=lambda n: 12 if n == 40 else 0),
        spread=pl.concat([hump(10_000.0, 49_000), hump(100_000.0, 1_000)]),
        response_quantiles={
            (name, quantile): estimate(15_000 * factor, 0.05, 60, "ns")
            for name in ("READ", "READ-MODIFY-WRITE")
            for quantile, factor in (("p50", 1.0), ("p99", 5.77))
        },
    )


def run_lines() -> list[RunLine]:
    """A run that can be used, and one that was killed."""
    done = Entry(
        "20260301-101500-ycsb-a-0a1b", Path("runs"), "closed", "2026-03-01T10:15:00Z",
        "ycsb/a", "RocksDB", "8.10.0", ("nightly",),
    )  # fmt: skip
    killed = Entry(
        "20260301-111500-ycsb-b-0a1c", Path("runs"), "killed", "2026-03-01T11:15:00Z", "ycsb/b"
    )
    return [RunLine(done, 51_873.4, 95_012, Verdict.of([]).judgement), RunLine(killed)]
