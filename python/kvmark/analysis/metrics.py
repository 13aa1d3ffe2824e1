"""The figures that runs are compared by: how they are called, and what runs say of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvmark.analysis.aggregate import merged_times, rate_of
from kvmark.analysis.imported import imported_rates
from kvmark.analysis.summary import QUANTILES, interval_rates
from kvmark.errors import UsageError
from kvmark.records import Run, TimeName
from kvmark.records.slices import interval_times
from kvmark.stats import Counts, Level, block_bootstrap, effective_sample_size, jackknife, level_of

__all__ = [
    "THROUGHPUT", "Metric", "counts_of", "level", "metrics_of", "parse_metric", "run_value",
]  # fmt: skip

_TIMES: Final[tuple[TimeName, ...]] = ("response", "service", "wait")
# Student's t needs a few intervals before its error says anything.
_LEAST_INTERVALS: Final = 5


@dataclass(frozen=True, slots=True)
class Metric:
    """Throughput, or a quantile of one of the three times of all operations or of one kind."""

    quantile: str | None = None
    time: TimeName = "response"
    operation: str | None = None

    @property
    def name(self) -> str:
        """How it is called where one is asked for, such as `p99` or `READ.service.p99`."""
        if self.quantile is None:
            return "throughput"
        time = "" if self.time == "response" else f"{self.time}."
        operation = "" if self.operation is None else f"{self.operation}."
        return f"{operation}{time}{self.quantile}"

    @property
    def unit(self) -> str:
        """Of its values."""
        return "ops/s" if self.quantile is None else "ns"

    @property
    def more_is_better(self) -> bool:
        """Whether a rise is welcome."""
        return self.quantile is None

    @property
    def q(self) -> float:
        """The quantile as a share."""
        return QUANTILES[self.quantile or ""]


THROUGHPUT: Final = Metric()


def parse_metric(text: str) -> Metric:
    """A metric from its name.

    Raises:
        UsageError: there is no such metric.
    """
    if text == "throughput":
        return THROUGHPUT
    *before, last = text.replace("p99.9", "p999").split(".")
    time: TimeName = "response"
    if before and before[-1] in _TIMES:
        time = next(one for one in _TIMES if one == before[-1])
        before.pop()
    if last not in QUANTILES or len(before) > 1:
        known = ", ".join(["throughput", *QUANTILES])
        raise UsageError(
            f"'{text}' is no metric: take one of {known}, with an operation or a time before it as"
            " in READ.p99 or service.p99"
        )
    return Metric(last, time, before[0] if before else None)


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
        *(Metric(name) for name in QUANTILES),
        *(Metric(name, operation=kind) for kind in kinds for name in ("p50", "p99")),
    )


def level(runs: Sequence[Run], metric: Metric) -> Level | None:
    """What runs of one case say of a metric; none when they don't say.

    Several runs are told apart, so that the error is that between runs. A single one has only the
    error between its intervals.

    Raises:
        RecordsError: a run's files can't be read.
    """
    if metric.quantile is None:
        return _throughput(runs)
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
    if metric.quantile is None:
        return rate_of(run) or None
    counts = merged_times([run], metric.time, metric.operation)
    return float(counts.quantile(metric.q) or 0) or None if counts.shows(metric.q) else None


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
