"""Two sides whose runs were made in blocks, one of each side in each: they are compared in pairs.

Runs know their block. So a comparison that is asked for later, by the tags of `kvmark ab`, is the
same as that at its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kvmark.analysis.compare.comparability import Caution
from kvmark.analysis.compare.metric import Compared, Row, Rows
from kvmark.analysis.compare.metrics import counts_of, figure, resolution, run_value
from kvmark.analysis.compare.resolution import clock_step_ns
from kvmark.records import Run, block_of
from kvmark.records.case import experiment
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.stats import Asked, Effect, decide, paired_jackknife
from kvmark.stats.level import paired_difference

__all__ = ["Pairs", "in_blocks", "pair_cautions", "pairs_of"]

_HAIR: Final = 1e-9
_NO_SCATTER: Final = Caution(
    "no_scatter",
    "Every block gave the same ratio, as a simulated system does that knows no chance: the interval"
    " is no measurement.",
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The runs of both sides, block by block."""

    baseline: tuple[Run, ...]
    candidate: tuple[Run, ...]
    #: Runs whose block has none of the other side.
    alone: int
    #: The metric that decided how many blocks there are, and by which rule; none where none did.
    decided_by: tuple[Metric, Asked] | None


def pairs_of(baseline: Sequence[Run], candidate: Sequence[Run]) -> Pairs | None:
    """The pairs of two sides; none where they weren't made in blocks of the same experiment."""
    first, second = _numbered(baseline), _numbered(candidate)
    if first is None or second is None:
        return None
    (one, before), (other, after) = first, second
    both = sorted(before.keys() & after.keys())
    if one != other or not both:
        return None
    return Pairs(
        tuple(before[number] for number in both),
        tuple(after[number] for number in both),
        len(before) + len(after) - 2 * len(both),
        _decided_by(before[both[0]]),
    )


def in_blocks(pairs: Pairs, *, due: bool = False) -> Rows:
    """Compares runs block by block; ``due`` as in :func:`kvmark.analysis.compare.metrics.level`.

    The metric that decided when to stop has the interval that goes with that decision, the others
    the ordinary one of paired blocks.
    """

    def rows(confidence: float) -> Row:
        def row(metric: Metric) -> Compared:
            sides = (pairs.baseline, pairs.candidate)
            before, after = (figure(side, metric, confidence, due=due) for side in sides)
            found = _effect(pairs, metric, confidence, due=due) if before and after else None
            return Compared(metric, before, after, found)

        return row

    return rows


def pair_cautions(pairs: Pairs) -> list[Caution]:
    """What is to be known of pairs."""
    found = []
    if pairs.alone:
        told = "run is" if pairs.alone == 1 else "runs are"
        found.append(
            Caution(
                "alone", f"{pairs.alone} {told} left out: its block has none of the other side."
            )
        )
    if pairs.decided_by is not None:
        logs = _log_ratios(pairs, pairs.decided_by[0])
        if len(logs) > 1 and max(logs) - min(logs) < _HAIR:
            found.append(_NO_SCATTER)
    return found


def _effect(pairs: Pairs, metric: Metric, confidence: float, *, due: bool) -> Effect | None:
    logs, decided_by = _log_ratios(pairs, metric, due=due), pairs.decided_by
    floor = resolution(pairs.baseline, pairs.candidate, metric)
    if decided_by is not None and metric == decided_by[0]:
        asked = replace(decided_by[1], confidence=confidence)
        return decide(logs, asked, floor).effect if logs else None
    if metric.quantile is None:
        return paired_difference(logs, None, confidence, floor) if logs else None
    before, after = (counts_of(side, metric, due=due) for side in (pairs.baseline, pairs.candidate))
    step_ns = clock_step_ns((*pairs.baseline, *pairs.candidate))
    return paired_jackknife(before, after, metric.q, confidence, step_ns)


def _log_ratios(pairs: Pairs, metric: Metric, *, due: bool = False) -> list[float]:
    """Of each block; empty when a run has no such figure."""
    values = [(run_value(one, metric, due=due), run_value(other, metric, due=due))
              for one, other in zip(pairs.baseline, pairs.candidate, strict=True)]  # fmt: skip
    known = [math.log(after / before) for before, after in values if before and after]
    return known if len(known) == len(values) else []


def _numbered(runs: Sequence[Run]) -> tuple[str, Mapping[int, Run]] | None:
    """The experiment of all these runs, and them by their blocks; of several in one the last."""
    if len({experiment(run.manifest, "ab").get("side") for run in runs}) > 1:
        return None
    blocks = [(run, block_of(run.manifest)) for run in runs]
    known = [(run, block) for run, block in blocks if block is not None]
    names = {block.experiment for _, block in known}
    if len(known) < len(blocks) or len(names) != 1:
        return None
    return names.pop(), {block.number: run for run, block in known}


def _decided_by(run: Run) -> tuple[Metric, Asked] | None:
    told: Mapping[str, Any] | None = experiment(run.manifest, "ab").get("asked")
    if told is None:
        return None
    asked = Asked(told["within"], told["find"], told["most_blocks"], told["first_stage"])
    return parse_comparable(str(told["metric"])), asked
