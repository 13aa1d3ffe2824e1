"""The design of a study: every case, repetition by repetition, also after failures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.errors import Interrupted, KvmarkError, SystemUnderTestError
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunRequest, prepare_run
from kvmark.experiment.judging import has_insufficient_data
from kvmark.experiment.study.cases import Case
from kvmark.experiment.study.definition import Study
from kvmark.experiment.study.environment import Environment
from kvmark.experiment.study.warm_up import (
    MOST_ROUNDS,
    ServerWarmup,
    client_speed,
    is_read_only,
    shorten,
    warm_up_places,
    warm_up_servers,
)
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.faults import Action
from kvmark.spec.quantity import duration_text
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl

_WARM_UP: Final = 500_000
"""First number of warm-up rounds, so that they use other keys than any repetition."""
_BEGINS_ANEW: Final[frozenset[Action]] = frozenset({"kill", "restart"})
"""Faults after which a server is cold."""


@dataclass
class FactorialDesign(Design):
    """The design of a study. A case that fails is a result, and the study continues."""

    kind: ClassVar[str] = "matrix"
    redoes_invalid: ClassVar[bool] = True

    study: Study
    environment: Environment
    _loaded: set[str] = field(default_factory=set)
    #: Of the present run.
    _dataset: str = ""
    _faults: frozenset[Action] = frozenset()
    #: The part of runs' manifests about the servers, by their start or first use.
    _servers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The study's."""
        return self.study.name

    def definition(self) -> Mapping[str, Any]:
        """The study's file and request."""
        study = self.study
        return {
            "digest": study.digest(), "asked": study.asked.as_json(), "text": study.file.text,
        }  # fmt: skip

    def typical_plan(self) -> Plan:
        """The plan of the first case."""
        return self.study.plan(self.study.cases[0])

    def execute(self, runs: Executor) -> None:
        """All runs in their order; then the study's own servers are removed.

        Raises:
            Interrupted: the user stopped it.
        """
        study = self.study
        every = list(study.runs())
        # While the system is known to exist.
        lengthened_most = {case.title: study.most_lengthened(case) for case in study.cases}
        with self.environment:
            for number, (repetition, case) in enumerate(every, start=1):
                for lengthened in range(lengthened_most[case.title] + 1):
                    run = self._run(runs, number, len(every), repetition, case, lengthened)
                    if run is None or not has_insufficient_data(runs.records, run):
                        break

    def _run(
        self, runs: Executor, number: int, total: int, repetition: int, case: Case, lengthened: int
    ) -> str | None:
        """The id of one run; None where it didn't come to its end."""
        several = self.study.repetitions_of(case) > 1
        title = f"{case.title}, repetition {repetition + 1}" if several else case.title
        longer = f", {2**lengthened} times as long" if lengthened else ""
        outcome = runs.run(
            RunRequest(
                case=case.title,
                repetition=repetition,
                lengthened=lengthened,
                title=title + longer,
                number=number,
                total=total,
                make=partial(self._made, case, repetition, runs, lengthened),
                limit=self._limit(lengthened),
            )
        )
        if isinstance(outcome.failure, Interrupted):
            raise outcome.failure
        if outcome.carried is not None:
            if self._faults:
                # A server may have lost its last acknowledged writes.
                self._loaded.clear()
            elif outcome.failure is None:
                self._loaded.add(self._dataset)
            if self._faults & _BEGINS_ANEW:
                self._servers.clear()
        return outcome.run if outcome.failure is None else None

    def _made(self, case: Case, repetition: int, runs: Executor, lengthened: int) -> PreparedRun:
        system = self.environment.system(case)
        servers = self._servers_of(case, system, runs)
        spec = self._spec(case, system, repetition, lengthened)
        self._make_room(spec)
        self._dataset = self._dataset_of(spec)
        self._faults = frozenset(fault.do for fault in spec.faults)
        if "after_start" in servers:
            servers["after_start"] += 1
        place = {
            "case": case.title, "levels": case.labels, "repetition": repetition,
            "lengthened": lengthened, "least_repetitions": self.study.repetitions, **servers,
        }  # fmt: skip
        return prepare_run(spec, compile_run(spec), {"study": {"id": runs.id, **place}})

    def _servers_of(self, case: Case, system: SystemUrl, runs: Executor) -> dict[str, Any]:
        """The servers of a case, warmed up after their start or at their first use.

        With the number of runs since a start by the study, and a requested warm-up.

        Raises:
            SystemUnderTestError: they ended during the warm-up.
        """
        incarnation = (self.environment.incarnation, system.text)
        if incarnation not in self._servers:
            longest_ns = self.study.server_warmup_ns
            servers: dict[str, Any] = {"after_start": 0} if incarnation[0] else {}
            if longest_ns is not None:
                warmup = self._warm_up(case, system, longest_ns, runs)
                servers["server_warmup"] = None if warmup is None else warmup.as_json()
                self.environment.system(case)
                if self.environment.incarnation != incarnation[0]:
                    raise SystemUnderTestError("the servers ended while they were warmed up")
            self._servers[incarnation] = servers
        return self._servers[incarnation]

    def _warm_up(
        self, case: Case, system: SystemUrl, longest_ns: int, runs: Executor
    ) -> ServerWarmup | None:
        """Loads servers with the study's own cases; None where no case is suitable.

        Raises:
            Interrupted: the user stopped it.
        """
        cases = self.study.cases_beside(case)
        specs = [self.study.run_spec(one, system, 0) for one in cases]
        chosen = warm_up_places(specs)
        length_ns = max(longest_ns // MOST_ROUNDS // max(len(chosen), 1), 1)
        loads = {
            cases[place].title: partial(self._speed, runs, cases[place], system, length_ns)
            for place in chosen
        }
        lent = self.environment.all_cores
        found = warm_up_servers(loads, longest_ns / 1e9, time.monotonic, runs.say, lent)
        # Writes may have changed the records.
        written = (specs[place] for place in chosen if not is_read_only(specs[place]))
        self._loaded -= {self._dataset_of(one) for one in written}
        return found

    def _speed(
        self, runs: Executor, case: Case, system: SystemUrl, length_ns: int, number: int
    ) -> float:
        """The speed of a case's load in a round of the warm-up."""
        spec = self._spec(case, system, _WARM_UP + number, 0)
        spec = shorten(spec, length_ns, settle=number == 1)
        self._make_room(spec)
        found = client_speed(runs.try_out(prepare_run(spec, compile_run(spec), {}), self._limit(0)))
        self._loaded.add(self._dataset_of(spec))
        return found

    def _limit(self, lengthened: int) -> _Limit | None:
        limit_ns = self.study.spec.limit_ns
        return None if limit_ns is None else _Limit(limit_ns * 2**lengthened / 1e9)

    def _make_room(self, spec: RunSpec) -> None:
        if self.study.spec.dataset == "fresh":
            self.environment.empty(spec.system)

    def _spec(self, case: Case, system: SystemUrl, repetition: int, lengthened: int) -> RunSpec:
        """The run; its records are loaded unless this process loaded them.

        After an interrupted load a sample of the records may seem complete. Loading again is
        harmless, and then every record that readers request is acknowledged.
        """
        wanted = partial(self.study.run_spec, case, system, repetition, lengthened=lengthened)
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
    """The time limit of a case, from the begin of the engine's work."""

    seconds: float
    is_over: bool = False
    _until_s: float = math.inf

    def watch(self, progress: Mapping[str, Any]) -> None:
        """Ignores the progress."""

    def may_go_on(self) -> bool:
        """Whether there is time left."""
        now_s = time.monotonic()
        self._until_s = min(self._until_s, now_s + self.seconds)
        self.is_over = self.is_over or now_s > self._until_s
        return not self.is_over

    def failure(self) -> KvmarkError:
        """The failure of the case."""
        limit = duration_text(self.seconds * 1e9)
        return SystemUnderTestError(f"the case took longer than its limit of {limit}")
