"""The number of blocks of a comparison, decided without bias by early looks.

Stein's two stages (A Two-Sample Test for a Linear Hypothesis whose Power is Independent of the
Variance, 1945): the scatter of the first stage alone decides the number of blocks, and the interval
at the end uses the same scatter. Mean and scatter of normal samples are independent, so a decision
by scatter doesn't depend on the answer: the error level is exact for any noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from kvmark.stats.estimate import CONFIDENCE
from kvmark.stats.level import Effect, effect, paired_difference, shared_confidence

#: Blocks of the first stage: with fewer, Student's t needs far more in the second.
FIRST_STAGE = 12
#: The share of differences of the requested size that are found.
POWER = 0.95


@dataclass(frozen=True, slots=True)
class PrecisionTarget:
    """The precision that ends a comparison: one of ``within`` and ``find``.

    ``within`` is half the width of the interval as a share: 0.01 is ± 1 %. ``find`` is the size of
    a difference that is to be found if it exists.
    """

    within: float | None
    find: float | None
    most_blocks: int
    #: Blocks before the number of blocks is decided.
    first_stage: int = FIRST_STAGE
    confidence: float = CONFIDENCE
    #: Number of effects that share the error level.
    claims: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """The state of a comparison after some blocks."""

    #: Number of blocks; none during the first stage.
    needed: int | None
    #: Number of blocks without the limit; none during the first stage.
    wanted: int | None
    done: bool
    #: The effect so far; before the end it is preliminary.
    effect: Effect


def decide(log_ratios: Sequence[float], target: PrecisionTarget, floor: float = 0.0) -> Decision:
    """Whether the blocks so far suffice.

    The interval is Stein's, or the ordinary t-interval of all blocks if that is wider because the
    noise grew after the first stage. ``floor`` is the least error: the resolution of the instrument
    as a share.

    Raises:
        ValueError: there is no block.
    """
    plain = paired_difference(log_ratios, confidence=target.confidence, floor=floor)
    n, first = len(log_ratios), min(target.first_stage, target.most_blocks)
    if n < max(first, 2):
        return Decision(None, None, done=False, effect=plain)
    values = np.round(log_ratios, 12)
    early = float(values[:first].std(ddof=1))
    error = max(early / n**0.5, floor)
    method = "two stages, Stein"
    stein = effect(float(values.mean()), error, first - 1.0, n, method, target.confidence)
    wanted = blocks_needed(early, target)
    needed = min(max(wanted, first), target.most_blocks)
    wider = max(stein, plain, key=_width)
    return Decision(needed, wanted, done=n >= needed, effect=wider)


def blocks_needed(spread: float, target: PrecisionTarget) -> int:
    """Number of blocks for a target and this scatter of log-ratios."""
    freedom = min(target.first_stage, target.most_blocks) - 1.0
    claims = 1 if target.find is None else target.claims
    confidence = shared_confidence(target.confidence, claims)
    quantile = float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2))
    if target.find is not None:
        reach = (quantile + float(scipy.special.stdtrit(freedom, POWER))) * spread
        return math.ceil((reach / math.log1p(target.find)) ** 2)
    if target.within is None:
        return target.most_blocks
    return math.ceil((quantile * spread / math.log1p(target.within)) ** 2)


def _width(effect: Effect) -> float:
    ratio = effect.ratio
    if ratio.low is None or ratio.high is None:
        return math.inf
    return math.log(ratio.high / ratio.low)
