"""What decides between blocks: the figure of each run, and whether there are enough."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kvmark.analysis import Judgement, Verdict, judge, save_verdict
from kvmark.analysis.compare.comparability import differences
from kvmark.analysis.compare.comparison import refuse_unlike
from kvmark.analysis.compare.metrics import run_value
from kvmark.experiment.designs.paired.ab import Precision, Standing
from kvmark.experiment.judging import CUT_SHORT
from kvmark.records import Records
from kvmark.spec.metric import Metric
from kvmark.stats import Asked, decide

__all__ = ["Found", "decided", "found_in", "needed", "refuse_unlike_sides"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a run says: its figure, none where it can't be used, and why it can't."""

    value: float | None
    problem: str
    verdict: Verdict


def decided(log_ratios: Sequence[float], precision: Precision) -> Standing:
    """Whether the blocks are enough, as plain values."""
    if precision.exactly is not None:
        count = len(log_ratios)
        return Standing(count, precision.exactly, None, count >= precision.exactly)
    asked = Asked(
        precision.within,
        precision.find,
        precision.most_blocks,
        precision.first_stage,
        claims=precision.claims,
    )
    found = decide(log_ratios, asked)
    return Standing(len(log_ratios), found.needed, found.wanted, found.done)


def needed(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """How many repetitions each case needs, from the figures of its first stage, all above 0."""
    found = [decided([math.log(figure) for figure in figures], precision) for figures in cases]
    return [standing.needed or standing.blocks for standing in found]


def found_in(records: Records, run: str, metric: Metric, *, allow_invalid: bool) -> Found:
    """Closes and judges a run, and says its figure, or why it can't be used.

    Raises:
        KvmarkError: the run can't be closed or read.
    """
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    codes = {reason.code for reason in verdict.reasons}
    if not codes.isdisjoint(CUT_SHORT):
        return Found(None, f"run {run} was cut short", verdict)
    if verdict.judgement is Judgement.INVALID and not allow_invalid:
        reason = verdict.reasons[0].sentence.rstrip(".")
        advice = "mend it, or go on with --allow invalid"
        return Found(None, f"run {run} is INVALID ({reason}): {advice}", verdict)
    value = run_value(opened, metric)
    if value is None:
        few = f"run {run} has too few operations for its {metric.name}"
        return Found(None, f"{few}: measure longer blocks with --duration", verdict)
    return Found(value, "", verdict)


def refuse_unlike_sides(records: Records, runs: Sequence[str], allow: Collection[str]) -> None:
    """Refuses sides whose comparison would be refused when all blocks are there.

    Raises:
        UsageError: they differ in something that wasn't allowed.
        KvmarkError: a run can't be read.
    """
    first, *others = map(records.open, runs)
    # Each side was named with its servers: what differs between them is what is compared.
    refuse_unlike(differences([first], others), (*allow, "environment"))
