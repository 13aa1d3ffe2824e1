"""Repetitions of one case together: means with an error, quantiles from merged histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvmark.analysis.case_verdict import CaseVerdict, case_verdict
from kvmark.analysis.imported import imported_rate
from kvmark.analysis.summary import Times, throughput
from kvmark.analysis.verdict import Judge, judge
from kvmark.records import Run, TimeName
from kvmark.stats import Counts, Estimate, mean_interval, two_stage_mean


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """All repetitions of a case.

    Runtime and throughput are means over the runs with a t-interval, Stein's where the scatter of
    the first of them decided how many there are; times are those of all successful operations of
    all runs, whatever their kind.
    """

    runs: tuple[str, ...]
    runtime_ms: Estimate
    throughput: Estimate
    response: Times
    service: Times
    wait: Times
    response_counts: Counts
    service_counts: Counts
    verdict: CaseVerdict


def aggregate(runs: Sequence[Run], judged: Judge = judge) -> CaseSummary:
    """The repetitions of one case.

    ``judged`` gives the verdict on each. A single run keeps the error that its intervals give. A
    run whose counted phases have no window adds no runtime.

    Raises:
        ValueError: there is no run.
        RecordsError: a run's files can't be read.
    """
    if not runs:
        raise ValueError("a case needs at least one run")
    response, service, wait = (merged_times(runs, time) for time in ("response", "service", "wait"))
    return CaseSummary(
        runs=tuple(run.id for run in runs),
        runtime_ms=_mean(runs, [_runtime_ms(run) for run in runs], "ms"),
        throughput=_throughput(runs),
        response=Times.of(response),
        service=Times.of(service),
        wait=Times.of(wait),
        response_counts=response,
        service_counts=service,
        verdict=case_verdict(map(judged, runs)),
    )


def merged_times(runs: Sequence[Run], time: TimeName, operation: str | None = None) -> Counts:
    """One time of the successful operations of all runs, of one kind or of all.

    Parts of read-modify-writes are in only when their kind is asked for by name, as in YCSB.
    """
    return Counts.merge(
        run.times(total, time)
        for run in runs
        for phase in run.counted
        for total in run.totals(phase.index)
        if total.outcome == "ok"
        and (not total.part if operation is None else total.operation == operation)
    )


def _runtime_ms(run: Run) -> float:
    return sum(phase.window_ns for phase in run.counted) / 1e6


def _throughput(runs: Sequence[Run]) -> Estimate:
    if len(runs) == 1 and len(runs[0].counted) == 1:
        return throughput(runs[0], runs[0].counted[0])
    return _mean(runs, [rate_of(run) for run in runs], "ops/s")


def _mean(runs: Sequence[Run], figures: Sequence[float], unit: str) -> Estimate:
    stages: tuple[list[float], list[float]] = ([], [])
    for run, figure in zip(runs, figures, strict=True):
        stages[run.manifest.spec.get("sequence", {}).get("stage") == 2].append(figure)
    first, second = stages
    if len(first) < 2 or not second:
        return mean_interval(figures, unit)
    return two_stage_mean(first, second, unit)


def rate_of(run: Run) -> float:
    """Successful operations per second in all windows of the run's counted phases."""
    if run.manifest.imported is not None:
        return imported_rate(run) or 0.0
    return run.manifest.engine.rate
