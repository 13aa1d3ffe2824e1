"""The runs of a capacity search: a closed model to begin with, then one run for each rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kvmark.errors import AnswerIsNo, SpecError
from kvmark.experiment.designs.capacity.search import Asked, Capacity, RateRun, Stage, search
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.run.execution import Carried, Progress, carry_out
from kvmark.run.setting import Setting
from kvmark.spec.objective import Objective
from kvmark.spec.run import RunSpec

__all__ = ["CapacityRuns", "capacity_of", "probe_plan"]

_SEEDS: Final = 1_000_003
"""Runs of one search have seeds of their own, and other searches others."""


def _unseen(*_: object) -> None:
    """Shows nothing."""


@dataclass
class CapacityRuns:
    """Who carries out the runs, and for what."""

    name: str
    """Of the search, in all of its runs."""
    spec: RunSpec
    """The run at no rate yet."""
    arrival: Literal["constant", "poisson"]
    objectives: tuple[Objective, ...]
    setting: Setting
    step: Callable[[str, int], object] = _unseen
    """Takes what begins, and its number from 1."""
    progress: Progress = _unseen
    _number: int = field(default=0)

    def carry_out(self, title: str, rate: float | None) -> Carried:
        """Carries out one run.

        Raises:
            KvmarkError: it failed or was interrupted; what was measured is kept.
        """
        self._number += 1
        self.step(title, self._number)
        spec = _at(self.spec, rate, self.arrival, self._number)
        objectives = [objective.text for objective in self.objectives]
        search = {"name": self.name, "number": self._number}
        kept = {
            **spec.as_json(),
            "capacity": {**search, "objectives": objectives, "rate": rate},
        }
        plan = compile_run(spec)
        return carry_out(
            plan, kept, self.setting, self.progress, password=spec.system.password
        ).or_raise()


def probe_plan(spec: RunSpec) -> Plan:
    """The plan of the first run, for calibration.

    Raises:
        SpecError: the workload has no rate that could be searched for.
    """
    if spec.workload.once_per_record:
        raise SpecError(
            f"capacity: {spec.workload.name} takes each record once and ends; take a workload that"
            " goes on"
        )
    if len(spec.active_groups) > 1:
        names = " and ".join(group.name for group in spec.active_groups)
        raise SpecError(f"capacity: one group's rate is searched for, not that of {names}")
    if any(group.rates for group in spec.active_groups):
        raise SpecError(
            f"capacity: {spec.workload.name} says its own rate, and the rate is what is searched"
            " for; leave 'rate' out of it"
        )
    return compile_run(_at(spec, None, "constant", 1))


def capacity_of(runs: CapacityRuns, asked: Asked, first: float | None = None) -> Capacity:
    """The highest rate at which the objectives hold; ``first`` spares the closed model.

    Raises:
        AnswerIsNo: a run can't be used, whatever its rate.
        KvmarkError: a run failed or was interrupted.
    """
    from kvmark.experiment.designs.capacity.judging import measured_rate  # noqa: PLC0415

    if first is None:
        probe = runs.carry_out("closed model", None)
        most = measured_rate(runs.setting.records, probe.folder.id)
        if most <= 0:
            raise AnswerIsNo(f"no operation of run {probe.folder.id} succeeded: see kvmark show")
        first = most / 2
    return search(_Attempts(runs), first, asked)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The runs of a search, carried out and judged."""

    runs: CapacityRuns

    def attempt(self, rate: float, stage: Stage) -> RateRun:
        """One run at a rate, judged."""
        carried = self.runs.carry_out(f"{stage} at {rate:,.4g}/s", rate)
        return self._judged((carried.folder.id,), rate, stage)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""
        last = runs[-1]
        return self._judged(tuple(one.run for one in runs), last.rate, last.stage)

    def _judged(self, runs: tuple[str, ...], rate: float, stage: Stage) -> RateRun:
        from kvmark.experiment.designs.capacity.judging import judged  # noqa: PLC0415

        return judged(self.runs.setting.records, runs, rate, stage, self.runs.objectives)


def _at(
    spec: RunSpec, rate: float | None, arrival: Literal["constant", "poisson"], number: int
) -> RunSpec:
    """The run at a rate, with seeds of its own."""
    law = None if rate is None else arrival
    return replace(spec, rate=rate, arrival=law, seed=spec.seed * _SEEDS + number)
