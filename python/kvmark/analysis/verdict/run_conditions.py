"""Conditions that differ between runs of a case: the machine's own speed, and cold servers.

A virtual machine's neighbours take from it what no counter tells: the clock rate of its cores,
their second threads, caches. Time that was stolen stays 0, and the processor is as busy as before.
So each sample of a run's resources has the processor time that a fixed piece of work took.

A warm-up ends when its rounds rise no more. The measurements show whether that was enough: the
same case comes at another place after a start in each repetition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Final

import polars as pl

from kvmark.analysis.summary.metrics import run_value
from kvmark.analysis.summary.sums import within
from kvmark.analysis.verdict.rules import Reason, percent, real_clock, reason
from kvmark.records import Run
from kvmark.records.files import FIXED_WORK
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Estimate, Placed, warming
from kvmark.stats.estimate import median_interval

_LEAST_SAMPLES: Final = 8
_LEAST_RUNS: Final = 3
_HOST: Final = ("processor", "cores", "memory_bytes", "kernel", "governor")
"""What a machine is known by."""
_NS_PER_MS: Final = 1e6
_ORDINALS: Final = {1: "1st", 2: "2nd", 3: "3rd"}


def fixed_work_ns(runs: Iterable[Run]) -> Estimate | None:
    """The median processor time of the fixed work in the counted phases, with its interval.

    Returns:
        Nanoseconds; none where fewer than eight samples were taken, as in runs of a few seconds.
    """
    samples: list[int] = []
    for run in runs:
        table = run.resources
        if real_clock(run) and {FIXED_WORK, "at_wall_ns"} <= set(table.columns):
            counted = [within(run, one) for one in run.counted]
            rows = table.filter(pl.any_horizontal(pl.lit(value=False), *counted))
            samples += rows[FIXED_WORK].drop_nulls().cast(pl.Int64).to_list()
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
            usual_ns = median(one.value for one in each.values())
            for run_id, one in each.items() if len(each) >= _LEAST_RUNS else ():
                why = _reason(one, usual_ns, len(each))
                reasons |= {run_id: why} if why is not None else {}
    return reasons


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


def cold_runs(cases: Iterable[Mapping[int, Run]]) -> Mapping[str, Reason]:
    """Why runs are slower than they would be later after their servers' start, by their ids.

    Args:
        cases: the runs of each case that can be used, by repetition. Only those without a rate say
            how fast servers were, and each kind of system is looked at by itself.

    Raises:
        RecordsError: a run's files can't be read.
    """
    placed: dict[str, dict[str, Placed]] = {}
    for number, runs in enumerate(cases):
        for repetition, run in runs.items():
            place = run.manifest.study.get("after_start")
            groups = run.manifest.plan.get("groups", ())
            paced = any(one.get("arrival", {}).get("process") != "closed" for one in groups)
            if not isinstance(place, int) or place < 1 or paced:
                continue
            value = run_value(run, THROUGHPUT)
            if value:
                # Some kinds of servers are warm at once.
                kind = (run.manifest.testbed or {}).get("system")
                kind = kind or run.manifest.plan.get("system", {}).get("driver")
                own = Placed(str(number), repetition, place, value)
                placed.setdefault(str(kind), {})[run.id] = own
    found: dict[str, Reason] = {}
    for each in placed.values():
        effect = warming(list(each.values()))
        if effect is None or effect.high is None or effect.high >= 0:
            continue
        for run_id, one in each.items():
            why = _cold_reason(one.place, effect)
            found |= {run_id: why} if why is not None else {}
    return found


def _cold_reason(place: int, effect: Estimate) -> Reason | None:
    lost = -math.expm1(effect.value * 2.0 ** (1 - place))
    first = -math.expm1(effect.value)
    return reason(
        "cold_servers",
        lost,
        f"it was the {_ORDINALS.get(place, f'{place}th')} run after its servers' start, and there"
        f" the study's runs are slower by {percent(lost)} than later",
        {"place": place, "lost_share": lost, "lost_share_first": first, "runs": effect.n},
    )
