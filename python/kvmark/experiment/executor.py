"""Carries out a study: what is missing of its runs, one after the other, each written down.

A case that fails is a result: its reason is kept and the study goes on. Only what makes every
further run senseless ends it: the user, and records that can't be written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from kvmark.errors import Interrupted, KvmarkError, RunError, SystemUnderTestError
from kvmark.experiment.designs.matrix.cases import Case
from kvmark.experiment.designs.matrix.contents import run_spec
from kvmark.experiment.designs.matrix.definition import Study
from kvmark.experiment.environment import Environment
from kvmark.experiment.journal import Attempt, Journal
from kvmark.experiment.judging import usable
from kvmark.plan.compile import compile_run
from kvmark.run.execution import Carried, Progress, carry_out
from kvmark.run.setting import Setting
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl

__all__ = ["Audience", "Executor", "best_attempts", "missing"]

Place = tuple[str, int]
"""A case by its title, and a repetition."""


class Audience(Protocol):
    """Whoever is told how a study goes."""

    def step(self, title: str, index: int, total: int) -> None:
        """Run ``index`` of ``total``, from 1, begins."""


@dataclass(frozen=True, slots=True)
class Best:
    """What there is of one run of a case."""

    attempt: Attempt
    usable: bool


def best_attempts(journal: Journal) -> Mapping[Place, Best]:
    """The try that stands for each run: the newest that is usable, or else the newest."""
    attempts = journal.attempts()
    runs = [attempt.run for attempt in attempts if attempt.run is not None]
    judged = usable(journal.records, runs)
    found: dict[Place, Best] = {}
    for attempt in attempts:
        place = (attempt.case, attempt.repetition)
        is_usable = attempt.run is not None and judged[attempt.run]
        if is_usable or place not in found or not found[place].usable:
            found[place] = Best(attempt, is_usable)
    return found


def missing(study: Study, done: Collection[Place]) -> list[tuple[int, int, Case]]:
    """The runs that are still to be made: their number from 1, the repetition and the case."""
    return [
        (number, repetition, case)
        for number, (repetition, case) in enumerate(study.runs(), start=1)
        if (case.title, repetition) not in done
    ]


@dataclass
class Executor:
    """Carries out runs of a study."""

    study: Study
    journal: Journal
    environment: Environment
    setting: Setting
    audience: Audience
    progress: Progress
    _loaded: set[str] = field(default_factory=set)

    def carry_out(self, todo: Sequence[tuple[int, int, Case]]) -> None:
        """Carries out these runs.

        Raises:
            Interrupted: the user stopped it; what was measured is kept.
            RunError: records can't be written.
        """
        total = self.study.repetitions * len(self.study.cases)
        for number, repetition, case in todo:
            title = case.title
            if self.study.repetitions > 1:
                title = f"{title}, repetition {repetition + 1}"
            self.audience.step(title, number, total)
            self.journal.append(self._attempt(case, repetition))

    def _attempt(self, case: Case, repetition: int) -> Attempt:
        try:
            carried = self._carried(case, repetition)
        except (Interrupted, RunError):
            raise
        except KvmarkError as problem:
            return Attempt(case.title, repetition, None, str(problem))
        failure = carried.failure
        if isinstance(failure, Interrupted):
            self.journal.append(Attempt(case.title, repetition, carried.folder.id, str(failure)))
            raise failure
        text = None if failure is None else str(failure)
        return Attempt(case.title, repetition, carried.folder.id, text)

    def _carried(self, case: Case, repetition: int) -> Carried:
        system = self.environment.system(case)
        spec = self._spec(case, system, repetition)
        if self.study.spec.dataset == "fresh":
            self.environment.empty(spec.system)
        own = {"id": self.journal.id, "case": case.title, "levels": case.labels}
        kept = {**spec.as_json(), "study": {**own, "repetition": repetition}}
        plan = compile_run(spec)
        limit = _Limit.from_now(self.study.spec.limit_ns)
        carried = carry_out(
            plan, kept, self.setting, self.progress, spec.faults,
            may_go_on=limit.may_go_on, password=spec.system.password,
        )  # fmt: skip
        if limit.is_over and isinstance(carried.failure, Interrupted):
            seconds = (self.study.spec.limit_ns or 0) / 1e9
            reason = SystemUnderTestError(f"the case took longer than its limit of {seconds:g} s")
            return replace(carried, failure=reason)
        if carried.failure is None:
            self._loaded.add(self._dataset(spec))
        if spec.faults:
            # What a server acknowledged last may be gone with it.
            self._loaded.clear()
        return carried

    def _spec(self, case: Case, system: SystemUrl, repetition: int) -> RunSpec:
        """The run; its records are loaded unless this very process put them there.

        A load that was cut short leaves records that a look at a few of them may take for all.
        Loading again is harmless, and what readers ask for has been acknowledged.
        """
        spec = run_spec(self.study, case, system, repetition)
        known = self.study.spec.dataset == "reuse" and self._dataset(spec) in self._loaded
        return spec if known else run_spec(self.study, case, system, repetition, "always")

    def _dataset(self, spec: RunSpec) -> str:
        records = spec.records or spec.workload.dataset.records
        parts = (self.environment.incarnation, spec.system.driver, dict(spec.system.options))
        loads = (spec.workload.is_loaded_first, spec.workload.load, spec.workload.prepare)
        return repr((parts, loads, records, spec.workload.dataset))


@dataclass
class _Limit:
    """The time that a case may take. Only an engine that is at work is ended by it."""

    until_s: float
    clock: Callable[[], float]
    #: Whether it ended the run.
    is_over: bool = False

    @classmethod
    def from_now(cls, limit_ns: int | None, clock: Callable[[], float] = time.monotonic) -> Self:
        """So long from now, or for ever."""
        return cls(math.inf if limit_ns is None else clock() + limit_ns / 1e9, clock)

    def may_go_on(self) -> bool:
        """Whether there is time left."""
        self.is_over = self.is_over or self.clock() > self.until_s
        return not self.is_over
