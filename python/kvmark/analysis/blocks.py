"""Two sides that were measured in turn, block by block."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from kvmark.analysis.comparison import Compared, Comparison, Row, compare_case, compared
from kvmark.analysis.conditions import Condition
from kvmark.analysis.likeness import Caution
from kvmark.analysis.metrics import Metric, counts_of, level, run_value
from kvmark.records import Run
from kvmark.stats import Asked, Effect, decide, paired_jackknife
from kvmark.stats.level import paired_difference

__all__ = ["compare_blocks"]


def compare_blocks(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    decided_by: Metric,
    asked: Asked,
    *,
    allow: Collection[str] = (),
    conditions: Sequence[Condition] = (),
) -> Comparison:
    """The answer of an interleaved comparison; runs stand in the order of their blocks.

    The metric that decided when to stop has the interval that goes with that decision, the others
    the ordinary one of paired blocks.

    Raises:
        UsageError: the sides are unlike or hold runs that are INVALID, and that wasn't allowed.
        RecordsError: a run's files can't be read.
    """
    row = _in_blocks(decided_by, asked)
    case = compare_case(baseline, candidate, allow=allow, conditions=conditions, row=row)
    logs = _log_ratios(baseline, candidate, decided_by)
    if len(logs) > 1 and max(logs) - min(logs) < _HAIR:
        case = replace(case, cautions=(*case.cautions, _NO_SCATTER))
    return Comparison((case,), (), ())


_HAIR: Final = 1e-9
_NO_SCATTER: Final = Caution(
    "no_scatter",
    "Every block gave the same ratio, as a simulated system does that knows no chance: the interval"
    " is no measurement.",
)


def _in_blocks(decided_by: Metric, asked: Asked) -> Row:
    def row(baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric) -> Compared:
        sides = level(baseline, metric), level(candidate, metric)
        found = effect(baseline, candidate, metric) if all(sides) else None
        return compared(metric, sides, found, asked.confidence)

    def effect(baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric) -> Effect | None:
        if metric == decided_by:
            logs = _log_ratios(baseline, candidate, metric)
            return decide(logs, asked).effect if logs else None
        if metric.quantile is None:
            logs = _log_ratios(baseline, candidate, metric)
            return paired_difference(logs, confidence=asked.confidence) if logs else None
        before, after = counts_of(baseline, metric), counts_of(candidate, metric)
        return paired_jackknife(before, after, metric.q, asked.confidence)

    return row


def _log_ratios(baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric) -> list[float]:
    """Of each block; empty when a run has no such figure."""
    values = [(run_value(one, metric), run_value(other, metric))
              for one, other in zip(baseline, candidate, strict=True)]  # fmt: skip
    known = [math.log(after / before) for before, after in values if before and after]
    return known if len(known) == len(values) else []
