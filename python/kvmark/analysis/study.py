"""A study's answer: one row per case, and what changes when a factor goes from level to level.

Repetitions are blocks: the runs of one repetition were made together, so that an effect is the
ratio within a block, and its interval is that of the blocks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from kvmark.analysis.summary import sums
from kvmark.analysis.summary.metrics import case_throughput, figure, resolution, run_value
from kvmark.analysis.summary.run import by_outcome, rate_resolution
from kvmark.analysis.verdict.cases import CaseSummary, aggregate, is_repeated, verdict_of
from kvmark.analysis.verdict.checks_run import imprecise
from kvmark.analysis.verdict.judge import Judge, judge
from kvmark.records import Case, Judgement, Run
from kvmark.spec.metric import THROUGHPUT, Metric, parse_comparable
from kvmark.spec.study import StudySpec
from kvmark.stats import CONFIDENCE, Estimate, mean_interval, paired_ratio

Levels = tuple[tuple[str, str], ...]
"""The levels of a case by factor, sorted."""
T = TypeVar("T")

_APART = 1.1
"""Changes closer to each other than this don't contradict each other."""
_P99 = Metric("quantile", "p99")
_PUBLISHED_NAMES: Mapping[str, str] = {
    "throughput": "throughput", "p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """Somebody else's figures for one case: a single run, without an error."""

    throughput: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    operations: float | None = None
    seconds: float | None = None
    #: The name of the published table in which the case stands.
    table: str | None = None


@dataclass(frozen=True, slots=True)
class CaseRuns:
    """A case and what was measured of it."""

    levels: Mapping[str, str]
    #: By repetition.
    runs: Mapping[int, Run]
    #: The repetitions whose runs came to their end and aren't INVALID.
    usable: frozenset[int] = frozenset()
    #: Those of them that came so soon after their servers' start that they were slower.
    cold: frozenset[int] = frozenset()
    #: Why repetitions came to no end, one sentence each.
    failures: tuple[str, ...] = ()
    published: PublishedFigures | None = None
    #: Operations of the answer that one of the engine's is, by group, where not one.
    commands: Mapping[str, int] = field(default_factory=dict)

    @property
    def comparable(self) -> frozenset[int]:
        """The repetitions that effects may use."""
        return self.usable - self.cold


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One case with its figures."""

    levels: Mapping[str, str]
    #: None when no run of the case measured anything.
    figures: CaseSummary | None
    #: Operations or records per second, as the study counts; none without figures.
    throughput: Estimate | None
    #: Operations with a known outcome.
    completed: int
    #: Failed operations by error class.
    errors: Mapping[str, int]
    failures: tuple[str, ...]
    published: PublishedFigures | None
    #: Bytes that the servers read from their disks per operation; None if they weren't observed.
    disk_bytes: float | None = None
    #: Attempts beyond an operation's first; none where the driver doesn't count them.
    retries: int | None = None
    #: Of all operations together, with its interval; none with too few of them.
    response_p99: Estimate | None = None

    @property
    def title(self) -> str:
        """The case in words."""
        return Case.of_levels(self.levels).title

    @property
    def is_usable(self) -> bool:
        """Whether every run came to its end and none is INVALID."""
        figures = self.figures
        usable = figures is not None and figures.verdict.judgement is not Judgement.INVALID
        return usable and not self.failures


@dataclass(frozen=True, slots=True)
class EffectAsked:
    """Which change of levels is looked at; all factors that aren't named are kept."""

    title: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    within: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: A figure that has a ratio, such as `throughput` or `p99`.
    of: str = THROUGHPUT.name


@dataclass(frozen=True, slots=True)
class EffectOfCase:
    """The effect between two cases that differ in nothing else."""

    #: What both have in common.
    levels: Mapping[str, str]
    change: Estimate


@dataclass(frozen=True, slots=True)
class StudyEffect:
    """The change from before to after in percent, over all pairs of cases and by pair."""

    asked: EffectAsked
    #: None when no pair of cases can be used.
    change: Estimate | None
    by_case: tuple[EffectOfCase, ...]
    #: The same of the published figures, over the cases that were published on both sides.
    published: Estimate | None
    published_cases: int
    #: Pairs of cases that are left out, because the throughput of one is imprecise.
    imprecise: int = 0
    #: Pairs of cases that are left out, because every run of a side came before it was warm.
    cold: int = 0
    #: Pairs of cases that are left out, because a side has fewer repetitions than the study's
    #: minimum.
    unrepeated: int = 0
    #: The least and the largest change of a pair, in percent, where the pairs contradict: some
    #: interval, widened for their number, lies wholly above another. A mean over all of them,
    #: however well it is known, is then none's.
    extremes: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that kvmark started, or that somebody else measured."""

    kind: str
    version: str
    #: How it was compiled; empty where it came compiled.
    build: str
    threads: int | None


@dataclass(frozen=True, slots=True)
class PathCost:
    """The cost of one way, all other factors kept."""

    #: The levels of the other factors.
    levels: Mapping[str, str]
    #: The way's level.
    through: str
    #: None where kvmark didn't start it.
    proxy: Proxy | None
    #: How many blocks have both ways, each repeated and precise enough to be compared; the
    #: rest has none.
    blocks: int
    #: Share of the straight way's throughput that is missing, in percent.
    throughput_lost: Estimate | None
    #: Milliseconds of response time more than straight, by quantile; none with too few operations.
    response_added: Mapping[str, Estimate | None]
    #: Processor time of the proxy for an operation, in microseconds.
    proxy_cpu: Estimate | None
    #: The most memory the proxy had, in bytes.
    proxy_memory_bytes: float | None
    #: Why a figure is none, a sentence each without its end, by the figure's name.
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProxyCosts:
    """The costs of proxies."""

    costs: tuple[PathCost, ...]
    published: tuple[PathCost, ...] = ()
    #: Name of the published report.
    source: str = ""


@dataclass(frozen=True, slots=True)
class StudyResults:
    """The results of a study, complete or in progress."""

    spec: StudySpec
    #: The factors that vary, in the study's order.
    factors: tuple[str, ...]
    #: Repetitions of each case.
    repetitions: int
    rows: tuple[StudyRow, ...]
    effects: tuple[StudyEffect, ...]
    runs: tuple[Run, ...]
    #: The ids of complete runs that aren't INVALID.
    usable: frozenset[str]
    #: Sentences below the table.
    notes: tuple[str, ...]
    #: Number of missing runs.
    missing: int
    #: None for a study without proxies.
    proxies: ProxyCosts | None

    @property
    def unit(self) -> str:
        """The unit of throughput."""
        return "records/s" if self.spec.measure == "records" else "ops/s"

    @property
    def published_source(self) -> str | None:
        """The names of the published reports next to whose figures ours are printed."""
        return "; ".join(dict.fromkeys(table.source for table in self.spec.published)) or None


def study_rows(
    cases: Iterable[CaseRuns], judged: Judge = judge, *, records: bool = False
) -> tuple[StudyRow, ...]:
    """One row per case; throughput counts records instead of operations when asked.

    ``judged`` gives the verdict on each run.

    Raises:
        RecordsError: a run's files can't be read.
    """
    return tuple(_row(case, judged, records=records) for case in cases)


class _Pair(NamedTuple):
    """Two cases of an effect."""

    #: What both have in common.
    levels: dict[str, str]
    #: Before and after, of each repetition in which both can be used.
    blocks: dict[int, tuple[float, float]]
    #: The resolution of their ratio.
    floor: float


def effect(
    request: EffectAsked,
    cases: Sequence[CaseRuns],
    published: Mapping[Levels, PublishedFigures],
    *,
    records: bool = False,
) -> StudyEffect:
    """An effect over all pairs of cases that can be used, beside that of the published figures.

    Args:
        request: which change.
        cases: everything that was measured.
        published: all published figures by their levels, sorted.
        records: whether throughput counts records.

    Raises:
        RecordsError: a run's files can't be read.
    """
    metric = parse_comparable(request.of)
    pairs, left_out = [], Counter[str]()
    by_levels = {tuple(sorted(case.levels.items())): case for case in cases}
    for levels, before, after in _pairs(request, by_levels):
        both = before, after
        if not all(map(is_repeated_case, both)):
            left_out["unrepeated"] += 1
        elif not all(map(is_precise_case, both)):
            left_out["imprecise"] += 1
        elif blocks := _blocks(metric, before, after, records=records):
            sides = [[case.runs[each] for each in case.comparable] for case in both]
            floor = resolution(sides[0], sides[1], metric)
            pairs.append(_Pair(levels, blocks, floor))
        elif before.cold or after.cold:
            left_out["cold"] += 1
    theirs = [
        (one, two)
        for _, before, after in _pairs(request, published)
        if (one := _published(before, metric)) and (two := _published(after, metric))
    ]
    return StudyEffect(
        asked=request,
        change=_overall(pairs),
        by_case=tuple(
            EffectOfCase(pair.levels, _change(pair.blocks.values(), pair.floor)) for pair in pairs
        ),
        published=_change(theirs, 0.0) if theirs else None,
        published_cases=len(theirs),
        extremes=_extremes(pairs),
        **left_out,
    )


def _row(case: CaseRuns, judged: Judge, *, records: bool) -> StudyRow:
    tried = list(case.runs.values())
    runs = [run for run in tried if run.counted]
    figures = aggregate(runs, judged) if runs else None
    if figures is not None and len(runs) < len(tried):
        # One that failed before gives no figure, and is no less a reason.
        figures = replace(figures, verdict=verdict_of(runs, map(judged, tried)))
    totals = [total for run in runs for total in sums.counted_totals(run)]
    return StudyRow(
        levels=case.levels,
        figures=figures,
        throughput=None if figures is None else _throughput(case, runs, figures, records=records),
        completed=sum(total.count for total in totals),
        errors=by_outcome(totals, excluded=sums.ANSWERED),
        failures=case.failures,
        published=case.published,
        disk_bytes=sums.disk_bytes_per_operation(runs) if runs else None,
        retries=_retries(runs),
        response_p99=figure(runs, _P99) if runs else None,
    )


def _retries(runs: Sequence[Run]) -> int | None:
    """How often drivers sent an operation again in the counted phases."""
    found = (sums.statistic_delta(phase, "retries") for run in runs for phase in run.counted)
    known = [delta for delta in found if delta is not None]
    return round(sum(known)) if known else None


def _throughput(
    case: CaseRuns, runs: Sequence[Run], figures: CaseSummary, *, records: bool
) -> Estimate:
    if not records and not case.commands:
        return figures.throughput
    unit = "records/s" if records else "ops/s"
    rates = [_rate(run, case.commands, records=records) for run in runs]
    if len(runs) > 1:
        return mean_interval(rates, unit, floor=rate_resolution(runs) * max(rates))
    # The error of one run is that of its operations, each of this number of records or commands.
    (rate,), operations = rates, figures.throughput.value
    each = rate / operations if operations else 0.0
    return figures.throughput.put(lambda value: value * each, unit)


def _rate(run: Run, commands: Mapping[str, int], *, records: bool) -> float:
    """Operations, or the records that they read or wrote, per second in the counted windows."""
    window_ns = sum(phase.window_ns for phase in run.counted)
    ok = [total for total in sums.counted_totals(run) if total.outcome == "ok" and total.count]
    if records:
        # Those of the drain are left out in proportion: rows are counted by operation.
        done = sum(total.rows * total.in_window / total.count for total in ok)
    else:
        done = sum(total.in_window * commands.get(total.group, 1) for total in ok)
    return done * sums.NS_PER_S / window_ns if window_ns else 0.0


def _pairs(request: EffectAsked, cases: Mapping[Levels, T]) -> list[tuple[dict[str, str], T, T]]:
    """The cases before and after that differ in nothing else, with their common levels."""
    found = []
    for levels, before in cases.items():
        named = dict(levels)
        wanted = all(named.get(name) == label for name, label in request.before.items())
        inside = all(named.get(name) in labels for name, labels in request.within.items())
        other = cases.get(tuple(sorted({**named, **request.after}.items())))
        if wanted and inside and other is not None:
            common = {name: label for name, label in levels if name not in request.before}
            found.append((common, before, other))
    return found


def is_precise_case(case: CaseRuns) -> bool:
    """Whether the throughput of the runs is precise enough for an effect."""
    runs = [case.runs[repetition] for repetition in sorted(case.comparable)]
    return not runs or imprecise(case_throughput(runs)) is None


def is_repeated_case(case: CaseRuns) -> bool:
    """Whether the study's minimum of repetitions came to their end and none of them is INVALID."""
    return is_repeated([case.runs[repetition] for repetition in sorted(case.usable)])


def _blocks(
    metric: Metric, before: CaseRuns, after: CaseRuns, *, records: bool
) -> dict[int, tuple[float, float]]:
    def figure_in(case: CaseRuns, repetition: int) -> float | None:
        run = case.runs[repetition]
        if metric == THROUGHPUT:
            return _rate(run, case.commands, records=records)
        return run_value(run, metric)

    return {
        repetition: (one, two)
        for repetition in sorted(before.comparable & after.comparable)
        if (one := figure_in(before, repetition)) and (two := figure_in(after, repetition))
    }


def _published(figures: PublishedFigures, metric: Metric) -> float | None:
    value: float | None = getattr(figures, _PUBLISHED_NAMES.get(metric.name, ""), None)
    return value


def _overall(pairs: Sequence[_Pair]) -> Estimate | None:
    """Over all pairs of cases: with two blocks or more the interval is that of the blocks.

    Each block gives one ratio: the geometric mean of all pairs' means, corrected by the deviation
    of the block's pairs from their own means, so that a missing pair doesn't change it. In a single
    block, the pairs of cases are the independent observations.
    """
    if not pairs:
        return None
    floor = max(pair.floor for pair in pairs)
    logs = [{block: math.log(two / one) for block, (one, two) in pair.blocks.items()}
            for pair in pairs]  # fmt: skip
    means = [math.fsum(each.values()) / len(each) for each in logs]
    mean = math.fsum(means) / len(means)
    beside: dict[int, list[float]] = {}
    for each, own in zip(logs, means, strict=True):
        for block, log in each.items() if len(each) > 1 else ():
            beside.setdefault(block, []).append(log - own)
    if len(beside) < 2:
        return _change([(1.0, math.exp(own)) for own in means], floor)
    moved = [math.fsum(each) / len(each) for each in beside.values()]
    # Blocks lack different pairs: their deviations from the mean must add up to 0.
    middle = math.fsum(moved) / len(moved)
    return _change([(1.0, math.exp(mean + each - middle)) for each in moved], floor)


def _extremes(pairs: Sequence[_Pair]) -> tuple[float, float] | None:
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    changes = [_change(pair.blocks.values(), pair.floor, confidence)
               for pair in pairs if len(pair.blocks) > 1]  # fmt: skip
    lows = [one.low for one in changes if one.low is not None]
    highs = [one.high for one in changes if one.high is not None]
    if not lows or not highs or max(lows) <= min(highs):
        return None
    least, largest = min(one.value for one in changes), max(one.value for one in changes)
    return (least, largest) if 100 + largest > _APART * (100 + least) else None


def _change(
    sides: Collection[tuple[float, float]], floor: float, confidence: float = CONFIDENCE
) -> Estimate:
    """The ratio of each pair's sides, together, as a change in percent."""
    before, after = zip(*sides, strict=True)
    ratio = paired_ratio(before, after, confidence, floor)
    return ratio.put(lambda share: (share - 1) * 100, "%")
