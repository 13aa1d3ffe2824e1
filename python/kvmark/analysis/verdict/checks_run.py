"""Checks of the run as a whole, its machine, and whether its figures mean anything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Final

import polars as pl

from kvmark import stats
from kvmark.analysis.summary.run import keeps_rate, mean_service_ns, rate_resolution, throughput
from kvmark.analysis.summary.sums import hit_ratios, interval_sums
from kvmark.analysis.verdict.rules import (
    RULES,
    JudgedPhase,
    Level,
    Reason,
    percent,
    real_clock,
    reason,
)
from kvmark.records import ImportedRecord, Run
from kvmark.spec.quantity import duration_text
from kvmark.stats import LEAST_INTERVALS, Drift, Estimate

IMPRECISE: Final = "imprecise"
NOT_STATIONARY: Final = "not_stationary"
_UNSERVED: Final = "unserved_clients"
INSUFFICIENT_DATA: Final = frozenset({IMPRECISE, _UNSERVED})
"""The codes of the reasons for which a run's data are insufficient."""
ENOUGH_RUNS: Final = 5
"""From this number on, the spread of a case's runs gives the error that a short one can't."""
_LEAST_FOR_DRIFT = 10
_WARM_BY = 5
"""The number of runs after which servers are warm, independent of their warm-up."""
_DRIFT_P_VALUE = 0.01
_MOVES: Final = {"rate": "throughput", "service_ns": "mean service time"}
"""The series that must be stationary, by their columns."""

#: Keys of the manifest's ``host`` that the checks read.
HOST_LOAD = "other_busy_cores_before"
HOST_CORES = "cores"
HOST_OVERHEAD = "engine_overhead_ns_per_operation"
#: Instead of it, if the calibrations differ too much for a cost of the engine.
HOST_OVERHEAD_LEAST = "engine_overhead_ns_least"
HOST_OVERHEAD_MEDIAN = "engine_overhead_ns_median"


def imported(record: ImportedRecord) -> Reason | None:
    """Why an imported run isn't judged."""
    origin = record.origin
    tool = f" from {origin.tool}" if origin.tool else ""
    return reason(
        "imported",
        1,
        f"imported{tool}: not judged, since how load was offered and what was left out isn't known",
        {"file": origin.file, "format": origin.format},
    )


def check_ending(run: Run) -> Iterator[Reason | None]:
    """How the run came to its end."""
    engine = run.manifest.engine
    cancelled = [phase.name for phase in engine.phases if phase.stopped_by == "cancelled"]
    stopped = engine.interrupted or bool(cancelled)
    phase = cancelled[0] if cancelled else None
    yield reason(
        "interrupted",
        int(stopped),
        "the run was ended before its plan did, by the user or by a limit on time",
        {},
        phase=phase,
    )
    killed = run.manifest.closed_by == "recovered"
    yield reason("recovered", int(killed), "the run was killed and closed from its logs", {})
    unanswered = {one.phase: one for one in engine.notices if one.code == "no_answer"}
    for notice in unanswered.values():
        named = next((one.name for one in engine.phases if one.index == notice.phase), None)
        yield reason("no_answer", 1, notice.message, notice.evidence, phase=named)
    for record in engine.phases:
        yield reason(
            "phase_failed",
            int(record.stopped_by == "failed" and record.index not in unanswered),
            f"the system under test ended the {record.name} phase by failing",
            {},
            phase=record.name,
        )
        abandoned = sum(group.abandoned for group in record.groups)
        yield reason(
            "abandoned",
            abandoned,
            f"{abandoned} operations were still in flight when the drain limit was over",
            {"abandoned": abandoned},
            phase=record.name,
        )
    unmeasured = run.manifest.unmeasured
    if unmeasured is not None:
        yield reason("nothing_measured", 1, f"the run {unmeasured}", {})


def check_machine(run: Run) -> Iterator[Reason | None]:
    """What else the machine did, what the engine costs there, and where the workers ran."""
    if not real_clock(run):
        return
    known = _numbers(run, HOST_LOAD, HOST_CORES)
    busy = [(load / cores, load, cores) for load, cores in known if cores]
    for share, load, cores in [max(busy)] if busy else []:
        yield reason(
            "busy_machine",
            share,
            f"other programs kept {load:.2g} of {cores:.0f} cores busy before the run",
            {HOST_LOAD: load, HOST_CORES: cores},
        )
    costs = _numbers(run, HOST_OVERHEAD_LEAST, HOST_OVERHEAD_MEDIAN)
    apart = [(median / least, least, median) for least, median in costs if least and median]
    for times, least, median in [max(apart)] if apart else []:
        yield reason(
            "calibration_disturbed",
            times,
            f"what the engine costs isn't known: calibrated several times, it took {least:.0f} ns"
            f" per operation at the least and {median:.0f} ns in the median",
            {HOST_OVERHEAD_LEAST: least, HOST_OVERHEAD_MEDIAN: median},
        )
    workers = [worker for phase in run.counted for worker in phase.workers]
    unpinned = any(not worker.cores for worker in workers)
    yield reason("unpinned", int(unpinned), "the kernel chose the cores of the workers", {})


def check_notices(run: Run) -> Iterator[Reason | None]:
    """The engine's own warnings, as they are, but those that the records show just as well."""
    names = {phase.index: phase.name for phase in run.manifest.engine.phases}
    for notice in run.manifest.engine.notices:
        if notice.code in RULES:
            continue
        yield Reason(
            code="engine_notice",
            level=Level.NOTE,
            phase=None if notice.phase is None else names.get(notice.phase),
            sentence=notice.message,
            evidence={"code": notice.code, **notice.evidence},
            threshold=None,
            advice=notice.advice,
        )


def check_resolution(phase: JudgedPhase) -> Iterator[Reason | None]:
    """The engine's cost and the clock's step against the measured times."""
    mean_ns = mean_service_ns(phase.succeeded)
    driver = phase.run.manifest.plan.get("system", {}).get("driver")
    overhead_ns = max((cost_ns for (cost_ns,) in _numbers(phase.run, HOST_OVERHEAD)), default=None)
    if not mean_ns or not real_clock(phase.run):
        return
    if overhead_ns is not None and driver != "null":
        yield phase.reason(
            "engine_overhead",
            overhead_ns / mean_ns,
            f"the engine's own {overhead_ns:.0f} ns per operation are"
            f" {percent(overhead_ns / mean_ns)} of the mean service time",
            {HOST_OVERHEAD: overhead_ns, "service_ns_mean": mean_ns},
        )
    clock = phase.run.manifest.engine.clock
    median_ns = max(phase.succeeded, key=lambda total: total.count).service.p50
    if clock is not None and median_ns > 0:
        yield phase.reason(
            "coarse_clock",
            clock.resolution_ns / median_ns,
            f"the clock moves in steps of {clock.resolution_ns:.0f} ns and the median service time"
            f" is {median_ns} ns",
            {"resolution_ns": clock.resolution_ns, "service_ns_p50": median_ns},
        )


def check_warm_up(run: Run) -> Iterator[Reason | None]:
    """Whether a warm-up that waits for something was cut short by its limit."""
    planned = run.manifest.plan.get("phases", ())
    waits = {index for index, phase in enumerate(planned) if phase.get("until")}
    for record in run.manifest.engine.phases:
        cut = record.name == "warm_up" and record.index in waits and record.stopped_by == "duration"
        yield reason(
            "not_warmed_up",
            int(cut),
            f"after {duration_text(record.window_ns)} of warm-up throughput still moved",
            {"warm_up_ns": record.window_ns},
            phase=record.name,
        )


def check_server_warm_up(run: Run) -> Iterator[Reason | None]:
    """Whether a study's servers still got faster when their warm-up ended, or had none."""
    study = run.manifest.study
    if "server_warmup" not in study:
        return
    warmup, place = study["server_warmup"], study.get("after_start")
    if warmup is None:
        yield reason(
            "servers_not_warm",
            math.inf,
            "its servers were to be warmed up, and no case of the study could be a load",
            {},
            level=Level.NOTE,
        )
        return
    # Too few rounds show no trend.
    risen = stats.warmup_gain(warmup["rounds"])
    took = duration_text(warmup["took_s"] * 1e9)
    far = "too few" if risen is None else f"{percent(risen)} faster than the best before"
    later = place is not None and place > _WARM_BY
    yield reason(
        "servers_not_warm",
        math.inf if risen is None else risen,
        f"when its servers' warm-up came to its end after {took}, its last rounds were {far}",
        {"server_warmup_s": warmup["took_s"], "rounds": len(warmup["rounds"])},
        level=Level.NOTE if later else None,
    )


def check_stationary(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Throughput and mean service time over the intervals; the one that moves more is named.

    Where faults were planned, each segment before and after them is looked at alone.
    """
    for segment, rows in phase.quiet if _is_steady(phase) else ():
        yield _moved_most(_drifts(interval_sums(rows)), f"intervals{segment.place}")


def steady_courses(runs: Iterable[Run]) -> list[pl.DataFrame]:
    """The sums of the intervals of runs in the order of time.

    Without runs whose rate is planned to change, that completed nothing, or that have too few
    intervals.
    """
    ordered = sorted(runs, key=lambda run: run.manifest.created)
    phases = [JudgedPhase(run, record) for run in ordered for record in run.counted]
    courses = [interval_sums(phase.full_intervals) for phase in phases if _is_steady(phase)]
    return [one for one in courses if len(one) >= _LEAST_FOR_DRIFT and one["succeeded"].sum() > 0]


def check_courses(courses: Sequence[pl.DataFrame]) -> Iterator[Reason | None]:
    """Whether several runs moved in the same way, each in itself or from one to the next.

    What one run does alone, such as while the machine has a busy neighbour, is part of the scatter
    of the runs.
    """
    within = _drifts(_mean_course(courses))
    yield _moved_most(within, f"intervals of {len(courses)} runs together")
    means = pl.concat([one.select(pl.col(*_MOVES).mean()) for one in courses])
    yield _moved_most(_drifts(means), "runs")


def _is_steady(phase: JudgedPhase) -> bool:
    """Whether the plan wants the same rate all the time."""
    keep = all(keeps_rate(phase.run, group.group) for group in phase.record.groups)
    return keep and phase.name == "measure"


def _mean_course(courses: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The mean course of runs, each run's mean being 1; null where fewer than five have a value."""
    series = pl.col(*_MOVES)
    shares = [
        one.with_row_index("place").select("place", series / series.mean()) for one in courses
    ]
    mean = pl.when(series.count() >= ENOUGH_RUNS).then(series.mean())
    return pl.concat(shares).group_by("place").agg(mean).sort("place")


def check_hit_ratio(phase: JudgedPhase) -> Iterator[Reason | None]:
    """The hit ratio of groups that fill a cache, by the rule of throughput."""
    fills = any(group.get("on_miss") for group in phase.run.manifest.plan.get("groups", ()))
    for segment, rows in phase.quiet if fills and phase.name == "measure" else ():
        for (group,), ratios in hit_ratios(phase.run, rows).group_by("series", maintain_order=True):
            moved = [(f"hit ratio of group {group}", _drift(ratios["value"]))]
            yield _moved_most(moved, f"intervals{segment.place}", "unsteady_hit_ratio")


def _drifts(rows: pl.DataFrame) -> list[tuple[str, Drift | None]]:
    """The drift of each series that must be stationary, with the series' name."""
    return [(name, _drift(rows[column].drop_nulls())) for column, name in _MOVES.items()]


def _drift(series: pl.Series) -> Drift | None:
    """The drift of a series, unless chance explains it."""
    if len(series) < _LEAST_FOR_DRIFT:
        return None
    moved = stats.drift(series.to_list())
    return moved if moved.p_value < _DRIFT_P_VALUE else None


def _moved_most(
    series: Sequence[tuple[str, Drift | None]], of: str, code: str = NOT_STATIONARY
) -> Reason | None:
    """The reason about the measured series that moved most, if one did."""
    found = [(name, moved) for name, moved in series if moved is not None]
    if not found:
        return None
    name, moved = max(found, key=lambda one: abs(one[1].change))
    # The change is measured against the middle, so that a fall can be more than all of it.
    median = " of its median" if abs(moved.change) > 1 else ""
    how = "rose" if moved.change > 0 else "fell"
    return reason(
        code,
        abs(moved.change),
        f"the {name} {how} by {percent(abs(moved.change))}{median} over {moved.n} {of}",
        {"series": name, "change": moved.change, "p_value": moved.p_value, "intervals": moved.n},
        phase="measure",
    )


def check_samples(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Whether there is enough for an error of the throughput and for the quantiles."""
    intervals = phase.full_intervals["start_ns"].n_unique()
    yield phase.reason(
        "too_short",
        LEAST_INTERVALS - intervals,
        f"the {phase.name} phase has {intervals} of the {LEAST_INTERVALS} full intervals that an"
        " error of its throughput needs",
        {"intervals": intervals},
    )
    ok = {f"{total.group}.{total.operation}": total.count for total in phase.succeeded}
    if not ok:
        return
    rarest = min(ok, key=lambda name: ok[name])
    needed = stats.least_observations(0.99)
    most = max(ok.values())
    yield phase.reason(
        "too_few_samples",
        needed - ok[rarest],
        f"{rarest} succeeded {ok[rarest]} times and its p99 needs {needed}, so it is not shown",
        {"operation": rarest, "count": ok[rarest], "most": most},
        level=Level.SUSPECT if most < stats.least_observations(0.95) else None,
    )


def _numbers(run: Run, *keys: str) -> list[tuple[float, ...]]:
    """These numbers of the machines that generated the load, for which all are known."""
    hosts = [agent.host for agent in run.manifest.engine.agents] or [run.manifest.host]
    found = [[host.get(key) for key in keys] for host in hosts]
    return [
        numbers
        for values in found
        for numbers in [tuple(float(value) for value in values if isinstance(value, int | float))]
        if len(numbers) == len(keys)
    ]


def check_precision(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How wide the throughput's interval is, and whether each client ended an operation.

    Where faults were planned, the interval is that of each segment before and after.
    """
    if not any(segment.name for segment, _ in phase.quiet):
        yield imprecise(throughput(phase.run, phase.record), phase.name)
    else:
        floor = rate_resolution([phase.run])
        for segment, rows in phase.quiet:
            rates = interval_sums(rows)["rate"].to_list()
            if any(rates):
                found = stats.rate_of_intervals(fmean(rates), rates, floor).plain("ops/s")
                yield imprecise(found, phase.name, segment.place)
    # In the open model the number of clients is a limit.
    planned = [phase.planned(group.group) for group in phase.record.groups]
    closed = [one for one in planned if one.get("arrival", {}).get("process") == "closed"]
    clients, ended = sum(int(one.get("clients", 0)) for one in closed), phase.count()
    # Where no operation ended, nothing was measured.
    unserved = clients - ended if ended else 0
    yield phase.reason(
        _UNSERVED,
        unserved,
        f"of {clients} clients at least {unserved} ended no operation: there were {ended}",
        {"clients": clients, "ended": ended},
    )


def imprecise(found: Estimate, phase: str | None = None, place: str = "") -> Reason | None:
    """The reason, where half the interval is too large a part of the throughput.

    An unknown interval has another reason. `place` is that of a segment of the phase.
    """
    share = found.relative_error
    if share is None:
        return None
    return reason(
        IMPRECISE,
        share,
        f"half the interval of the throughput{place} is {percent(share)} of it"
        + (", so that it may be 0" if share > 1 else ""),
        {"throughput": found.value, "error": found.error or 0.0, "n": found.n},
        phase=phase,
    )
