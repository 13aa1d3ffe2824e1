"""A search for capacity as an experiment: a closed model first, then a run for each rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.errors import AnswerIsNo, SpecError
from kvmark.experiment.design import RunMade, RunRequest, Runs, made, named
from kvmark.experiment.designs.capacity.judging import judged, measured_rate
from kvmark.experiment.designs.capacity.search import Asked, Capacity, RateRun, Stage, search
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.objective import Objective
from kvmark.spec.run import RunSpec

__all__ = ["CapacitySearch", "tag"]

_SEEDS: Final = 1_000_003
"""Runs of one search have seeds of their own, and other searches others."""


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
    asked: Asked
    #: Where to begin, which spares the closed model; ops/s.
    first: float | None = None
    found: Capacity | None = None
    _number: int = 0
    _tried: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The same for the same words."""
        return named(self.kind, self.definition())

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

    def carry_out(self, runs: Runs) -> None:
        """The highest rate at which the objectives hold.

        Raises:
            AnswerIsNo: a run can't be used, whatever its rate.
            KvmarkError: a run came to no end.
        """
        first = self.first
        if first is None:
            run = self._run(runs, "closed model", None, self.asked.clients)
            most = measured_rate(runs.records, run)
            if most <= 0:
                raise AnswerIsNo(f"no operation of run {run} succeeded: see kvmark show")
            first = most / 2
        self.found = search(_Attempts(self, runs), first, self.asked)

    def judged(
        self, runs: Runs, made_runs: tuple[str, ...], rate: float, stage: Stage, clients: int
    ) -> RateRun:
        """Runs at a rate, judged as one."""
        return judged(runs.records, made_runs, rate, stage, self.objectives, clients)

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

    def _made(self, experiment: str, rate: float | None, number: int, clients: int) -> RunMade:
        spec = self._at(rate, number, clients)
        objectives = [objective.text for objective in self.objectives]
        place = {"name": tag(experiment), "number": number}
        own = {"capacity": {**place, "objectives": objectives, "rate": rate}}
        return made(spec, compile_run(spec), own)

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
        return self.design.judged(self.runs, (run,), rate, stage, clients)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""
        last, made_runs = runs[-1], tuple(one.run for one in runs)
        return self.design.judged(self.runs, made_runs, last.rate, last.stage, last.clients)
