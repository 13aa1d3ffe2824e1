"""The design of a study: every case, repetition by repetition, also after failures; its systems.

A study's testbed is started for its first case, serves the following cases with the same options,
and is stopped and removed with its data before another one and at the end.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Self

from kvmark.errors import Interrupted, KvmarkError, SystemUnderTestError
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunRequest, prepare_run
from kvmark.experiment.judging import has_insufficient_data
from kvmark.experiment.study.cases import Case, TestbedWords
from kvmark.experiment.study.definition import Study
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
from kvmark.run.existing import DatasetClaim, OnExisting, make_room
from kvmark.spec.faults import Action
from kvmark.spec.quantity import duration_text
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl, parse_system_url
from kvmark.testbed import STUDY_PREFIX, testbeds_root
from kvmark.testbed.control import take_down, wait_until_healthy
from kvmark.testbed.process import bind
from kvmark.testbed.state import Testbed, all_testbeds
from kvmark.testbed.system import SYSTEMS, option_specs

_WARM_UP: Final = 500_000
"""First number of warm-up rounds, so that they use other keys than any repetition."""
_BEGINS_ANEW: Final[frozenset[Action]] = frozenset({"kill", "restart"})
"""Faults after which a server is cold."""


_LONGEST: Final = 40


@dataclass
class Environment:
    """The systems of a study; its own testbeds are removed at the end of the context."""

    study: Study
    tell: Callable[[str], None]
    #: Action for records of a system that isn't the study's own testbed.
    on_existing: OnExisting = "refuse"
    #: Recognises the records of the study; set once it has a journal.
    claim: DatasetClaim | None = None
    _wanted: TestbedWords | None = None
    _up: Testbed | None = None
    _failed: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Removes the testbed of a killed pass."""
        self._take_down()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops and removes the study's own testbed."""
        self._take_down()

    def system(self, case: Case) -> SystemUrl:
        """The system of a case, started if it is the study's own testbed.

        Raises:
            KvmarkError: it doesn't exist or start.
        """
        wanted = self.study.testbed(case)
        if wanted is None:
            return self.study.resolve(self.study.system_name(case))
        return parse_system_url(self._testbed(wanted).url)

    def empty(self, system: SystemUrl) -> None:
        """Removes the records of a system, which must be the study's own.

        Raises:
            UsageError: it has records that the study can't prove to be its own.
        """
        # This process started the study's testbed: all its records are the study's.
        own = self._up is not None and system.text == parse_system_url(self._up.url).text
        make_room(system, "remove" if own else self.on_existing, self.claim)

    @property
    def incarnation(self) -> str:
        """Identifies one start of the servers, after which they are empty."""
        return "" if self._up is None else self._up.created

    @property
    def all_cores(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Lends the study's servers all cores; None where they have them."""
        return None if self._up is None else every_core(self._up)

    def _testbed(self, wanted: TestbedWords) -> Testbed:
        key = wanted.model_dump_json()
        if key in self._failed:
            raise SystemUnderTestError(self._failed[key])
        if self._up is not None and wanted == self._wanted and self._is_whole(self._up):
            return self._up
        self._take_down()
        self.tell(f"starting {wanted.system}")
        try:
            self._up = _started(wanted, self._name, self.tell)
        except KvmarkError as problem:
            # Other cases with the same options would fail in the same way.
            self._failed[key] = str(problem)
            raise
        self._wanted = wanted
        return self._up

    def _is_whole(self, testbed: Testbed) -> bool:
        """Whether all servers are healthy; a server after a fault may need some time."""
        try:
            self._up = Testbed.read(testbed.folder)
            if not self._up.lives:
                return False
            wait_until_healthy(self._up)
        except KvmarkError:
            return False
        return True

    def _take_down(self) -> None:
        self._up, self._wanted = None, None
        root = testbeds_root()
        if any(testbed.name == self._name for testbed in all_testbeds(root)):
            take_down(root, self._name, remove=True)

    @property
    def _name(self) -> str:
        """The testbed's name, made of the study's."""
        return re.sub(r"[^a-z0-9-]", "-", f"{STUDY_PREFIX}{self.study.name}")[:_LONGEST]


def every_core(testbed: Testbed) -> Callable[[], AbstractContextManager[None]] | None:
    """Lends a testbed's servers all cores; None where they have them."""
    usable = os.sched_getaffinity(0)
    bound = [
        (node.process, node.cores)
        for node in testbed.nodes
        if node.process and node.cores and not usable <= set(node.cores)
    ]

    @contextmanager
    def lent() -> Iterator[None]:
        """Servers on all usable cores; on their own cores afterwards.

        Raises:
            SystemUnderTestError: they can't be bound.
        """
        try:
            for process, _ in bound:
                bind(process, usable)
            yield
        finally:
            for process, cores in bound:
                bind(process, cores)

    return lent if bound else None


def _started(wanted: TestbedWords, name: str, tell: Callable[[str], None]) -> Testbed:
    system, said = SYSTEMS[wanted.system], wanted.said()
    options: dict[str, Any] = {"name": name, "settings": tuple(wanted.set.items())}
    options |= wanted.model_dump(include={"tls", "network", "cores"})
    for spec in option_specs(system.options).values():
        if spec.name in said:
            options[spec.field] = spec.parse(said[spec.name])
    return system.up(system.options(**options), testbeds_root(), tell)


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
