"""The table of the published report on the sample applications, from the runs of a case.

Rates and times of readers and writers, and what they cost the load tester and the cluster's nodes:
each row is one quantity over the full intervals of the counted phase, of all runs together. What
the published table lacks stands beside it: quantiles from merged histograms, memory, mismatches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from kvmark.analysis import Verdict
from kvmark.analysis.summary.run import Times, full_intervals
from kvmark.records import PhaseRecord, Run, TimeName
from kvmark.records.files import GENERATOR, is_ours
from kvmark.records.intervals import TIMED
from kvmark.stats import Counts
from kvmark.stats.distributions import Spread, spread

Side = Literal["Read", "Write"]
GROUPS: Final[Mapping[Side, str]] = {"Read": "readers", "Write": "writers"}
_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
_NO_INTERVALS: Final = pl.DataFrame({"start_ns": [], "end_ns": []})
_UNKNOWN_NODES: Final = (
    "what the cluster's nodes used isn't known: kvmark started none of them; name their node"
    " exporters with --observe http://HOST:9100/metrics"
)


@dataclass(frozen=True, slots=True)
class AppRow:
    """One quantity over the intervals; None where it isn't known or there was none."""

    name: str
    unit: str
    spread: Spread | None


@dataclass(frozen=True, slots=True)
class SideTimes:
    """Quantiles of the readers' or writers' operations, from their histograms."""

    side: Side
    response: Times
    service: Times


@dataclass(frozen=True, slots=True)
class AppTable:
    """The table of a case."""

    app: str
    system: str
    version: str
    writers: int
    readers: int
    rows: tuple[AppRow, ...]
    times: tuple[SideTimes, ...]
    #: Operations of the table that one operation of the engine is, where not one.
    commands: Mapping[Side, int]
    #: Reads that returned something else than what must be there, and that found nothing.
    mismatches: int
    misses: int
    #: Most resident memory by node, in bytes; the load tester's is `generator`.
    memory_bytes: Mapping[str, int]
    #: What isn't known, and why.
    unknown: tuple[str, ...]
    #: What must be known to read the figures.
    notes: tuple[str, ...]
    #: How many runs the figures are of.
    runs: int = 1


@dataclass(frozen=True, slots=True)
class CaseTable:
    """The table of one case of a study, and the published rows of the same case."""

    case: str
    table: AppTable
    #: By the published row's name, such as `Read latency, ms/op`: its mean, min and so on.
    published: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """A line of the published table of YCSB: one operation of one workload, over all its runs."""

    workload: str
    #: Of all the workload's operations, per second: the mean of the runs.
    throughput: float
    operation: str
    response_us_mean: float
    response_us_p99: float | None
    #: What somebody else published of the same operation: `throughput`, `mean_us`, `p99_us`.
    published: Mapping[str, float] = field(default_factory=dict)
    #: How many runs the figures are of.
    runs: int = 1


@dataclass(frozen=True, slots=True)
class AppRun:
    """One run of a sample application."""

    run: str
    table: AppTable
    verdict: Verdict


def app_table(runs: Sequence[Run], counted: Mapping[str, int] | None = None) -> AppTable:
    """The table of the runs of one case: of `kvmark app`, or others with readers and writers.

    `counted` says how many operations of the table one of a group's is, where `kvmark app` didn't.
    """
    manifest = runs[0].manifest
    app: Mapping[str, Any] = manifest.spec.get("app", {})
    said = app.get("commands", {})
    known = counted or {}
    commands: dict[Side, int] = {
        side: int(known.get(group, said.get(side, 1))) for side, group in GROUPS.items()
    }
    cpu = _Processors.of(runs)
    rows: list[AppRow] = []
    for side in GROUPS:
        rows += _side_rows(runs, side, commands[side])
    rows += _cpu_rows("Load tester", cpu, [GENERATOR])
    rows += _cpu_rows("Cluster node", cpu, cpu.nodes)
    clients = {group["name"]: group["clients"] for group in manifest.plan["groups"]}
    totals = [total for run in runs for total in run.totals(run.counted[0].index)]
    return AppTable(
        app=str(app.get("name", manifest.plan.get("name", ""))),
        system=manifest.engine.system.system,
        version=manifest.engine.system.version,
        writers=int(clients.get(GROUPS["Write"], 0)),
        readers=int(clients.get(GROUPS["Read"], 0)),
        rows=tuple(rows),
        times=tuple(_times(runs, side) for side in GROUPS if GROUPS[side] in clients),
        commands=commands,
        mismatches=sum(total.count for total in totals if total.outcome == "mismatch"),
        misses=sum(total.count for total in totals if total.outcome == "miss"),
        memory_bytes=cpu.memory_bytes,
        unknown=() if cpu.nodes else (_UNKNOWN_NODES,),
        notes=tuple(app.get("notes", ())),
        runs=len(runs),
    )


def by_operation(runs: Sequence[Run]) -> tuple[OperationFigures, ...]:
    """The published table of YCSB: each operation with the whole workload's throughput."""
    succeeded = [
        (run, total)
        for run in runs
        for total in run.totals(run.counted[0].index)
        if total.outcome == "ok"
    ]
    throughput = fmean(_first_rate(run) for run in runs)
    found = []
    for name in dict.fromkeys(total.operation for _, total in succeeded):
        times = Counts.merge(
            run.times(total, "response") for run, total in succeeded if total.operation == name
        )
        shown = Times.of(times)
        p99_ns = shown.shown_ns("p99")
        found.append(
            OperationFigures(
                workload=str(runs[0].manifest.plan.get("name", "")),
                throughput=throughput,
                operation=name,
                response_us_mean=(shown.mean_ns or 0.0) / 1e3,
                response_us_p99=None if p99_ns is None else p99_ns / 1e3,
                runs=len(runs),
            )
        )
    return tuple(found)


def _first_rate(run: Run) -> float:
    """Successful operations per second in the first counted phase."""
    phase = run.counted[0]
    done = run.manifest.engine.succeeded(phase)
    return done * _NS_PER_S / phase.window_ns if phase.window_ns else 0.0


def _side_rows(runs: Sequence[Run], side: Side, commands: int) -> list[AppRow]:
    """Throughput and times of the readers or the writers; all zero where there are none."""
    measured = [_side_intervals(run, GROUPS[side]) for run in runs]
    each = pl.concat([one for one in measured if one is not None] or [_NO_INTERVALS])
    if each.is_empty():
        zero = spread([0.0])
        return [
            AppRow(f"{side} throughput", "ops/sec", zero),
            AppRow(f"{side} response time", "ms/op", zero),
            AppRow(f"{side} service time", "ms/op", zero),
        ]
    length_s = (each["end_ns"] - each["start_ns"]) / _NS_PER_S
    rates = each["count"].fill_null(0) * commands / length_s
    return [
        AppRow(f"{side} throughput", "ops/sec", spread(rates.to_list())),
        AppRow(f"{side} response time", "ms/op", _spread_ms(each["response_ns"])),
        AppRow(f"{side} service time", "ms/op", _spread_ms(each["service_ns"])),
    ]


def _side_intervals(run: Run, group: str) -> pl.DataFrame | None:
    """Each full interval of a group with its count and mean times; none where it isn't there."""
    rows = full_intervals(run, run.counted[0]).filter(~pl.col("part"))
    total = rows.filter((pl.col("group") == group) & (pl.col("operation") == "TOTAL"))
    if total.is_empty():
        return None
    ok = rows.filter((pl.col("group") == group) & (pl.col("outcome") == "ok"))
    return (
        total.select("start_ns", "end_ns")
        .unique()
        .join(_per_interval(ok), on=["start_ns", "end_ns"], how="left")
        .sort("start_ns")
        .select("start_ns", "end_ns", "count", "response_ns", "service_ns")
    )


def _per_interval(ok: pl.DataFrame) -> pl.DataFrame:
    """Counts and mean times of each interval, all operations of a group together."""
    mean = [
        ((pl.col(f"{time}_ns_mean") * TIMED).sum() / TIMED.sum()).alias(f"{time}_ns")
        for time in ("response", "service")
    ]
    return ok.group_by("start_ns", "end_ns").agg(*mean, pl.col("count").sum())


def _spread_ms(times_ns: pl.Series) -> Spread | None:
    known = times_ns.drop_nulls().drop_nans()
    return spread([float(value) / _NS_PER_MS for value in known])


def _times(runs: Sequence[Run], side: Side) -> SideTimes:
    """Of all runs' histograms together."""
    totals = [
        (run, total)
        for run in runs
        for total in run.totals(run.counted[0].index)
        if total.group == GROUPS[side] and total.outcome == "ok" and not total.part
    ]

    def merged(time: TimeName) -> Times:
        return Times.of(Counts.merge(run.times(total, time) for run, total in totals))

    return SideTimes(side, merged("response"), merged("service"))


@dataclass(frozen=True, slots=True)
class _Processors:
    """What was sampled of each machine within the phase, as shares of its processors."""

    #: By node: user and system, in percent, one value an interval.
    user: Mapping[str, Sequence[float]]
    system: Mapping[str, Sequence[float]]
    memory_bytes: Mapping[str, int]

    @property
    def nodes(self) -> list[str]:
        """The servers."""
        return [node for node in self.user if not is_ours(node)]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> _Processors:
        """What was sampled in all runs of a case; memory is the most of any run."""
        each = [cls._of_run(run, run.counted[0]) for run in runs]
        nodes = dict.fromkeys(node for one in each for node in one.user)
        user, system = (
            {node: [value for shares in kind for value in shares.get(node, ())] for node in nodes}
            for kind in ([one.user for one in each], [one.system for one in each])
        )
        memory: dict[str, int] = {}
        for one in each:
            for node, most in one.memory_bytes.items():
                memory[node] = max(most, memory.get(node, 0))
        return cls(user, system, memory)

    @classmethod
    def _of_run(cls, run: Run, phase: PhaseRecord) -> _Processors:
        """Reads the resources of a run; of an old or imported one there may be none."""
        started_ns = run.manifest.engine.started_wall_ns
        table = run.resources
        if table.is_empty() or started_ns is None:
            return cls({}, {}, {})
        edges = _edges(run, phase)
        cores = int(run.manifest.host.get("cores") or 1)
        user, system, memory = {}, {}, {}
        for (name,), rows in table.sort("at_wall_ns").group_by(["node"], maintain_order=True):
            node = str(name)
            own = rows["cores"].drop_nulls() if "cores" in rows.columns else pl.Series([])
            share = 100 / (int(own[0]) if len(own) else cores)
            instants = (rows["at_wall_ns"] - started_ns).to_numpy()
            user[node] = _rates(edges, instants, rows["cpu_user_s"], share)
            system[node] = _rates(edges, instants, rows["cpu_system_s"], share)
            most = rows["resident_bytes"].max()
            if isinstance(most, int):
                memory[node] = most
        return cls(user, system, memory)


def _edges(run: Run, phase: PhaseRecord) -> list[int]:
    """Where full intervals begin and end."""
    rows = full_intervals(run, phase)
    ends = {*rows["start_ns"].to_list(), *rows["end_ns"].to_list()}
    return sorted(ends) or [phase.start_ns, phase.end_ns]


def _rates(
    edges: Sequence[int], instants_ns: Any, counter_s: pl.Series, percent: float
) -> list[float]:
    """How fast a counter rose in each interval, where its samples reach that far.

    A counter that fell began again with its process: that interval is left out.
    """
    values = counter_s.cast(pl.Float64).to_numpy()
    if len(values) < 2:
        return []
    at = np.interp(edges, instants_ns, values)
    inside = [low >= instants_ns[0] and high <= instants_ns[-1] for low, high in _pairs(edges)]
    rises = np.diff(at) / (np.diff(edges) / _NS_PER_S) * percent
    return [float(rise) for rise, known in zip(rises, inside, strict=True) if known and rise >= 0]


def _pairs(edges: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(edges))


def _cpu_rows(what: str, cpu: _Processors, nodes: Sequence[str]) -> list[AppRow]:
    """User and system time of one machine, or of several together."""

    def row(kind: str, shares: Mapping[str, Sequence[float]]) -> AppRow:
        values = [value for node in nodes for value in shares.get(node, ())]
        return AppRow(f"{what} CPU, {kind}", "%", spread(values))

    return [row("user", cpu.user), row("system", cpu.system)]
