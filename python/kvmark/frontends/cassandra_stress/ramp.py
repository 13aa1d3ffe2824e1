"""A command line of cassandra-stress as an experiment: one number of clients, or a ladder.

A ladder has more and more clients, until more of them bring nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from kvmark.experiment.design import PreparedRun, RunOutcome, RunRequest, experiment_name
from kvmark.experiment.executor import Executor
from kvmark.frontends.cassandra_stress.command_line import Ladder, StressSpec
from kvmark.frontends.cassandra_stress.lines import Collections, Line, LineMaker, LogTail
from kvmark.frontends.cassandra_stress.plan import StressPlans
from kvmark.interrupts import pause
from kvmark.plan.model import Plan
from kvmark.run.execution import ExecutedRun
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval

_PAUSE_S: Final = 15.0
"""Between two levels of a ladder that writes, so that the nodes come to rest."""
_FEW: Final = 16
_RECENT: Final = 3
_LONGER: Final = 5
_UPDATING: Final = ("write", "counter_write", "mixed", "user")
_LineTeller = Callable[[Line], object]


def levels(ladder: Ladder) -> Iterator[int]:
    """Numbers of clients: twice as many each time up to 16, then half as many again."""
    clients = ladder.first
    while clients <= ladder.last:
        yield clients
        clients = clients * 2 if clients < _FEW else max(clients * 3 // 2, clients + 1)


def target_uncertainty(spec: StressSpec) -> float:
    """The gain below which a ladder ends; below nothing where each level has a length."""
    return spec.until.bound if spec.until is not None else -1.0


def goes_on(ladder: Ladder, rates: Sequence[float], target: float) -> bool:
    """Whether to try more clients, by the rates so far (`StressAction.runMulti`)."""
    if not ladder.auto:
        return True
    return _gains(rates, _RECENT, 0.0) and _gains(rates, _LONGER, target)


def _gains(rates: Sequence[float], steps: int, least: float) -> bool:
    """Whether the newest steps brought enough on average, or are too few to tell."""
    if len(rates) < steps + 1:
        return True
    pairs = zip(rates[-steps - 1 : -1], rates[-steps:], strict=True)
    return sum((after - before) / before for before, after in pairs) / steps >= least


@dataclass(frozen=True, slots=True)
class LadderLevel:
    """A run with one number of clients that has ended."""

    clients: int
    outcome: RunOutcome
    #: Its last line; none where it had none.
    last: Line | None

    @property
    def op_rate(self) -> float:
        """Operations a second over the whole run."""
        return self.last.operations / self.last.time_s if self.last and self.last.time_s else 0.0


class LadderTeller:
    """Whoever is told how a command line goes; by itself it says nothing."""

    def begin(self, clients: int, *, alone: bool) -> None:
        """A level begins."""

    def pause(self, seconds: float) -> None:
        """The nodes come to rest."""

    def line(self, line: Line) -> None:
        """An interval has ended."""

    def known(self, level: LadderLevel) -> None:
        """A level was measured in an earlier pass."""

    def gain(self, share: float, before: int) -> None:
        """What more clients brought than `before`."""


@dataclass(kw_only=True)
class StressLadder:
    """What was asked, and the levels that have ended."""

    kind: ClassVar[str] = "stress"
    redoes_invalid: ClassVar[bool] = False

    plans: StressPlans
    system: str
    password: Secret | None = None
    pin: tuple[int, ...] = ()
    repetitions: int = 1
    pause_s: float = _PAUSE_S
    #: Empties tables before a level.
    empty: Callable[[Sequence[TableRemoval]], None] = lambda _: None
    teller: LadderTeller = field(default_factory=LadderTeller)
    ended: list[LadderLevel] = field(default_factory=list)

    @property
    def spec(self) -> StressSpec:
        """The command line."""
        return self.plans.spec

    @property
    def name(self) -> str:
        """The same for the same words."""
        return experiment_name(self.kind, self.definition())

    def definition(self) -> Mapping[str, Any]:
        """What was asked for."""
        own = {"system": self.system, "pin": self.pin, "repetitions": self.repetitions}
        profiles = [repr(profile) for profile in self.plans.profiles]
        return {**own, "profiles": profiles, **self.spec.as_json()}

    def typical_plan(self) -> Plan:
        """The plan of the first level."""
        return self.plan(self.spec.threads or self.spec.ladder.first)

    def other_plans(self) -> Mapping[str, Plan]:
        """None: all runs are alike."""
        return {}

    def plan(self, clients: int, *, first: bool = True, warmup: bool | None = None) -> Plan:
        """The plan of a level."""
        plan = self.plans.plan(clients, first=first, warmup=warmup)
        return plan.model_copy(update={"pin": self.pin}) if self.pin else plan

    def execute(self, runs: Executor) -> None:
        """Every level, until more clients bring nothing.

        Raises:
            KvmarkError: one came to no end.
        """
        for repetition in range(self.repetitions):
            self._climb(runs, repetition)

    def _climb(self, runs: Executor, repetition: int) -> None:
        alone = self.spec.threads is not None
        clients_of = [self.spec.threads] if self.spec.threads else levels(self.spec.ladder)
        climbed: list[LadderLevel] = []
        for clients in clients_of:
            level = self._level(runs, clients, repetition, climbed)
            self.ended.append(level)
            climbed.append(level)
            level.outcome.id_or_raise()
            rates = [one.op_rate for one in climbed]
            if len(rates) > 1 and rates[-2]:
                self.teller.gain((rates[-1] - rates[-2]) / rates[-2], climbed[-2].clients)
            if not alone and not goes_on(self.spec.ladder, rates, target_uncertainty(self.spec)):
                return

    def _level(
        self, runs: Executor, clients: int, repetition: int, climbed: Sequence[LadderLevel]
    ) -> LadderLevel:
        # The first level that a pass measures warms up, whichever it is.
        gone_on_with = bool(climbed) and climbed[-1].outcome.carried is None
        warmup = self.spec.warmup if gone_on_with else None
        plan = self.plan(clients, first=not climbed, warmup=warmup)
        following = _Following(self._maker(plan), self.teller.line)
        count = 1 if self.spec.threads else len(list(levels(self.spec.ladder)))

        def make() -> PreparedRun:
            if climbed and climbed[-1].outcome.carried and self.spec.command in _UPDATING:
                self.teller.pause(self.pause_s)
                pause(self.pause_s)
            self.empty(self.plans.removals(first=not climbed))
            self.teller.begin(clients, alone=self.spec.threads is not None)
            return PreparedRun(plan, self.spec.as_json(), password=self.password)

        def keep(carried: ExecutedRun) -> Mapping[str, Any]:
            following.catch_up(carried.folder.path)
            return {} if following.last is None else {"last": _kept(following.last)}

        outcome = runs.run(
            RunRequest(
                case=f"{clients} threads",
                repetition=repetition,
                title=f"{clients} threads",
                number=len(self.ended) + 1,
                total=self.repetitions * count,
                make=make,
                keep=keep,
                watch=lambda folder, _: following.catch_up(folder.path),
            )
        )
        if outcome.carried is not None and outcome.failure is not None:
            following.catch_up(outcome.carried.folder.path)
        last = following.last or _line(outcome.kept.get("last"))
        level = LadderLevel(clients, outcome, last)
        if outcome.carried is None and outcome.failure is None:
            self.teller.known(level)
        return level

    def _maker(self, plan: Plan) -> LineMaker:
        sort = "response" if self.spec.rate is not None else "service"
        return LineMaker(
            sort,  # type: ignore[arg-type]
            partitions_of(plan),
            checked_of(self.spec, plan),
        )


class _Following:
    """Tells the intervals of a run's log that weren't told yet."""

    def __init__(self, maker: LineMaker, tell: _LineTeller) -> None:
        #: The last line of all operations.
        self.last: Line | None = None
        self._maker, self._tell = maker, tell
        self._tail: LogTail | None = None

    def catch_up(self, folder: Path) -> None:
        """Tells what has ended since."""
        if self._tail is None:
            self._tail = LogTail(folder)
        intervals = list(self._tail.intervals())
        if not intervals and self.last is None:
            # What is collected during the warm-up belongs to no line.
            self._tail.collections()
        for rows in intervals:
            lines, self._maker = self._maker.take(rows, self._tail.collections())
            for line in lines:
                self._tell(line)
                self.last = line


def partitions_of(plan: Plan) -> Mapping[str, Callable[[int], int]]:
    """Partitions of so many operations, by the operation's name; as many where it is left out."""
    return {one.name: one.rows.visited for one in plan.statements if one.rows is not None}


def checked_of(spec: StressSpec, plan: Plan) -> frozenset[str]:
    """Operations that a record must be there for: those that read the predefined tables."""
    if spec.command == "user" or not spec.checks_reads:
        return frozenset()
    return frozenset(one.name for one in plan.statements if one.name.endswith("READ"))


def _kept(line: Line) -> Mapping[str, Any]:
    """A line as plain values, none for what isn't known."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: plain(one) for name, one in value.items()}
        return None if isinstance(value, float) and math.isnan(value) else value

    kept: Mapping[str, Any] = plain(asdict(line))
    return kept


def _line(kept: Mapping[str, Any] | None) -> Line | None:
    """A line as it was kept."""
    if kept is None:
        return None

    def known(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: math.nan if value is None else value for name, value in values.items()}

    own = known({name: value for name, value in kept.items() if name != "collections"})
    return Line(**own, collections=Collections(**known(kept["collections"])))
