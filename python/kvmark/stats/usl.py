"""The Universal Scalability Law: throughput against the number of clients, nodes or machines.

    X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1))

λ is what one alone does, σ the share of the work that is done one after the other (contention), and
κ what each pair costs for keeping in agreement (coherency). With κ = 0 it is Amdahl's law; with
κ > 0 throughput has a peak at N* = √((1 - σ) ÷ κ) and falls beyond it (Gunther, Guerrilla Capacity
Planning, 2007).

Fitted are logarithms: throughput scatters by a share of itself, not by so many operations per
second, so that every observation weighs the same there, and a level at 300,000 doesn't drown one at
2,000. λ is then an additive constant and is eliminated; what is left is a least-squares problem in
σ and κ, both bounded (0 ≤ σ ≤ 1, κ ≥ 0).

The intervals are profile likelihoods: all values of a parameter, or of the peak, at which the best
fit of the others isn't worse than chance allows. Wald's intervals are symmetric and reach below 0;
a bootstrap of six levels resamples designs in which the law can't be fitted. A profile respects the
bounds, needs no seed, and doesn't change when κ is exchanged for the peak that follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # brings a part of itself when it is first named: see `stats`
from numpy.typing import NDArray

from kvmark.stats.estimate import CONFIDENCE, Estimate

#: Three parameters and one level more, without which there is no error.
LEAST_LEVELS = 4

METHOD = "profile likelihood, log throughput"
# Repetitions that agree to the last digit still leave the arithmetic's own error.
_LEAST_SCATTER = 1e-7
# Below this, repetitions scatter too little around their level for the law to explain the rest.
_MISFIT = 0.05
_DOUBLINGS = 60
_PRECISION = 1e-10
# What is less than this above its bound 0 is there by rounding.
_ROUNDING = 1e-12

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UslFit:
    """The law that fits best.

    Estimates have none as a bound where the data give none. A lower bound of 0 for κ means that a
    law without a peak fits as well.
    """

    #: λ, operations per second.
    lam: Estimate
    #: σ, a share.
    sigma: Estimate
    #: κ, a share.
    kappa: Estimate
    #: N*; none when the best κ is 0.
    peak: Estimate | None
    #: X(N*), operations per second; none with it.
    peak_throughput: Estimate | None
    #: Scatter around the law as a share of the throughput: the residuals' standard deviation.
    scatter: float
    #: The largest residual, a share with its sign, and the level that has it.
    worst: float
    worst_level: float
    #: Share of the throughput's variance that the law explains.
    r_squared: float
    #: Chance that levels lie so far off the law if it holds; none without repetitions.
    misfit_p: float | None
    n: int
    levels: int

    def throughput(self, n: float) -> float:
        """Throughput that the law gives for N, operations per second."""
        down = 1 + self.sigma.value * (n - 1) + self.kappa.value * n * (n - 1)
        return self.lam.value * n / down


def fit_usl(
    levels: Sequence[float],
    throughputs: Sequence[float],
    confidence: float = CONFIDENCE,
) -> UslFit:
    """The law through observations; several at one level are repetitions of it.

    Raises:
        ValueError: the lengths differ, a level is below 1, a throughput isn't above 0, or there are
            fewer than four distinct levels.
    """
    data = _Data.of(levels, throughputs)
    best = data.best()
    scale, misfit_p = _error(data, best)
    limit = best.squares + scale.variance * _f_limit(scale.freedom, confidence)
    inside = _Inside(data, best, limit, confidence)
    peak = inside.peak() if best.k > 0 and best.s < data.top - 1 else None
    residuals = np.expm1(best.residuals)
    worst = int(np.argmax(np.abs(residuals)))
    return UslFit(
        lam=inside.lam(),
        sigma=inside.sigma(),
        kappa=inside.kappa(),
        peak=peak,
        peak_throughput=None if peak is None else inside.peak_throughput(),
        scatter=math.sqrt(best.squares / (len(data.n) - 3)),
        worst=float(residuals[worst]),
        worst_level=float(data.n[worst]),
        r_squared=_r_squared(data, best),
        misfit_p=misfit_p,
        n=len(data.n),
        levels=len(np.unique(data.n)),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Point:
    """A law in scaled parameters and how well it fits."""

    s: float
    k: float
    log_lam: float
    squares: float
    residuals: Array


@dataclass(frozen=True, eq=False, slots=True)
class _Data:
    """Observations, and the two columns that σ and κ are multiplied with.

    σ and κ are scaled to the largest level, s = σ (M - 1) and k = κ M (M - 1), so that both columns
    lie between 0 and 1 whatever the number of clients.
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
        """The law with these parameters, and with the best λ where none is given."""
        left = self.log_x - np.log(self.n) + np.log1p(s * self.one + k * self.pair)
        known = float(left.mean()) if log_lam is None else log_lam
        residuals = left - known
        return _Point(s, k, known, float(residuals @ residuals), residuals)

    def best(self) -> _Point:
        """The law that fits best of all."""
        return self.search(self.at, self.start())

    def search(self, law: Callable[[float, float], _Point], start: tuple[float, float]) -> _Point:
        """The best law over both parameters."""
        return _fit(lambda both: law(both[0], both[1]), start, (self.top - 1, np.inf))

    def start(self) -> tuple[float, float]:
        """Where to begin: N ÷ X is linear in 1, σ and κ, all three not negative."""
        each = np.exp(self.log_x) / self.n
        columns = np.column_stack((each, self.one * each, self.pair * each))
        solved, _ = scipy.optimize.nnls(columns, np.ones(len(each)))
        base = max(float(solved[0]), float(solved.max()) * 1e-6)
        s, k = float(solved[1]) / base, float(solved[2]) / base
        return min(max(s, 1e-3), (self.top - 1) * 0.999), max(k, 1e-3)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The error's variance, on a logarithmic scale, and its degrees of freedom."""

    variance: float
    freedom: int


def _error(data: _Data, best: _Point) -> tuple[_Scale, float | None]:
    """The variance that intervals are made of, and the test whether the law holds at all.

    Where repetitions agree among themselves and lie off the law, more of them don't make the
    parameters surer: the levels' distance from the law is then the error.
    """
    n, levels = len(data.n), np.unique(data.n)
    least = _LEAST_SCATTER**2
    usual = _Scale(max(best.squares / (n - 3), least), n - 3)
    repeated = n - len(levels)
    if repeated == 0:
        return usual, None
    within = sum(float(np.var(part)) * len(part) for part in _by_level(data, levels))
    pure = max(within / repeated, least)
    off = max(best.squares - within, 0.0) / (len(levels) - 3)
    p = float(scipy.special.fdtrc(len(levels) - 3, repeated, off / pure))
    return (_Scale(max(off, least), len(levels) - 3) if p < _MISFIT else usual), p


def _by_level(data: _Data, levels: Array) -> list[Array]:
    return [data.log_x[data.n == level] for level in levels]


def _f_limit(freedom: int, confidence: float) -> float:
    """The F distribution's quantile with one and so many degrees of freedom."""
    return float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2)) ** 2


def _r_squared(data: _Data, best: _Point) -> float:
    x = np.exp(data.log_x)
    missed = x - np.exp(data.log_x - best.residuals)
    spread = float(((x - x.mean()) ** 2).sum())
    return 1 - float(missed @ missed) / spread if spread else 0.0


def _line(law: Callable[[float], _Point], start: float, end: float) -> _Point:
    """The best law over one free parameter between 0 and an end."""
    return _fit(lambda free: law(free[0]), (start,), (end,))


def _fit(
    law: Callable[[Sequence[float]], _Point], start: Sequence[float], ends: Sequence[float]
) -> _Point:
    """The best law over parameters between 0 and their ends."""

    def residuals(at: Array) -> Array:
        return law(at.tolist()).residuals

    found = scipy.optimize.least_squares(
        residuals,
        np.clip(start, 0.0, ends),
        bounds=(0.0, ends),
        # It ends on bounds, which others only come near to.
        method="dogbox",
        xtol=_PRECISION,
        ftol=_PRECISION,
        gtol=_PRECISION,
    )
    return law(np.where(found.x < _ROUNDING, 0.0, found.x).tolist())


@dataclass(frozen=True, eq=False, slots=True)
class _Inside:
    """The profiles: how far each quantity can go before the best fit is worse than the limit."""

    data: _Data
    best: _Point
    limit: float
    confidence: float

    def sigma(self) -> Estimate:
        """σ with its interval."""
        scale = self.data.top - 1
        low, high = self._ends(
            lambda s: _line(lambda k: self.data.at(s, k), self.best.k, np.inf), self.best.s, scale
        )
        return self._estimate(self.best.s / scale, low, high, "", lambda s: s / scale)

    def kappa(self) -> Estimate:
        """κ with its interval."""
        scale = self.data.top * (self.data.top - 1)
        end = self.data.top - 1
        low, high = self._ends(
            lambda k: _line(lambda s: self.data.at(s, k), self.best.s, end), self.best.k, np.inf
        )
        return self._estimate(self.best.k / scale, low, high, "", lambda k: k / scale)

    def lam(self) -> Estimate:
        """λ with its interval."""
        near = (max(self.best.s, 1e-6), max(self.best.k, 1e-6))

        def held(log_lam: float) -> _Point:
            return self.data.search(lambda s, k: self.data.at(s, k, log_lam), near)

        low, high = self._ends(held, self.best.log_lam, np.inf, -np.inf)
        return self._estimate(math.exp(self.best.log_lam), low, high, "ops/s", math.exp)

    def peak(self) -> Estimate:
        """N* with its interval. It is looked for as 1 ÷ N*², which is 0 where there is no peak."""
        top = self.data.top

        def held(inverse: float) -> _Point:
            def law(s: float) -> _Point:
                kappa = (1 - s / (top - 1)) * inverse
                return self.data.at(s, kappa * top * (top - 1))

            return _line(law, self.best.s, top - 1)

        value = self._peak_of(self.best.s, self.best.k)
        small, large = self._ends(held, value**-2, np.inf)
        low = None if large is None else max(1.0, large**-0.5)
        high = None if not small else small**-0.5
        n = len(self.data.n)
        return Estimate(value, low, high, n, "", METHOD, self.confidence)

    def peak_throughput(self) -> Estimate:
        """X(N*) with its interval; without an upper end where the peak has none."""
        value = self._log_peak(self.best.s, self.best.k)
        near = (self.best.s, self.best.k)

        def held(log_peak: float) -> _Point:
            def law(s: float, k: float) -> _Point:
                return self.data.at(s, k, log_peak - self._log_peak(s, k))

            return self.data.search(law, near)

        known = value + self.best.log_lam
        low, high = self._ends(held, known, np.inf, -np.inf)
        return self._estimate(math.exp(known), low, high, "ops/s", math.exp)

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

    def _ends(
        self, held: Callable[[float], _Point], value: float, most: float, least: float = 0.0
    ) -> tuple[float | None, float | None]:
        """The least and the largest value at which the best fit keeps within the limit.

        What is searched is the root of the squares' rise, which grows about evenly.
        """
        room = math.sqrt(self.limit - self.best.squares)

        def over(at: float) -> float:
            return math.sqrt(max(held(at).squares - self.best.squares, 0.0)) - room

        return self._end(over, room, value, least), self._end(over, room, value, most)

    def _end(
        self, over: Callable[[float], float], room: float, value: float, bound: float
    ) -> float | None:
        if value == bound:
            return bound
        side = math.copysign(1.0, bound - value)
        step, inside = max(abs(value), 1e-3) * 0.02, value
        for tried in range(_DOUBLINGS):
            at = value + side * step
            if side * at >= side * bound:
                if over(bound) <= 0:
                    return bound
                at = bound
            beyond = over(at)
            if beyond > 0:
                found: float = scipy.optimize.brentq(over, inside, at, rtol=1e-5)
                return found
            # The first step tells how far the end may be.
            far = 1.1 * room / (room + beyond) if tried == 0 and beyond > -room else 2.0
            inside, step = at, step * max(far, 2.0)
        return None

    def _estimate(
        self,
        value: float,
        low: float | None,
        high: float | None,
        unit: str,
        scaled: Callable[[float], float],
    ) -> Estimate:
        return Estimate(
            value,
            None if low is None else scaled(low),
            None if high is None else scaled(high),
            len(self.data.n),
            unit,
            METHOD,
            self.confidence,
        )
