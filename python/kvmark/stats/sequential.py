"""How many blocks a comparison needs, decided so that looking at it early costs no honesty.

Stein's two stages (A Two-Sample Test for a Linear Hypothesis whose Power is Independent of the
Variance, 1945): the scatter of a first few blocks alone says how many there must be, and the
interval at the end uses that same scatter. Mean and scatter of normal samples are independent, so
whoever stops by scatter hasn't chosen by the answer: the error level is exact whatever the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from kvmark.stats.estimate import CONFIDENCE
from kvmark.stats.level import Effect, effect, shared_confidence

#: Blocks of the first stage: with fewer, Student's t asks for far more in the second.
FIRST_STAGE = 12
#: Share of the true differences of the size asked for that must be found.
POWER = 0.95


@dataclass(frozen=True, slots=True)
class Asked:
    """When a comparison is precise enough: just one of the two is given.

    ``within`` is half the width of the interval as a share: 0.01 is ± 1 %. ``find`` is a
    difference that, if it is there, is to be found.
    """

    within: float | None
    find: float | None
    most_blocks: int
    #: Blocks after which the number of blocks is decided.
    first_stage: int = FIRST_STAGE
    confidence: float = CONFIDENCE
    #: Effects that are reported together: a difference is found at the error level they share.
    claims: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a comparison stands after some blocks."""

    #: How many there must be; none while the first stage goes on.
    needed: int | None
    #: How many there would have to be without a bound; none while the first stage goes on.
    wanted: int | None
    done: bool
    #: The effect so far; before the end it is only for looking at.
    effect: Effect


def decide(log_ratios: Sequence[float], asked: Asked, floor: float = 0.0) -> Decision:
    """Whether the blocks so far are enough.

    The interval is Stein's, or the ordinary t-interval of all blocks where that is wider because
    the noise grew after the first stage. ``floor`` is the least error, as a share: what the
    instrument can't tell apart.

    Raises:
        ValueError: there is no block.
    """
    # What rounding leaves of equal blocks is no scatter.
    values = np.round(np.asarray(log_ratios, dtype=np.float64), 12)
    n, first = len(values), min(asked.first_stage, asked.most_blocks)
    if n == 0:
        raise ValueError("a decision needs at least one block")
    spread = float(values.std(ddof=1)) if n > 1 else None
    log, method = float(values.mean()), "log-ratio of blocks, t-interval"
    if n < first or spread is None:
        error = None if spread is None else max(spread / n**0.5, floor)
        so_far = effect(log, error, n - 1.0, n, method, asked.confidence)
        return Decision(None, None, done=False, effect=so_far)
    early = float(values[:first].std(ddof=1))
    wanted = blocks_needed(early, asked)
    needed = min(max(wanted, first), asked.most_blocks)
    stein, plain = (
        effect(log, max(deviation / n**0.5, floor), freedom - 1.0, n, named, asked.confidence)
        for deviation, freedom, named in (
            (early, first, "two stages, Stein"),
            (spread, n, method),
        )
    )
    wider = max(stein, plain, key=_width)
    return Decision(needed, wanted, done=n >= needed, effect=wider)


def blocks_needed(spread: float, asked: Asked) -> int:
    """Blocks for what is asked when their log-ratios scatter so much."""
    freedom = min(asked.first_stage, asked.most_blocks) - 1.0
    claims = 1 if asked.find is None else asked.claims
    confidence = shared_confidence(asked.confidence, claims)
    quantile = float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2))
    if asked.find is not None:
        reach = (quantile + float(scipy.special.stdtrit(freedom, POWER))) * spread
        return math.ceil((reach / math.log1p(asked.find)) ** 2)
    if asked.within is None:
        return asked.most_blocks
    return math.ceil((quantile * spread / math.log1p(asked.within)) ** 2)


def _width(found: Effect) -> float:
    ratio = found.ratio
    if ratio.low is None or ratio.high is None:
        return math.inf
    return math.log(ratio.high / ratio.low)
