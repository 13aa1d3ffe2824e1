"""Repetitions of one case together: means with an error, quantiles from merged histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.imported import imported_rate, imported_throughput
from kvmark.analysis.summary.run import Times, clock_step_ns, rate_level, rate_resolution
from kvmark.analysis.verdict.case_verdict import (
    CaseVerdict,
    case_verdict,
    with_precision,
    with_repetitions,
)
from kvmark.analysis.verdict.judge import Judge, Verdict, judge
from kvmark.records import PhaseRecord, Run, TimeName
from kvmark.stats import CONFIDENCE, Counts, Estimate, mean_interval, two_stage_mean

_ANSWERED: Final = ("ok", "miss")


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """All repetitions of a case.

    Runtime and throughput are means over the runs with a t-interval, Stein's where the scatter of
    the first of them decided how many there are; times are those of all successful operations of
    all runs of any kind.
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
    throughput = case_throughput(runs)
    response, service, wait = (merged_times(runs, time) for time in ("response", "service", "wait"))
    return CaseSummary(
        runs=tuple(run.id for run in runs),
        runtime_ms=_mean(runs, [_runtime_ms(run) for run in runs], "ms", clock_step_ns(runs) / 1e6),
        throughput=throughput,
        response=Times.of(response),
        service=Times.of(service),
        wait=Times.of(wait),
        response_counts=response,
        service_counts=service,
        verdict=verdict_of(runs, map(judged, runs)),
    )


def verdict_of(runs: Sequence[Run], verdicts: Iterable[Verdict]) -> CaseVerdict:
    """The verdict of a case from those of its runs, their number, and how well it is known.

    Raises:
        ValueError: there is no run.
    """
    precise = with_precision(case_verdict(verdicts), case_throughput(runs))
    return with_repetitions(precise, runs)


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


def due_times(runs: Sequence[Run], time: TimeName, operation: str | None = None) -> Counts:
    """The same of all operations that were due: those without an answer are beyond any bound.

    Bounds and conditions take these. Tables show the times of successful operations.
    """
    unanswered = sum(unanswered_of(run, operation) for run in runs)
    return merged_times(runs, time, operation).with_beyond(unanswered)


def unanswered_of(run: Run, operation: str | None = None) -> int:
    """The operations that failed, never ended or were never issued, in the counted phases.

    What was never issued or never ended is of no kind yet: of one kind it is as much as its share
    in the operations of the group that ended.
    """
    return sum(_failed(run, phase, operation) + _missing(run, phase, operation)
               for phase in run.counted)  # fmt: skip


def _failed(run: Run, phase: PhaseRecord, operation: str | None) -> int:
    return sum(
        total.count
        for total in run.totals(phase.index)
        if total.outcome not in _ANSWERED
        and (not total.part if operation is None else total.operation == operation)
    )


def _missing(run: Run, phase: PhaseRecord, operation: str | None) -> int:
    missing = 0
    for group in phase.groups:
        lost = group.dropped + group.abandoned
        if lost and operation is not None:
            totals = [one for one in run.totals(phase.index) if one.group == group.group]
            ended = sum(one.count for one in totals if not one.part)
            own = sum(one.count for one in totals if one.operation == operation)
            lost = math.ceil(lost * own / ended) if ended else 0
        missing += lost
    return missing


def _runtime_ms(run: Run) -> float:
    return sum(phase.window_ns for phase in run.counted) / 1e6


def rate_of(run: Run) -> float:
    """Successful operations per second in all windows of the run's counted phases."""
    if run.manifest.imported is not None:
        return imported_rate(run) or 0.0
    return run.manifest.rate


def case_throughput(runs: Sequence[Run], confidence: float = CONFIDENCE) -> Estimate:
    """Operations per second: the mean over runs, or of one run with the error of its intervals.

    Raises:
        ValueError: there is no run.
    """
    if len(runs) > 1:
        rates = [rate_of(run) for run in runs]
        floor = rate_resolution(runs) * max(rates)
        return _mean(runs, rates, "ops/s", floor, confidence)
    (run,) = runs
    imported = imported_throughput(run)
    if imported is not None:
        return imported
    found = rate_level(run, run.counted)
    if found is None:
        return Estimate.alone(rate_of(run), "ops/s", "no interval: no operation succeeded")
    return found.plain("ops/s", confidence)


def stages(
    runs: Sequence[Run], figures: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Their figures: those of a first stage, and those whose number it decided."""
    second = [run.manifest.spec.get("sequence", {}).get("stage") == 2 for run in runs]
    both = list(zip(figures, second, strict=True))
    return (
        tuple(figure for figure, late in both if not late),
        tuple(figure for figure, late in both if late),
    )


def _mean(
    runs: Sequence[Run],
    figures: Sequence[float],
    unit: str,
    floor: float,
    confidence: float = CONFIDENCE,
) -> Estimate:
    first, second = stages(runs, figures)
    if len(first) < 2 or not second:
        return mean_interval(figures, unit, confidence, floor)
    return two_stage_mean(first, second, unit, confidence, floor)
