"""How fast the machine itself was while runs were measured, by work that is always the same.

A virtual machine's neighbours take from it what no counter tells: the clock rate of its cores,
their second threads, caches. Time that was stolen stays 0, and the processor is as busy as before.
So each sample of a run's resources has the processor time that a fixed piece of work took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Final

import polars as pl

from kvmark.analysis.verdict.evidence import percent, real_clock, reason
from kvmark.analysis.verdict.rules import Reason
from kvmark.records import Run
from kvmark.records.files import FIXED_WORK
from kvmark.stats import Estimate
from kvmark.stats.estimate import median_interval

__all__ = ["fixed_work_ns", "same_machine", "unlike_machines"]

_LEAST_SAMPLES: Final = 8
_LEAST_RUNS: Final = 3
_HOST: Final = ("processor", "cores", "memory_bytes", "kernel", "governor")
"""What a machine is known by."""
_NS_PER_MS: Final = 1e6


def fixed_work_ns(runs: Iterable[Run]) -> Estimate | None:
    """The median processor time of the fixed work in the counted phases, with its interval.

    Returns:
        Nanoseconds; none where fewer than eight samples were taken, as in runs of a few seconds.
    """
    samples = [value for run in runs for value in _samples(run)]
    return median_interval(samples, "ns") if len(samples) >= _LEAST_SAMPLES else None


def same_machine(run: Run) -> tuple[str, ...]:
    """The machine of a run: on another one the fixed work takes another time."""
    return tuple(str(run.manifest.host.get(name)) for name in _HOST)


def unlike_machines(cases: Iterable[Collection[Run]]) -> Mapping[str, Reason]:
    """Why runs, by their ids, aren't like others of their case: the machine was faster or slower.

    What else a workload leaves in caches is the same within a case. A run is held against the
    median of all runs on the machine, where there are three or more; the nearer end of its interval
    counts.
    """
    reasons: dict[str, Reason] = {}
    # Files of a case that says nothing needn't be read.
    for runs in (case for case in cases if len(case) >= _LEAST_RUNS):
        known: dict[tuple[str, ...], dict[str, Estimate]] = {}
        for run in runs:
            found = fixed_work_ns([run])
            if found is not None:
                known.setdefault(same_machine(run), {})[run.id] = found
        for each in known.values():
            reasons |= _of_case(each)
    return reasons


def _of_case(found: Mapping[str, Estimate]) -> Mapping[str, Reason]:
    if len(found) < _LEAST_RUNS:
        return {}
    usual_ns = median(one.value for one in found.values())
    told = {run: _reason(one, usual_ns, len(found)) for run, one in found.items()}
    return {run: why for run, why in told.items() if why is not None}


def _reason(found: Estimate, usual_ns: float, runs: int) -> Reason | None:
    if found.low is None or found.high is None:
        return None
    apart = found.value / usual_ns - 1
    certain = max(found.low / usual_ns - 1, 1 - found.high / usual_ns)
    how, more = ("slower", "more") if apart > 0 else ("faster", "less")
    return reason(
        "machine_speed",
        certain,
        f"the machine itself was {how} than in the case's other runs: the same work took"
        f" {found.value / _NS_PER_MS:.3g} ms, {percent(abs(apart))} {more} than their median",
        {"fixed_work_ns": found.value, "usual_ns": usual_ns, "samples": found.n, "runs": runs},
    )


def _samples(run: Run) -> list[int]:
    """The processor times of the fixed work while the run was counted."""
    if not real_clock(run):
        return []
    table = run.resources
    if not {FIXED_WORK, "at_wall_ns"} <= set(table.columns):
        return []
    origin_ns = run.manifest.engine.started_wall_ns
    within = pl.lit(value=False)
    for record in run.counted:
        ends_ns = record.drained_ns or record.end_ns
        own = pl.col("at_wall_ns").is_between(origin_ns + record.start_ns, origin_ns + ends_ns)
        within |= own
    return table.filter(within)[FIXED_WORK].drop_nulls().cast(pl.Int64).to_list()
