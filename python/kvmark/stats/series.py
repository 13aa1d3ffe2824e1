"""Means of correlated samples: what a time series is worth in independent observations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kvmark.stats.estimate import CONFIDENCE, Estimate


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


def series_mean_interval(
    series: Sequence[float], unit: str, confidence: float = CONFIDENCE
) -> Estimate:
    """The mean of a correlated series, with the t-interval of its effective sample size.

    Unbounded when the series is worth fewer than two independent observations.

    Raises:
        ValueError: the series is empty.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n == 0:
        raise ValueError("a mean needs at least one sample")
    mean, effective = float(values.mean()), effective_sample_size(values)
    method = "mean of intervals, t-interval corrected for autocorrelation"
    if effective < 2:
        return Estimate(mean, None, None, n, unit, method, confidence)
    t = float(special.stdtrit(effective - 1, 0.5 + confidence / 2))
    error = float(values.std(ddof=1)) / effective**0.5 * t
    return Estimate(mean, mean - error, mean + error, n, unit, method, confidence)


def relative_stderr(series: Sequence[float]) -> float | None:
    """Standard error of the mean ÷ mean, corrected for autocorrelation; none if it isn't known."""
    values = np.asarray(series, dtype=np.float64)
    if len(values) < 2 or values.mean() == 0:
        return None
    effective = effective_sample_size(values)
    return float(values.std(ddof=1) / effective**0.5 / abs(values.mean()))


def cassandra_stress_stderr(rates: Sequence[float]) -> float | None:
    """cassandra-stress's uncertainty: population deviation ÷ √n ÷ mean, intervals independent.

    Its own rates are adjusted by the largest service time of the interval; the caller does that.
    """
    values = np.asarray(rates, dtype=np.float64)
    if len(values) == 0 or values.mean() == 0:
        return None
    return float(values.std(ddof=0) / len(values) ** 0.5 / values.mean())
