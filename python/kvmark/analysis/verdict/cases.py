"""Cases: repetitions together with their verdict, and the fastest and the slowest of several.

The verdict of a case is another thing than the verdict of a run: it depends on the runs' verdicts,
their number, and how precise its figure is. What speaks against a run because it is short is the
case's error where it has runs enough: their spread is then known, and their operations count
together. A case that ran less often than its siblings in a design looks surer than they do, because
nothing is known that speaks against it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final, Generic, TypeVar

import polars as pl

from kvmark.analysis.summary.faults import fault_spans
from kvmark.analysis.summary.metrics import case_mean, case_throughput, merged_times
from kvmark.analysis.summary.run import Times, clock_step_ns
from kvmark.analysis.verdict.checks_run import (
    ENOUGH_RUNS,
    IMPRECISE,
    INSUFFICIENT_DATA,
    NOT_STATIONARY,
    check_courses,
    imprecise,
    steady_courses,
)
from kvmark.analysis.verdict.judge import Judge, Verdict, judge
from kvmark.analysis.verdict.rules import RULES, Level, Reason, percent, reason
from kvmark.records import Case, Judgement, Run, by_case
from kvmark.records.case import experiment
from kvmark.records.model import TIMES
from kvmark.stats import Counts, Estimate, least_observations

#: What speaks against a run that stands alone, and not against one of several.
_OF_ONE_RUN: Final = "too_short"
_GARBAGE: Final = {
    "garbage_collection": "servers",
    "generator_garbage": "the generator's Java",
}
"""What collects garbage, by the code of the reason."""
_LEAST_REPETITIONS: Final = 3
"""The fewest repetitions of a case of any design."""
_DESIGNS: Final = ("study", "sequence", "ab")

SEQUENCE_SOURCE: Final = "Redis and RocksDB under YCSB, published comparison (load, A to F)"
"""Where the published figures of a sequence come from, as a report names it."""
_SEQUENCE_FILE: Final = "ycsb-redis-rocksdb.csv"
_SEQUENCE: Final = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")
"""The order in which the published sequence runs its workloads."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaseVerdict(Verdict):
    """The judgement on a case and its reasons, the most serious first."""

    #: How many runs it was made from.
    runs: int

    @classmethod
    def of_runs(cls, reasons: Iterable[Reason], runs: int) -> CaseVerdict:
        """The verdict that follows from reasons."""
        verdict = Verdict.of(reasons)
        return cls(verdict.judgement, verdict.reasons, runs)


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """All repetitions of a case.

    Runtime and throughput are means over the runs with a t-interval, Stein's where the scatter of
    the first of them decided how many there are; times are those of all successful operations of
    all runs of any kind.
    """

    runs: tuple[str, ...]
    runtime_ms: Estimate
    throughput: Estimate
    response: Times
    service: Times
    wait: Times
    response_counts: Counts
    service_counts: Counts
    verdict: CaseVerdict


def aggregate(runs: Sequence[Run], judged: Judge = judge) -> CaseSummary:
    """The repetitions of one case.

    ``judged`` gives the verdict on each. A single run keeps the error that its intervals give. A
    run whose counted phases have no window adds no runtime.

    Raises:
        ValueError: there is no run.
        RecordsError: a run's files can't be read.
    """
    if not runs:
        raise ValueError("a case needs at least one run")
    runtimes_ms = [sum(phase.window_ns for phase in run.counted) / 1e6 for run in runs]
    counts = {time: merged_times(runs, time) for time in TIMES}
    return CaseSummary(
        runs=tuple(run.id for run in runs),
        runtime_ms=case_mean(runs, runtimes_ms, "ms", clock_step_ns(runs) / 1e6),
        throughput=case_throughput(runs),
        response_counts=counts["response"],
        service_counts=counts["service"],
        verdict=verdict_of(runs, map(judged, runs)),
        **{time: Times.of(merged) for time, merged in counts.items()},
    )


def verdict_of(runs: Sequence[Run], verdicts: Iterable[Verdict]) -> CaseVerdict:
    """The verdict of a case from those of its runs, their number, and how well it is known.

    The precision within each of several runs is ignored: that between them counts. From five runs
    on, so is the drift within each: what they have in common counts.

    Raises:
        ValueError: there is no run.
        RecordsError: a run's files can't be read.
    """
    verdict = case_verdict(verdicts)
    ignored: set[str] = set()
    reasons: list[Reason | None] = []
    if verdict.runs > 1:
        ignored.add(IMPRECISE)
        reasons.append(imprecise(case_throughput(runs)))
    courses = _courses(runs)
    if len(courses) >= ENOUGH_RUNS:
        ignored.add(NOT_STATIONARY)
        reasons += check_courses(courses)
    kept = (one for one in verdict.reasons if one.code not in ignored)
    more = filter(None, (*reasons, unrepeated(runs)))
    return CaseVerdict.of_runs((*kept, *more), verdict.runs)


def _courses(runs: Sequence[Run]) -> Sequence[pl.DataFrame]:
    """Those of runs that are judged together; none of few, imported or disturbed ones."""
    if len(runs) < ENOUGH_RUNS or any(run.manifest.imported or fault_spans(run) for run in runs):
        return ()
    return steady_courses(runs)


def case_verdict(verdicts: Iterable[Verdict]) -> CaseVerdict:
    """The verdict of a case: the worst of its runs' verdicts, each reason with its worst run.

    The evidence says in how many of the runs a reason was found.
    """
    verdicts = list(verdicts)
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for code in dict.fromkeys(one.code for one in verdict.reasons):
            same = [one for one in verdict.reasons if one.code == code]
            found.setdefault(code, []).append(_worst(same))
    together = (_together(code, reasons, len(verdicts)) for code, reasons in found.items())
    return CaseVerdict.of_runs((one for one in together if one is not None), len(verdicts))


def _together(code: str, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """One reason from those of several runs; none where the runs together leave no doubt."""
    worst = _worst(reasons)
    if runs == 1:
        return worst
    if code == "too_few_samples":
        return _samples(worst, reasons, runs)
    if code == _OF_ONE_RUN and runs >= ENOUGH_RUNS:
        # The error is that between the runs.
        return None
    if code in _GARBAGE and runs >= ENOUGH_RUNS:
        return _garbage(reasons, runs)
    some = "" if len(reasons) == runs else f"In {len(reasons)} of {runs} runs: "
    return replace(
        worst,
        sentence=f"{some}{worst.sentence}",
        evidence={**worst.evidence, "runs_with_this": len(reasons), "runs": runs},
    )


def _worst(reasons: Sequence[Reason]) -> Reason:
    return Verdict.of(reasons).reasons[0]


def _samples(worst: Reason, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """The operations of all runs count together, as their histograms do."""
    if len(reasons) < runs:
        # In another run even the rarest operation has enough.
        return None
    counts: dict[str, int] = {}
    for one in reasons:
        name = str(one.evidence["operation"])
        counts[name] = counts.get(name, 0) + int(one.evidence["count"])
    rarest = min(counts, key=lambda name: counts[name])
    needed = least_observations(0.99)
    if counts[rarest] >= needed:
        return None
    most = sum(int(one.evidence["most"]) for one in reasons)
    return replace(
        worst,
        level=Level.SUSPECT if most < least_observations(0.95) else Level.NOTE,
        sentence=(
            f"In {runs} runs together {rarest} succeeded {counts[rarest]} times and its p99 needs"
            f" {needed}, so it is not shown."
        ),
        evidence={"operation": rarest, "count": counts[rarest], "most": most, "runs": runs},
    )


def _garbage(reasons: Sequence[Reason], runs: int) -> Reason | None:
    """The share of all runs: in one of seconds it depends on where a collection fell.

    A run without the reason has the rule's least share at most.
    """
    worst = max(reasons, key=lambda one: float(one.evidence["share"]))
    known, code = [float(one.evidence["share"]) for one in reasons], worst.code
    unnoticed = RULES[code].note or 0.0
    if sum(known) / runs <= unnoticed:
        return None
    most = (sum(known) + unnoticed * (runs - len(known))) / runs
    evidence = {"share_at_most": most, "share_of_worst": max(known)}
    return reason(
        code,
        most,
        f"{_GARBAGE[code]} collected garbage at most {percent(most)} of the time of {runs} runs,"
        f" and {percent(max(known))} of that of one",
        {**evidence, "runs_with_this": len(known), "runs": runs},
        phase=worst.phase,
    )


def is_precise(verdict: Verdict) -> bool:
    """Whether it may be named, and how it differs from others."""
    return INSUFFICIENT_DATA.isdisjoint(one.code for one in verdict.reasons)


def unrepeated(runs: Sequence[Run]) -> Reason | None:
    """The reason, where a case of a design has fewer repetitions than the design's minimum.

    The minimum is that of the newest pass, where a study was resumed with another number.
    """
    places = (experiment(run.manifest, design) for run in reversed(runs) for design in _DESIGNS)
    place = next(filter(None, places), None)
    if place is None:
        return None
    least = max(_LEAST_REPETITIONS, int(place.get("least_repetitions", 0)))
    have = f"has {len(runs)} {'repetition' if len(runs) == 1 else 'repetitions'}"
    return reason(
        "unrepeated",
        least - len(runs),
        f"the case {have} and its design's minimum is {least}",
        {"repetitions": len(runs), "least": least},
    )


def is_repeated(runs: Sequence[Run]) -> bool:
    """Whether runs of a case are as many as their design asks for at the least."""
    return unrepeated(runs) is None


@dataclass(frozen=True, slots=True)
class Extremes(Generic[T]):
    """The ends of a table of throughputs: one case, or a group without a significant difference.

    A case is named alone only where no other's interval reaches into its own. What isn't VALID, is
    imprecise or has no interval, is not placed at all.
    """

    #: The case with the highest throughput, and those whose intervals overlap its own.
    fastest: tuple[T, ...]
    #: Likewise of the lowest, the lowest first.
    slowest: tuple[T, ...]
    #: How many cases are placed.
    placed: int
    #: Those that have a figure and aren't placed.
    left_out: tuple[T, ...]

    @property
    def apart(self) -> bool:
        """Whether the fastest and the slowest differ significantly."""
        return not any(one is self.slowest[0] for one in self.fastest)


def extremes(
    cases: Iterable[T],
    throughput: Callable[[T], Estimate | None],
    verdict: Callable[[T], Verdict],
) -> Extremes[T]:
    """The ends among these cases."""
    placed: list[tuple[Estimate, T]] = []
    left_out: list[T] = []
    for case in cases:
        found, judged = throughput(case), verdict(case)
        if found is None:
            continue
        usable = judged.judgement is Judgement.VALID and is_precise(judged)
        if usable and found.error is not None:
            placed.append((found, case))
        else:
            left_out.append(case)
    rising = sorted(placed, key=lambda one: one[0].value)
    return Extremes(_with(rising[::-1]), _with(rising), len(placed), tuple(left_out))


def _with(ordered: list[tuple[Estimate, T]]) -> tuple[T, ...]:
    """The first, and those whose intervals overlap with its own."""
    bounds = [(one.low or 0.0, one.high or 0.0) for one, _ in ordered]
    return tuple(
        case
        for (low, high), (_, case) in zip(bounds, ordered, strict=True)
        if low <= bounds[0][1] and bounds[0][0] <= high
    )


@dataclass(frozen=True, slots=True)
class Published:
    """Somebody else's figures for one case: single runs, without an error."""

    workload: str
    store: str
    records: int
    runtime_ms: float
    throughput: float


@cache
def published_sequence() -> Mapping[tuple[str, str, int], Published]:
    """The published figures of a sequence by workload, store and number of records."""
    text = (resources.files("kvmark") / "published" / _SEQUENCE_FILE).read_text(encoding="utf-8")
    # The file's columns are the fields.
    _, *rows = csv.reader(text.splitlines())
    return {
        (workload, store, int(records)): Published(
            workload, store, int(records), float(runtime_ms), float(throughput)
        )
        for workload, store, records, runtime_ms, throughput in rows
    }


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """One case with its figures, and the published ones where there are some."""

    case: Case
    figures: CaseSummary
    published: Published | None


def sequence_rows(runs: Iterable[Run], judged: Judge = judge) -> tuple[SequenceRow, ...]:
    """One row per workload, store, number of records and target rate.

    Repetitions are together, in the order of the published sequence; ``judged`` gives the verdict
    on each.

    Raises:
        RecordsError: a run's files can't be read.
    """
    return tuple(
        SequenceRow(case, aggregate(same, judged), _published(case))
        for case, same in sorted(by_case(runs).items(), key=lambda item: _place(item[0]))
    )


def _published(case: Case) -> Published | None:
    place = (case.workload, case.store, case.records)
    return published_sequence().get(place) if case.target_rate is None else None


def _place(case: Case) -> tuple[int, str, str, int, float]:
    known = _SEQUENCE.index(case.workload) if case.workload in _SEQUENCE else len(_SEQUENCE)
    unlimited = float("inf") if case.target_rate is None else case.target_rate
    return known, case.workload, case.store.casefold(), case.records, unlimited
