"""The Universal Scalability Law: throughput against the number of clients, nodes or machines.

    X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1))

λ is the throughput of one, σ the serial share of the work (contention), and κ the cost of each pair
for coherency. With κ = 0 it is Amdahl's law; with κ > 0 throughput has a peak at
N* = √((1 - σ) ÷ κ) and falls beyond it (Gunther, Guerrilla Capacity Planning, 2007).

The fit uses logarithms, because throughput scatters in proportion to itself: all observations have
the same weight, large ones don't dominate. λ is then an additive constant and is eliminated, which
leaves a least-squares problem in σ and κ with bounds (0 ≤ σ ≤ 1, κ ≥ 0).

The intervals are profile likelihoods: all values of a parameter, or of the peak, at which the best
fit of the others is within the limit of chance. Wald's intervals are symmetric and reach below 0; a
bootstrap of six levels resamples designs in which the law can't be fitted. A profile respects the
bounds, needs no seed, and is invariant when κ is replaced by the peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.estimate import Estimate, t_quantile

#: Three parameters and one level more for the error.
LEAST_LEVELS = 4

METHOD = "profile likelihood, log throughput"
# The arithmetic's error, also for equal repetitions.
_LEAST_SCATTER = 1e-7
# Below this p-value the law doesn't fit: levels deviate more than repetitions scatter.
_MISFIT = 0.05
_DOUBLINGS = 60
_PRECISION = 1e-10
# Smaller parameters are rounding errors of 0.
_ROUNDING = 1e-12

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UslFit:
    """The best law.

    Bounds of estimates are none if the data give none. A lower bound of 0 for κ means that a law
    without a peak fits as well.
    """

    #: λ, operations per second.
    lam: Estimate
    #: σ, a share.
    sigma: Estimate
    #: κ, a share.
    kappa: Estimate
    #: N*; none if the best κ is 0.
    peak: Estimate | None
    #: X(N*), operations per second; none if the best κ is 0.
    peak_throughput: Estimate | None
    #: Scatter around the law as a share of the throughput: the residuals' standard deviation.
    scatter: float
    #: The largest residual, a signed share, and its level.
    worst: float
    worst_level: float
    #: Share of the throughput's variance that the law explains.
    r_squared: float
    #: Probability of levels at least as far off the law if it holds; none without repetitions.
    misfit_p: float | None
    n: int
    levels: int

    def throughput(self, n: float) -> float:
        """The law's throughput for N, operations per second."""
        down = 1 + self.sigma.value * (n - 1) + self.kappa.value * n * (n - 1)
        return self.lam.value * n / down


def fit_usl(levels: Sequence[float], throughputs: Sequence[float]) -> UslFit:
    """The law of observations; several at one level are repetitions.

    Raises:
        ValueError: the lengths differ, a level is below 1, a throughput isn't above 0, or there are
            fewer than four distinct levels.
    """
    data = _Data.of(levels, throughputs)
    top, pairs = data.top - 1, data.top * (data.top - 1)
    best = _fit(data.at, data.start(), data)
    variance, freedom, misfit_p = _error(data, best)
    profiles = _Profiles(data, best, best.squares + variance * t_quantile(freedom) ** 2)
    has_peak = best.k > 0 and best.s < top
    residuals = np.expm1(best.residuals)
    worst = int(np.argmax(np.abs(residuals)))
    x = np.exp(data.log_x)
    missed, spread = x - np.exp(data.log_x - best.residuals), float(((x - x.mean()) ** 2).sum())
    return UslFit(
        lam=profiles.of_log(best.log_lam, lambda log, s, k: data.at(s, k, log)),
        sigma=profiles.of(
            best.s, lambda value, _, k: data.at(value, k), lambda s: s / top, (0.0, top)
        ),
        kappa=profiles.of(best.k, lambda value, s, _: data.at(s, value), lambda k: k / pairs),
        peak=profiles.peak() if has_peak else None,
        peak_throughput=profiles.peak_throughput() if has_peak else None,
        scatter=math.sqrt(best.squares / (len(data.n) - 3)),
        worst=float(residuals[worst]),
        worst_level=float(data.n[worst]),
        r_squared=1 - float(missed @ missed) / spread if spread else 0.0,
        misfit_p=misfit_p,
        n=len(data.n),
        levels=len(np.unique(data.n)),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Point:
    """A law in scaled parameters, its residuals and their sum of squares."""

    s: float
    k: float
    log_lam: float
    squares: float
    residuals: Array


@dataclass(frozen=True, eq=False, slots=True)
class _Data:
    """Observations, and the two columns that σ and κ are multiplied with.

    σ and κ are scaled to the largest level, s = σ (M - 1) and k = κ M (M - 1), so that both columns
    lie between 0 and 1 for any number of clients.
    """

    n: Array
    log_x: Array
    top: float
    one: Array
    pair: Array

    @classmethod
    def of(cls, levels: Sequence[float], throughputs: Sequence[float]) -> _Data:
        n, x = np.asarray(levels, dtype=np.float64), np.asarray(throughputs, dtype=np.float64)
        if len(n) != len(x):
            raise ValueError(f"each level needs a throughput: {len(n)} and {len(x)}")
        if len(np.unique(n)) < LEAST_LEVELS:
            raise ValueError(f"the law needs {LEAST_LEVELS} levels, not {len(np.unique(n))}")
        if not bool(np.all(n >= 1) and np.all(x > 0) and np.all(np.isfinite(x))):
            raise ValueError("levels must be 1 or more and throughputs above 0")
        top = float(n.max())
        return cls(n, np.log(x), top, (n - 1) / (top - 1), n * (n - 1) / (top * (top - 1)))

    def at(self, s: float, k: float, log_lam: float | None = None) -> _Point:
        """The law with these parameters, by default with the best λ."""
        left = self.log_x - np.log(self.n) + np.log1p(s * self.one + k * self.pair)
        log_lam = float(left.mean()) if log_lam is None else log_lam
        residuals = left - log_lam
        return _Point(s, k, log_lam, float(residuals @ residuals), residuals)

    def start(self) -> tuple[float, float]:
        """An initial estimate: N ÷ X is linear in 1, σ and κ, all three not negative."""
        each = np.exp(self.log_x) / self.n
        columns = np.column_stack((each, self.one * each, self.pair * each))
        solved, _ = scipy.optimize.nnls(columns, np.ones(len(each)))
        base = max(float(solved[0]), float(solved.max()) * 1e-6)
        s, k = float(solved[1]) / base, float(solved[2]) / base
        return min(max(s, 1e-3), (self.top - 1) * 0.999), max(k, 1e-3)


def _error(data: _Data, best: _Point) -> tuple[float, int, float | None]:
    """The variance of logarithms for the intervals, its degrees of freedom, and the misfit.

    If repetitions agree with each other but deviate from the law, more repetitions don't make the
    parameters more precise: the error is then the levels' distance from the law.
    """
    n, levels = len(data.n), np.unique(data.n)
    least = _LEAST_SCATTER**2
    usual, freedom = max(best.squares / (n - 3), least), n - 3
    repeated = n - len(levels)
    if repeated == 0:
        return usual, freedom, None
    by_level = [data.log_x[data.n == level] for level in levels]
    within = sum(float(np.var(logs)) * len(logs) for logs in by_level)
    pure = max(within / repeated, least)
    off = max(best.squares - within, 0.0) / (len(levels) - 3)
    p = float(scipy.special.fdtrc(len(levels) - 3, repeated, off / pure))
    return (max(off, least), len(levels) - 3, p) if p < _MISFIT else (usual, freedom, p)


def _fit(law: Callable[[float, float], _Point], start: tuple[float, float], data: _Data) -> _Point:
    """The best law over the scaled parameters s and k."""

    def residuals(at: Array) -> Array:
        return law(*at.tolist()).residuals

    ends = (data.top - 1, np.inf)
    optimum = scipy.optimize.least_squares(
        residuals,
        np.clip(start, 0.0, ends),
        bounds=(0.0, ends),
        # The optimum can be a bound, which the other methods only approach.
        method="dogbox",
        xtol=_PRECISION,
        ftol=_PRECISION,
        gtol=_PRECISION,
    )
    return law(*np.where(optimum.x < _ROUNDING, 0.0, optimum.x).tolist())


@dataclass(frozen=True, eq=False, slots=True)
class _Profiles:
    """For each quantity the range in which the best fit is within the limit."""

    data: _Data
    best: _Point
    limit: float

    def of(
        self,
        value: float,
        law: Callable[[float, float, float], _Point],
        scaled: Callable[[float], float],
        bounds: tuple[float, float] = (0.0, np.inf),
        unit: str = "",
    ) -> Estimate:
        """The values at which the best law of s and k with this value is within the limit.

        The search uses the square root of the increase, which is about linear.
        """
        best, near = self.best, (max(self.best.s, 1e-6), max(self.best.k, 1e-6))
        room = math.sqrt(self.limit - best.squares)

        def over(at: float) -> float:
            squares = _fit(partial(law, at), near, self.data).squares
            return math.sqrt(max(squares - best.squares, 0.0)) - room

        ends = (_end(over, room, value, bound) for bound in bounds)
        low, high = (None if end is None else scaled(end) for end in ends)
        return Estimate(scaled(value), low, high, len(self.data.n), unit, METHOD)

    def of_log(self, value: float, law: Callable[[float, float, float], _Point]) -> Estimate:
        """A throughput by its logarithm."""
        return self.of(value, law, math.exp, (-np.inf, np.inf), "ops/s")

    def peak(self) -> Estimate:
        """N* with its interval. The profile is over 1 ÷ N*², which is 0 without a peak."""
        top = self.data.top

        def law(inverse: float, s: float, _: float) -> _Point:
            return self.data.at(s, (1 - s / (top - 1)) * inverse * top * (top - 1))

        value = self._peak_of(self.best.s, self.best.k)
        inverse = self.of(value**-2, law, float)
        low = None if inverse.high is None else max(1.0, inverse.high**-0.5)
        high = inverse.low**-0.5 if inverse.low else None
        return replace(inverse, value=value, low=low, high=high)

    def peak_throughput(self) -> Estimate:
        """X(N*) with its interval; without an upper end if the peak has none."""

        def law(log: float, s: float, k: float) -> _Point:
            return self.data.at(s, k, log - self._log_peak(s, k))

        return self.of_log(self._log_peak(self.best.s, self.best.k) + self.best.log_lam, law)

    def _peak_of(self, s: float, k: float) -> float:
        """N* of scaled parameters."""
        top = self.data.top
        sigma, kappa = s / (top - 1), max(k, 1e-12) / (top * (top - 1))
        return max(1.0, math.sqrt(max(1 - sigma, 0.0) / kappa))

    def _log_peak(self, s: float, k: float) -> float:
        """The logarithm of X(N*), without λ."""
        top, n = self.data.top, self._peak_of(s, k)
        down = s * (n - 1) / (top - 1) + k * n * (n - 1) / (top * (top - 1))
        return math.log(n) - math.log1p(down)


def _end(over: Callable[[float], float], room: float, value: float, bound: float) -> float | None:
    """The root between a value and a bound; the bound if it is within the limit; else none."""
    if value == bound:
        return bound
    side = math.copysign(1.0, bound - value)
    step, inside = max(abs(value), 1e-3) * 0.02, value
    for attempt in range(_DOUBLINGS):
        at = value + side * step
        if side * at >= side * bound:
            if over(bound) <= 0:
                return bound
            at = bound
        beyond = over(at)
        if beyond > 0:
            root: float = scipy.optimize.brentq(over, inside, at, rtol=1e-5)
            return root
        # The first step predicts the distance of the end.
        far = 1.1 * room / (room + beyond) if attempt == 0 and beyond > -room else 2.0
        inside, step = at, step * max(far, 2.0)
    return None
