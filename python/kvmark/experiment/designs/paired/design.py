"""Two sides as an experiment: a run of each in a block, until the ratio is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark import _engine
from kvmark.errors import AnswerIsNo
from kvmark.experiment.design import RunMade, RunRequest, Runs, made, named
from kvmark.experiment.designs.paired import judging
from kvmark.experiment.designs.paired.ab import (
    LEAST_BLOCKS,
    MOST_LEFT_OUT,
    SIDES,
    Blocks,
    Precision,
    Side,
    interleaved,
)
from kvmark.experiment.journal import Attempt, Journal
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.run import RunSpec

__all__ = ["BLOCK_NS", "AskedSide", "Paired", "tag"]

BLOCK_NS: Final = 5 * 10**9
"""How long a run of a block measures when its words don't say."""


@dataclass(frozen=True, slots=True)
class AskedSide:
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
class Paired:
    """What was asked, and the blocks that there are."""

    kind: ClassVar[str] = "ab"
    redoes_invalid: ClassVar[bool] = False

    #: Empty where an earlier pass is only answered with.
    sides: Mapping[Side, AskedSide]
    metric: Metric
    precision: Precision
    seed: int
    #: What may differ between the sides, or be wrong with them: `plan`, `system`, `invalid`.
    allow: tuple[str, ...] = ()
    blocks: Blocks = field(default_factory=Blocks)

    @classmethod
    def of_definition(cls, asked: Mapping[str, Any], allow: tuple[str, ...]) -> Paired:
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
        return named(self.kind, self.definition())

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
        duration_ns = None if ends or spec.workload.once_per_record else BLOCK_NS
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

    def carry_out(self, runs: Runs) -> None:
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
            found = judging.found_in(
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
                judging.refuse_unlike_sides(runs.records, [*both.values()], self.allow)
            return found.value

        decide = partial(judging.decided, precision=self.precision)
        for standing in interleaved(self.seed, measure, decide):
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
            value = judging.found_in(
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
            self.blocks.standing = judging.decided(ratios, self.precision)

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

    def _maker(self, experiment: str, block: int, side: Side) -> Callable[[], RunMade]:
        def make() -> RunMade:
            spec, place = self.spec(block, side), {"side": side, "block": block}
            told = {
                "name": tag(experiment), "least_repetitions": LEAST_BLOCKS, **place, **self._rule()
            }  # fmt: skip
            return made(spec, compile_run(spec), {"ab": told})

        return make

    def _rule(self) -> Mapping[str, Any]:
        """By what the number of blocks is decided, which the interval at the end goes with."""
        if self.precision.exactly is not None:
            return {}
        asked = {"metric": self.metric.name, **asdict(self.precision)}
        return {"asked": {name: value for name, value in asked.items() if name != "exactly"}}
