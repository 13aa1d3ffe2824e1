"""The YCSB sequence: load, A, B, C, F, D, delete, reload, E, at each number of records, repeated.

Repetitions are the outer loop, so that drift of the machine is shared by all sizes; within one the
sizes come in an order drawn from the seed. The steps of a sequence keep their order, because each
needs the dataset that the ones before it left. How many repetitions there are is decided by
:mod:`kvmark.frontends.ycsb.rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kvmark import _engine
from kvmark.drivers import drivers
from kvmark.errors import UsageError
from kvmark.frontends.ycsb.run_spec import ycsb_run
from kvmark.frontends.ycsb.workloads import CORE_WORKLOADS, YcsbProperties
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl

SEQUENCE: Final = ("load", "a", "b", "c", "f", "d", "delete", "reload", "e")
"""The published order."""

LOADS: Final = ("load", "reload")


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a sequence."""

    workload: str
    records: int
    repetition: int
    #: Operations per second; none for as fast as the clients go.
    target: float | None
    #: Whether the system must be empty: the sequence's first load.
    fresh: bool
    #: Whether its repetition is one of the first few, or was decided on by their scatter: 1 or 2.
    stage: int = 1

    @property
    def case(self) -> str:
        """What its repetitions have in common, in a few words."""
        rate = "" if self.target is None else f" at {self.target:g}/s"
        name = self.workload.upper() if len(self.workload) == 1 else self.workload
        return f"{name}{rate}, {self.records:,} records"

    @property
    def title(self) -> str:
        """The step in a few words."""
        return f"{self.case}, repetition {self.repetition + 1}"


@dataclass(frozen=True, slots=True)
class Repeating:
    """How often each case is run."""

    #: Repetitions of the first stage.
    first: int = 5
    #: Most repetitions; the same as the first stage's where their number is fixed.
    most: int = 20
    #: Half the width of the interval of the throughput, as a share, that more repetitions aim at;
    #: none where their number is fixed.
    within: float | None = 0.05
    #: Most seconds for the whole.
    budget_s: float = math.inf


@dataclass(frozen=True, kw_only=True)
class YcsbStudy:
    """What was asked."""

    system: SystemUrl
    properties: YcsbProperties
    records: tuple[int, ...]
    operations: int | None
    workloads: tuple[str, ...]
    targets: tuple[float | None, ...]
    repeating: Repeating
    seed: int
    #: Fields of `RunSpec` that the user said for every run.
    more: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What was asked for, as plain values, but for the system."""
        names = ("records", "operations", "workloads", "targets", "seed", "more")
        said = {name: getattr(self, name) for name in names}
        given = {name: one.value for name, one in self.properties.given.items()}
        repeating = asdict(self.repeating)
        if repeating["budget_s"] == math.inf:
            repeating["budget_s"] = None
        return {**said, "repeating": repeating, "properties": given}

    def __post_init__(self) -> None:
        """Checks the order of the workloads."""
        check_order(self.workloads)

    def first(self) -> list[Step]:
        """The first repetition of everything."""
        return [
            Step(workload, records, 0, target, fresh)
            for records in self.records
            for workload, target, fresh in self.places()
        ]

    def places(self) -> Iterator[tuple[str, float | None, bool]]:
        """Workload, target rate and whether the system must be empty, in the sequence's order."""
        for place, workload in enumerate(self.workloads):
            once = workload in LOADS or workload == "delete"
            for target in (None,) if once else self.targets:
                yield workload, target, workload == "load" and place == 0

    def work(self, workload: str, records: int) -> int:
        """Operations of a step; 1 where it ends by time."""
        if workload in (*LOADS, "delete"):
            return records
        if self.timed:
            return 1
        given = "operationcount" in self.properties.given
        return self.operations or (self.properties.operationcount if given else 0) or records

    @property
    def timed(self) -> bool:
        """Whether the user said when a step ends, other than by a number of operations."""
        timed = {"duration_ns", "until_stderr"} & self.more.keys()
        return bool(timed) or "maxexecutiontime" in self.properties.given

    def lacking(self) -> Mapping[str, str]:
        """The workloads that the system can't carry out, each with a kind of operation it lacks."""
        lacks = drivers()[self.system.driver].lacks
        steps = {step.workload: step for step in self.first()} if lacks else {}
        found = {}
        for workload, step in steps.items():
            groups = compile_run(self.spec(step, step.records)).groups
            kinds = {one.kind for group in groups for one in group.mix if one.weight > 0}
            for kind in kinds.intersection(lacks):
                found[workload] = kind
        return found

    def check(self) -> None:
        """Checks every step before the first one begins.

        Raises:
            KvmarkError: a step can't be carried out.
        """
        for workload, kind in self.lacking().items():
            raise UsageError(
                f"workloads: {self.system.driver} has no {kind} operations, which {workload} needs:"
                " leave it out"
            )
        for step in self.first():
            _engine.check_plan(compile_run(self.spec(step, step.records)).to_json())

    def typical_plan(self) -> Plan:
        """The plan of a step that isn't a load, where there is one: for calibration."""
        steps = self.first()
        step = next((step for step in steps if step.workload not in LOADS), steps[0])
        return compile_run(self.spec(step, step.records))

    def spec(self, step: Step, present: int) -> RunSpec:
        """One step as a run; ``present`` is how many records there are when it begins."""
        more = dict(self.more)
        if step.target is not None:
            more["rate"] = step.target
        elif None in self.targets and len(self.targets) > 1:
            more["rate"] = None
        loads = step.workload in LOADS
        run = ycsb_run(
            "load" if loads else step.workload,
            self.properties,
            self.system,
            records=step.records if loads else present,
            operations=None if loads or step.workload == "delete" else self._operations(step),
            seed=self.seed * 1_000_003 + step.repetition,
            **more,
        )
        if step.workload != "reload":
            return run
        workload = run.workload.model_copy(update={"name": "ycsb/reload"})
        return RunSpec(**{**run.__dict__, "workload": workload})

    def _operations(self, step: Step) -> int | None:
        if self.operations is not None:
            return self.operations
        if "operationcount" in self.properties.given:
            return None
        if {"duration_ns", "until_stderr"} & self.more.keys():
            # No limit: a core workload's own thousand would end the step long before.
            return 0
        return None if self.timed else step.records


def check_order(workloads: tuple[str, ...]) -> None:
    """Refuses an order in which a step would find the wrong dataset.

    Raises:
        UsageError: says which step and why.
    """
    loaded = True
    for workload in workloads:
        if workload in LOADS and not loaded:
            loaded = True
        elif workload == "reload" and loaded and "delete" not in workloads:
            raise UsageError("workloads: reload comes after delete; add delete or use load")
        elif workload == "delete":
            loaded = False
        elif workload in CORE_WORKLOADS and not loaded:
            raise UsageError(
                f"workloads: {workload} comes after delete and would find no records; put reload"
                " between them"
            )
