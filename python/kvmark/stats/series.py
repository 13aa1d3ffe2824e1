"""Means of correlated samples: their error, and what they are worth in independent observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.estimate import CONFIDENCE

#: A series with fewer values gives no error: no method covers what it says from so few.
LEAST_INTERVALS: Final = 25

# More contrasts make an interval hardly narrower, and a slow wave of the series break it.
_CONTRASTS: Final = (2, 12)
# Independent observations to a contrast: with fewer, the contrasts reach into frequencies at which
# a correlated series has less power than in its mean.
_WORTH: Final = 7.0
# The part of the error level that is Student's. The rest is for the little power that the slowest
# contrasts lack all the same. `scripts/interval_coverage.py` shows what these four come to.
_STUDENTS: Final = 0.8


@dataclass(frozen=True, slots=True)
class MeanError:
    """The standard error of a series' mean, and the degrees of freedom of that error.

    It is raised a little, so that Student's interval of it holds the truth as often as it says.
    """

    stderr: float
    freedom: int

    def critical(self, confidence: float = CONFIDENCE) -> float:
        """How many standard errors the interval reaches to either side."""
        return float(scipy.special.stdtrit(self.freedom, 0.5 + confidence / 2))

    def raised(self, share: float) -> Self:
        """The same with an interval of so small a part of the error level."""
        tail = (1 - CONFIDENCE) / 2
        reach = float(scipy.special.stdtrit(self.freedom, 1 - tail * share)) / self.critical()
        return type(self)(self.stderr * reach, self.freedom)

    def half(self, confidence: float = CONFIDENCE) -> float:
        """Half the width of the mean's interval."""
        return self.critical(confidence) * self.stderr


def mean_error(series: Sequence[float] | NDArray[np.float64]) -> MeanError | None:
    """The error of the mean of a series whose neighbours resemble each other.

    The series is projected on a few slow cosines, each orthogonal to the mean: what remains of it
    at the lowest frequencies is what the mean's own error is made of. The mean square of k
    projections has k degrees of freedom, and the mean over it is Student's t (Müller, A Theory of
    Robust Long-Run Variance Estimation, 2007; Lazarus, Lewis, Stock and Watson, HAR Inference,
    2018). The less the series is worth in independent observations, the fewer cosines are taken.
    None with fewer than :data:`LEAST_INTERVALS` values.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n < LEAST_INTERVALS:
        return None
    fewest, most = _CONTRASTS
    count = int(min(max(effective_sample_size(values) // _WORTH, fewest), most))
    places = (np.arange(n) + 0.5) * np.pi / n
    waves = np.cos(np.outer(np.arange(1, count + 1), places))
    # Each wave has the sum of squares n / 2.
    powers = (waves @ (values - values.mean())) ** 2 * 2 / n
    return MeanError(float((powers.mean() / n) ** 0.5), count).raised(_STUDENTS)


def effective_sample_size(series: Sequence[float] | NDArray[np.float64]) -> float:
    """How many independent observations the series is worth, between 1 and its length.

    n ÷ τ, where τ is the integrated autocorrelation time by Geyer's initial monotone positive
    sequence (Practical Markov Chain Monte Carlo, 1992): sums of neighbouring autocorrelations are
    added while they are positive and do not rise. Negative correlation isn't counted as a gain.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n < 4 or np.ptp(values) == 0:
        return float(n)
    centred = values - values.mean()
    # Padded to twice its length, so that the series does not meet itself from the other end.
    spectrum = np.fft.rfft(centred, 2 * n)
    covariances = np.fft.irfft(spectrum * spectrum.conj(), 2 * n)[:n]
    correlations = covariances / covariances[0]
    even = n // 2 * 2
    pairs = correlations[0:even:2] + correlations[1:even:2]
    ends = np.flatnonzero(pairs <= 0)
    positive = pairs[: ends[0]] if len(ends) else pairs
    tau = 2 * float(np.minimum.accumulate(positive).sum()) - 1 if len(positive) else 1.0
    return min(float(n), max(1.0, n / max(tau, 1.0)))
