"""The YCSB sequence: load, A, B, C, F, D, delete, reload, E, at each number of records, repeated.

Repetitions are the outer loop, so that drift of the machine is shared by all sizes; within one the
sizes come in an order drawn from the seed. The steps of a sequence keep their order, because each
needs the dataset that the ones before it left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kvmark import _engine
from kvmark.errors import UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.run import Carried
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.ycsb import CORE_WORKLOADS, YcsbProperties
from kvmark.spec.ycsb_run import ycsb_run

__all__ = ["SEQUENCE", "Step", "YcsbStudy", "check_order", "planned"]

SEQUENCE: Final = ("load", "a", "b", "c", "f", "d", "delete", "reload", "e")
"""The published order."""

_LOADS: Final = ("load", "reload")


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

    @property
    def title(self) -> str:
        """The step in a few words."""
        rate = "" if self.target is None else f" at {self.target:g}/s"
        name = self.workload.upper() if len(self.workload) == 1 else self.workload
        return f"{name}{rate}, {self.records:,} records, repetition {self.repetition + 1}"


@dataclass(frozen=True, kw_only=True)
class YcsbStudy:
    """What was asked."""

    system: SystemUrl
    properties: YcsbProperties
    records: tuple[int, ...]
    operations: int | None
    workloads: tuple[str, ...]
    targets: tuple[float | None, ...]
    repetitions: int
    seed: int
    #: Fields of `RunSpec` that the user said for every run.
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the order of the workloads."""
        check_order(self.workloads)

    def steps(self) -> list[Step]:
        """All runs, in their order."""
        return list(self._steps())

    def check(self) -> None:
        """Checks every step before the first one begins.

        Raises:
            KvmarkError: a step can't be carried out.
        """
        for step in self.steps():
            if step.repetition == 0:
                _engine.check_plan(compile_run(self.spec(step, step.records)).to_json())

    def typical_plan(self) -> Plan:
        """The plan of a step that isn't a load, where there is one: for calibration."""
        steps = self.steps()
        step = next((step for step in steps if step.workload not in _LOADS), steps[0])
        return compile_run(self.spec(step, step.records))

    def _steps(self) -> Iterator[Step]:
        chance = random.Random(self.seed)  # noqa: S311 - an order, not a secret
        for repetition in range(self.repetitions):
            sizes = list(self.records)
            chance.shuffle(sizes)
            for records in sizes:
                for place, workload in enumerate(self.workloads):
                    once = workload in _LOADS or workload == "delete"
                    for target in (None,) if once else self.targets:
                        fresh = workload == "load" and place == 0
                        yield Step(workload, records, repetition, target, fresh)

    def spec(self, step: Step, present: int) -> RunSpec:
        """One step as a run; ``present`` is how many records there are when it begins."""
        more = dict(self.more)
        if step.target is not None:
            more["rate"] = step.target
        elif None in self.targets and len(self.targets) > 1:
            more["rate"] = None
        loads = step.workload in _LOADS
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
        given = {"operationcount", "maxexecutiontime"} & self.properties.given.keys()
        timed = {"duration_ns", "until_stderr"} & self.more.keys()
        return None if given or timed else step.records


def check_order(workloads: tuple[str, ...]) -> None:
    """Refuses an order in which a step would find the wrong dataset.

    Raises:
        UsageError: says which step and why.
    """
    loaded = True
    for workload in workloads:
        if workload in _LOADS and not loaded:
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


def planned(
    study: YcsbStudy,
    carry: Callable[[int, Step, RunSpec], Carried],
    prepare: Callable[[], None],
) -> Iterator[Carried]:
    """Carries out every step, numbered from 1; ``prepare`` empties the system for a fresh load."""
    present = 0
    for number, step in enumerate(study.steps(), start=1):
        if step.fresh:
            prepare()
        if step.workload not in _LOADS and present == 0:
            present = step.records
        carried = carry(number, step, study.spec(step, present))
        present = _present_after(step, carried, present)
        yield carried


def _present_after(step: Step, carried: Carried, present: int) -> int:
    """How many records there are after a step: inserts add to them, a delete removes them all."""
    if step.workload in _LOADS:
        return step.records
    return 0 if step.workload == "delete" else max(present, carried.present)
