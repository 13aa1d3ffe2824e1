"""The search for capacity as an experiment: a closed model, then judged runs at each rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.analysis.compare.bounds import figure
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.experiment.capacity_search import (
    Capacity,
    CapacityRequest,
    Outcome,
    RateRun,
    Stage,
    search,
)
from kvmark.experiment.design import PreparedRun, RunRequest, experiment_name, prepare_run
from kvmark.experiment.executor import Executor
from kvmark.experiment.judging import close_and_judge
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.metric import Metric
from kvmark.spec.objective import Objective
from kvmark.spec.run import RunSpec

_SEEDS: Final = 1_000_003
"""Distance between the seeds of two searches."""
_NOT_KEPT_UP: Final = frozenset({"offered_rate_not_reached", "dropped"})
"""Reasons above whose first threshold the system didn't keep up with the rate."""
_ERRORS: Final = frozenset({"errors", "timeouts", "overloaded", "unavailable"})
_FAILED: Final = frozenset({"nothing_measured", "abandoned"})
_GENERATOR: Final = frozenset({"schedule_late", "generator_saturated"})
_FEW: Final = 0.01
_ALL_ERRORS: Final = Metric("errors")


def tag(experiment: str) -> str:
    """The tag of a search's runs."""
    return f"capacity:{experiment}"


@dataclass(kw_only=True)
class CapacitySearch:
    """The search, its answer, and the runs that it requests."""

    kind: ClassVar[str] = "capacity"
    redoes_invalid: ClassVar[bool] = False

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

    @property
    def name(self) -> str:
        """The same for the same definition."""
        return experiment_name(self.kind, self.definition())

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
        workload, groups = self.spec.workload, self.spec.active_groups
        if workload.once_per_record:
            raise SpecError(
                f"capacity: {workload.name} takes each record once and ends; take a workload that"
                " goes on"
            )
        if len(groups) > 1:
            names = " and ".join(group.name for group in groups)
            raise SpecError(f"capacity: one group's rate is searched for, not that of {names}")
        if any(group.rates for group in groups):
            raise SpecError(
                f"capacity: {workload.name} says its own rate, and the rate is what is searched"
                " for; leave 'rate' out of it"
            )
        return compile_run(self._at(None, 1, self.asked.clients))

    def other_plans(self) -> Mapping[str, Plan]:
        """None: all runs have one overhead."""
        return {}

    def execute(self, runs: Executor) -> None:
        """Searches for the highest rate at which the objectives hold.

        Raises:
            AnswerIsNo: a run is unusable at any rate.
            KvmarkError: a run didn't come to its end.
        """
        self._executor, first = runs, self.first
        if first is None:
            run = self._run(runs, "closed model", None, self.asked.clients)
            most = _throughput([close_and_judge(runs.records, run).run])
            if most <= 0:
                raise AnswerIsNo(f"no operation of run {run} succeeded: see kvmark show")
            first = most / 2
        self.result = search(self, first, self.asked)

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a rate, judged."""
        wider = f" with {clients} clients" if clients > self.asked.clients else ""
        title = f"{stage} at {rate:,.4g}/s{wider}"
        runs = self._executor
        run = self._run(runs, title, rate, clients)
        return judge_rate(runs.records, (run,), rate, stage, self.objectives, clients)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""
        last, names = runs[-1], [one.run for one in runs]
        records = self._executor.records
        return judge_rate(records, names, last.rate, last.stage, self.objectives, last.clients)

    def _run(self, runs: Executor, title: str, rate: float | None, clients: int) -> str:
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
        objectives = [objective.text for objective in self.objectives]
        place = {"name": tag(experiment), "number": number}
        own = {"capacity": {**place, "objectives": objectives, "rate": rate}}
        return prepare_run(spec, compile_run(spec), own)

    def _at(self, rate: float | None, number: int, clients: int) -> RunSpec:
        """The run at a rate, with other seeds."""
        law = None if rate is None else self.arrival
        seed = self.spec.seed * _SEEDS + number
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
        _raise_if_unusable(run, verdict)
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
        any(one.code in _GENERATOR and one.level is not Level.NOTE for one in verdict.reasons)
        for verdict in verdicts
    )
    return "generator" if late * 2 > len(verdicts) else "missed"


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


def _raise_if_unusable(run: Run, verdict: Verdict) -> None:
    known = _NOT_KEPT_UP | _ERRORS | _FAILED | _GENERATOR
    for reason in verdict.reasons:
        if reason.level is Level.INVALID and reason.code not in known:
            raise AnswerIsNo(f"run {run.id} is INVALID: {_sentence(reason)}; {reason.advice}")


def _throughput(runs: Sequence[Run]) -> float:
    rates = [throughput(run, run.counted[0]).value for run in runs if run.counted]
    return sum(rates) / len(rates) if rates else 0.0


def _sentence(reason: Reason) -> str:
    sentence = reason.sentence.removesuffix(".")
    return f"{sentence[:1].lower()}{sentence[1:]}"
