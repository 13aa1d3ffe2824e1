"""One run in numbers: its counted phases, and the limits of its resolution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvmark.analysis.summary.faults import FaultEffect, fault_effects, fault_spans
from kvmark.analysis.summary.sums import ANSWERED, NS_PER_S, full_intervals, interval_sums
from kvmark.records import PhaseRecord, Run, TotalRecord
from kvmark.records.histograms import ATTEMPT, is_alone
from kvmark.records.model import TIMES, LostWritesRecord, SweepRecord
from kvmark.stats import CONFIDENCE, Counts, Estimate, Level, rate_of_intervals

#: The quantiles of a summary, by name.
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_NS_PER_MS = 1e6
_CHANGED = "no interval: the rate was meant to change"
_BROKEN = "no interval: a server was broken on purpose"
#: These look for no record that must be there; all other operations do, the user's own too.
_CANNOT_MISS = ("insert", "delete", "scan")


def system_text(run: Run) -> str:
    """The measured system and its version, and the tool of an import."""
    system, imported = run.manifest.engine.system, run.manifest.imported
    text = f"{system.system} {system.version}".strip() or "unknown system"
    return f"{text} ({imported.origin.tool})" if imported and imported.origin.tool else text


def clock_step_ns(runs: Iterable[Run]) -> float:
    """The largest step of the clocks that measured them; 0 where none is known."""
    clocks = (run.manifest.engine.clock for run in runs)
    return max((float(clock.resolution_ns) for clock in clocks if clock is not None), default=0.0)


def rate_resolution(runs: Iterable[Run]) -> float:
    """As a share of the rate: half an operation, or the clock's step in the counted windows."""
    shares = [0.0]
    for run in runs:
        window_ns = sum(phase.window_ns for phase in run.counted)
        operations = sum(map(run.manifest.engine.succeeded, run.counted))
        if window_ns and operations:
            shares += [0.5 / operations, clock_step_ns([run]) / window_ns]
    return max(shares)


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile in nanoseconds. ``enough``: whether it may be shown, with ten operations beyond.

    It has no interval: a number of operations doesn't give one (see `compare.metrics`).
    """

    q: float
    ns: int
    enough: bool


@dataclass(frozen=True, slots=True)
class Times:
    """One of the three times of an operation, in nanoseconds."""

    count: int
    mean_ns: float | None
    max_ns: int | None
    quantiles: Mapping[str, Quantile] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Counts) -> Times:
        """The figures of a histogram."""
        if counts.n == 0:
            return cls(0, None, None)
        quantiles = {
            name: Quantile(q, counts.quantile(q) or 0, counts.shows(q))
            for name, q in QUANTILES.items()
        }
        return cls(counts.n, counts.mean(), counts.quantile(1.0), quantiles)

    def shown_ns(self, name: str) -> int | None:
        """A quantile by name (``p99``) if there are enough operations beyond it."""
        found = self.quantiles.get(name)
        return found.ns if found is not None and found.enough else None


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """One kind of operation of one group. Times are those of successful operations."""

    group: str
    operation: str
    part: bool
    count: int
    rows: int
    response: Times
    service: Times
    wait: Times
    #: How many ended otherwise, by outcome.
    others: Mapping[str, int]

    @property
    def is_alone(self) -> bool:
        """Whether no other row counts these operations."""
        return is_alone(self.operation, part=self.part)


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """The attempts of a phase's requests, in groups with a retry policy."""

    #: All attempts, whatever their outcome.
    attempts: int
    #: Those after which another one followed.
    retried: int
    #: Operations that failed after their last attempt.
    given_up: int
    #: Attempts ÷ operations.
    per_operation: float


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """One counted phase."""

    phase: int
    name: str
    runtime_ms: float
    #: Successful operations that completed in the window ÷ the window.
    throughput: Estimate
    #: All operations with a known outcome, the drain included.
    completed: int
    #: Records that these read or wrote, where that isn't one each.
    rows: int | None
    operations: tuple[OperationSummary, ...]
    #: Operations that found their record ÷ those that looked for one; none without any.
    hit_ratio: float | None
    #: Failed operations by error class.
    errors: Mapping[str, int]
    #: Processor time of the process without idle polling ÷ operations; an embedded system included.
    cpu_ns_per_operation: float | None
    max_resident_bytes: int | None
    #: From the arrival of answers in the kernel to their stamps, on a sample of reads, a part of
    #: the service time. None where no read was sampled.
    generator_lag: Times | None = None
    #: None without a retry policy.
    attempts: AttemptSummary | None = None
    #: What ended it: a duration, a number of operations, the plan's rule (`until`), and so on.
    stopped_by: str = "duration"


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """The records that a run wrote and read back.

    A record counts once, as the first that holds: missing, incomplete, torn, stale, resurrected.
    """

    #: Those read back.
    records: int
    #: Those written; an estimate where a sample was read back.
    written: int
    #: Each has the value acknowledged last, or one that may have come after it.
    intact: int
    #: Gone, though acknowledged.
    missing: int
    #: There, but without a field that was acknowledged.
    incomplete: int
    #: Holding a value that is partly one that was written.
    torn: int
    #: Holding another value than the one acknowledged last.
    stale: int
    #: There, though their removal was acknowledged last.
    resurrected: int
    #: Of those intact, the number with a write of unknown outcome.
    unacknowledged: int
    #: Those that couldn't be read.
    unread: int
    #: When lost writes were acknowledged, and the first of them.
    lost_writes: LostWritesRecord | None

    @property
    def lost(self) -> int:
        """Those without the state that was acknowledged last."""
        return self.missing + self.incomplete + self.torn + self.stale + self.resurrected


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in numbers, with its description."""

    id: str
    name: str
    system: str
    version: str
    created: str
    phases: tuple[PhaseSummary, ...]
    #: None when nothing was read back.
    sweep: SweepSummary | None = None
    #: What followed each planned fault.
    faults: tuple[FaultEffect, ...] = ()
    #: How long the warm-up took; none without one.
    warm_up_ms: float | None = None


def summarize(run: Run) -> Summary:
    """The numbers of a run's counted phases."""
    manifest = run.manifest
    warm_up = [one for one in manifest.engine.phases if one.name == "warm_up"]
    read_back = (one for one in manifest.engine.phases if one.sweep is not None)
    return Summary(
        id=run.id, name=str(manifest.plan.get("name", "")), system=manifest.engine.system.system,
        version=manifest.engine.system.version, created=manifest.created,
        phases=tuple(_summarize_phase(run, phase) for phase in run.counted),
        sweep=next((sweep_summary(run, phase) for phase in read_back), None),
        faults=fault_effects(run),
        warm_up_ms=sum(one.window_ns for one in warm_up) / _NS_PER_MS if warm_up else None,
    )  # fmt: skip


def sweep_summary(run: Run, phase: PhaseRecord) -> SweepSummary:
    """The result of a verify phase; of a killed one, as far as the outcomes of its reads go."""
    ended = by_outcome(run.totals(phase.index), excluded=())
    intact, missing, wrong = (ended.get(name, 0) for name in ("ok", "miss", "mismatch"))
    sweep = phase.sweep or SweepRecord(records=sum(ended.values()), unacknowledged=0)
    return SweepSummary(
        **{**dict(sweep), "written": sweep.records if sweep.written is None else sweep.written},
        intact=intact,
        missing=missing,
        stale=wrong - sweep.incomplete - sweep.torn - sweep.resurrected,
        unread=sweep.records - intact - missing - wrong,
    )


def _summarize_phase(run: Run, phase: PhaseRecord) -> PhaseSummary:
    """The numbers of one phase."""
    totals = run.totals(phase.index)
    whole = [total for total in totals if not total.part]
    completed = sum(total.count for total in whole)
    ok = [total for total in whole if total.outcome == "ok"]
    rows, hits, misses = sum(total.rows for total in ok), *looked_for(run, whole)
    lag = phase.generator_lag
    return PhaseSummary(
        phase=phase.index,
        name=phase.name,
        runtime_ms=phase.window_ns / _NS_PER_MS,
        throughput=throughput(run, phase),
        completed=completed,
        rows=rows if rows != sum(total.count for total in ok) else None,
        operations=tuple(_operations(run, totals)),
        hit_ratio=hits / (hits + misses) if hits + misses else None,
        errors=by_outcome((one for one in totals if one.is_alone), excluded=ANSWERED),
        cpu_ns_per_operation=_cpu_ns_per_operation(phase, completed),
        max_resident_bytes=phase.process.max_resident_bytes,
        generator_lag=None if lag is None else Times.of(run.decoded(lag, "the generator's lag")),
        attempts=_attempts(totals),
        stopped_by=phase.stopped_by,
    )


def _attempts(totals: Sequence[TotalRecord]) -> AttemptSummary | None:
    attempts = [one for one in totals if one.operation == ATTEMPT and one.part]
    made = sum(one.count for one in attempts)
    groups = {one.group for one in attempts}
    own = [one for one in totals if one.group in groups]
    alone = [one for one in own if one.is_alone]
    operations = sum(one.count for one in alone)
    if not operations:
        return None
    # A read-modify-write makes two requests.
    requests = operations + sum(one.count for one in own if one.part and one.operation == "UPDATE")
    failed = sum(by_outcome(alone, excluded=ANSWERED).values())
    return AttemptSummary(made, made - requests, failed, made / operations)


def throughput(run: Run, *phases: PhaseRecord, confidence: float = CONFIDENCE) -> Estimate:
    """Successful operations per second in the windows, with the error that their intervals give.

    The value is the exact ratio; the error is that of the mean rate of the full intervals. Too few
    of them give none.
    """
    level = rate_level(run, phases)
    if level is None:
        return Estimate.alone(0.0, "ops/s", "no interval: no operation succeeded")
    return level.plain("ops/s", confidence)


def rate_level(run: Run, phases: Sequence[PhaseRecord]) -> Level | None:
    """The rate in the windows of some phases of a run; none where no operation succeeded."""
    ok = sum(run.manifest.engine.succeeded(phase) for phase in phases)
    window_ns = sum(phase.window_ns for phase in phases)
    if not ok or not window_ns:
        return None
    rates = [
        rate
        for phase in phases
        for rate in interval_sums(full_intervals(run, phase))["rate"].to_list()
    ]
    until_known = any(phase.stopped_by == "until" for phase in phases)
    rate, floor = ok * NS_PER_S / window_ns, rate_resolution([run])
    broken = any(phase.name == "measure" for phase in phases) and bool(fault_spans(run))
    steady = all(keeps_rate(run, group.group) for phase in phases for group in phase.groups)
    if broken or not steady:
        why = _BROKEN if broken else _CHANGED
        return Level(math.log(rate), None, 1.0, False, why, floor, len(rates))
    return rate_of_intervals(rate, rates, floor, until_known=until_known)


def mean_service_ns(totals: Sequence[TotalRecord]) -> float | None:
    """Over all operations of these totals; none without any."""
    count = sum(total.count for total in totals)
    return sum(total.service.mean * total.count for total in totals) / count if count else None


def planned_group(run: Run, group: str) -> Mapping[str, Any]:
    """The plan's description of a group; empty if the plan has none."""
    groups = run.manifest.plan.get("groups", ())
    return next((one for one in groups if one.get("name") == group), {})


def keeps_rate(run: Run, group: str) -> bool:
    """Whether the plan keeps a group's target rate, so that a change isn't meant."""
    rates = planned_group(run, group).get("arrival", {}).get("rates", ())
    return len({point["rate"] for point in rates}) <= 1


def quantile_curve(counts: Counts, nines: int = 5) -> tuple[tuple[float, int], ...]:
    """Points (quantile, nanoseconds) of a curve up to as many nines as the counts can show."""
    steps = [1 - 10**-nine * left / 10 for nine in range(nines) for left in range(10, 1, -1)]
    points = ((q, counts.quantile(q)) for q in steps if counts.shows(q))
    return tuple((q, value) for q, value in points if value is not None)


def _operations(run: Run, totals: Iterable[TotalRecord]) -> Iterable[OperationSummary]:
    named: dict[tuple[str, str, bool], list[TotalRecord]] = {}
    for total in totals:
        named.setdefault((total.group, total.operation, total.part), []).append(total)
    for (group, operation, part), found in named.items():
        ok = [total for total in found if total.outcome == "ok"]
        yield OperationSummary(
            group=group,
            operation=operation,
            part=part,
            count=sum(total.count for total in ok),
            rows=sum(total.rows for total in ok),
            others=by_outcome(found, excluded=("ok",)),
            **{time: Times.of(Counts.merge(run.times(one, time) for one in ok)) for time in TIMES},
        )


def by_outcome(totals: Iterable[TotalRecord], excluded: tuple[str, ...]) -> dict[str, int]:
    """The operations by outcome, but for some outcomes."""
    counts: dict[str, int] = {}
    for total in totals:
        if total.outcome not in excluded:
            counts[total.outcome] = counts.get(total.outcome, 0) + total.count
    return counts


def looked_for(run: Run, totals: Iterable[TotalRecord]) -> tuple[int, int]:
    """How many operations that look for a record found it, and how many found none.

    Totals are those of whole operations. Deletes and inserts look for none, and a scan takes what
    there is. Of groups that fill a cache, only reads count.
    """
    looked = [
        total
        for total in totals
        if (kind := run.kind(total)) not in _CANNOT_MISS
        if kind == "read" or not planned_group(run, total.group).get("on_miss")
    ]
    hits, misses = (
        sum(total.count for total in looked if total.outcome == outcome) for outcome in ANSWERED
    )
    return hits, misses


def _cpu_ns_per_operation(phase: PhaseRecord, completed: int) -> float | None:
    process = phase.process
    if process.cpu_user_ns is None or process.cpu_system_ns is None or completed == 0:
        return None
    # Polling is timed by the clock, which goes on while a worker waits for a core.
    idle_ns = sum(min(worker.idle_spin_ns, worker.cpu_ns or 0) for worker in phase.workers)
    return (process.cpu_user_ns + process.cpu_system_ns - idle_ns) / completed
