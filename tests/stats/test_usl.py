"""The scalability law against known laws, and the simulated coverage of its intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kvmark.stats import Estimate, UslFit, fit_usl

LEVELS = [1, 2, 4, 8, 16, 32, 64, 128]
LAM, SIGMA, KAPPA = 1_000.0, 0.02, 0.0005
PEAK = math.sqrt((1 - SIGMA) / KAPPA)


def law(n: float, lam: float = LAM, sigma: float = SIGMA, kappa: float = KAPPA) -> float:
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def noisy(seed: int, levels: list[int], deviation: float = 0.03, **known: float) -> UslFit:
    chance = np.random.default_rng(seed).normal(scale=deviation, size=len(levels))
    drawn = [law(n, **known) * math.exp(one) for n, one in zip(levels, chance, strict=True)]
    return fit_usl(levels, drawn)


def holds(estimate: Estimate | None, truth: float) -> bool:
    if estimate is None:
        return False
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low <= truth <= high


@pytest.mark.parametrize("top", [8, 128, 10_000])
@pytest.mark.parametrize("kappa", [0.0, 1e-7, 5e-4])
def test_exact_data_give_their_parameters(top: int, kappa: float) -> None:
    levels = np.geomspace(1, top, 7).tolist()
    fit = fit_usl(levels, [law(n, kappa=kappa) for n in levels])
    assert fit.lam.value == pytest.approx(LAM, rel=1e-6)
    assert fit.sigma.value == pytest.approx(SIGMA, rel=1e-5)
    assert fit.kappa.value == pytest.approx(kappa, rel=1e-3, abs=1e-9)
    assert fit.scatter < 1e-6
    assert fit.r_squared == pytest.approx(1)
    if kappa == KAPPA:
        assert fit.peak.value == pytest.approx(PEAK, rel=1e-6)
        assert fit.peak_throughput.value == pytest.approx(law(PEAK), rel=1e-6)
        assert fit.throughput(PEAK) >= max(fit.throughput(PEAK * 0.99), fit.throughput(PEAK * 1.01))


@pytest.mark.parametrize("sigma", [SIGMA, 0.0])
def test_a_law_without_coherency_has_no_peak(sigma: float) -> None:
    fit = fit_usl(LEVELS, [law(n, sigma=sigma, kappa=0.0) for n in LEVELS])
    assert fit.lam.value == pytest.approx(LAM)
    assert fit.sigma.value == pytest.approx(sigma, rel=1e-6, abs=1e-12)
    assert fit.kappa.value == pytest.approx(0, abs=1e-12)
    assert fit.kappa.value == 0 or sigma == 0
    if sigma:
        assert (fit.peak, fit.peak_throughput) == (None, None)


def test_intervals_have_the_stated_coverage() -> None:
    truth = {"lam": LAM, "sigma": SIGMA, "kappa": KAPPA, "peak": PEAK, "peak_throughput": law(PEAK)}
    fits = [noisy(seed, LEVELS) for seed in range(50)]
    shares = [np.mean([holds(getattr(fit, name), value) for fit in fits]) for name, value in
              truth.items()]  # fmt: skip
    assert min(shares) >= 0.88
    assert 0.92 <= float(np.mean(shares)) <= 0.99


def test_without_a_decline_the_interval_of_coherency_begins_at_0() -> None:
    fits = [noisy(seed, LEVELS, kappa=0.0) for seed in range(12)]
    assert sum(fit.kappa.low == 0 for fit in fits) >= 10
    # A peak that may not be there can't be bounded above.
    peaks = [fit.peak for fit in fits if fit.kappa.low == 0 and fit.peak is not None]
    assert peaks
    assert all(peak.high is None for peak in peaks)


def test_repetitions_narrow_the_intervals() -> None:
    once, often = noisy(3, LEVELS), noisy(3, LEVELS * 6)
    assert often.kappa.error < once.kappa.error / 1.5
    assert (once.misfit_p, once.levels, once.n) == (None, 8, 8)
    assert (often.levels, often.n) == (8, 48)
    assert often.misfit_p > 0.01


def test_repetitions_off_the_law_do_not_narrow_the_intervals() -> None:
    step = {n: 1_000.0 if n < 20 else 3_000.0 for n in LEVELS}
    few = fit_usl(LEVELS, [step[n] for n in LEVELS])
    chance = np.random.default_rng(1).normal(scale=1e-3, size=len(LEVELS) * 5)
    drawn = [step[n] * math.exp(one) for n, one in zip(LEVELS * 5, chance, strict=True)]
    many = fit_usl(LEVELS * 5, drawn)
    assert many.misfit_p < 1e-6
    assert many.lam.relative_error == pytest.approx(few.lam.relative_error, rel=0.8)


def test_the_unit_of_throughput_scales_only_throughputs() -> None:
    drawn = [law(n) * (1.05 if n in {4, 32} else 0.97) for n in LEVELS]
    small, large = fit_usl(LEVELS, drawn), fit_usl(LEVELS, [x * 1_000 for x in drawn])
    assert large.kappa.value == pytest.approx(small.kappa.value, rel=1e-3)
    assert large.lam.value == pytest.approx(small.lam.value * 1_000, rel=1e-3)


def test_the_worst_level_is_named() -> None:
    drawn = [law(n) * (1.4 if n == 16 else 1) for n in LEVELS]
    fit = fit_usl(LEVELS, drawn)
    assert fit.worst_level == 16
    assert fit.worst > 0.15


@pytest.mark.parametrize(
    ("levels", "throughputs", "message"),
    [
        ([1, 2, 4], [1.0, 2.0, 3.0], "needs 4 levels, not 3"),
        ([1, 1, 1, 1, 2], [1.0] * 5, "needs 4 levels, not 2"),
        ([1, 2, 4, 8], [1.0, 2.0, 3.0], "each level needs a throughput"),
        ([1, 2, 4, 8], [1.0, 2.0, 0.0, 1.0], "above 0"),
        ([0, 2, 4, 8], [1.0, 2.0, 2.0, 1.0], "1 or more"),
    ],
)
def test_invalid_levels_are_rejected(
    levels: list[float], throughputs: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fit_usl(levels, throughputs)
