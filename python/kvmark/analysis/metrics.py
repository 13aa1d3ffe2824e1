"""The metrics that runs are compared by: which there are, and what runs say of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kvmark.analysis.aggregate import merged_times, rate_of
from kvmark.analysis.imported import imported_rates
from kvmark.analysis.summary import QUANTILES, interval_rates
from kvmark.records import Run
from kvmark.records.slices import interval_times
from kvmark.spec.metric import THROUGHPUT, Metric, check_operations
from kvmark.stats import Counts, Level, block_bootstrap, effective_sample_size, jackknife, level_of

__all__ = ["check_known", "counts_of", "level", "metrics_of", "operations_of", "run_value"]

# Student's t needs a few intervals before its error says anything.
_LEAST_INTERVALS: Final = 5
_NS_PER_S: Final = 1e9


def check_known(metrics: Iterable[Metric], runs: Sequence[Run]) -> None:
    """Refuses metrics of operations that none of the runs has.

    Raises:
        UsageError: there is no such operation; says which there are.
    """
    check_operations(metrics, operations_of(runs), "the runs have")


def operations_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """The operations that are told apart in the counted phases, however they ended."""
    found = dict.fromkeys(
        total.operation
        for run in runs
        for phase in run.counted
        for total in run.totals(phase.index)
    )
    return tuple(found)


def metrics_of(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """Throughput, every quantile of all operations, and median and p99 of each kind."""
    operations = dict.fromkeys(
        total.operation
        for run in runs
        for phase in run.counted
        for total in run.totals(phase.index)
        if total.outcome == "ok" and not total.part
    )
    kinds = operations if len(operations) > 1 else ()
    return (
        THROUGHPUT,
        *(Metric("quantile", name) for name in QUANTILES),
        *(Metric("quantile", name, operation=kind) for kind in kinds for name in ("p50", "p99")),
    )


def level(runs: Sequence[Run], metric: Metric) -> Level | None:
    """What runs of one case say of a metric; none when they don't say.

    Several runs are told apart, so that the error is that between runs. A single one has only the
    error between its intervals.

    Raises:
        RecordsError: a run's files can't be read.
    """
    if metric == THROUGHPUT:
        return _throughput(runs)
    if metric.quantile is None:
        return _of_runs(runs, metric)
    found = counts_of(runs, metric)
    together = Counts.merge(found)
    if not together.shows(metric.q):
        return None
    if len(runs) > 1:
        return jackknife(found, metric.q)
    within = _within(runs[0], metric)
    value = together.quantile(metric.q)
    if within is None or not value:
        return None
    # Of all operations, those that ended in the drain too.
    return replace(within, log=math.log(value))


def counts_of(runs: Sequence[Run], metric: Metric) -> list[Counts]:
    """The times of a metric, run by run."""
    return [merged_times([run], metric.time, metric.operation) for run in runs]


def run_value(run: Run, metric: Metric) -> float | None:
    """A run's own value; none when it is 0 or there are too few operations for it."""
    if metric == THROUGHPUT:
        return rate_of(run) or None
    if metric.measure == "throughput":
        return _operation_rate(run, metric.operation) or None
    counts = merged_times([run], metric.time, metric.operation)
    if metric.measure == "mean":
        return counts.mean() or None
    return float(counts.quantile(metric.q) or 0) or None if counts.shows(metric.q) else None


def _of_runs(runs: Sequence[Run], metric: Metric) -> Level | None:
    """A figure that each run has of its own: a single run says nothing of its error."""
    values = [run_value(run, metric) for run in runs]
    known = [value for value in values if value]
    return level_of(known) if known and len(known) == len(values) else None


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
    rates = [rate_of(run) for run in runs]
    if not rates or min(rates) <= 0:
        return None
    if len(runs) > 1:
        return level_of(rates, "mean over runs, t-interval on logs")
    within = [rate for phase in runs[0].counted for rate in interval_rates(runs[0], phase)]
    within = within or imported_rates(runs[0])
    log, method = math.log(rates[0]), "rate of intervals, corrected for autocorrelation"
    units = effective_sample_size(within)
    if len(within) < _LEAST_INTERVALS or units < 2:
        return Level(log, None, 1.0, between_runs=False, method=method)
    mean = sum(within) / len(within)
    variance = sum((rate - mean) ** 2 for rate in within) / (len(within) - 1)
    return Level(log, variance**0.5 / mean, units, between_runs=False, method=method)


def _within(run: Run, metric: Metric) -> Level | None:
    slices = [
        part
        for phase in run.counted
        for part in interval_times(run, phase, metric.time, metric.operation)
    ]
    return block_bootstrap(slices, metric.q) or jackknife(counts_of([run], metric), metric.q)
