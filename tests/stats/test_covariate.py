"""Adjustment by a covariate: exact where values follow it, none where it says nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from kvmark.stats import Covaried, adjustment, mean_interval

BLOCKS, CASES = 15, 4


def values(
    slope: float, noise: float = 0.0, seed: int = 1, moved: float = 0.0, blocks: int = BLOCKS
) -> list[Covaried]:
    """Values of cases that follow a covariate, which one case may move."""
    chance = random.Random(seed)
    found = []
    for block in range(blocks):
        for case in range(CASES):
            log = chance.gauss(0, 0.1) + (moved if case == 0 else 0.0)
            value = 100.0 * (case + 1) * math.exp(slope * log + chance.gauss(0, noise))
            found.append(Covaried(str(case), block, value, 3e5 * math.exp(log)))
    return found


def of_case(found: Sequence[Covaried], case: int) -> list[Covaried]:
    return [one for one in found if one.case == str(case)]


def test_values_that_follow_the_covariate_have_their_value_at_its_mean() -> None:
    samples = values(-0.6)
    found = adjustment(samples)
    assert found is not None
    assert found.slope.value == pytest.approx(-0.6)
    mean = math.fsum(math.log(one.covariate / 3e5) for one in samples) / len(samples)
    for case in range(CASES):
        adjusted = found.mean(of_case(samples, case), "ops/s")
        assert adjusted.value == pytest.approx(100 * (case + 1) * math.exp(-0.6 * mean))
        assert adjusted.error == pytest.approx(0, abs=1e-6)


def test_the_adjusted_interval_holds_the_truth_and_is_narrower() -> None:
    held, narrower, known = 0, 0, 0
    for seed in range(300):
        samples = values(-1.0, 0.05, seed)
        found = adjustment(samples)
        if found is None:
            # One test in a hundred takes a chance difference for a treatment's.
            continue
        own = of_case(samples, 2)
        adjusted = found.mean(own, "ops/s")
        truth = 300 * math.exp(0.05**2 / 2) * (found.usual / 3e5) ** -1.0
        known += 1
        held += (adjusted.low or 0) < truth < (adjusted.high or 0)
        plain = mean_interval([one.value for one in own], "ops/s")
        narrower += (adjusted.error or 0) < (plain.error or 0)
    assert known > 0.96 * 300
    assert held / known > 0.92
    assert narrower / known > 0.95


def test_a_covariate_that_says_nothing_adjusts_nothing() -> None:
    adjusted = sum(adjustment(values(0.0, 0.1, seed)) is not None for seed in range(200))
    # By chance, at the level of the slope's interval.
    assert adjusted < 0.1 * 200


def test_a_covariate_that_a_case_moves_adjusts_nothing() -> None:
    assert adjustment(values(-0.6, 0.02)) is not None
    assert adjustment(values(-0.6, 0.02, moved=0.2)) is None
    known = sum(adjustment(values(-0.6, 0.02, seed)) is not None for seed in range(200))
    # The test finds chance differences in one of a hundred.
    assert known > 0.96 * 200


def test_few_blocks_and_equal_covariates_adjust_nothing() -> None:
    assert adjustment([]) is None
    assert adjustment(values(-0.6, blocks=4)) is None
    assert adjustment([Covaried("a", block, 5.0, 3.0) for block in range(30)]) is None
    found = adjustment(values(-0.6))
    assert found is not None
    with pytest.raises(ValueError, match="two values"):
        found.mean(values(-0.6)[:1], "ops/s")
