"""How a workload differs from the trace that it stands for, and whether it is its twin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from kvmark import catalog
from kvmark.analysis.compare.comparison import compare
from kvmark.errors import UsageError
from kvmark.learn.drawn import CACHES, MODELLED, KeyOperations, of_trace, of_workload
from kvmark.records import Run
from kvmark.spec.curve import parse_curve
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import GroupSpec, Mix, RatePoint, WorkloadSpec
from kvmark.stats import Estimate, mean_interval
from kvmark.trace import KINDS, Trace

TwinJudgement = Literal["alike", "unlike", "unknown"]

_MEASURED: Final = (("throughput", 0.05), ("p99", 0.25))
"""By how much, as a share, what is measured of a twin may differ."""
_HITS_MARGIN: Final = 0.03
"""By how much a hit ratio may."""
_BYTES_MARGIN: Final = 0.1

_LONGEST_NS: Final = 30 * 10**9
"""How long a side of a block is measured at most, when not said."""
_STATEMENTS: Final = {"read": "READ", "delete": "DELETE"}
"""Statements of a replay by kind; all others write."""
_WRITE: Final = "UPDATE"


@dataclass(frozen=True, slots=True)
class TwinFigure:
    """A figure of a trace and of the workload, and what they differ by."""

    name: str
    trace: float | None
    twin: float | None
    difference: Estimate | None
    """Workload - trace of a hit ratio, else that as a share of the trace's."""
    margin: float
    """A difference below it is none of a twin's."""

    @property
    def judgement(self) -> TwinJudgement:
        """Whether the difference's interval lies within the margin, beyond it, or on it."""
        found = self.difference
        if found is None or found.low is None or found.high is None:
            return "unknown"
        if -self.margin <= found.low and found.high <= self.margin:
            return "alike"
        beyond = found.low > self.margin or found.high < -self.margin
        return "unlike" if beyond else "unknown"


@dataclass(frozen=True, slots=True)
class Likeness:
    """All figures, and what they say together."""

    figures: tuple[TwinFigure, ...]

    @property
    def judgement(self) -> TwinJudgement:
        """Unlike where one figure is; alike where all are."""
        found = {one.judgement for one in self.figures}
        order: tuple[TwinJudgement, ...] = ("unlike", "unknown", "alike")
        return next(word for word in order if word in found)


def likeness(
    trace: Trace,
    workload: WorkloadSpec,
    runs: tuple[Sequence[Run], Sequence[Run]],
    allow: Collection[str],
) -> Likeness:
    """What runs of a trace and of a workload in blocks say, and their operations themselves.

    Raises:
        KvmarkError: the runs can't be compared, or a file is damaged.
    """
    seeds = [run.manifest.spec["seed"] for run in runs[1]]
    return Likeness((*_measured(runs, allow), *drawn_figures(trace, workload, seeds)))


def _measured(
    runs: tuple[Sequence[Run], Sequence[Run]], allow: Collection[str]
) -> Iterator[TwinFigure]:
    (case,) = compare(*runs, allow={"plan", *allow}).cases
    rows = {row.metric: row for row in case.rows}
    for name, margin in _MEASURED:
        metric: Metric = parse_comparable(name)
        row = rows.get(metric)
        effect = row.effect if row else None
        yield TwinFigure(
            name,
            row.baseline.value if row and row.baseline else None,
            row.candidate.value if row and row.candidate else None,
            None if effect is None else _less_one(effect.ratio),
            margin,
        )


def _less_one(ratio: Estimate) -> Estimate:
    """A ratio as a change."""
    low, high = (None if one is None else one - 1 for one in (ratio.low, ratio.high))
    return replace(ratio, value=ratio.value - 1, low=low, high=high, unit="share")


def drawn_figures(
    trace: Trace, workload: WorkloadSpec, seeds: Sequence[int]
) -> Iterator[TwinFigure]:
    """Hit ratios of LRU caches and bytes read, of the operations themselves.

    They are exact of the trace, and have the interval between seeds of the workload.

    Raises:
        KvmarkError: a file is damaged, or no plan can be made of the workload.
    """
    own = of_trace(trace)
    different = float(len(np.unique(own.keys)))
    drawn = [_figures(of_workload(workload, len(own.keys), seed), different) for seed in seeds]
    for place, (name, value) in enumerate(_figures(own, different)):
        values = [figures[place][1] for figures in drawn]
        is_ratio = place < len(CACHES)
        if not is_ratio and not value:
            continue
        changes = [one - value if is_ratio else one / value - 1 for one in values]
        margin = _HITS_MARGIN if is_ratio else _BYTES_MARGIN
        yield TwinFigure(
            name, value, float(np.mean(values)), mean_interval(changes, "share"), margin
        )


def _figures(drawn: KeyOperations, keys: float) -> list[tuple[str, float]]:
    hits = zip(CACHES, drawn.hit_ratios(keys), strict=True)
    return [
        *((f"hit ratio of {100 * share:g} % of the keys", found) for share, found in hits),
        ("bytes read by operation", drawn.read_bytes),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCheck:
    """How a workload is held against its trace."""

    system: SystemUrl
    speed: float | None
    """How many times as fast as the trace; None for as fast as clients go."""
    clients: int | None
    duration_ns: int | None
    map_file: Path | None


def twin_sides(trace: Trace, workload: WorkloadSpec, asked: AskedCheck) -> tuple[RunSpec, RunSpec]:
    """The replay and the workload, for as long and by the same statements.

    Raises:
        SpecError: one of both can't be.
        UsageError: the workload isn't one that can stand for a trace.
    """
    if len(workload.groups) != 1:
        raise UsageError(
            f"{workload.name} has {len(workload.groups)} groups: what stands for a trace has one"
        )
    replayed = catalog.of_trace(trace.path, asked.system.driver, asked.map_file)
    ends_ns, count = asked.duration_ns, None
    if asked.speed is None:
        kinds = trace.kinds()
        count = sum(kinds.get(kind, 0) for kind in MODELLED)
    elif ends_ns is None:
        ends_ns = max(1, min(_LONGEST_NS, round(trace.info.end_ns / asked.speed)))
    group = _at_speed(workload.groups[0], asked.speed, ends_ns or 1)
    twin = _spoken(workload.model_copy(update={"groups": (group,)}), replayed)
    skip = tuple(kind for kind in KINDS if kind not in MODELLED)
    # The workload's operations don't wait for one another, and so mustn't those of the trace.
    replay = ReplaySpec(trace=trace.path, speed=asked.speed, skip=skip, order="none")
    return tuple(  # type: ignore[return-value]
        RunSpec(
            workload=one,
            system=asked.system,
            clients=asked.clients,
            duration_ns=ends_ns,
            operations=count,
            replay=how,
            # A replay loads what it reads first each time, whatever was deleted since.
            load="always" if how is None and one.is_loaded_first else "auto",
        )
        for one, how in ((replayed, replay), (twin, None))
    )


def _at_speed(group: GroupSpec, speed: float | None, ends_ns: int) -> GroupSpec:
    """The group with its rates so many times as high, and changing as many times as soon."""
    if speed is None:
        return group.model_copy(update={"rates": None, "arrival": None})
    if speed == 1 or group.rates is None:
        return group
    if isinstance(group.rates, str):
        points = parse_curve(group.rates).points(round(ends_ns * speed) + 1, 1)
    else:
        points = tuple((one.at_ns, one.rate) for one in group.rates)
    rates: list[RatePoint] = []
    for at_ns, rate in points:
        faster_ns = round(at_ns / speed)
        if not rates or faster_ns > rates[-1].at_ns:
            rates.append(RatePoint.model_construct(at_ns=faster_ns, rate=rate * speed))
    return group.model_copy(update={"rates": tuple(rates)})


def _spoken(workload: WorkloadSpec, replayed: WorkloadSpec) -> WorkloadSpec:
    """The workload by the replay's statements, where it has none of its own."""
    if workload.statements or not replayed.statements:
        return workload
    group = workload.groups[0]
    weights: dict[str, float] = {}
    for kind, weight in group.mix.weights().items():
        name = _STATEMENTS.get(kind, _WRITE)
        weights[name] = weights.get(name, 0.0) + weight
    missing = [name for name in weights if name not in replayed.statements]
    if missing:
        raise UsageError(f"--map: there is no statement {missing[0]}, which {workload.name} needs")
    taken: Mapping[str, object] = {
        name: one
        for name, one in replayed.statements.items()
        if not one.is_told(replayed.arguments)
    }
    return workload.model_copy(
        update={
            "groups": (group.model_copy(update={"mix": Mix.model_validate(weights)}),),
            "prepare": replayed.prepare,
            "arguments": replayed.arguments,
            "statements": taken,
            "load": replayed.load,
            "probe": replayed.probe,
        }
    )
