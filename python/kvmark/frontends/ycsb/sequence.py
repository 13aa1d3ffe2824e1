"""The YCSB sequence as an experiment: load, A, B, C, F, D, delete, reload, E on each system.

Repetitions are the outer loop, so that all systems and sizes share the machine's drift; within one
they come in an order drawn from the seed. Steps keep their order, since each needs the dataset that
the steps before it left. `scheduling` decides the number of repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark import _engine
from kvmark.drivers import drivers
from kvmark.errors import UsageError
from kvmark.experiment.executor import (
    Design,
    Executor,
    PreparedRun,
    RunOutcome,
    RunRequest,
    TimeLeft,
    prepare_run,
)
from kvmark.frontends.ycsb.properties import CORE_WORKLOADS
from kvmark.frontends.ycsb.scheduling import WHOLE, RepetitionPolicy, Scheduler, Step, StepLimit
from kvmark.frontends.ycsb.workloads import YcsbProperties, ycsb_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.run.execution import ExecutedRun
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl

SEQUENCE: Final = ("load", "a", "b", "c", "f", "d", "delete", "reload", "e")
"""The published order."""
SHORT_SEQUENCE: Final = ("load", "a", "b", "c", "f", "d", "e")
"""The same on one dataset, to which D has added its inserts before E."""

_Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class YcsbStudy:
    """The steps of a sequence and their options."""

    #: By the names in titles, which is empty where there is only one.
    systems: Mapping[str, SystemUrl]
    properties: YcsbProperties
    records: tuple[int, ...]
    operations: int | None
    workloads: tuple[str, ...]
    targets: tuple[float | None, ...]
    policy: RepetitionPolicy
    seed: int
    #: Fields of `RunSpec` for every run.
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that each step finds the dataset it needs."""
        loaded = True
        for workload in self.workloads:
            if workload == "reload" and loaded and "delete" not in self.workloads:
                raise UsageError("workloads: reload comes after delete; add delete or use load")
            if workload in CORE_WORKLOADS and not loaded:
                raise UsageError(
                    f"workloads: {workload} comes after delete and would find no records; put"
                    " reload between them"
                )
            loaded = workload != "delete" and (loaded or workload in ("load", "reload"))

    def as_json(self) -> dict[str, Any]:
        """The study as plain values, without the system."""
        names = ("records", "operations", "workloads", "targets", "seed")
        repeating = asdict(self.policy)
        if repeating["budget_s"] == math.inf:
            repeating["budget_s"] = None
        return {
            **{name: getattr(self, name) for name in names},
            "more": self.overrides,
            "repeating": repeating,
            "properties": {name: one.value for name, one in self.properties.given.items()},
        }

    def first_steps(self) -> list[Step]:
        """The first repetition on all systems at all sizes."""
        return [
            Step(workload, records, 0, target, workload == "load" and index == 0, system=system)
            for system in self.systems
            for records in dict.fromkeys(self.records)
            for index, workload in enumerate(self.workloads)
            for target in ((None,) if workload in WHOLE else self.targets)
        ]

    def work(self, step: Step) -> int:
        """Number of operations of a step; 1 if it ends by time."""
        if step.is_whole:
            return step.records
        if self.is_timed:
            return 1
        given = "operationcount" in self.properties.given
        return self.operations or (self.properties.operationcount if given else 0) or step.records

    @property
    def is_timed(self) -> bool:
        """Whether an option or property ends steps, other than a number of operations."""
        return self._has_end_option or "maxexecutiontime" in self.properties.given

    @property
    def _has_end_option(self) -> bool:
        return not {"duration_ns", "until_stderr"}.isdisjoint(self.overrides)

    def unsupported(self) -> Mapping[str, tuple[str, str]]:
        """The workloads that a driver doesn't support, with it and a kind of operation it lacks."""
        unsupported = {}
        for step in self.first_steps():
            driver = self.systems[step.system].driver
            lacks = drivers()[driver].lacks
            groups = self.plan(step).groups if lacks else ()
            kinds = {one.kind for group in groups for one in group.mix if one.weight > 0}
            for kind in kinds.intersection(lacks):
                unsupported[step.workload] = (driver, kind)
        return unsupported

    def check(self) -> None:
        """Checks every step before the first one begins.

        Raises:
            KvmarkError: a step can't be executed.
        """
        for workload, (driver, kind) in self.unsupported().items():
            raise UsageError(
                f"workloads: {driver} has no {kind} operations, which {workload} needs: leave it"
                " out"
            )
        for step in self.first_steps():
            _engine.check_plan(self.plan(step).to_json())

    def plan(self, step: Step) -> Plan:
        """The plan of a step of the first repetition."""
        return compile_run(self.spec(step, step.records))

    def spec(self, step: Step, present: int) -> RunSpec:
        """A step as a run; `present` is the number of records at its beginning."""
        # A dataset that is loaded or removed in part would make the next step's figures wrong.
        ends = {"duration_ns", "until_stderr"} if step.is_whole else set()
        overrides = {name: value for name, value in self.overrides.items() if name not in ends}
        if step.target is not None or (None in self.targets and len(self.targets) > 1):
            overrides["rate"] = step.target
        operations = self.operations
        if step.is_whole:
            operations = None
        elif operations is None and "operationcount" not in self.properties.given:
            # No limit for an end option: a core workload's thousand operations would end the step
            # long before.
            operations = 0 if self._has_end_option else None if self.is_timed else step.records
        run = ycsb_run(
            "load" if step.is_load else step.workload,
            self.properties,
            self.systems[step.system],
            records=step.records if step.is_load else present,
            operations=operations,
            seed=self.seed * 1_000_003 + step.repetition,
            **overrides,
        )
        if step.workload != "reload":
            return run
        workload = run.workload.model_copy(update={"name": "ycsb/reload"})
        return replace(run, workload=workload)


@dataclass(kw_only=True)
class YcsbSequence(Design):
    """The design of the experiment."""

    kind: ClassVar[str] = "ycsb"

    study: YcsbStudy
    #: As the user names them; a scratch database has another path each time.
    names: Sequence[str]
    #: Empties the system of this name for a fresh load.
    prepare: Callable[[str], None] = lambda _: None
    #: Called when a step begins, without its limit, and after each of its intervals, with it. The
    #: last argument prints a sentence.
    watch: Callable[[Step, StepLimit | None, _Say], object] = lambda *_: None
    outcomes: list[RunOutcome] = field(default_factory=list)
    #: Seconds that runs took so far, also before --resume: decisions that depend on the budget
    #: are the same when the sequence is resumed.
    _spent_s: float = 0.0

    def __post_init__(self) -> None:
        """Starts the schedule."""
        study = self.study
        self.scheduler = Scheduler(
            study.policy, study.first_steps(), study.work, lambda: self._spent_s,
            seed=study.seed, is_timed=study.is_timed,
        )  # fmt: skip

    def definition(self) -> Mapping[str, Any]:
        # A scratch database has another path each time; sizes of caches aren't in the names.
        options = [
            {name: text for name, text in url.options.items() if name != "path"}
            for url in self.study.systems.values()
        ]
        return {"systems": self.names, "options": options, **self.study.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of a step that isn't a load, if there is one."""
        steps = self.study.first_steps()
        step = next((step for step in steps if not step.is_load), steps[0])
        return self.study.plan(step)

    def execute(self, runs: Executor) -> None:
        present = dict.fromkeys(self.study.systems, 0)
        for number, step in enumerate(self.scheduler.steps(), start=1):
            there = present[step.system] or (0 if step.is_load else step.records)
            self.watch(step, None, runs.say)
            outcome = runs.run(self._request(number, step, there, runs.say))
            self.outcomes.append(outcome)
            outcome.id_or_raise()
            self._spent_s += outcome.took_s
            self.scheduler.end_step(outcome.kept["rate"], outcome.kept.get("projected_s"))
            if step.is_load:
                there = step.records
            elif step.workload == "delete":
                there = 0
            else:
                there = max(there, outcome.kept["present"])
            present[step.system] = there

    def _request(self, number: int, step: Step, present: int, say: _Say) -> RunRequest:
        limit, left = self.scheduler.limit(step), self.scheduler.time_left()

        def keep(executed: ExecutedRun) -> Mapping[str, Any]:
            cut = {} if limit is None or executed.failure is None else limit.as_json()
            return {"rate": executed.manifest.rate, "present": executed.inserted, **cut}

        return RunRequest(
            case=step.case,
            repetition=step.repetition,
            title=step.title,
            number=number,
            total=self.scheduler.total,
            left=None if left is None else TimeLeft(*left),
            make=partial(self._run, step, present),
            # A step needs the dataset that those before it left.
            block=f"{step.system} {step.records} records, repetition {step.repetition + 1}",
            limit=limit,
            keep=keep,
            watch=None if limit is None else lambda *_: self.watch(step, limit, say),
        )

    def _run(self, step: Step, present: int) -> PreparedRun:
        if step.fresh:
            self.prepare(step.system)
        properties, spec = self.study.properties, self.study.spec(step, present)
        ycsb = {
            "percentiles": properties.hdrhistogram_percentiles,
            "measurement": properties.measurement_interval,
            "properties": {name: one.value for name, one in properties.given.items()},
        }
        place = {**asdict(step), "least_repetitions": self.study.policy.first}
        own = self.study.systems[step.system].driver
        if sum(one.driver == own for one in self.study.systems.values()) == 1:
            # The driver distinguishes it from the other systems.
            del place["system"]
        return prepare_run(spec, compile_run(spec), {"ycsb": ycsb, "sequence": place})
