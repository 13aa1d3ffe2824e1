"""The differences between a trace and its workload, and whether the workload is its twin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from kvmark import catalog
from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.trace import CACHES
from kvmark.errors import UsageError
from kvmark.learn.drawn import MODELLED, KeyOperations, of_trace, of_workload
from kvmark.records import Run
from kvmark.spec.curve import parse_curve
from kvmark.spec.metric import parse_comparable
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import GroupSpec, Mix, RatePoint, WorkloadSpec
from kvmark.stats import Estimate, mean_interval
from kvmark.trace.folder import KINDS, Trace

TwinJudgement = Literal["alike", "unlike", "unknown"]

_MEASURED: Final = (("throughput", 0.05), ("p99", 0.25))
"""The margins of measured figures, as shares."""
_HITS_MARGIN: Final = 0.03
"""The margin of hit ratios."""
_BYTES_MARGIN: Final = 0.1

_LONGEST_NS: Final = 30 * 10**9
"""The default longest measurement of a side of a block."""
_STATEMENTS: Final = {"read": "READ", "delete": "DELETE"}
"""Statements of a replay by kind; all other kinds write."""
_WRITE: Final = "UPDATE"


@dataclass(frozen=True, slots=True)
class TwinFigure:
    """A figure of a trace and of the workload, and their difference."""

    name: str
    trace: float | None
    twin: float | None
    difference: Estimate | None
    """Workload - trace for a hit ratio, else as a share of the trace's figure."""
    margin: float
    """The largest difference of a twin."""

    @property
    def judgement(self) -> TwinJudgement:
        """Whether the difference's interval lies within the margin, outside, or on its edge."""
        difference = self.difference
        if difference is None or difference.low is None or difference.high is None:
            return "unknown"
        if -self.margin <= difference.low and difference.high <= self.margin:
            return "alike"
        is_outside = difference.low > self.margin or difference.high < -self.margin
        return "unlike" if is_outside else "unknown"


@dataclass(frozen=True, slots=True)
class TwinCheck:
    """All figures, and their common judgement."""

    figures: tuple[TwinFigure, ...]

    @property
    def judgement(self) -> TwinJudgement:
        """Unlike if one figure is; alike if all are."""
        judgements = {one.judgement for one in self.figures}
        order: tuple[TwinJudgement, ...] = ("unlike", "unknown", "alike")
        return next(word for word in order if word in judgements)


def check_twin(
    trace: Trace,
    workload: WorkloadSpec,
    runs: tuple[Sequence[Run], Sequence[Run]],
    allow: Collection[str],
) -> TwinCheck:
    """Compares runs of a trace and of a workload in blocks, and their operations.

    Raises:
        KvmarkError: the runs can't be compared, or a file is damaged.
    """
    seeds = [run.manifest.spec["seed"] for run in runs[1]]
    return TwinCheck((*_measured_figures(runs, allow), *drawn_figures(trace, workload, seeds)))


def _measured_figures(
    runs: tuple[Sequence[Run], Sequence[Run]], allow: Collection[str]
) -> Iterator[TwinFigure]:
    (case,) = compare(*runs, allow={"plan", *allow}).cases
    rows = {row.metric: row for row in case.rows}
    for name, margin in _MEASURED:
        row = rows.get(parse_comparable(name))
        effect = row.effect if row else None
        yield TwinFigure(
            name,
            row.baseline.value if row and row.baseline else None,
            row.candidate.value if row and row.candidate else None,
            None if effect is None else effect.ratio.put(lambda ratio: ratio - 1, "share"),
            margin,
        )


def drawn_figures(
    trace: Trace, workload: WorkloadSpec, seeds: Sequence[int]
) -> Iterator[TwinFigure]:
    """Hit ratios of LRU caches and bytes read, from the operations without measuring.

    They are exact for the trace, and vary between the seeds of the workload.

    Raises:
        KvmarkError: a file is damaged, or no plan can be made of the workload.
    """
    recorded = of_trace(trace)
    count, distinct = len(recorded.keys), float(len(np.unique(recorded.keys)))
    drawn = [_figures(of_workload(workload, count, seed), distinct) for seed in seeds]
    for place, (name, value) in enumerate(_figures(recorded, distinct)):
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
        *((f"hit ratio of {100 * share:g} % of the keys", ratio) for share, ratio in hits),
        ("bytes read by operation", drawn.read_bytes),
    ]


def twin_sides(
    trace: Trace,
    workload: WorkloadSpec,
    system: SystemUrl,
    *,
    speed: float | None,
    clients: int | None,
    duration_ns: int | None,
    map_file: Path | None,
) -> tuple[RunSpec, RunSpec]:
    """The runs of the replay and of the workload, with equal durations and statements.

    `speed` is a multiple of the trace's; None for the closed model.

    Raises:
        SpecError: a run isn't possible.
        UsageError: the workload can't represent a trace.
    """
    if len(workload.groups) != 1:
        raise UsageError(
            f"{workload.name} has {len(workload.groups)} groups: what stands for a trace has one"
        )
    replayed = catalog.of_trace(trace.path, system.driver, map_file)
    ends_ns, count = duration_ns, None
    if speed is None:
        kinds = trace.kinds()
        count = sum(kinds.get(kind, 0) for kind in MODELLED)
    elif ends_ns is None:
        ends_ns = max(1, min(_LONGEST_NS, round(trace.info.end_ns / speed)))
    group = _at_speed(workload.groups[0], speed, ends_ns or 1)
    twin = _with_statements(workload.model_copy(update={"groups": (group,)}), replayed)
    skip = tuple(kind for kind in KINDS if kind not in MODELLED)
    # The workload's operations don't wait for each other, so those of the trace must not either.
    replay = ReplaySpec(trace=trace.path, speed=speed, skip=skip, order="none")
    return tuple(  # type: ignore[return-value]
        RunSpec(
            workload=one,
            system=system,
            clients=clients,
            duration_ns=ends_ns,
            operations=count,
            replay=how,
            # A replay always loads the records that it reads first.
            load="always" if how is None and one.is_loaded_first else "auto",
        )
        for one, how in ((replayed, replay), (twin, None))
    )


def _at_speed(group: GroupSpec, speed: float | None, ends_ns: int) -> GroupSpec:
    """The group with its rates and their changes multiplied by the speed."""
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


def _with_statements(workload: WorkloadSpec, replayed: WorkloadSpec) -> WorkloadSpec:
    """The workload with the replay's statements, unless it has statements."""
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
    taken = {
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
