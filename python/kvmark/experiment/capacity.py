"""The search for capacity: the highest rate at which objectives hold, by judged runs at rates.

A closed model gives a first maximum. From half of it the rate is doubled until an objective is
missed, or halved until all hold; between the two the logarithm of the rate is bisected down to the
requested distance. Runs with other seeds confirm each end, and all runs at a rate are judged as one
with merged histograms. An end that changes its result moves by a step.

A rate can be missed because all clients, the limit of operations in flight, were busy. Then the
number of clients is doubled, as long as that makes a difference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from kvmark.analysis.capacity import Capacity, Found, Outcome, RateRun, Stage
from kvmark.analysis.compare.bounds import figure
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.errors import AnswerIsNo, SpecError, UsageError
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunRequest, prepare_run
from kvmark.experiment.judging import close_and_judge
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.metric import Metric, Objective
from kvmark.spec.run import RunSpec

_MOST_DOUBLINGS: Final = 20
_MOST_MOVES: Final = 8
_MORE: Final = 1.05
"""Factor by which a throughput or a time must improve to make a difference."""
SEEDS: Final = 1_000_003
"""Distance between the seeds of two searches."""
_NOT_KEPT_UP: Final = frozenset({"offered_rate_not_reached", "dropped"})
"""Reasons above whose first threshold the system didn't keep up with the rate."""
_ERRORS: Final = frozenset({"errors", "timeouts", "overloaded", "unavailable"})
_FAILED: Final = frozenset({"nothing_measured", "abandoned"})
_GENERATOR: Final = frozenset({"schedule_late", "generator_saturated"})
OF_RATE: Final = _NOT_KEPT_UP | _ERRORS | _FAILED | _GENERATOR
_FEW: Final = 0.01
_ALL_ERRORS: Final = Metric("errors")


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """The precision of a search."""

    #: Largest distance of the ends, a share of the lower one.
    within: float
    #: Runs that confirm each end, besides the first.
    confirm: int
    #: First and largest number of clients; equal where the number is given.
    clients: int
    most_clients: int

    def __post_init__(self) -> None:
        """Checks the values."""
        if not 0.001 <= self.within <= 1:
            raise UsageError(f"within: must be from 0.1% to 100%, not {self.within:.3g}")
        if not 0 <= self.confirm <= 100:
            raise UsageError(f"confirm: must be from 0 to 100 runs, not {self.confirm}")

    @property
    def steps(self) -> int:
        """Expected number of runs, for the display."""
        bisections = math.ceil(math.log2(math.log(2) / math.log1p(self.within)))
        return 2 + max(bisections, 0) + 2 * self.confirm


class RateAttempts(Protocol):
    """Measures rates for a search."""

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a rate, judged."""

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""


@dataclass
class _Search:
    """A search and its runs."""

    attempts: RateAttempts
    asked: CapacityRequest
    clients: int
    runs: list[RateRun] = field(default_factory=list)
    #: The lowest rate at which twice as many clients made no difference; at higher ones they
    #: don't either.
    enough_at: float = math.inf

    def at(self, rate: float, stage: Stage) -> RateRun:
        one = self._attempt(rate, stage, self.clients)
        while one.outcome == "missed" and one.held_back and rate < self.enough_at:
            more = min(2 * self.clients, self.asked.most_clients)
            if more == self.clients:
                break
            wider = self._attempt(rate, stage, more)
            if not _makes_a_difference(one, wider):
                self.enough_at = min(self.enough_at, rate)
                break
            self.clients, one = more, wider
        return one

    def _attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        one = self.attempts.attempt(rate, stage, clients)
        self.runs.append(one)
        return one

    def _same(self, rate: float) -> list[RateRun]:
        """The runs at a rate with the present number of clients."""
        return [one for one in self.runs if (one.rate, one.clients) == (rate, self.clients)]

    def bracket(self, first: float) -> tuple[float | None, float | None]:
        """A rate that holds and one, at most twice as high, that is missed; None where missing."""
        holds, rate = self.at(first, "bracket").holds, first
        for _ in range(_MOST_DOUBLINGS):
            rate *= 2.0 if holds else 0.5
            one = self.at(rate, "bracket")
            if one.holds != holds:
                return (rate / 2, rate) if holds else (rate, rate * 2)
            if one.outcome == "too few":
                break
        return (rate, None) if holds else (None, rate)

    def bisect(self, low: float, high: float) -> tuple[float, float]:
        """Both ends within the requested distance."""
        while high / low > 1 + self.asked.within:
            middle = math.sqrt(low * high)
            if self.at(middle, "bisect").holds:
                low = middle
            else:
                high = middle
        return low, high

    def confirm(self, low: float, high: float) -> Capacity:
        """Both ends, confirmed by more runs."""
        step, moved = 1 + self.asked.within, False
        for _ in range(_MOST_MOVES):
            if self._confirmed(low).holds:
                break
            high, low, moved = low, low / step, True
        else:
            reason = f"runs miss it down to {high:,.4g} ops/s"
            return self.answer(_lacking(self._same(high)), None, high, reason)
        if moved:
            return self._bounded(low, high)
        for _ in range(_MOST_MOVES):
            if not self._confirmed(high).holds:
                return self._bounded(low, high)
            low, high = high, high * step
        return self.answer("open", low, None, f"runs hold up to {low:,.4g} ops/s")

    def _confirmed(self, rate: float) -> RateRun:
        """All runs at a rate as one, after the confirming runs."""
        for _ in range(max(self.asked.confirm, 0 if self._same(rate) else 1)):
            self.at(rate, "confirm")
        return self.attempts.together(self._same(rate))

    def _bounded(self, low: float, high: float) -> Capacity:
        above = self._same(high) or [one for one in self.runs if one.rate == high]
        limited = [one for one in above if one.outcome == "generator"]
        if len(limited) * 2 > len(above):
            return self.answer("generator", low, None, "; ".join(limited[0].reasons))
        held_back = [one for one in above if one.held_back]
        if len(held_back) * 2 > len(above) and high < self.enough_at:
            return self.answer("clients", low, None, _all_busy(high, self.clients))
        return self.answer("found", low, high, "")

    def answer(self, found: Found, low: float | None, high: float | None, reason: str) -> Capacity:
        return Capacity(found, low, high, reason, tuple(self.runs), self.clients)


def search(attempts: RateAttempts, first: float, asked: CapacityRequest) -> Capacity:
    """The highest rate that holds, from a first rate in ops/s."""
    tried = _Search(attempts, asked, asked.clients)
    low, high = tried.bracket(first)
    if low is None:
        return tried.answer(_lacking(tried.runs), None, high, _nowhere(tried.runs))
    if high is None:
        return tried.answer("open", low, None, "no rate was found at which the objective is missed")
    return tried.confirm(*tried.bisect(low, high))


def _makes_a_difference(one: RateRun, wider: RateRun) -> bool:
    """Whether more clients improved a run at the same rate, or were not all busy."""
    if wider.holds or not wider.held_back or wider.throughput > one.throughput * _MORE:
        return True
    known = [(value, wider.figures.get(name)) for name, value in one.figures.items()]
    times = [(value, other) for value, other in known if value is not None and other is not None]
    # Figures of throughputs rise only with the throughput itself.
    return bool(times) and all(other * _MORE < value for value, other in times)


def _all_busy(rate: float, clients: int) -> str:
    number = "the one client was" if clients == 1 else f"all {clients} clients were"
    return (
        f"at {rate:,.0f} ops/s {number} busy, and more of them may carry more: raise --clients, or"
        " leave it out to have their number found"
    )


def _lacking(runs: Sequence[RateRun]) -> Found:
    """Why no rate holds: the generator where it was the limit of most runs, else the system."""
    limited = sum(one.outcome == "generator" for one in runs)
    return "generator" if limited * 2 > len(runs) else "nowhere"


def _nowhere(runs: Sequence[RateRun]) -> str:
    """The reasons at the lowest conclusive rate."""
    conclusive = [one for one in runs if one.outcome != "too few"]
    if not conclusive:
        return "; ".join(runs[-1].reasons)
    lowest = min(conclusive, key=lambda one: one.rate)
    reasons = "; ".join(lowest.reasons)
    below = "" if len(conclusive) == len(runs) else f", and lower: {'; '.join(runs[-1].reasons)}"
    return f"even at {lowest.rate:,.0f} ops/s {reasons}{below}"


def check_searchable(command: str, spec: RunSpec) -> None:
    """Refuses a workload whose rate can't be chosen.

    Raises:
        SpecError: it ends by itself, or has several groups or its own rate.
    """
    workload, groups = spec.workload, spec.active_groups
    if workload.once_per_record:
        raise SpecError(
            f"{command}: {workload.name} takes each record once and ends; take a workload that"
            " goes on"
        )
    if len(groups) > 1:
        names = " and ".join(group.name for group in groups)
        raise SpecError(f"{command}: one group's rate is searched for, not that of {names}")
    if any(group.rates for group in groups):
        raise SpecError(
            f"{command}: {workload.name} says its own rate, and the rate is what is searched"
            " for; leave 'rate' out of it"
        )


def tag(experiment: str) -> str:
    """The tag of a search's runs."""
    return f"capacity:{experiment}"


@dataclass(kw_only=True)
class CapacitySearch(Design):
    """The search, its answer, and the runs that it requests."""

    kind: ClassVar[str] = "capacity"

    #: The run without its rate.
    spec: RunSpec
    arrival: ArrivalProcess
    objectives: tuple[Objective, ...]
    asked: CapacityRequest
    #: First rate, which replaces the closed model; ops/s.
    first: float | None = None
    result: Capacity | None = None
    _number: int = 0
    _repetitions: Counter[str] = field(default_factory=Counter)
    _executor: Executor = field(init=False)

    def definition(self) -> Mapping[str, Any]:
        """The request as plain values."""
        objectives = [objective.text for objective in self.objectives]
        asked = {**asdict(self.asked), "arrival": self.arrival, "first": self.first}
        return {**asked, "objectives": objectives, "run": self.spec.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of the first run.

        Raises:
            SpecError: the workload has no rate to search for.
        """
        check_searchable(self.kind, self.spec)
        return compile_run(self._at(None, 1, self.asked.clients))

    def execute(self, runs: Executor) -> None:
        """Searches for the highest rate at which the objectives hold.

        Raises:
            AnswerIsNo: a run is unusable at any rate.
            KvmarkError: a run didn't come to its end.
        """
        self._executor, first = runs, self.first
        if first is None:
            run = self._run("closed model", None, self.asked.clients)
            most = _throughput([close_and_judge(runs.records, run).run])
            if most <= 0:
                raise AnswerIsNo(f"no operation of run {run} succeeded: see kvmark show")
            first = most / 2
        self.result = search(self, first, self.asked)

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a rate, judged."""
        wider = f" with {clients} clients" if clients > self.asked.clients else ""
        title = f"{stage} at {rate:,.0f}/s{wider}"
        run = self._run(title, rate, clients)
        records = self._executor.records
        return judge_rate(records, (run,), rate, stage, self.objectives, clients)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""
        last, names = runs[-1], [one.run for one in runs]
        records = self._executor.records
        return judge_rate(records, names, last.rate, last.stage, self.objectives, last.clients)

    def _run(self, title: str, rate: float | None, clients: int) -> str:
        runs = self._executor
        self._number += 1
        case = title if rate is None else f"{rate!r}/s, {clients} clients"
        repetition = self._repetitions[case]
        self._repetitions[case] += 1
        return runs.run(
            RunRequest(
                case=case,
                repetition=repetition,
                title=title,
                number=self._number,
                total=max(self._number, self.asked.steps + (self.first is None)),
                make=partial(self._prepared, runs.id, rate, self._number, clients),
                tags=(tag(runs.id),),
            )
        ).id_or_raise()

    def _prepared(
        self, experiment: str, rate: float | None, number: int, clients: int
    ) -> PreparedRun:
        spec = self._at(rate, number, clients)
        own = {
            "name": tag(experiment), "number": number,
            "objectives": [objective.text for objective in self.objectives], "rate": rate,
        }  # fmt: skip
        return prepare_run(spec, compile_run(spec), {"capacity": own})

    def _at(self, rate: float | None, number: int, clients: int) -> RunSpec:
        """The run at a rate, with other seeds."""
        law = None if rate is None else self.arrival
        seed = self.spec.seed * SEEDS + number
        return replace(self.spec, rate=rate, arrival=law, seed=seed, clients=clients)


def judge_rate(
    records: Records,
    runs: Sequence[str],
    rate: float,
    stage: Stage,
    objectives: Sequence[Objective],
    clients: int,
) -> RateRun:
    """Closes and judges runs at one rate as one: histograms are merged, shares pooled.

    A reason against the rate counts when most runs have it.

    Raises:
        AnswerIsNo: a run is INVALID for a reason that doesn't depend on the rate.
        KvmarkError: its records can't be written or read.
    """
    judged = [close_and_judge(records, name) for name in runs]
    for run, verdict in judged:
        raise_if_unusable(run, verdict)
    closed, verdicts = [one.run for one in judged], [one.verdict for one in judged]
    figures = [figure(closed, objective) for objective in objectives]
    own_errors = any(objective.metric == _ALL_ERRORS for objective in objectives)
    missed = [one.sentence for one in figures if one.held is False]
    reasons = [*_overload_sentences(verdicts, own_errors=own_errors), *missed]
    lacking = [one.lacking for one in figures if one.lacking]
    return RateRun(
        rate=rate,
        stage=stage,
        run=runs[-1],
        outcome=_outcome(verdicts, reasons, lacking),
        reasons=tuple(reasons or lacking),
        figures={one.objective.text: one.value for one in figures},
        throughput=_throughput(closed),
        notes=tuple(
            _sentence(reason)
            for verdict in verdicts
            for reason in verdict.reasons
            if reason.code == "concurrency_limit"
        ),
        clients=clients,
        held_back=_waited_for_client(closed) >= _decisive_share(objectives),
    )


def _waited_for_client(runs: Sequence[Run]) -> float:
    """The share of operations that were issued late because all clients were busy."""
    groups = [group for run in runs for phase in run.counted for group in phase.groups]
    issued = sum(group.issued for group in groups)
    return sum(group.late_busy for group in groups) / issued if issued else 0.0


def _decisive_share(objectives: Sequence[Objective]) -> float:
    """The least share of operations that can move a figure beyond its bound: 1 % for p99."""
    quantiles = [one.metric.q for one in objectives if one.metric.quantile is not None]
    return min((1 - q for q in quantiles), default=_FEW)


def _outcome(
    verdicts: Sequence[Verdict], reasons: Sequence[str], lacking: Sequence[str]
) -> Outcome:
    if not reasons:
        return "too few" if lacking else "holds"
    late = sum(
        bool(generator_limit(verdict, (Level.SUSPECT, Level.INVALID))) for verdict in verdicts
    )
    return "generator" if late * 2 > len(verdicts) else "missed"


def generator_limit(verdict: Verdict, levels: Collection[Level]) -> str:
    """Why the generator was the limit of a run, at these levels; empty where it wasn't."""
    limits = (
        _sentence(one) for one in verdict.reasons if one.code in _GENERATOR and one.level in levels
    )
    return next(limits, "")


def _overload_sentences(verdicts: Sequence[Verdict], *, own_errors: bool) -> list[str]:
    """Sentences of the reasons against the rate that most verdicts have."""
    by_code: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for reason in verdict.reasons:
            if _is_overload(reason, own_errors=own_errors):
                by_code.setdefault(reason.code, []).append(reason)
    return [_sentence(same[0]) for same in by_code.values() if len(same) * 2 > len(verdicts)]


def _is_overload(reason: Reason, *, own_errors: bool) -> bool:
    """Whether the system didn't carry the rate."""
    if reason.level is Level.NOTE:
        return False
    if reason.code in _ERRORS:
        return reason.level is Level.INVALID and not own_errors
    if reason.code in _GENERATOR:
        return reason.level is Level.INVALID
    return reason.code in _NOT_KEPT_UP | _FAILED


def raise_if_unusable(run: Run, verdict: Verdict, known: Collection[str] = OF_RATE) -> None:
    """Refuses a run that is INVALID for a reason that isn't known to depend on the rate.

    Raises:
        AnswerIsNo: it is.
    """
    for reason in verdict.reasons:
        if reason.level is Level.INVALID and reason.code not in known:
            raise AnswerIsNo(f"run {run.id} is INVALID: {_sentence(reason)}; {reason.advice}")


def _throughput(runs: Sequence[Run]) -> float:
    rates = [throughput(run, run.counted[0]).value for run in runs if run.counted]
    return sum(rates) / len(rates) if rates else 0.0


def _sentence(reason: Reason) -> str:
    sentence = reason.sentence.removesuffix(".")
    return f"{sentence[:1].lower()}{sentence[1:]}"
