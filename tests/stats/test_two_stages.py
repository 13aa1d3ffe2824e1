"""The mean of repetitions whose number was decided by the scatter of the first five of them."""

import math

import numpy as np
import pytest

from kvmark.stats import PrecisionTarget, decide, mean_interval, two_stage_mean

TARGET = PrecisionTarget(within=0.05, find=None, most_blocks=20, first_stage=5)
REPETITIONS = 2000


def held(scatter: float) -> tuple[float, float]:
    """The coverage of two-stage and of plain intervals in a seeded simulation."""
    chance = np.random.default_rng(7)
    both = [0, 0]
    for figures in chance.normal(100.0, 100.0 * scatter, (REPETITIONS, 20)):
        needed = decide([math.log(figure) for figure in figures[:5]], TARGET).needed
        shown = (
            two_stage_mean(figures[:5], figures[5:needed], ""),
            mean_interval(figures[:needed], ""),
        )
        for place, estimate in enumerate(shown):
            both[place] += (estimate.low or 0) <= 100.0 <= (estimate.high or 0)
    return both[0] / REPETITIONS, both[1] / REPETITIONS


@pytest.mark.parametrize("scatter", [0.01, 0.05, 0.07, 0.1])
def test_the_interval_of_two_stages_has_the_stated_coverage(scatter: float) -> None:
    # 2000 intervals of 95 % scatter by ± 1 %.
    assert held(scatter)[0] >= 0.94


def test_the_plain_interval_has_less_coverage() -> None:
    assert held(0.07)[1] < 0.935


def test_a_small_scatter_in_one_stage_does_not_narrow_the_interval() -> None:
    wide = two_stage_mean([100.0, 120.0, 80.0, 110.0, 90.0], [100.0] * 5, "ops/s")
    plain = mean_interval([100.0, 120.0, 80.0, 110.0, 90.0] + [100.0] * 5, "ops/s")
    assert wide.error > plain.error
    assert (wide.value, wide.n, wide.method) == (100.0, 10, "mean, two stages, Stein")
    first, second = [100.0, 100.1, 99.9, 100.0, 100.0], [80.0, 120.0]
    assert two_stage_mean(first, second, "") == mean_interval([*first, *second], "")
    with pytest.raises(ValueError, match="at least two samples"):
        two_stage_mean([1.0], [2.0], "")
