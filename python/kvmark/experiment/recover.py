"""`kvmark recover`: whether a system returns to its level after a trigger, and up to which rate.

A run offers a base rate, applies the trigger, and goes on at the base rate for a while. With a
search, runs at other base rates find the highest one from which the system recovers, as
`kvmark.experiment.capacity` finds the highest rate at which objectives hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.analysis.capacity import Capacity, Outcome, RateRun, Stage
from kvmark.analysis.recovery import Recovery, RecoveryOutcome, recovery
from kvmark.analysis.summary.faults import fault_spans, problems
from kvmark.analysis.verdict.rules import Level
from kvmark.errors import AnswerIsNo
from kvmark.experiment.capacity import (
    OF_RATE,
    SEEDS,
    CapacityRequest,
    check_searchable,
    generator_limit,
    raise_if_unusable,
    search,
)
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunRequest, prepare_run
from kvmark.experiment.judging import close_and_judge
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Run
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.run import RunSpec
from kvmark.spec.trigger import Trigger

_NS_PER_S: Final = 10**9
_LEAST_CLIENTS: Final = 64
_MOST_CLIENTS: Final = 4096
"""Servers reject more connections than some thousands."""
_UNLIMITED: Final = 1024
"""Operations in flight without a timeout."""
_OF_OVERLOAD: Final = OF_RATE | {"imprecise", "server_gone", "unserved_clients"}
"""Reasons for INVALID that an overload has, and that the outcome says."""
_OUTCOMES: Final[Mapping[RecoveryOutcome, Outcome]] = {
    "recovered": "holds", "not recovered": "missed", "not carried": "missed",
    "generator": "generator",
}  # fmt: skip


@dataclass(kw_only=True)
class RecoverySearch(Design):
    """One run around a trigger, or a search for the highest base rate that recovers."""

    kind: ClassVar[str] = "recover"

    #: The run without its rate.
    spec: RunSpec
    arrival: ArrivalProcess
    trigger: Trigger
    before_ns: int
    #: Longest time to recover.
    limit_ns: int
    #: Base rate, or the first one of a search; ops/s.
    rate: float
    #: None without a search.
    asked: CapacityRequest | None
    recoveries: list[Recovery] = field(default_factory=list)
    result: Capacity | None = None
    _repetitions: Counter[float] = field(default_factory=Counter)
    _executor: Executor = field(init=False)

    def definition(self) -> Mapping[str, Any]:
        """The request as plain values."""
        asked = None if self.asked is None else asdict(self.asked)
        times = {"before_ns": self.before_ns, "limit_ns": self.limit_ns, "rate": self.rate}
        own = {"trigger": self.trigger.text, "arrival": self.arrival, "search": asked}
        return {**own, **times, "run": self.spec.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of the first run.

        Raises:
            SpecError: the workload has no rate to choose.
        """
        check_searchable(self.kind, self.spec)
        return compile_run(self._at(self.rate, 1))

    def execute(self, runs: Executor) -> None:
        """Measures the base rate, or searches for the highest one that recovers.

        Raises:
            AnswerIsNo: a run is unusable at any rate.
            KvmarkError: a run didn't come to its end.
        """
        self._executor = runs
        if self.asked is None:
            self.attempt(self.rate, "bracket", 0)
        else:
            self.result = search(self, self.rate, self.asked)

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a base rate, judged."""
        one = self._recovery(rate, stage)
        self.recoveries.append(one)
        reasons = (one.reason or one.outcome,) if one.outcome != "recovered" else ()
        goodput, run = one.parts[-1].goodput, one.run
        return RateRun(rate, stage, run, _OUTCOMES[one.outcome], reasons, {}, goodput, (), clients)

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate: the outcome of most of them, and of equally many the worse one."""
        counts = Counter(one.outcome for one in runs)
        worst = max(counts, key=lambda outcome: (counts[outcome], outcome != "holds"))
        return next(one for one in reversed(runs) if one.outcome == worst)

    def _recovery(self, rate: float, stage: Stage) -> Recovery:
        runs, number = self._executor, len(self.recoveries) + 1
        outcome = runs.run(
            RunRequest(
                case=f"{rate!r}/s",
                repetition=self._repetitions[rate],
                title=f"{self.trigger.text} at {rate:,.0f}/s"
                + (f", {stage}" if self.asked else ""),
                number=number,
                total=max(number, self.asked.steps - 1 if self.asked else 1),
                make=partial(self._prepared, runs.id, rate, number),
                tags=(tag(runs.id),),
            )
        )
        self._repetitions[rate] += 1
        run, verdict = close_and_judge(runs.records, outcome.id_or_raise())
        raise_if_unusable(run, verdict, _OF_OVERLOAD)
        limit = generator_limit(verdict, (Level.INVALID,))
        return recovery(run, run.counted[0], rate, self._disturbed(run), limit)

    def _disturbed(self, run: Run) -> tuple[int, int]:
        """When the trigger began and ended, since the begin of the measurement."""
        if self.trigger.fault(self.before_ns) is None:
            return self.before_ns, self.before_ns + self.trigger.length_ns
        spans, start_ns = fault_spans(run), run.counted[0].start_ns
        if not spans or spans[0].ended_ns is None:
            reason = "; ".join(filter(None, problems(run).values())) or "the server isn't back"
            raise AnswerIsNo(f"recover: the trigger of run {run.id} failed: {reason}")
        return spans[0].begun_ns - start_ns, spans[0].ended_ns - start_ns

    def _prepared(self, experiment: str, rate: float, number: int) -> PreparedRun:
        spec = self._at(rate, number)
        own = {
            "name": tag(experiment), "number": number, "trigger": self.trigger.text, "rate": rate,
            "before_ns": self.before_ns, "limit_ns": self.limit_ns,
        }  # fmt: skip
        return prepare_run(spec, compile_run(spec), {"recover": own})

    def _at(self, rate: float, number: int) -> RunSpec:
        """The run at a base rate, with other seeds."""
        fault = self.trigger.fault(self.before_ns)
        course: float | str = rate
        if fault is None:
            course = self.trigger.curve(rate, self.before_ns, self.limit_ns)
        return replace(
            self.spec,
            rate=course,
            arrival=self.arrival,
            faults=() if fault is None else (fault,),
            duration_ns=self.before_ns + self.trigger.length_ns + self.limit_ns,
            seed=self.spec.seed * SEEDS + number,
            clients=self.spec.clients or self._clients(rate),
        )

    def _clients(self, rate: float) -> int:
        """Twice as many as are in flight on average if each lasts as long as it can."""
        longest = [self.spec.retry_of(group) for group in self.spec.active_groups]
        policy_ns = next((policy.longest_ns for policy in longest if policy), None)
        longest_ns = policy_ns or self.spec.timeout_ns
        if longest_ns is None:
            return _UNLIMITED
        most = math.ceil(2 * rate * self.trigger.factor * longest_ns / _NS_PER_S)
        return min(max(most, _LEAST_CLIENTS), _MOST_CLIENTS)


def tag(experiment: str) -> str:
    """The tag of the runs."""
    return f"recover:{experiment}"
