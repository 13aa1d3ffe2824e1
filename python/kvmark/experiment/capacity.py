"""A search for capacity as an experiment: a closed model, then a run for each rate, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.analysis import Level, Reason, Verdict, judge, save_verdict
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.objectives import figure
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.experiment.capacity_search import (
    Capacity,
    CapacityRequest,
    Outcome,
    RateRun,
    Stage,
    search,
)
from kvmark.experiment.design import PreparedRun, RunRequest, Runs, experiment_name, prepare_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run, close_run
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.metric import Metric
from kvmark.spec.objective import Objective
from kvmark.spec.run import RunSpec

_SEEDS: Final = 1_000_003
"""Runs of one search have seeds of their own, and other searches others."""
_NOT_KEPT_UP: Final = frozenset({"offered_rate_not_reached", "dropped"})
"""Above these rules' first threshold the rate was not carried."""
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
    """What was asked, and what was found."""

    kind: ClassVar[str] = "capacity"
    redoes_invalid: ClassVar[bool] = False

    #: The run at no rate yet.
    spec: RunSpec
    arrival: ArrivalProcess
    objectives: tuple[Objective, ...]
    asked: CapacityRequest
    #: Where to begin, which spares the closed model; ops/s.
    first: float | None = None
    found: Capacity | None = None
    _number: int = 0
    _tried: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The same for the same words."""
        return experiment_name(self.kind, self.definition())

    def definition(self) -> Mapping[str, Any]:
        """What was asked for."""
        objectives = [objective.text for objective in self.objectives]
        asked = {**asdict(self.asked), "arrival": self.arrival, "first": self.first}
        return {**asked, "objectives": objectives, "run": self.spec.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of the first run.

        Raises:
            SpecError: the workload has no rate that could be searched for.
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
        """None: all runs are alike."""
        return {}

    def execute(self, runs: Runs) -> None:
        """The highest rate at which the objectives hold.

        Raises:
            AnswerIsNo: a run can't be used, whatever its rate.
            KvmarkError: a run came to no end.
        """
        first = self.first
        if first is None:
            run = self._run(runs, "closed model", None, self.asked.clients)
            most = _measured_rate(runs.records, run)
            if most <= 0:
                raise AnswerIsNo(f"no operation of run {run} succeeded: see kvmark show")
            first = most / 2
        self.found = search(_Attempts(self, runs), first, self.asked)

    def judge_rate(
        self, runs: Runs, made_runs: tuple[str, ...], rate: float, stage: Stage, clients: int
    ) -> RateRun:
        """Runs at a rate, judged as one."""
        return judge_rate(runs.records, made_runs, rate, stage, self.objectives, clients)

    def attempt(self, runs: Runs, rate: float, stage: Stage, clients: int) -> str:
        """Carries out one run at a rate."""
        more = f" with {clients} clients" if clients > self.asked.clients else ""
        return self._run(runs, f"{stage} at {rate:,.4g}/s{more}", rate, clients)

    def _run(self, runs: Runs, title: str, rate: float | None, clients: int) -> str:
        self._number += 1
        case = title if rate is None else f"{rate!r}/s, {clients} clients"
        repetition = self._tried[case]
        self._tried[case] += 1
        steps = self.asked.steps + (self.first is None)
        return runs.run(
            RunRequest(
                case=case,
                repetition=repetition,
                title=title,
                number=self._number,
                total=max(self._number, steps),
                make=partial(self._made, runs.id, rate, self._number, clients),
                tags=(tag(runs.id),),
            )
        ).id_or_raise()

    def _made(self, experiment: str, rate: float | None, number: int, clients: int) -> PreparedRun:
        spec = self._at(rate, number, clients)
        objectives = [objective.text for objective in self.objectives]
        place = {"name": tag(experiment), "number": number}
        own = {"capacity": {**place, "objectives": objectives, "rate": rate}}
        return prepare_run(spec, compile_run(spec), own)

    def _at(self, rate: float | None, number: int, clients: int) -> RunSpec:
        """The run at a rate, with seeds of its own."""
        law = None if rate is None else self.arrival
        seed = self.spec.seed * _SEEDS + number
        return replace(self.spec, rate=rate, arrival=law, seed=seed, clients=clients)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The runs of a search, carried out and judged."""

    design: CapacitySearch
    runs: Runs

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a rate, judged."""
        run = self.design.attempt(self.runs, rate, stage, clients)
        return self.design.judge_rate(self.runs, (run,), rate, stage, clients)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""
        last, made_runs = runs[-1], tuple(one.run for one in runs)
        return self.design.judge_rate(self.runs, made_runs, last.rate, last.stage, last.clients)


def _measured_rate(records: Records, run: str) -> float:
    """Closes a run and says its successful operations per second."""
    closed, _ = _closed(records, run)
    return _throughput([closed])


def judge_rate(
    records: Records,
    runs: Sequence[str],
    rate: float,
    stage: Stage,
    objectives: Sequence[Objective],
    clients: int,
) -> RateRun:
    """Closes and judges runs at one rate as one: histograms are merged, shares pooled.

    What a verdict says against the rate counts when it says so of most runs.

    Raises:
        AnswerIsNo: a run is INVALID for a reason that no other rate would mend.
        KvmarkError: its records can't be written or read.
    """
    closed = [_closed(records, name) for name in runs]
    for run, verdict in closed:
        _raise_if_useless(run, verdict)
    figures = [figure([run for run, _ in closed], objective) for objective in objectives]
    own_errors = any(objective.metric == _ALL_ERRORS for objective in objectives)
    verdicts = [verdict for _, verdict in closed]
    missed = [one.sentence for one in figures if one.held is False]
    reasons = [*_refused(verdicts, own_errors=own_errors), *missed]
    lacking = [one.lacking for one in figures if one.lacking]
    return RateRun(
        rate=rate,
        stage=stage,
        run=runs[-1],
        outcome=_outcome(verdicts, reasons, lacking),
        reasons=tuple(reasons or lacking),
        figures={one.objective.text: one.value for one in figures},
        throughput=_throughput([run for run, _ in closed]),
        notes=tuple(
            _sentence(reason)
            for verdict in verdicts
            for reason in verdict.reasons
            if reason.code == "concurrency_limit"
        ),
        clients=clients,
        held_back=_waited_for_client([run for run, _ in closed]) >= _told_by(objectives),
    )


def _waited_for_client(runs: Sequence[Run]) -> float:
    """The share of operations that were issued late because all clients were busy."""
    groups = [group for run in runs for phase in run.counted for group in phase.groups]
    issued = sum(group.issued for group in groups)
    return sum(group.late_busy for group in groups) / issued if issued else 0.0


def _told_by(objectives: Sequence[Objective]) -> float:
    """The least share of operations that can put a figure beyond its bound: 1 % for p99."""
    quantiles = [one.metric.q for one in objectives if one.metric.quantile is not None]
    return min((1 - q for q in quantiles), default=_FEW)


def _closed(records: Records, name: str) -> tuple[Run, Verdict]:
    run = close_run(records.root / name)
    verdict = judge(run)
    save_verdict(records, run, verdict)
    return run, verdict


def _outcome(
    verdicts: Sequence[Verdict], reasons: Sequence[str], lacking: Sequence[str]
) -> Outcome:
    if not reasons:
        return "too few" if lacking else "holds"
    late = [any(map(_is_late, verdict.reasons)) for verdict in verdicts]
    return "generator" if _most(late) else "missed"


def _is_late(reason: Reason) -> bool:
    return reason.code in _GENERATOR and reason.level is not Level.NOTE


def _most(held: Sequence[bool]) -> bool:
    return sum(held) * 2 > len(held)


def _refused(verdicts: Sequence[Verdict], *, own_errors: bool) -> list[str]:
    """Sentences of the reasons that most runs' verdicts give against the rate."""
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for reason in verdict.reasons:
            if _is_refused(reason, own_errors=own_errors):
                found.setdefault(reason.code, []).append(reason)
    return [_sentence(same[0]) for same in found.values() if len(same) * 2 > len(verdicts)]


def _is_refused(reason: Reason, *, own_errors: bool) -> bool:
    """Whether a reason says that the system didn't carry the rate."""
    if reason.level is Level.NOTE:
        return False
    if reason.code in _ERRORS:
        return reason.level is Level.INVALID and not own_errors
    if reason.code in _GENERATOR:
        return reason.level is Level.INVALID
    return reason.code in _NOT_KEPT_UP | _FAILED


def _raise_if_useless(run: Run, verdict: Verdict) -> None:
    known = _NOT_KEPT_UP | _ERRORS | _FAILED | _GENERATOR
    for reason in verdict.reasons:
        if reason.level is Level.INVALID and reason.code not in known:
            said = _sentence(reason)
            raise AnswerIsNo(f"run {run.id} is INVALID: {said}; {reason.advice}")


def _throughput(runs: Sequence[Run]) -> float:
    rates = [throughput(run, run.counted[0]).value for run in runs if run.counted]
    return sum(rates) / len(rates) if rates else 0.0


def _sentence(reason: Reason) -> str:
    said = reason.sentence.removesuffix(".")
    return f"{said[:1].lower()}{said[1:]}"
