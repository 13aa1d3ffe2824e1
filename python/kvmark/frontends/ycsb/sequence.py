"""A YCSB sequence as an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

from kvmark.experiment.design import (
    PreparedRun,
    RunOutcome,
    RunRequest,
    TimeLeft,
    experiment_name,
    prepare_run,
)
from kvmark.experiment.executor import Executor
from kvmark.experiment.interleaved_ab import Precision, needed_repetitions
from kvmark.frontends.ycsb.rounds import Limit, Rounds
from kvmark.frontends.ycsb.steps import LOADS, Repeating, Step, YcsbStudy
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.run.execution import ExecutedRun

Say = Callable[[str], None]
Watcher = Callable[[Step, Limit | None, Say], object]
"""Takes a step when it begins, without its limit, and whenever an interval of it ended, with it;
and who says a sentence to the user."""


def _nobody(*_: object) -> None:
    """Is told nothing."""


def _nothing() -> None:
    """Leaves a system as it is."""


@dataclass(kw_only=True)
class YcsbSequence:
    """What was asked, and what there is of it."""

    kind: ClassVar[str] = "ycsb"
    redoes_invalid: ClassVar[bool] = False

    study: YcsbStudy
    #: As the user names it; one that is made for the sequence alone has another place each time.
    system: str
    #: Empties the system for a fresh load.
    prepare: Callable[[], None] = _nothing
    watcher: Watcher = _nobody
    outcomes: list[RunOutcome] = field(default_factory=list)
    #: Seconds that its runs took so far, in all passes. A budget is of these, so that whatever is
    #: decided by them is decided again when the sequence is gone on with.
    _spent_s: float = 0.0

    def __post_init__(self) -> None:
        """Begins to count the time."""
        self.rounds = Rounds(self.study, _needed, lambda: self._spent_s)

    @property
    def name(self) -> str:
        """The same for the same words."""
        return experiment_name(self.kind, self.definition())

    def definition(self) -> Mapping[str, Any]:
        """What was asked for."""
        return {"system": self.system, **self.study.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of a step that isn't a load, where there is one."""
        return self.study.typical_plan()

    def other_plans(self) -> Mapping[str, Plan]:
        """None: all runs are alike."""
        return {}

    def execute(self, runs: Executor) -> None:
        """Every step, until what is wanted is done or the budget is used up.

        Raises:
            KvmarkError: a step came to no end.
        """
        present = 0
        for number, step in enumerate(self.rounds.steps(), start=1):
            if step.workload not in LOADS and present == 0:
                present = step.records
            self.watcher(step, None, runs.say)
            outcome = runs.run(self._request(number, step, present, runs.say))
            self.outcomes.append(outcome)
            outcome.id_or_raise()
            self._spent_s += outcome.took_s
            kept = outcome.kept
            self.rounds.ended(kept["rate"], kept.get("projected_s"))
            present = _present_after(step, kept["present"], present)

    def _request(self, number: int, step: Step, present: int, say: Say) -> RunRequest:
        limit, left = self.rounds.limit(step), self.rounds.left()

        def watch(*_: object) -> None:
            if limit is not None:
                self.watcher(step, limit, say)

        def keep(carried: ExecutedRun) -> Mapping[str, Any]:
            told = {} if limit is None or carried.failure is None else limit.told()
            return {"rate": carried.manifest.rate, "present": carried.inserted, **told}

        return RunRequest(
            case=step.case,
            repetition=step.repetition,
            title=step.title,
            number=number,
            total=self.rounds.total,
            left=None if left is None else TimeLeft(*left),
            make=partial(self._made, step, present),
            # A step needs the dataset that those before it left.
            block=f"{step.records} records, repetition {step.repetition + 1}",
            limit=limit,
            keep=keep,
            watch=watch,
        )

    def _made(self, step: Step, present: int) -> PreparedRun:
        if step.fresh:
            self.prepare()
        properties = self.study.properties
        ycsb = {
            "percentiles": properties.hdrhistogram_percentiles,
            "measurement": properties.measurement_interval,
            "properties": {name: given.value for name, given in properties.given.items()},
        }
        spec = self.study.spec(step, present)
        place = {**asdict(step), "least_repetitions": self.study.repeating.first}
        return prepare_run(spec, compile_run(spec), {"ycsb": ycsb, "sequence": place})


def _needed(cases: Sequence[Sequence[float]], asked: Repeating) -> Sequence[int]:
    """What the scatter of the first stage says."""
    return needed_repetitions(cases, Precision(asked.within, None, asked.most, asked.first))


def _present_after(step: Step, inserted: int, present: int) -> int:
    """How many records there are after a step: inserts add to them, a delete removes them all."""
    if step.workload in LOADS:
        return step.records
    return 0 if step.workload == "delete" else max(present, inserted)
