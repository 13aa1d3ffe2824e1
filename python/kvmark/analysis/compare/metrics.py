"""The metrics of comparisons, their values of runs, and the differences of two sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvmark.analysis.imported import imported_level
from kvmark.analysis.summary.aggregate import (
    case_throughput,
    due_times,
    merged_times,
    rate_of,
    stages,
    unanswered_of,
)
from kvmark.analysis.summary.run import QUANTILES, clock_step_ns, rate_level, rate_resolution
from kvmark.records import Run
from kvmark.records.run import interval_times
from kvmark.spec.metric import THROUGHPUT, Metric, check_operations
from kvmark.stats import (
    BEYOND,
    CONFIDENCE,
    Counts,
    Effect,
    Estimate,
    Level,
    difference,
    jackknife,
    level_of,
    level_of_stages,
    quantile_of_intervals,
)

_NS_PER_S: Final = 1e9


def check_known(metrics: Iterable[Metric], runs: Sequence[Run]) -> None:
    """Refuses metrics of operations that none of the runs has.

    Raises:
        UsageError: there is no such operation; lists the known ones.
    """
    check_operations(metrics, operations_of(runs), "the runs have")


def operations_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """The operations of the counted phases, with any outcome."""
    found = dict.fromkeys(
        total.operation
        for run in runs
        for phase in run.counted
        for total in run.totals(phase.index)
    )
    return tuple(found)


def metrics_of(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """The metrics of the operations of which some succeeded."""
    return metrics_of_operations(_operations(runs))


def metrics_of_operations(operations: Collection[str]) -> tuple[Metric, ...]:
    """Throughput, every quantile of all operations, and median and p99 of each kind."""
    kinds = operations if len(operations) > 1 else ()
    return (
        THROUGHPUT,
        *(Metric("quantile", name) for name in QUANTILES),
        *(Metric("quantile", name, operation=kind) for kind in kinds for name in ("p50", "p99")),
    )


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
    if metric.quantile is None:
        return _of_runs(runs, metric, due=due)
    found = counts_of(runs, metric, due=due)
    together = Counts.merge(found)
    if not together.shows(metric.q):
        return None
    step_ns = clock_step_ns(runs)
    if len(runs) > 1:
        return jackknife(found, metric.q, step_ns)
    slices = _slices(runs[0], metric, due=due)
    within = quantile_of_intervals(slices or found, metric.q, step_ns)
    value = together.quantile(metric.q)
    if within is None or not value:
        return None
    # Of all operations, those that ended in the drain too.
    return replace(within, log=math.log(value))


def figure(
    runs: Sequence[Run], metric: Metric, confidence: float = CONFIDENCE, *, due: bool = False
) -> Estimate | None:
    """The same as a figure with its interval, as every table and figure shows it.

    Raises:
        RecordsError: a run's files can't be read.
    """
    found = level(runs, metric, due=due)
    return None if found is None else shown(runs, metric, found, confidence)


def shown(
    runs: Sequence[Run], metric: Metric, found: Level, confidence: float = CONFIDENCE
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
        for name in ("p50", "p99")
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
    if metric.measure == "throughput":
        return _operation_rate(run, metric.operation) or None
    (counts,) = counts_of([run], metric, due=due)
    if metric.measure == "mean":
        return float(BEYOND) if counts.quantile(1.0) == BEYOND else counts.mean() or None
    return float(counts.quantile(metric.q) or 0) or None if counts.shows(metric.q) else None


def _of_runs(runs: Sequence[Run], metric: Metric, *, due: bool) -> Level | None:
    """A figure of each run: a single run has no error of it."""
    values = [run_value(run, metric, due=due) for run in runs]
    known = [value for value in values if value]
    if not known or len(known) < len(values):
        return None
    return level_of(known, _resolution(runs, metric))


def _operation_rate(run: Run, operation: str | None) -> float:
    """Successful operations of a kind per second in all windows of the counted phases."""
    window_ns = sum(phase.window_ns for phase in run.counted)
    done = sum(
        total.in_window
        for phase in run.counted
        for total in run.totals(phase.index)
        if total.outcome == "ok" and total.operation == operation
    )
    return done * _NS_PER_S / window_ns if window_ns else 0.0


def _throughput(runs: Sequence[Run]) -> Level | None:
    if not runs or min(rate_of(run) for run in runs) <= 0:
        return None
    if len(runs) == 1:
        (run,) = runs
        return imported_level(run) if run.manifest.imported else rate_level(run, run.counted)
    first, second = stages(runs, [rate_of(run) for run in runs])
    floor = rate_resolution(runs)
    if len(first) > 1 and second:
        return level_of_stages(first, second, floor)
    return level_of([*first, *second], floor)


def _slices(run: Run, metric: Metric, *, due: bool) -> list[Counts]:
    """The times of each interval. Operations without an answer count in all intervals alike."""
    parts = [
        part
        for phase in run.counted
        for part in interval_times(run, phase, metric.time, metric.operation)
    ]
    lost = unanswered_of(run, metric.operation) if due else 0
    ends = [lost * place // len(parts) for place in range(len(parts) + 1)] if parts else []
    return [
        part.with_beyond(end - begin)
        for part, begin, end in zip(parts, ends, ends[1:], strict=False)
    ]


def _operations(runs: Sequence[Run]) -> list[str]:
    """The kinds of which some succeeded, without parts of read-modify-writes."""
    return list(
        dict.fromkeys(
            total.operation
            for run in runs
            for phase in run.counted
            for total in run.totals(phase.index)
            if total.outcome == "ok" and not total.part
        )
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric on both sides. A side is none where it has too few operations for it."""

    metric: Metric
    baseline: Estimate | None
    candidate: Estimate | None
    effect: Effect | None


Row = Callable[[Metric], Compared]
"""Compares both sides by a metric."""
Rows = Callable[[float], Row]
"""Makes what compares with intervals of a coverage."""


def independent(baseline: Sequence[Run], candidate: Sequence[Run], *, due: bool = False) -> Rows:
    """Compares runs that have nothing to do with each other; ``due`` as in :func:`level`."""

    def rows(confidence: float) -> Row:
        def row(metric: Metric) -> Compared:
            before, after = (level(side, metric, due=due) for side in (baseline, candidate))
            effect = difference(before, after, confidence) if before and after else None
            return Compared(
                metric,
                baseline=shown(baseline, metric, before, confidence) if before else None,
                candidate=shown(candidate, metric, after, confidence) if after else None,
                effect=effect,
            )

        return row

    return rows


def without_effects(rows: Rows) -> Rows:
    """The figures of both sides, of which a side has too few repetitions for an effect."""

    def figures(confidence: float) -> Row:
        row = rows(confidence)
        return lambda metric: replace(row(metric), effect=None)

    return figures
