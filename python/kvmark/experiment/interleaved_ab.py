"""Two sides measured in turn, a run of each in a block, until their ratio is known well enough.

A block holds one run of each side, in an order drawn by chance, so that whatever the machine does
from block to block happens to both. How many blocks there are is decided by their scatter alone
(:mod:`kvmark.stats.sequential` says why that keeps the error level).
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
from kvmark.analysis import Judgement, Level, Verdict, judge, save_verdict
from kvmark.analysis.compare.comparability import differences
from kvmark.analysis.compare.comparison import refuse_unlike
from kvmark.analysis.compare.metrics import run_value
from kvmark.errors import AnswerIsNo, UsageError
from kvmark.experiment.design import PreparedRun, RunRequest, Runs, experiment_name, prepare_run
from kvmark.experiment.journal import Attempt, Journal
from kvmark.experiment.judging import CUT_SHORT
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.run import RunSpec
from kvmark.stats import PrecisionTarget, decide

Side = Literal["base", "candidate"]
SIDES: Final[tuple[Side, Side]] = ("base", "candidate")

MOST_LEFT_OUT: Final = 3
"""So many blocks one after the other that can't be used are no chance: it isn't gone on with."""

_LEAST_BLOCKS: Final = 4
"""The fewest blocks that a comparison stands on."""
_BLOCK_NS: Final = 5 * 10**9
"""How long a run of a block measures when its words don't say."""


@dataclass(frozen=True, slots=True)
class Precision:
    """When both are known well enough: one of ``within``, ``find`` and ``exactly`` is given."""

    within: float | None
    """Half the width of the ratio's interval, as a share: 0.01 is ± 1 %."""
    find: float | None
    """A difference that is to be found if it is there, as a share."""
    most_blocks: int
    first_stage: int = 12
    """Blocks after whose scatter the number of blocks is decided."""
    exactly: int | None = None
    """So many blocks, whatever their scatter."""
    claims: int = 1
    """Metrics that the answer reports together, which share the error level."""

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
class _Standing:
    """Where the answer stands after some blocks."""

    blocks: int
    #: How many there will be; none while that isn't decided.
    needed: int | None
    #: How many there would have to be for what was asked; more than ``needed`` at the bound.
    wanted: int | None
    done: bool


@dataclass(frozen=True, slots=True)
class SideFailures:
    """How many runs of a side are INVALID, those of blocks that were replaced among them."""

    side: Side
    #: All runs of the side that came to their end.
    runs: int
    invalid: int
    #: How many of these runs have each reason that made them INVALID.
    reasons: Mapping[str, int]
    #: The first such run and what it says; none without one.
    first: str | None


@dataclass
class Blocks:
    """What a comparison has measured so far."""

    #: The runs of each block of which both can be used, by side.
    complete: list[dict[Side, str]] = field(default_factory=list)
    #: Why others can't, a clause each, by their numbers.
    left_out: dict[int, str] = field(default_factory=dict)
    #: The verdict of every run that came to its end, by side, usable or not.
    verdicts: dict[Side, list[tuple[str, Verdict]]] = field(default_factory=dict)
    #: Where the answer stood after the last complete one; none before the first.
    standing: _Standing | None = None

    def runs(self, side: Side) -> list[str]:
        """A side's runs, in the order of their blocks."""
        return [block[side] for block in self.complete]

    def leave_out(self, block: int, problem: str) -> None:
        """Notes why a block can't be used; of both sides, where both are the reason."""
        before = f"{self.left_out[block]}; " if block in self.left_out else ""
        self.left_out[block] = f"{before}{problem}"

    def failures(self) -> tuple[SideFailures, ...]:
        """Both sides' INVALID runs; empty where no run is."""
        sides = tuple(_failures(side, self.verdicts.get(side, [])) for side in SIDES)
        return sides if any(one.invalid for one in sides) else ()


def _failures(side: Side, verdicts: Sequence[tuple[str, Verdict]]) -> SideFailures:
    invalid = [one for one in verdicts if one[1].judgement is Judgement.INVALID]
    codes = Counter(
        code
        for _, verdict in invalid
        for code in {one.code for one in verdict.reasons if one.level is Level.INVALID}
    )
    first = None
    if invalid:
        run, verdict = invalid[0]
        first = f"run {run}: {verdict.reasons[0].sentence}"
    return SideFailures(side, len(verdicts), len(invalid), dict(codes), first)


def side_orders(seed: int) -> Iterator[tuple[Side, Side]]:
    """The order of the sides in each block, without end."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        yield SIDES if chance.random() < 0.5 else (SIDES[1], SIDES[0])


def measure_blocks(
    seed: int,
    measure: Callable[[int, Side], float | None],
    decide: Callable[[Sequence[float]], _Standing],
) -> Iterator[_Standing]:
    """Measures block after block until it is decided that there are enough.

    ``measure`` carries out one run and returns its figure, above 0, or none if the run can't be
    used: then its block is left out, and several such blocks in a row end the comparison. The other
    side of such a block is measured all the same, so that failures of both are counted alike.
    ``decide`` is given the logarithms of candidate ÷ base so far.
    """
    log_ratios: list[float] = []
    left_out = 0
    for block, sides in zip(count(), side_orders(seed), strict=False):
        figures = {side: measure(block, side) for side in sides}
        values = {side: value for side, value in figures.items() if value is not None}
        if len(values) < len(sides):
            left_out += 1
            if left_out == MOST_LEFT_OUT:
                return
            continue
        left_out = 0
        log_ratios.append(math.log(values["candidate"] / values["base"]))
        standing = decide(log_ratios)
        yield standing
        if standing.done:
            return


@dataclass(frozen=True, slots=True)
class BlockRun:
    """What a run says: its figure, none where it can't be used, and why it can't."""

    value: float | None
    problem: str
    verdict: Verdict


def block_progress(log_ratios: Sequence[float], precision: Precision) -> _Standing:
    """Whether the blocks are enough, as plain values."""
    if precision.exactly is not None:
        count = len(log_ratios)
        return _Standing(count, precision.exactly, None, count >= precision.exactly)
    asked = PrecisionTarget(
        precision.within,
        precision.find,
        precision.most_blocks,
        precision.first_stage,
        claims=precision.claims,
    )
    found = decide(log_ratios, asked)
    return _Standing(len(log_ratios), found.needed, found.wanted, found.done)


def needed_repetitions(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """How many repetitions each case needs, from the figures of its first stage, all above 0."""
    found = [
        block_progress([math.log(figure) for figure in figures], precision) for figures in cases
    ]
    return [standing.needed or standing.blocks for standing in found]


def judge_block_run(records: Records, run: str, metric: Metric, *, allow_invalid: bool) -> BlockRun:
    """Closes and judges a run, and says its figure, or why it can't be used.

    Raises:
        KvmarkError: the run can't be closed or read.
    """
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    codes = {reason.code for reason in verdict.reasons}
    if not codes.isdisjoint(CUT_SHORT):
        return BlockRun(None, f"run {run} was cut short", verdict)
    if verdict.judgement is Judgement.INVALID and not allow_invalid:
        reason = verdict.reasons[0].sentence.rstrip(".")
        advice = "mend it, or go on with --allow invalid"
        return BlockRun(None, f"run {run} is INVALID ({reason}): {advice}", verdict)
    value = run_value(opened, metric)
    if value is None:
        few = f"run {run} has too few operations for its {metric.name}"
        return BlockRun(None, f"{few}: measure longer blocks with --duration", verdict)
    return BlockRun(value, "", verdict)


def _refuse_unlike_sides(records: Records, runs: Sequence[str], allow: Collection[str]) -> None:
    """Refuses sides whose comparison would be refused when all blocks are there.

    Raises:
        UsageError: they differ in something that wasn't allowed.
        KvmarkError: a run can't be read.
    """
    first, *others = map(records.open, runs)
    # Each side was named with its servers: what differs between them is what is compared.
    refuse_unlike(differences([first], others), (*allow, "environment"))


@dataclass(frozen=True, slots=True)
class SideRequest:
    """A side as it was asked for."""

    spec: RunSpec
    tags: tuple[str, ...] = ()
    commit: str | None = None


def tag(experiment: str) -> str:
    """What the tags of a comparison's runs begin with, before their side."""
    return f"ab:{experiment}"


def _newest(journal: Journal) -> Mapping[tuple[str, int], Attempt]:
    """The newest run of each side of each block that came to its end and is still there."""
    root = journal.records.root
    return {
        (one.case, one.repetition): one
        for one in journal.attempts()
        if one.is_whole and (root / str(one.run)).is_dir()
    }


@dataclass(frozen=True, kw_only=True)
class InterleavedAB:
    """What was asked, and the blocks that there are."""

    kind: ClassVar[str] = "ab"
    redoes_invalid: ClassVar[bool] = False

    #: Empty where an earlier pass is only answered with.
    sides: Mapping[Side, SideRequest]
    metric: Metric
    precision: Precision
    seed: int
    #: What may differ between the sides, or be wrong with them: `plan`, `system`, `invalid`.
    allow: tuple[str, ...] = ()
    blocks: Blocks = field(default_factory=Blocks)

    @classmethod
    def of_definition(cls, asked: Mapping[str, Any], allow: tuple[str, ...]) -> InterleavedAB:
        """The comparison as it was begun, without its sides."""
        return cls(
            sides={},
            metric=parse_comparable(asked["metric"]),
            precision=Precision(**asked["precision"]),
            seed=asked["seed"],
            allow=allow,
        )

    @property
    def allow_invalid(self) -> bool:
        """Whether blocks with INVALID runs count."""
        return "invalid" in self.allow

    @property
    def name(self) -> str:
        """The same for the same words."""
        return experiment_name(self.kind, self.definition())

    def definition(self) -> Mapping[str, Any]:
        """What was asked for."""
        sides = {side: self.spec(0, side).as_json() for side in self.sides}
        asked = {"metric": self.metric.name, "precision": asdict(self.precision)}
        own = {"seed": self.seed, "allow_invalid": self.allow_invalid}
        return {**asked, **own, "sides": sides}

    def typical_plan(self) -> Plan:
        """The plan of the baseline's first run."""
        return compile_run(self.spec(0, "base"))

    def other_plans(self) -> Mapping[str, Plan]:
        """The candidate's: its words may be quite others."""
        return {"candidate": compile_run(self.spec(0, "candidate"))}

    def spec(self, block: int, side: Side) -> RunSpec:
        """A block's run of a side. Both sides of a block do the same operations."""
        spec = self.sides[side].spec
        ends = spec.duration_ns or spec.operations or spec.until_stderr or spec.precision
        duration_ns = None if ends or spec.workload.once_per_record else _BLOCK_NS
        seed = self.seed * 1_000_003 + block
        return replace(spec, seed=seed, duration_ns=spec.duration_ns or duration_ns)

    def check(self) -> tuple[Plan, ...]:
        """Checks both sides before the first block begins, and gives their plans.

        Raises:
            KvmarkError: a side can't be carried out.
        """
        plans = tuple(compile_run(self.spec(0, side)) for side in SIDES)
        for plan in plans:
            _engine.check_plan(plan.to_json())
        return plans

    def execute(self, runs: Runs) -> None:
        """Block after block until there are enough.

        Raises:
            AnswerIsNo: several blocks one after the other can't be used.
            UsageError: the first block shows that the sides can't be compared.
            KvmarkError: a run came to no end.
        """
        usable: dict[int, dict[Side, str]] = {}
        made_in: Counter[int] = Counter()
        name = tag(runs.id)
        runs.say(f"If it is cut short, kvmark ab --answer {name} answers with what there is.")

        def measure(block: int, side: Side) -> float | None:
            request = self._request(runs.id, block, side, made_in[block])
            made_in[block] += 1
            run = runs.run(request).id_or_raise()
            found = judge_block_run(
                runs.records, run, self.metric, allow_invalid=self.allow_invalid
            )
            self.blocks.verdicts.setdefault(side, []).append((run, found.verdict))
            if found.value is None:
                self.blocks.leave_out(block, found.problem)
                runs.say(f"Block {block + 1} is left out: {found.problem}.")
                return None
            both = usable.setdefault(block, {})
            both[side] = run
            if len(both) == len(SIDES):
                self.blocks.complete.append(both)
                _refuse_unlike_sides(runs.records, [*both.values()], self.allow)
            return found.value

        decide = partial(block_progress, precision=self.precision)
        for standing in measure_blocks(self.seed, measure, decide):
            self.blocks.standing = standing
        if self.blocks.standing is None or not self.blocks.standing.done:
            raise AnswerIsNo(
                f"{MOST_LEFT_OUT} blocks one after the other can't be used:"
                f" {[*self.blocks.left_out.values()][-1]}"
            )

    def gather(self, journal: Journal) -> None:
        """Takes the blocks that there are from the journal, and measures nothing.

        Raises:
            KvmarkError: a run can't be read.
        """
        found: dict[int, dict[Side, tuple[str, float]]] = {}
        for (case, block), one in sorted(_newest(journal).items(), key=lambda item: item[0][1]):
            run, side = str(one.run), SIDES[case == SIDES[1]]
            value = judge_block_run(
                journal.records, run, self.metric, allow_invalid=self.allow_invalid
            )
            self.blocks.verdicts.setdefault(side, []).append((run, value.verdict))
            if value.value is None:
                self.blocks.leave_out(block, value.problem)
            else:
                found.setdefault(block, {})[side] = (run, value.value)
        whole = [found[block] for block in sorted(found) if len(found[block]) == len(SIDES)]
        self.blocks.complete += [{side: run for side, (run, _) in each.items()} for each in whole]
        ratios = [math.log(each["candidate"][1] / each["base"][1]) for each in whole]
        if ratios:
            self.blocks.standing = block_progress(ratios, self.precision)

    def _request(self, experiment: str, block: int, side: Side, place: int) -> RunRequest:
        """A run; `place` is its place in the block, from 0."""
        standing, precision = self.blocks.standing, self.precision
        first = precision.exactly or min(precision.first_stage, precision.most_blocks)
        planned = (standing.needed if standing else None) or first
        asked = self.sides.get(side)
        return RunRequest(
            case=side,
            repetition=block,
            title=f"block {block + 1}, {side}",
            number=2 * block + place + 1,
            total=2 * max(planned, block + 1),
            make=self._maker(experiment, block, side),
            block=f"block {block}",
            tags=(f"{tag(experiment)}:{side}", *(asked.tags if asked else ())),
            commit=asked.commit if asked else None,
        )

    def _maker(self, experiment: str, block: int, side: Side) -> Callable[[], PreparedRun]:
        def make() -> PreparedRun:
            spec, place = self.spec(block, side), {"side": side, "block": block}
            told = {
                "name": tag(experiment), "least_repetitions": _LEAST_BLOCKS, **place, **self._rule()
            }  # fmt: skip
            return prepare_run(spec, compile_run(spec), {"ab": told})

        return make

    def _rule(self) -> Mapping[str, Any]:
        """By what the number of blocks is decided, which the interval at the end goes with."""
        if self.precision.exactly is not None:
            return {}
        asked = {"metric": self.metric.name, **asdict(self.precision)}
        return {"asked": {name: value for name, value in asked.items() if name != "exactly"}}
