"""Interleaved comparison of baseline and candidate, until their ratio is known well enough.

A block holds one run of each side in random order, so that drift of the machine affects both. The
number of blocks depends on their variation alone (:func:`kvmark.stats.decide` states why this keeps
the error level).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, Literal

from kvmark import _engine
from kvmark.analysis.compare.comparability import Kind, differences
from kvmark.analysis.compare.comparison import refuse_unlike
from kvmark.analysis.summary.metrics import run_value
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level
from kvmark.errors import AnswerIsNo, UsageError
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunRequest, prepare_run
from kvmark.experiment.journal import Journal
from kvmark.experiment.judging import CUT_SHORT, close_and_judge
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Judgement, Records
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.run import RunSpec
from kvmark.stats import Decision, PrecisionTarget, decide
from kvmark.stats.level import paired_difference

Side = Literal["base", "candidate"]
SIDES: Final[tuple[Side, Side]] = ("base", "candidate")

MOST_LEFT_OUT: Final = 3
"""Number of consecutive unusable blocks that ends a comparison."""

_LEAST_BLOCKS: Final = 4
_BLOCK_NS: Final = 5 * 10**9
"""Duration of a block's run where its options have no length."""


@dataclass(frozen=True, slots=True)
class Precision(PrecisionTarget):
    """When to stop: one of ``within``, ``find`` and ``exactly`` is given."""

    exactly: int | None = None
    """Fixed number of blocks."""

    def __post_init__(self) -> None:
        """Checks the values."""
        if [self.within, self.find, self.exactly].count(None) != 2:
            raise UsageError("precision: give one of --within, --find and --repetitions")
        for name, share in (("within", self.within), ("find", self.find)):
            if share is not None and not 0 < share <= 1:
                raise UsageError(f"{name}: must be above 0 % and at most 100 %, not {share:.4%}")
        for name, blocks in (("max-blocks", self.most_blocks), ("repetitions", self.exactly)):
            if blocks is not None and blocks < _LEAST_BLOCKS:
                raise UsageError(
                    f"{name}: must be at least {_LEAST_BLOCKS}, not {blocks}: the scatter of fewer"
                    " blocks says nothing"
                )


@dataclass(frozen=True, slots=True)
class SideFailures:
    """INVALID runs of a side, those of replaced blocks included."""

    side: Side
    #: All runs of the side that came to their end.
    runs: int
    invalid: int
    #: Number of these runs by the code of a reason.
    reasons: Mapping[str, int]
    #: The first such run with its first reason.
    first: str | None


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A run's metric; None for an unusable run, with the problem."""

    id: str
    value: float | None
    problem: str
    verdict: Verdict


@dataclass
class Blocks:
    """The measured blocks of a comparison."""

    #: The usable runs of each block by its number: their ids and metrics.
    usable: dict[int, dict[Side, tuple[str, float]]] = field(default_factory=dict)
    #: Reasons of unusable blocks, a clause each, by their numbers.
    left_out: dict[int, str] = field(default_factory=dict)
    #: Every run that came to its end, by side.
    ended: dict[Side, list[BlockRun]] = field(default_factory=lambda: {side: [] for side in SIDES})
    #: The state after the last complete block.
    standing: Decision | None = None

    @property
    def complete(self) -> list[dict[Side, tuple[str, float]]]:
        """The runs by side of each block of which both runs are usable."""
        return [runs for _, runs in sorted(self.usable.items()) if len(runs) == len(SIDES)]

    def runs(self, side: Side) -> list[str]:
        """A side's runs, in the order of their blocks."""
        return [block[side][0] for block in self.complete]

    def add(self, block: int, side: Side, run: BlockRun) -> None:
        """Notes a run, and the reason where it is unusable."""
        self.ended[side].append(run)
        if run.value is None:
            before = f"{self.left_out[block]}; " if block in self.left_out else ""
            self.left_out[block] = f"{before}{run.problem}"
        else:
            self.usable.setdefault(block, {})[side] = (run.id, run.value)

    def failures(self) -> tuple[SideFailures, ...]:
        """Both sides' INVALID runs; empty where no run is INVALID."""
        sides = tuple(_failures(side, self.ended[side]) for side in SIDES)
        return sides if any(one.invalid for one in sides) else ()


def _failures(side: Side, runs: Sequence[BlockRun]) -> SideFailures:
    invalid = [one for one in runs if one.verdict.judgement is Judgement.INVALID]
    codes = Counter(
        code
        for one in invalid
        for code in {each.code for each in one.verdict.reasons if each.level is Level.INVALID}
    )
    first = next((f"run {one.id}: {one.verdict.reasons[0].sentence}" for one in invalid), None)
    return SideFailures(side, len(runs), len(invalid), dict(codes), first)


def side_orders(seed: int) -> Iterator[tuple[Side, Side]]:
    """The order of the sides in each block, without end."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        yield SIDES if chance.random() < 0.5 else (SIDES[1], SIDES[0])


def measure_blocks(
    seed: int, measure: Callable[[int, Side], float | None], precision: Precision
) -> Iterator[Decision]:
    """Measures block after block until there are enough, or several are unusable in a row.

    ``measure`` executes one run and returns its metric, above 0, or None for an unusable run: then
    its block is left out, but the other side is measured, so that failures of both sides are
    counted alike.
    """
    log_ratios: list[float] = []
    left_out = 0
    for block, sides in enumerate(side_orders(seed)):
        values = {side: measure(block, side) for side in sides}
        base, candidate = values["base"], values["candidate"]
        if base is None or candidate is None:
            left_out += 1
            if left_out == MOST_LEFT_OUT:
                return
            continue
        left_out = 0
        log_ratios.append(math.log(candidate / base))
        standing = block_progress(log_ratios, precision)
        yield standing
        if standing.done:
            return


def block_progress(log_ratios: Sequence[float], precision: Precision) -> Decision:
    """Whether there are enough blocks for a precision, by the logarithms of candidate ÷ base."""
    if precision.exactly is None:
        return decide(log_ratios, precision)
    done = len(log_ratios) >= precision.exactly
    return Decision(precision.exactly, None, done=done, effect=paired_difference(log_ratios))


def needed_repetitions(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """Repetitions that each case needs, by the values of its first stage, all above 0."""
    states = [decide([math.log(value) for value in case], precision) for case in cases]
    return [state.needed or len(case) for state, case in zip(states, cases, strict=True)]


def judge_block_run(records: Records, run: str, metric: Metric, *, allow_invalid: bool) -> BlockRun:
    """Closes and judges a run, and returns its metric.

    Raises:
        KvmarkError: the run can't be closed or read.
    """
    closed, verdict = close_and_judge(records, run)
    if any(reason.code in CUT_SHORT for reason in verdict.reasons):
        return BlockRun(run, None, f"run {run} was cut short", verdict)
    if verdict.judgement is Judgement.INVALID and not allow_invalid:
        reason = verdict.reasons[0].sentence.rstrip(".")
        advice = "fix it, or continue with --allow invalid"
        return BlockRun(run, None, f"run {run} is INVALID ({reason}): {advice}", verdict)
    value = run_value(closed, metric)
    if value is None:
        few = f"run {run} has too few operations for its {metric.name}"
        return BlockRun(run, None, f"{few}: measure longer blocks with --duration", verdict)
    return BlockRun(run, value, "", verdict)


@dataclass(frozen=True, slots=True)
class SideRequest:
    """The run of a side, with its tags and commit."""

    spec: RunSpec
    tags: tuple[str, ...] = ()
    commit: str | None = None


def named_differences(base: object, candidate: object) -> tuple[Kind, ...]:
    """The kinds of differences that sides with these systems name.

    All that differs between their plans is in their arguments. Settings of one system that differ
    between its runs are nobody's choice.
    """
    return ("plan",) if base == candidate else ("plan", "system", "environment")


def tag(experiment: str) -> str:
    """The beginning of the tags of a comparison's runs, before their side."""
    return f"ab:{experiment}"


@dataclass(frozen=True, kw_only=True)
class InterleavedAB(Design):
    """The design of a comparison, and its blocks."""

    kind: ClassVar[str] = "ab"

    #: Empty where a stored comparison is only answered.
    sides: Mapping[Side, SideRequest]
    metric: Metric
    precision: Precision
    seed: int
    #: Allowed caveats beside the differences that the sides name.
    allow: tuple[str, ...] = ()
    #: Kinds of differences that the arguments of the sides name: they are what is compared.
    named: tuple[Kind, ...] = ()
    blocks: Blocks = field(default_factory=Blocks)

    @classmethod
    def of_definition(cls, asked: Mapping[str, Any], allow: tuple[str, ...]) -> InterleavedAB:
        """The stored comparison, without its sides."""
        return cls(
            sides={},
            metric=parse_comparable(asked["metric"]),
            precision=Precision(**asked["precision"]),
            seed=asked["seed"],
            allow=allow,
            named=named_differences(*(asked["sides"][side].get("system") for side in SIDES)),
        )

    def definition(self) -> Mapping[str, Any]:
        """The request as plain values."""
        return {
            "metric": self.metric.name,
            "precision": asdict(self.precision),
            "seed": self.seed,
            "allow_invalid": "invalid" in self.allow,
            "sides": {side: self.spec(0, side).as_json() for side in self.sides},
        }

    def typical_plan(self) -> Plan:
        """The plan of the baseline's first run."""
        return compile_run(self.spec(0, "base"))

    def other_plans(self) -> Mapping[str, Plan]:
        """The candidate's plan, which may differ."""
        return {"candidate": compile_run(self.spec(0, "candidate"))}

    def spec(self, block: int, side: Side) -> RunSpec:
        """A side's run of a block. Both sides of a block issue the same operations."""
        spec = self.sides[side].spec
        ends = spec.duration_ns or spec.operations or spec.until_stderr or spec.precision
        duration_ns = None if ends or spec.workload.once_per_record else _BLOCK_NS
        seed = self.seed * 1_000_003 + block
        return replace(spec, seed=seed, duration_ns=spec.duration_ns or duration_ns)

    def check(self) -> tuple[Plan, ...]:
        """Checks both sides before the first block, and returns their plans.

        Raises:
            KvmarkError: a side can't be executed.
        """
        plans = tuple(compile_run(self.spec(0, side)) for side in SIDES)
        for plan in plans:
            _engine.check_plan(plan.to_json())
        return plans

    def execute(self, runs: Executor) -> None:
        """Measures blocks until there are enough.

        Raises:
            AnswerIsNo: several blocks in a row are unusable.
            UsageError: the first block shows that the sides can't be compared.
            KvmarkError: a run didn't come to its end.
        """
        runs.say(f"If it is cut short, kvmark ab --answer {tag(runs.id)} prints the blocks so far.")
        numbers = count(1)

        def measure(block: int, side: Side) -> float | None:
            request = self._request(runs.id, block, side, next(numbers))
            run = self._judged(runs.records, runs.run(request).id_or_raise())
            self.blocks.add(block, side, run)
            if run.value is None:
                runs.say(f"Block {block + 1} is left out: {run.problem}.")
            elif len(both := self.blocks.usable[block]) == len(SIDES):
                first, other = (runs.records.open(name) for name, _ in both.values())
                refuse_unlike(differences([first], [other]), (*self.allow, *self.named))
            return run.value

        for standing in measure_blocks(self.seed, measure, self.precision):
            self.blocks.standing = standing
        if self.blocks.standing is None or not self.blocks.standing.done:
            raise AnswerIsNo(
                f"{MOST_LEFT_OUT} blocks one after the other can't be used:"
                f" {[*self.blocks.left_out.values()][-1]}"
            )

    def gather(self, journal: Journal) -> None:
        """Takes the measured blocks from the journal.

        Raises:
            KvmarkError: a run can't be read.
        """
        root = journal.records.root
        newest = {
            (one.repetition, one.case): str(one.run)
            for one in journal.attempts()
            if one.is_whole and (root / str(one.run)).is_dir()
        }
        for (block, case), name in sorted(newest.items(), key=lambda item: item[0][0]):
            side = SIDES[case == SIDES[1]]
            self.blocks.add(block, side, self._judged(journal.records, name))
        logs = [math.log(one["candidate"][1] / one["base"][1]) for one in self.blocks.complete]
        if logs:
            self.blocks.standing = block_progress(logs, self.precision)

    def _judged(self, records: Records, run: str) -> BlockRun:
        return judge_block_run(records, run, self.metric, allow_invalid="invalid" in self.allow)

    def _request(self, experiment: str, block: int, side: Side, number: int) -> RunRequest:
        progress, precision = self.blocks.standing, self.precision
        first = precision.exactly or min(precision.first_stage, precision.most_blocks)
        planned = (progress.needed if progress else None) or first
        side_request = self.sides[side]
        return RunRequest(
            case=side,
            repetition=block,
            title=f"block {block + 1}, {side}",
            number=number,
            total=2 * max(planned, block + 1),
            make=partial(self._prepared, experiment, block, side),
            block=f"block {block}",
            tags=(f"{tag(experiment)}:{side}", *side_request.tags),
            commit=side_request.commit,
        )

    def _prepared(self, experiment: str, block: int, side: Side) -> PreparedRun:
        spec = self.spec(block, side)
        own: dict[str, Any] = {
            "name": tag(experiment), "least_repetitions": _LEAST_BLOCKS, "side": side,
            "block": block,
        }  # fmt: skip
        if self.precision.exactly is None:
            # The rule for the number of blocks, which the final interval depends on.
            asked = {"metric": self.metric.name, **asdict(self.precision)}
            own["asked"] = {name: value for name, value in asked.items() if name != "exactly"}
        return prepare_run(spec, compile_run(spec), {"ab": own})
