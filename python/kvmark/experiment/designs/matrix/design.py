"""A study's runs: every case, repetition by repetition, whatever comes of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from kvmark.errors import Interrupted, KvmarkError, SystemUnderTestError
from kvmark.experiment.design import RunMade, RunOutcome, RunRequest, Runs, made
from kvmark.experiment.designs.matrix.cases import Case
from kvmark.experiment.designs.matrix.contents import run_spec
from kvmark.experiment.designs.matrix.definition import Study
from kvmark.experiment.environment import Environment
from kvmark.experiment.judging import says_too_little
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl

__all__ = ["Matrix"]


@dataclass
class Matrix:
    """The design of a study. A case that fails is a result, and the study goes on."""

    kind: ClassVar[str] = "matrix"
    redoes_invalid: ClassVar[bool] = True

    study: Study
    environment: Environment
    _loaded: set[str] = field(default_factory=set)
    #: Of the run that goes.
    _dataset: str = ""
    _breaks: bool = False

    @property
    def name(self) -> str:
        """The study's."""
        return self.study.name

    def definition(self) -> Mapping[str, Any]:
        """The study's file, and what was asked for beside it."""
        study = self.study
        return {
            "digest": study.digest(), "asked": study.asked.as_json(), "text": study.file.text,
        }  # fmt: skip

    def typical_plan(self) -> Plan:
        """The plan of the first case."""
        return self.study.plan(self.study.cases[0])

    def other_plans(self) -> Mapping[str, Plan]:
        """None: all runs are alike."""
        return {}

    def carry_out(self, runs: Runs) -> None:
        """Every run in its order; the study's own servers are gone at the end.

        Raises:
            Interrupted: the user stopped it.
        """
        study = self.study
        every = list(study.runs())
        with self.environment:
            for number, (repetition, case) in enumerate(every, start=1):
                for lengthened in range(study.most_lengthened(case) + 1):
                    run = self._run(runs, number, len(every), repetition, case, lengthened)
                    if run is None or not says_too_little(runs.records, run):
                        break

    def _run(
        self, runs: Runs, number: int, total: int, repetition: int, case: Case, lengthened: int
    ) -> str | None:
        """The id of one run; none where it came to no end."""
        limit_ns = self.study.spec.limit_ns
        longer = f", {2**lengthened} times as long" if lengthened else ""
        outcome = runs.run(
            RunRequest(
                case=case.title,
                repetition=repetition,
                lengthened=lengthened,
                title=self.study.request_title(case, repetition) + longer,
                number=number,
                total=total,
                make=partial(self._made, case, repetition, runs.id, lengthened),
                limit=None if limit_ns is None else _Limit(limit_ns * 2**lengthened / 1e9),
            )
        )
        if isinstance(outcome.failure, Interrupted):
            raise outcome.failure
        self._note_dataset(outcome)
        return outcome.run if outcome.failure is None else None

    def _note_dataset(self, outcome: RunOutcome) -> None:
        if outcome.carried is None:
            return
        if outcome.failure is None:
            self._loaded.add(self._dataset)
        if self._breaks:
            # What a server acknowledged last may be gone with it.
            self._loaded.clear()

    def _made(self, case: Case, repetition: int, experiment: str, lengthened: int) -> RunMade:
        system = self.environment.system(case)
        spec = self._spec(case, system, repetition, lengthened)
        if self.study.spec.dataset == "fresh":
            self.environment.empty(spec.system)
        self._dataset, self._breaks = self._dataset_of(spec), bool(spec.faults)
        place = {
            "case": case.title, "levels": case.labels, "repetition": repetition,
            "lengthened": lengthened,
        }  # fmt: skip
        return made(spec, compile_run(spec), {"study": {"id": experiment, **place}})

    def _spec(self, case: Case, system: SystemUrl, repetition: int, lengthened: int) -> RunSpec:
        """The run; its records are loaded unless this very process put them there.

        A load that was cut short leaves records that a look at a few of them may take for all.
        Loading again is harmless, and what readers ask for has been acknowledged.
        """
        wanted = partial(run_spec, self.study, case, system, repetition, lengthened=lengthened)
        spec = wanted()
        known = self.study.spec.dataset == "reuse" and self._dataset_of(spec) in self._loaded
        return spec if known else wanted(load="always")

    def _dataset_of(self, spec: RunSpec) -> str:
        records = spec.records or spec.workload.dataset.records
        parts = (self.environment.incarnation, spec.system.driver, dict(spec.system.options))
        loads = (spec.workload.is_loaded_first, spec.workload.load, spec.workload.prepare)
        return repr((parts, loads, records, spec.workload.dataset))


@dataclass
class _Limit:
    """The time that a case may take, from when its engine is first at work."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    is_over: bool = False
    _until_s: float = math.inf

    def watch(self, progress: Mapping[str, Any]) -> None:
        """What the engine does makes no difference."""

    def may_go_on(self) -> bool:
        """Whether there is time left."""
        now_s = self.clock()
        self._until_s = min(self._until_s, now_s + self.seconds)
        self.is_over = self.is_over or now_s > self._until_s
        return not self.is_over

    def failure(self) -> KvmarkError:
        """Why the case failed."""
        return SystemUnderTestError(f"the case took longer than its limit of {self.seconds:g} s")
