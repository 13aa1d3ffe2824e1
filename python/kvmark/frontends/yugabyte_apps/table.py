"""The table of the published report on the sample applications, from the runs of a case.

Each row is a quantity over the full intervals of the counted phase, of all runs together: rates and
times of readers and writers, CPU time of the load tester and of the cluster's nodes. Quantiles from
merged histograms, memory and mismatches are added. Reports of studies have published rows, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from rich.text import Text

from kvmark.analysis.study import StudyResults, StudyRow
from kvmark.analysis.summary.metrics import merged_times
from kvmark.analysis.summary.run import Times
from kvmark.analysis.summary.sums import full_intervals
from kvmark.analysis.verdict.judge import Verdict
from kvmark.experiment.study.definition import Study, published_for
from kvmark.frontends.yugabyte_apps.flags import APPS, App
from kvmark.records import Run, TimeName
from kvmark.records.files import GENERATOR, is_ours
from kvmark.records.intervals import TIMED
from kvmark.report.model import units
from kvmark.report.model.page import Section
from kvmark.report.model.tables import Cell, Grid, Table, changes, to_text
from kvmark.report.views.runs_list import TONES
from kvmark.report.views.sequence import add_times
from kvmark.report.views.study import level_words
from kvmark.stats import Counts
from kvmark.stats.distributions import Spread, spread

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers

Side = Literal["Read", "Write"]
GROUPS: Final[Mapping[Side, str]] = {"Read": "readers", "Write": "writers"}
_TIMES: Final[tuple[TimeName, ...]] = ("response", "service")
_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
_UNKNOWN_NODES: Final = (
    "CPU time of the cluster's nodes is unknown: kvmark started none of them; observe them with"
    " --observe http://HOST:9100/metrics"
)

_COLUMNS: Final = (
    "mean", "min", "max", "stddev", "median", "p1", "p5", "p10", "p90", "p95", "p99",
)  # fmt: skip
_HEADINGS: Final = {"p1": "1%", "p5": "5%", "p10": "10%", "p90": "90%", "p95": "95%", "p99": "99%"}
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max"}
_EMPTY: Final = Cell("-", "muted")
_LEAST_OF_TWO: Final = 0.1
_FOLDER: Final = "apps/"


@dataclass(frozen=True, slots=True)
class AppRow:
    """A quantity over the intervals; without a spread if it is unknown."""

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
    #: Operations of the table in one operation of the engine.
    commands: Mapping[Side, int]
    #: Reads that returned a wrong value, and reads that returned nothing.
    mismatches: int
    misses: int
    #: Largest resident memory by node, in bytes; the load tester's is `generator`.
    memory_bytes: Mapping[str, int]
    #: Sentences on unknown quantities.
    unknown: tuple[str, ...]
    #: Notes for readers of the figures.
    notes: tuple[str, ...]
    #: Number of runs.
    runs: int = 1


class OperationFigures(NamedTuple):
    """A line of the published table of YCSB: one operation of one workload, over all its runs."""

    workload: str
    operation: str
    #: By the published names. Throughput is that of the whole workload: the mean of the runs.
    figures: Mapping[str, float | None]
    #: Number of runs.
    runs: int


@dataclass(frozen=True, slots=True)
class AppRun:
    """A run of a sample application."""

    run: str
    table: AppTable
    verdict: Verdict


def documents() -> Mapping[str, Answers]:
    """The JSON documents of the command, by their kinds."""
    from kvmark.cli.documents import Answers

    one = {"run": str, "table": AppTable, "verdict": Verdict}
    several = {"runs": tuple[AppRun, ...]}
    return {
        "app": Answers(one, ("app",), "A sample application's table."),
        "app-runs": Answers(several, ("app",), "A sample application that was repeated."),
    }


def app_table(runs: Sequence[Run]) -> AppTable:
    """The table of the runs of a case: of `kvmark app`, or others with readers and writers."""
    manifest = runs[0].manifest
    app: Mapping[str, Any] = manifest.spec.get("app", {})
    commands = dict.fromkeys(GROUPS, 1) | side_commands(manifest.plan)
    usage = _usage_by_node(runs)
    servers = [one for node, one in usage.items() if not is_ours(node)]
    clients = {group["name"]: group["clients"] for group in manifest.plan["groups"]}
    totals = [total for run in runs for total in run.totals(run.counted[0].index)]
    return AppTable(
        app=str(app.get("name", manifest.plan.get("name", ""))),
        system=manifest.engine.system.system,
        version=manifest.engine.system.version,
        writers=int(clients.get(GROUPS["Write"], 0)),
        readers=int(clients.get(GROUPS["Read"], 0)),
        rows=(
            *(row for side in GROUPS for row in _side_rows(runs, side, commands[side])),
            *_cpu_rows("Load tester", [usage[GENERATOR]] if GENERATOR in usage else []),
            *_cpu_rows("Cluster node", servers),
        ),
        times=tuple(_side_times(runs, side) for side in GROUPS if GROUPS[side] in clients),
        commands=commands,
        mismatches=sum(total.count for total in totals if total.outcome == "mismatch"),
        misses=sum(total.count for total in totals if total.outcome == "miss"),
        memory_bytes={
            node: one.memory_bytes for node, one in usage.items() if one.memory_bytes is not None
        },
        unknown=() if servers else (_UNKNOWN_NODES,),
        notes=tuple(app.get("notes", ())),
        runs=len(runs),
    )


def by_operation(runs: Sequence[Run]) -> tuple[OperationFigures, ...]:
    """The published table of YCSB: each operation with the whole workload's throughput."""
    totals = (total for run in runs for total in run.totals(run.counted[0].index))
    names = dict.fromkeys(total.operation for total in totals if total.outcome == "ok")
    throughput = fmean(run.manifest.rate for run in runs)
    workload = str(runs[0].manifest.plan.get("name", ""))
    lines = []
    for name in names:
        times = Times.of(merged_times(runs, "response", name))
        p99_ns = times.shown_ns("p99")
        figures = {
            "throughput": throughput,
            "mean_us": (times.mean_ns or 0.0) / 1e3,
            "p99_us": None if p99_ns is None else p99_ns / 1e3,
        }
        lines.append(OperationFigures(workload, name, figures, len(runs)))
    return tuple(lines)


def _side_rows(runs: Sequence[Run], side: Side, commands: int) -> list[AppRow]:
    """Throughput and times of readers or writers; all zero without any."""
    measured = [rows for run in runs if (rows := _side_intervals(run, GROUPS[side])) is not None]
    spreads: list[Spread | None] = [spread([0.0])] * 3
    if measured:
        intervals = pl.concat(measured)
        length_s = (intervals["end_ns"] - intervals["start_ns"]) / _NS_PER_S
        rates = intervals["count"].fill_null(0) * commands / length_s
        times = (intervals[name] / _NS_PER_MS for name in ("response_ns", "service_ns"))
        known = (rates, *(one.drop_nulls().drop_nans() for one in times))
        spreads = [spread(one.to_list()) for one in known]
    names = (("throughput", "ops/sec"), ("response time", "ms/op"), ("service time", "ms/op"))
    return [
        AppRow(f"{side} {name}", unit, one)
        for (name, unit), one in zip(names, spreads, strict=True)
    ]


def _side_intervals(run: Run, group: str) -> pl.DataFrame | None:
    """Each full interval of a group with its count and mean times; None without the group."""
    rows = full_intervals(run, run.counted[0]).filter(~pl.col("part") & (pl.col("group") == group))
    total = rows.filter(pl.col("operation") == "TOTAL")
    if total.is_empty():
        return None
    means = [
        ((pl.col(f"{time}_ns_mean") * TIMED).sum() / TIMED.sum()).alias(f"{time}_ns")
        for time in _TIMES
    ]
    succeeded = rows.filter(pl.col("outcome") == "ok").group_by("start_ns", "end_ns")
    return (
        total.select("start_ns", "end_ns")
        .unique()
        .join(succeeded.agg(*means, pl.col("count").sum()), on=["start_ns", "end_ns"], how="left")
        .sort("start_ns")
        .select("start_ns", "end_ns", "count", "response_ns", "service_ns")
    )


def _side_times(runs: Sequence[Run], side: Side) -> SideTimes:
    totals = [
        (run, total)
        for run in runs
        for total in run.totals(run.counted[0].index)
        if total.group == GROUPS[side] and total.outcome == "ok" and not total.part
    ]
    merged = (Counts.merge(run.times(total, time) for run, total in totals) for time in _TIMES)
    return SideTimes(side, *map(Times.of, merged))


@dataclass(slots=True)
class _NodeUsage:
    """CPU time of a node within the phases, in percent of its cores per interval, and memory."""

    user: list[float] = field(default_factory=list)
    system: list[float] = field(default_factory=list)
    memory_bytes: int | None = None


def _usage_by_node(runs: Sequence[Run]) -> dict[str, _NodeUsage]:
    usage: dict[str, _NodeUsage] = {}
    for run in runs:
        samples = run.resources
        if samples.is_empty():
            continue
        phase = run.counted[0]
        full = full_intervals(run, phase)
        edges = sorted({*full["start_ns"], *full["end_ns"]}) or [phase.start_ns, phase.end_ns]
        host_cores = int(run.manifest.host.get("cores") or 1)
        for (name,), rows in samples.sort("at_wall_ns").group_by(["node"], maintain_order=True):
            node = usage.setdefault(str(name), _NodeUsage())
            cores = rows["cores"].drop_nulls() if "cores" in rows.columns else pl.Series([])
            percent = 100 / (int(cores[0]) if len(cores) else host_cores)
            at_ns = (rows["at_wall_ns"] - run.manifest.engine.started_wall_ns).to_numpy()
            node.user += _rates(edges, at_ns, rows["cpu_user_s"], percent)
            node.system += _rates(edges, at_ns, rows["cpu_system_s"], percent)
            largest = rows["resident_bytes"].max()
            if isinstance(largest, int):
                node.memory_bytes = max(largest, node.memory_bytes or 0)
    return usage


def _rates(edges: Sequence[int], at_ns: Any, counter_s: pl.Series, percent: float) -> list[float]:
    """Rate of a counter in each interval that its samples cover.

    Intervals in which it fell are left out: its process was restarted.
    """
    if len(counter_s) < 2:
        return []
    values = np.interp(edges, at_ns, counter_s.cast(pl.Float64).to_numpy())
    rates = np.diff(values) / (np.diff(edges) / _NS_PER_S) * percent
    is_covered = (np.array(edges) >= at_ns[0]) & (np.array(edges) <= at_ns[-1])
    covered: list[float] = rates[is_covered[:-1] & is_covered[1:] & (rates >= 0)].tolist()
    return covered


def _cpu_rows(name: str, nodes: Sequence[_NodeUsage]) -> list[AppRow]:
    """User and system time of nodes together."""
    return [
        AppRow(f"{name} CPU, {kind}", "%", spread([v for one in nodes for v in getattr(one, kind)]))
        for kind in ("user", "system")
    ]


def app_grid(
    table: AppTable, case: str = "", published: Mapping[str, Mapping[str, float]] | None = None
) -> Grid:
    """The published table: each quantity over the intervals.

    For a case of a study, each measured row has the published one below it.
    """
    rows: list[tuple[AppRow, Mapping[str, float] | None]] = []
    for row in table.rows:
        rows.append((row, None))
        # The original's latency is the service time.
        theirs = f"{row.name.replace('service time', 'latency')}, {row.unit}"
        if theirs in (published or {}):
            rows.append((row, (published or {})[theirs]))
    title = case or f"{table.app}: {table.writers} writers, {table.readers} readers"
    count = f" · {table.runs} runs" if table.runs > 1 else ""
    grid = Table(f"{title} · {f'{table.system} {table.version}'.rstrip()}{count}", rows)
    grid.key("over intervals", lambda row: f"{row[0].name}, {row[0].unit}" if not row[1] else "")
    if published is not None:
        grid.word("", lambda row: Cell("published", "muted") if row[1] else "measured")
    grid.numbers({name: _HEADINGS.get(name, name) for name in _COLUMNS}, _figure)
    sections = [row.name.split()[0] for row in table.rows] if published is None else ()
    return grid.grid(_notes(table), changes(sections))


def _figure(name: str, row: tuple[AppRow, Mapping[str, float] | None]) -> Cell:
    own, theirs = row
    if theirs:
        return Cell(_number(theirs[name]), "muted")
    return _EMPTY if own.spread is None else Cell(_number(getattr(own.spread, name)))


def _times_grid(table: AppTable) -> Grid:
    """Quantiles of single operations, from the histograms."""
    grid = Table("Single operations", table.times)
    grid.key("", lambda side: side.side)
    grid.number("ok", lambda side: side.response.count)
    for kind in _TIMES:
        add_times(grid, f"{kind} time", _QUANTILES, attrgetter(kind))
    memory = [f"{node} {units.size(size)}" for node, size in table.memory_bytes.items()]
    notes = [f"Largest memory: {', '.join(memory)}."] if memory else []
    notes.append(f"Reads with a wrong value: {table.mismatches:,}.")
    if table.misses:
        notes.append(f"Reads without a value: {table.misses:,}.")
    return grid.grid(notes)


def app_section(table: AppTable) -> Section:
    """The table as a section of a report."""
    return Section("application", "Application", grids=(app_grid(table), _times_grid(table)))


def app_text(table: AppTable, verdict: Verdict, width: int) -> Text:
    """The table for a terminal, with the verdict."""
    lines = [to_text(app_grid(table), width), Text(), to_text(_times_grid(table), width), Text()]
    lines.append(Text(f"Verdict: {verdict.judgement.name}", TONES[verdict.judgement]))
    return Text("\n").join(lines)


def study_sections(study: Study, found: StudyResults) -> tuple[Section, ...]:
    """The sections of a study's report; none if no case is an application.

    Raises:
        RecordsError: a run's files can't be read.
    """
    grids: list[Grid] = []
    operations: list[tuple[OperationFigures, Mapping[str, float]]] = []
    for row in found.rows:
        runs = case_runs(row, found)
        if not runs:
            continue
        published = published_for(row.levels, study.published)
        if _app(runs[0].manifest.plan) is not None:
            spreads = {} if published is None else published.spreads
            name = level_words(row.levels) or runs[0].manifest.plan["name"]
            grids.append(app_grid(app_table(runs), name, spreads))
        if published is not None and published.operations:
            operations += (
                (one, {**published.figures, **published.operations.get(one.operation, {})})
                for one in by_operation(runs)
            )
    sections = (
        ("applications", "Each application over its intervals", grids),
        ("operations", "Each operation", [_operations_grid(operations)] if operations else []),
    )
    source = f"Published: {found.published_source}." if found.published_source else ""
    return tuple(
        Section(name, title, answer=source, grids=tuple(own))
        for name, title, own in sections
        if own
    )


def case_runs(row: StudyRow, found: StudyResults) -> list[Run]:
    """The usable runs of a case; all with figures if none is usable."""
    ids = () if row.figures is None else row.figures.runs
    chosen = [run for run in ids if run in found.usable] or ids
    return [run for run in found.runs if run.id in chosen]


def commands_per_operation(plan: Mapping[str, Any]) -> Mapping[str, int]:
    """The rows or commands of one operation of each group; empty if the application counts one."""
    app = _app(plan)
    if app is None or not app.counts_commands:
        return {}
    commands = {}
    for group in plan["groups"]:
        statement = plan["statements"][group["mix"][0]["statement"]]
        # An insert counts as the statement that replaces it once all records exist.
        full = statement.get("when_full")
        counted = statement if full is None else plan["statements"][full]
        commands[group["name"]] = int(counted["commands"].get("size", 1))
    return commands


def side_commands(plan: Mapping[str, Any]) -> dict[Side, int]:
    """Operations of the table in one operation of readers and writers."""
    commands, groups = commands_per_operation(plan), {group["name"] for group in plan["groups"]}
    return {side: commands.get(group, 1) for side, group in GROUPS.items() if group in groups}


def _app(plan: Mapping[str, Any]) -> App | None:
    name = str(plan.get("name", ""))
    return APPS.get(name.removeprefix(_FOLDER)) if name.startswith(_FOLDER) else None


def _operations_grid(rows: Sequence[tuple[OperationFigures, Mapping[str, float]]]) -> Grid:
    """The published table of YCSB: workload, throughput, operation and its times."""
    grid = Table("YCSB by operation", rows)
    grid.key("workload", lambda row: row[0].workload)
    grid.key("operation", lambda row: row[0].operation)
    headings = {"throughput": "ops/sec", "mean_us": "mean, µs", "p99_us": "p99, µs"}
    grid.numbers(headings, lambda name, row: units.significant(row[0].figures[name], 4), "measured")
    grid.numbers(
        headings,
        lambda name, row: Cell(units.significant(row[1].get(name), 4), "muted"),
        "published",
    )
    notes = ["Throughput is that of all operations of a workload; measured is response time."]
    if any(row.runs > 1 for row, _ in rows):
        notes.append(
            "A case's throughput is the mean of its runs; its times are from merged histograms."
        )
    return grid.grid(notes)


def _notes(table: AppTable) -> list[str]:
    every = units.every(table.runs, "runs")
    notes = [f"Over the intervals of {every} of the case."] if table.runs > 1 else []
    counted = [f"{side.lower()} {n:,}" for side, n in table.commands.items() if n > 1]
    if counted:
        notes.append(
            "An operation of this table is one row or command. Operations per request:"
            f" {', '.join(counted)}. Times are those of whole requests."
        )
    return [*notes, *table.unknown, *table.notes]


def _number(value: float) -> str:
    """As in the published table: two decimals, none of 0; more of a number below 0.1."""
    return f"{value:.2f}" if value >= _LEAST_OF_TWO else units.significant(value)
