"""Interleaved comparison of baseline and candidate, until their ratio is known well enough.

A block holds one run of each side in random order, so that drift of the machine affects both. The
number of blocks depends on their variation alone (:mod:`kvmark.stats.sequential` proves that this
keeps the error level).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, Literal

from kvmark import _engine
from kvmark.analysis.compare.comparability import differences
from kvmark.analysis.compare.comparison import refuse_unlike
from kvmark.analysis.summary.metrics import run_value
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level
from kvmark.errors import AnswerIsNo, UsageError
from kvmark.experiment.design import PreparedRun, RunRequest, experiment_name, prepare_run
from kvmark.experiment.executor import Executor
from kvmark.experiment.journal import Journal
from kvmark.experiment.judging import CUT_SHORT, close_and_judge
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Judgement, Records
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.run import RunSpec
from kvmark.stats import PrecisionTarget, decide

Side = Literal["base", "candidate"]
SIDES: Final[tuple[Side, Side]] = ("base", "candidate")

MOST_LEFT_OUT: Final = 3
"""Number of consecutive unusable blocks that ends a comparison."""

_LEAST_BLOCKS: Final = 4
_BLOCK_NS: Final = 5 * 10**9
"""Duration of a block's run where its options have no length."""


@dataclass(frozen=True, slots=True)
class Precision:
    """When to stop: one of ``within``, ``find`` and ``exactly`` is given."""

    within: float | None
    """Half the width of the ratio's interval, as a share: 0.01 is ± 1 %."""
    find: float | None
    """A difference to detect, as a share."""
    most_blocks: int
    first_stage: int = 12
    """Blocks after which their variation decides the number of blocks."""
    exactly: int | None = None
    """Fixed number of blocks."""
    claims: int = 1
    """Number of metrics that share the error level."""

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
class _Progress:
    """The state of the answer after some blocks."""

    blocks: int
    #: The final number of blocks; None while it is undecided.
    needed: int | None
    #: The number of blocks for the requested precision; more than ``needed`` at the limit.
    wanted: int | None
    done: bool


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


@dataclass
class Blocks:
    """The measured blocks of a comparison."""

    #: The runs by side of each block of which both runs are usable.
    complete: list[dict[Side, str]] = field(default_factory=list)
    #: Reasons of unusable blocks, a clause each, by their numbers.
    left_out: dict[int, str] = field(default_factory=dict)
    #: The verdict of every run that came to its end, by side.
    verdicts: dict[Side, list[tuple[str, Verdict]]] = field(default_factory=dict)
    #: The state after the last complete block.
    standing: _Progress | None = None

    def runs(self, side: Side) -> list[str]:
        """A side's runs, in the order of their blocks."""
        return [block[side] for block in self.complete]

    def add(self, block: int, side: Side, run: BlockRun) -> None:
        """Notes a run, and the reason where it is unusable."""
        self.verdicts.setdefault(side, []).append((run.id, run.verdict))
        if run.value is None:
            before = f"{self.left_out[block]}; " if block in self.left_out else ""
            self.left_out[block] = f"{before}{run.problem}"

    def failures(self) -> tuple[SideFailures, ...]:
        """Both sides' INVALID runs; empty where no run is INVALID."""
        sides = tuple(_failures(side, self.verdicts.get(side, [])) for side in SIDES)
        return sides if any(one.invalid for one in sides) else ()


def _failures(side: Side, verdicts: Sequence[tuple[str, Verdict]]) -> SideFailures:
    invalid = [one for one in verdicts if one[1].judgement is Judgement.INVALID]
    codes = Counter(
        code
        for _, verdict in invalid
        for code in {one.code for one in verdict.reasons if one.level is Level.INVALID}
    )
    first = next((f"run {run}: {one.reasons[0].sentence}" for run, one in invalid), None)
    return SideFailures(side, len(verdicts), len(invalid), dict(codes), first)


def side_orders(seed: int) -> Iterator[tuple[Side, Side]]:
    """The order of the sides in each block, without end."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        yield SIDES if chance.random() < 0.5 else (SIDES[1], SIDES[0])


def measure_blocks(
    seed: int,
    measure: Callable[[int, Side], float | None],
    decide: Callable[[Sequence[float]], _Progress],
) -> Iterator[_Progress]:
    """Measures block after block until there are enough, or several are unusable in a row.

    ``measure`` executes one run and returns its metric, above 0, or None for an unusable run: then
    its block is left out, but the other side is measured, so that failures of both sides are
    counted alike. ``decide`` gets the logarithms of candidate ÷ base.
    """
    log_ratios: list[float] = []
    left_out = 0
    for block, sides in zip(count(), side_orders(seed), strict=False):
        values = {side: measure(block, side) for side in sides}
        base, candidate = values["base"], values["candidate"]
        if base is None or candidate is None:
            left_out += 1
            if left_out == MOST_LEFT_OUT:
                return
            continue
        left_out = 0
        log_ratios.append(math.log(candidate / base))
        progress = decide(log_ratios)
        yield progress
        if progress.done:
            return


def block_progress(log_ratios: Sequence[float], precision: Precision) -> _Progress:
    """Whether there are enough blocks for a precision."""
    number = len(log_ratios)
    if precision.exactly is not None:
        return _Progress(number, precision.exactly, None, number >= precision.exactly)
    asked = PrecisionTarget(
        precision.within,
        precision.find,
        precision.most_blocks,
        precision.first_stage,
        claims=precision.claims,
    )
    decision = decide(log_ratios, asked)
    return _Progress(number, decision.needed, decision.wanted, decision.done)


def needed_repetitions(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """Repetitions that each case needs, by the values of its first stage, all above 0."""
    states = [block_progress([math.log(value) for value in case], precision) for case in cases]
    return [state.needed or state.blocks for state in states]


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A run's metric; None for an unusable run, with the problem."""

    id: str
    value: float | None
    problem: str
    verdict: Verdict


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


def _refuse_unlike_sides(records: Records, runs: Sequence[str], allow: Collection[str]) -> None:
    """Rejects sides that could not be compared after all blocks.

    Raises:
        UsageError: they differ in something that isn't allowed.
        KvmarkError: a run can't be read.
    """
    first, *others = map(records.open, runs)
    # Each side names its servers: their differences are what is compared.
    refuse_unlike(differences([first], others), (*allow, "environment"))


@dataclass(frozen=True, slots=True)
class SideRequest:
    """The run of a side, with its tags and commit."""

    spec: RunSpec
    tags: tuple[str, ...] = ()
    commit: str | None = None


def tag(experiment: str) -> str:
    """The beginning of the tags of a comparison's runs, before their side."""
    return f"ab:{experiment}"


@dataclass(frozen=True, kw_only=True)
class InterleavedAB:
    """The design of a comparison, and its blocks."""

    kind: ClassVar[str] = "ab"
    redoes_invalid: ClassVar[bool] = False

    #: Empty where a stored comparison is only answered.
    sides: Mapping[Side, SideRequest]
    metric: Metric
    precision: Precision
    seed: int
    #: Allowed caveats: `plan`, `system`, `invalid`.
    allow: tuple[str, ...] = ()
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
        )

    @property
    def name(self) -> str:
        """The same for the same definition."""
        return experiment_name(self.kind, self.definition())

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
        usable: dict[int, dict[Side, str]] = {}
        places: Counter[int] = Counter()
        runs.say(f"If it is cut short, kvmark ab --answer {tag(runs.id)} prints the blocks so far.")

        def measure(block: int, side: Side) -> float | None:
            request = self._request(runs.id, block, side, places[block])
            places[block] += 1
            run = self._judged(runs.records, runs.run(request).id_or_raise())
            self.blocks.add(block, side, run)
            if run.value is None:
                runs.say(f"Block {block + 1} is left out: {run.problem}.")
                return None
            both = usable.setdefault(block, {})
            both[side] = run.id
            if len(both) == len(SIDES):
                self.blocks.complete.append(both)
                _refuse_unlike_sides(runs.records, [*both.values()], self.allow)
            return run.value

        decide = partial(block_progress, precision=self.precision)
        for progress in measure_blocks(self.seed, measure, decide):
            self.blocks.standing = progress
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
        usable: dict[int, dict[Side, tuple[str, float]]] = {}
        for (block, case), name in sorted(newest.items(), key=lambda item: item[0][0]):
            side, run = SIDES[case == SIDES[1]], self._judged(journal.records, name)
            self.blocks.add(block, side, run)
            if run.value is not None:
                usable.setdefault(block, {})[side] = (run.id, run.value)
        complete = [usable[block] for block in sorted(usable) if len(usable[block]) == len(SIDES)]
        self.blocks.complete += [{side: run for side, (run, _) in one.items()} for one in complete]
        ratios = [math.log(one["candidate"][1] / one["base"][1]) for one in complete]
        if ratios:
            self.blocks.standing = block_progress(ratios, self.precision)

    def _judged(self, records: Records, run: str) -> BlockRun:
        return judge_block_run(records, run, self.metric, allow_invalid="invalid" in self.allow)

    def _request(self, experiment: str, block: int, side: Side, place: int) -> RunRequest:
        """A run; `place` is its place in the block, from 0."""
        progress, precision = self.blocks.standing, self.precision
        first = precision.exactly or min(precision.first_stage, precision.most_blocks)
        planned = (progress.needed if progress else None) or first
        side_request = self.sides[side]
        return RunRequest(
            case=side,
            repetition=block,
            title=f"block {block + 1}, {side}",
            number=2 * block + place + 1,
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
