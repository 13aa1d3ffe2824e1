"""What a way through a proxy costs: throughput lost, response time added, what the proxy uses.

Each block has a run of the straight way and one through each proxy, so that both sides of a
difference were measured under the same conditions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from kvmark.analysis.study import CaseRuns, PathCost, Proxy, is_precise_case, is_repeated_case
from kvmark.analysis.summary.metrics import merged_times, rate_of
from kvmark.analysis.summary.run import QUANTILES, clock_step_ns, rate_resolution
from kvmark.analysis.summary.sums import counted_totals, counter_deltas, sampled_share
from kvmark.records import Run
from kvmark.stats import Counts, Estimate, mean_interval, paired_difference_of, paired_ratio

_NS_PER_MS: Final = 1e6
_BYTES_PER_MB: Final = 1e6
_NOTHING: Final = "as published, without an error"
_NO_RUN: Final = "no run through the proxy came to its end and isn't INVALID"


def path_costs(cases: Sequence[CaseRuns], factor: str, direct: str) -> tuple[PathCost, ...]:
    """The cost of each way but the straight one, in the order of the cases.

    Args:
        cases: everything that was measured.
        factor: the factor whose levels are ways.
        direct: its level without a proxy.

    Raises:
        RecordsError: a run's files can't be read.
    """
    straight = {_others(case, factor): case for case in cases if case.levels[factor] == direct}
    return tuple(
        _cost(before, case, factor)
        for case in cases
        if case.levels[factor] != direct
        and (before := straight.get(_others(case, factor))) is not None
    )


def published_costs(rows: Sequence[Mapping[str, str]]) -> tuple[PathCost, ...]:
    """The same of published figures; the straight way is the row without a proxy.

    Raises:
        KeyError: a column is missing.
        ValueError: a figure is no number.
    """
    if not rows:
        return ()
    straight, *others = sorted(rows, key=lambda row: bool(row["proxy"]))
    return tuple(_published(straight, row) for row in others)


def _others(case: CaseRuns, factor: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, label) for name, label in case.levels.items() if name != factor)


def _cost(before: CaseRuns, after: CaseRuns, factor: str) -> PathCost:
    blocks = sorted(before.comparable & after.comparable)
    # What the proxy used is measured without the other side.
    measured = [after.runs[n] for n in sorted(after.comparable)]
    known = all(is_repeated_case(case) and is_precise_case(case) for case in (before, after))
    compared = blocks if known else []
    sides = [before.runs[n] for n in compared], [after.runs[n] for n in compared]
    before_rates, after_rates = ([rate_of(run) for run in side] for side in sides)
    times = [[merged_times([run], "response") for run in side] for side in sides]
    memory = [most for run in measured if (most := _memory_bytes(run)) is not None]
    used = [_cpu_us(run) for run in measured]
    cpu = [one for one in used if not isinstance(one, str)]
    lost = _lost(before_rates, after_rates, math.hypot(*map(rate_resolution, sides)))
    missing = {}
    if lost is None:
        missing["throughput_lost"] = _not_compared(blocks, compared)
    # The reason why the proxy's use is unknown for all runs is that of the first run.
    if not cpu:
        reasons = (one for one in used if isinstance(one, str))
        missing["proxy_cpu"] = next(reasons, _NO_RUN)
    if not memory:
        missing["proxy_memory_bytes"] = next(map(_unsampled, measured), _NO_RUN)
    step_ns = clock_step_ns([*sides[0], *sides[1]])
    return PathCost(
        levels=dict(_others(after, factor)),
        through=after.levels[factor],
        proxy=next((found for run in after.runs.values() if (found := _proxy(run))), None),
        blocks=len(compared),
        throughput_lost=lost,
        response_added={
            name: _added(times[0], times[1], q, step_ns) for name, q in QUANTILES.items()
        },
        proxy_cpu=mean_interval(cpu, "µs") if cpu else None,
        proxy_memory_bytes=max(memory, default=None),
        missing=missing,
    )


def _not_compared(blocks: Sequence[int], compared: Sequence[int]) -> str:
    if not blocks:
        return "no block has a run of both ways that came to its end and isn't INVALID"
    if not compared:
        return "the throughput of this way or of the straight one isn't repeated or precise enough"
    return "a run completed no operation"


def _lost(before: Sequence[float], after: Sequence[float], floor: float) -> Estimate | None:
    if not before or min(*before, *after) <= 0:
        return None
    # The loss is the complement of the remainder.
    return paired_ratio(before, after, floor=floor).put(lambda left: (1 - left) * 100, "%")


def _added(
    before: Sequence[Counts], after: Sequence[Counts], q: float, step_ns: float
) -> Estimate | None:
    if not all(Counts.merge(side).shows(q) for side in (before, after)):
        return None
    found = paired_difference_of(before, after, q, "ns", step_ns)
    return None if found is None else found.put(lambda ns: ns / _NS_PER_MS, "ms")


def _description(run: Run) -> Mapping[str, Any]:
    """The manifest's description of the proxy; empty if kvmark didn't start it."""
    testbed: Mapping[str, Any] = run.manifest.testbed or {}
    return testbed if testbed.get("system") == "proxy" else {}


def _proxy(run: Run) -> Proxy | None:
    known = _description(run)
    if not known:
        return None
    version = str(known["version"]).removeprefix(str(known["kind"])).strip()
    return Proxy(known["kind"], version, known["build"], known["threads"])


def _nodes(run: Run) -> list[str]:
    return [str(node["name"]) for node in _description(run).get("nodes", ())]


def _unsampled(run: Run) -> str:
    """The reason why the proxy's use in a run is unknown."""
    if not _description(run):
        return "kvmark didn't start the proxy, and didn't watch it"
    return f"run {run.id} is too short for two samples of the proxy in each measured phase"


def _cpu_us(run: Run) -> float | str:
    """The proxy's CPU time per operation in the counted phases, or why it is unknown."""
    used_s = 0.0
    for record in run.counted:
        deltas = counter_deltas(run, record).filter(pl.col("node").is_in(_nodes(run)))
        cpu_s = deltas["cpu_s"].drop_nulls()
        if cpu_s.is_empty():
            return _unsampled(run)
        used_s += float(cpu_s.sum()) / sampled_share(run, record)
    operations = sum(total.count for total in counted_totals(run))
    return used_s * 1e6 / operations if operations else f"run {run.id} completed no operation"


def _memory_bytes(run: Run) -> float | None:
    """The most memory that the proxy had in a sample of the run."""
    table = run.resources
    if "resident_bytes" not in table.columns:
        return None
    most: Any = table.filter(pl.col("node").is_in(_nodes(run)))["resident_bytes"].max()
    return None if most is None else float(most)


def _published(straight: Mapping[str, str], row: Mapping[str, str]) -> PathCost:
    lost = (1 - float(row["ops_per_s"]) / float(straight["ops_per_s"])) * 100
    added = {
        name: _known(float(row[f"{name}_ms"]) - float(straight[f"{name}_ms"]), "ms")
        for name in QUANTILES
    }
    memory = row["memory_mb"]
    return PathCost(
        levels={},
        through=row["proxy"],
        proxy=Proxy(row["proxy"], "", row["build"], int(row["threads"])),
        blocks=1,
        throughput_lost=_known(lost, "%"),
        response_added=added,
        proxy_cpu=None,
        proxy_memory_bytes=float(memory) * _BYTES_PER_MB if memory else None,
    )


def _known(value: float, unit: str) -> Estimate:
    return Estimate.alone(round(value, 6), unit, _NOTHING)
