"""What one run says of its own error: its intervals, which resemble their neighbours.

It holds what moves within the run. What differs from run to run it can't know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import scipy

from kvmark.stats.counts import Counts
from kvmark.stats.level import Level
from kvmark.stats.series import LEAST_INTERVALS, MeanError, mean_error

__all__ = ["quantile_of_intervals", "rate_of_intervals"]

_RATE: Final = "rate of one run, t-interval of its intervals' slow cosines"
_QUANTILE: Final = "quantile of one run, by the share below it in its intervals"
# The part of the error level that is left where it was looked again and again.
_LOOKED: Final = 0.7
_BEYOND: Final = "no interval: it would reach beyond what was observed"


def rate_of_intervals(
    value: float, rates: Sequence[float], floor: float = 0.0, *, until_known: bool = False
) -> Level:
    """The rate of one run, with the error of the mean of its intervals' rates.

    ``value`` is the rate of the whole, which full intervals needn't fill. ``until_known`` says
    that the run was ended when its rate seemed to be known well enough: it may have seemed so by
    chance, so that the error is a little larger. Too few intervals give no error.

    Raises:
        ValueError: the value isn't above 0.
    """
    if not value > 0:
        raise ValueError("a level needs a rate above 0")
    found, n = mean_error(rates), len(rates)
    if found is None or not any(rates):
        return _unknown(math.log(value), n, floor)
    if until_known:
        found = found.raised(_LOOKED)
    stderr = found.stderr / (math.fsum(rates) / n)
    return _level(math.log(value), stderr, found, n, _RATE, floor)


def quantile_of_intervals(parts: Sequence[Counts], q: float, step: float = 0.0) -> Level | None:
    """The quantile of one run; its error from how the share below it moves between intervals.

    That share is a mean of a correlated series, and has such a mean's error. The quantile lies
    where the share could as well be ``q``: between the quantiles at the ends of the interval of the
    share, on the scale of its logit (Woodruff, Confidence Intervals for Medians and Other Position
    Measures, 1952). ``step`` is that of the clock. None without an observation.
    """
    whole = Counts.merge(parts)
    value = whole.quantile(q)
    if value is None:
        return None
    log, floor = math.log(max(value, 1)), whole.resolution(q, step)
    sizes = np.array([part.n for part in parts], dtype=np.float64)
    below = np.array([part.count[part.high <= value].sum() for part in parts], dtype=np.float64)
    found = mean_error(below - below.sum() / whole.n * sizes)
    if found is None:
        return _unknown(log, len(parts), floor)
    half = found.half() / float(sizes.mean()) / (q * (1 - q))
    least, most = (
        float(scipy.special.expit(scipy.special.logit(q) + side * half)) for side in (-1, 1)
    )
    if not (least * whole.n >= 1 and (1 - most) * whole.n >= 1):
        return _unknown(log, len(parts), floor, _BEYOND)
    low, high = (math.log(max(whole.quantile(share) or 1, 1)) for share in (least, most))
    stderr = max(high - log, log - low) / found.critical()
    return _level(log, stderr, found, len(parts), _QUANTILE, floor)


def _level(log: float, stderr: float, found: MeanError, n: int, method: str, floor: float) -> Level:
    units = found.freedom + 1.0
    return Level(log, stderr * units**0.5, units, False, method, floor, n)


def _unknown(log: float, n: int, floor: float, why: str = "") -> Level:
    few = f"no interval: {n} of the {LEAST_INTERVALS} intervals that an error needs"
    return Level(log, None, 1.0, False, why or few, floor, n)
