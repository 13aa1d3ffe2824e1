"""Metrics: their values of runs and of cases, with errors between runs or between intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from kvmark import stats
from kvmark.analysis.summary.imported import imported_level, imported_value
from kvmark.analysis.summary.run import (
    QUANTILES,
    clock_step_ns,
    rate_level,
    rate_resolution,
    throughput,
)
from kvmark.analysis.summary.sums import ANSWERED, NS_PER_S, counted_totals
from kvmark.records import PhaseRecord, Run, TimeName
from kvmark.records.run import interval_times
from kvmark.spec.metric import THROUGHPUT, Metric, check_operations
from kvmark.stats import BEYOND, CONFIDENCE, Counts, Estimate, Level

_RESPONSE_QUANTILES: Final = ("p50", "p99")
_IMPORTED_TIMES: Final[tuple[TimeName, ...]] = ("response", "service")


def check_known(metrics: Iterable[Metric], runs: Sequence[Run]) -> None:
    """Refuses metrics of operations that none of the runs has.

    Raises:
        UsageError: there is no such operation; lists the known ones.
    """
    check_operations(metrics, operations_of(runs), "the runs have")


def operations_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """The operations of the counted phases, with any outcome, and of imports."""
    names: dict[str | None, None] = {}
    for run in runs:
        totals = (total for phase in run.counted for total in run.totals(phase.index))
        names |= dict.fromkeys(total.operation for total in totals)
        if run.manifest.imported:
            names |= dict.fromkeys(one.operation for one in run.manifest.imported.figures)
    return tuple(filter(None, names))


def metrics_of(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """The metrics of the operations of which some succeeded; with imports, those of all runs."""
    imports = [run for run in runs if run.manifest.imported]
    if not imports:
        return metrics_of_operations(_operations(runs))
    named = operations_of(imports)
    times = (
        Metric("quantile" if name else "mean", name, time, operation)
        for time in _IMPORTED_TIMES
        for operation in (None, *(named if len(named) > 1 else ()))
        for name in (None, *QUANTILES)
    )
    return (THROUGHPUT, *(one for one in times if all(run_value(run, one) for run in runs)))


def metrics_of_operations(operations: Collection[str]) -> tuple[Metric, ...]:
    """Throughput, every quantile of all operations, and median and p99 of each kind."""
    kinds = operations if len(operations) > 1 else ()
    quantiles: list[tuple[str, str | None]] = [(name, None) for name in QUANTILES]
    quantiles += [(name, kind) for kind in kinds for name in _RESPONSE_QUANTILES]
    return (THROUGHPUT, *(Metric("quantile", name, operation=kind) for name, kind in quantiles))


def level(runs: Sequence[Run], metric: Metric, *, due: bool = False) -> Level | None:
    """The value of a metric of the runs of one case; None if they have none.

    The error of several runs is that between runs. A single one has only the
    error between its intervals. Times are those of successful operations or, where ``due``, of all
    operations that were due, of which those without an answer are beyond any bound.

    Raises:
        RecordsError: a run's files can't be read.
    """
    if metric == THROUGHPUT:
        return _throughput(runs)
    if metric.quantile is None or any(run.manifest.imported for run in runs):
        # A single run has no error of it.
        known = [value for run in runs if (value := run_value(run, metric, due=due))]
        complete = known and len(known) == len(runs)
        return stats.level_of(known, _resolution(runs, metric)) if complete else None
    found = counts_of(runs, metric, due=due)
    together = Counts.merge(found)
    if not together.shows(metric.q):
        return None
    step_ns = clock_step_ns(runs)
    if len(runs) > 1:
        return stats.jackknife(found, metric.q, step_ns)
    slices = _slices(runs[0], metric, due=due)
    within = stats.quantile_of_intervals(slices or found, metric.q, step_ns)
    value = together.quantile(metric.q)
    if within is None or not value:
        return None
    # Of all operations, those that ended in the drain too.
    return replace(within, log=math.log(value))


def figure(runs: Sequence[Run], metric: Metric) -> Estimate | None:
    """The same as a figure with its interval, as every table and figure shows it.

    Raises:
        RecordsError: a run's files can't be read.
    """
    found = level(runs, metric)
    return None if found is None else figure_of(found, runs, metric)


def figure_of(
    found: Level, runs: Sequence[Run], metric: Metric, confidence: float = CONFIDENCE
) -> Estimate:
    """The figure of a level that is known already."""
    if metric == THROUGHPUT:
        return case_throughput(runs, confidence)
    return found.estimate(metric.unit, confidence)


def response_quantiles(run: Run) -> dict[tuple[str, str], Estimate]:
    """Median and p99 of response time by operation and name, with errors from intervals.

    Raises:
        RecordsError: a run's files can't be read.
    """
    return {
        (operation, name): found
        for operation in _operations([run])
        for name in _RESPONSE_QUANTILES
        if (found := figure([run], Metric("quantile", name, operation=operation))) is not None
    }


def resolution(baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric) -> float:
    """What a ratio of two sides can't tell apart, as a share of it."""
    return math.hypot(_resolution(baseline, metric), _resolution(candidate, metric))


def _resolution(runs: Sequence[Run], metric: Metric) -> float:
    if metric.measure == "throughput":
        return rate_resolution(runs)
    times, step_ns = Counts.merge(counts_of(runs, metric)), clock_step_ns(runs)
    if metric.quantile is not None:
        return times.resolution(metric.q, step_ns)
    mean = times.mean()
    return step_ns / mean if mean else 0.0


def counts_of(runs: Sequence[Run], metric: Metric, *, due: bool = False) -> list[Counts]:
    """The times of a metric, run by run; ``due`` as in :func:`level`."""
    times = due_times if due else merged_times
    return [times([run], metric.time, metric.operation) for run in runs]


def run_value(run: Run, metric: Metric, *, due: bool = False) -> float | None:
    """A run's own value; none when it is 0 or there are too few operations for it."""
    if metric == THROUGHPUT:
        return rate_of(run) or None
    if run.manifest.imported is not None:
        return imported_value(run.manifest.imported, metric)
    if metric.measure == "throughput":
        # Successful operations of a kind in all windows of the counted phases.
        totals = counted_totals(run, metric.operation)
        window_ns = sum(phase.window_ns for phase in run.counted)
        done = sum(total.in_window for total in totals if total.outcome == "ok")
        return (done * NS_PER_S / window_ns if window_ns else 0.0) or None
    (counts,) = counts_of([run], metric, due=due)
    if metric.measure == "mean":
        return float(BEYOND) if counts.quantile(1.0) == BEYOND else counts.mean() or None
    return float(counts.quantile(metric.q) or 0) or None if counts.shows(metric.q) else None


def _throughput(runs: Sequence[Run]) -> Level | None:
    if not runs or min(rate_of(run) for run in runs) <= 0:
        return None
    if len(runs) == 1:
        (run,) = runs
        return imported_level(run) if run.manifest.imported else rate_level(run, run.counted)
    rates = [rate_of(run) for run in runs]
    return stats.level_of_stages(*_stages(runs, rates), rate_resolution(runs))


def _slices(run: Run, metric: Metric, *, due: bool) -> list[Counts]:
    """The times of each interval. Operations without an answer count in all intervals alike."""
    parts = [
        part
        for phase in run.counted
        for part in interval_times(run, phase, metric.time, metric.operation)
    ]
    lost, n = unanswered_of(run, metric.operation) if due else 0, len(parts)
    return [
        part.with_beyond(lost * (place + 1) // n - lost * place // n)
        for place, part in enumerate(parts)
    ]


def _operations(runs: Sequence[Run]) -> list[str]:
    """The kinds of which some succeeded, without parts of read-modify-writes."""
    totals = (total for run in runs for total in counted_totals(run))
    return list(dict.fromkeys(total.operation for total in totals if total.outcome == "ok"))


def merged_times(runs: Iterable[Run], time: TimeName, operation: str | None = None) -> Counts:
    """One time of the successful operations of all runs, of one kind or of all."""
    return Counts.merge(
        run.times(total, time)
        for run in runs
        for total in counted_totals(run, operation)
        if total.outcome == "ok"
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
    return failed_of(run, operation) + sum(_missing(run, one, operation) for one in run.counted)


def failed_of(run: Run, operation: str | None = None) -> int:
    """The operations that failed in the counted phases."""
    totals = counted_totals(run, operation)
    return sum(total.count for total in totals if total.outcome not in ANSWERED)


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


def rate_of(run: Run) -> float:
    """Successful operations per second in all windows of the run's counted phases.

    Of an imported run, the throughput of its only case; 0 with several cases, or if unknown.
    """
    imported = run.manifest.imported
    if imported is None:
        return run.manifest.rate
    level = imported_level(run) if len(imported.cases) == 1 else None
    return 0.0 if level is None else level.value


def case_throughput(runs: Sequence[Run], confidence: float = CONFIDENCE) -> Estimate:
    """Operations per second: the mean over runs, or of one run with the error of its intervals.

    Raises:
        ValueError: there is no run.
    """
    if len(runs) > 1:
        rates = [rate_of(run) for run in runs]
        return case_mean(runs, rates, "ops/s", rate_resolution(runs) * max(rates), confidence)
    (run,) = runs
    level = imported_level(run)
    if level is not None:
        return level.plain("ops/s")
    return throughput(run, *run.counted, confidence=confidence)


def case_mean(
    runs: Sequence[Run],
    figures: Sequence[float],
    unit: str,
    floor: float,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The mean of figures of runs, Stein's where their scatter decided how many there are."""
    return stats.two_stage_mean(*_stages(runs, figures), unit, confidence, floor)


def _stages(runs: Sequence[Run], figures: Sequence[float]) -> tuple[list[float], list[float]]:
    """Their figures: those of a first stage, and those whose number it decided."""
    stages: tuple[list[float], list[float]] = ([], [])
    for run, figure in zip(runs, figures, strict=True):
        stages[run.manifest.spec.get("sequence", {}).get("stage") == 2].append(figure)
    return stages
