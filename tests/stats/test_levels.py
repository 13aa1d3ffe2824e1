"""Quantiles of counts, means, ratios and levels: closed forms, SciPy and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal
from scipy import stats as scipy_stats

from kvmark.stats import (
    Counts,
    Effect,
    Estimate,
    Level,
    PrecisionTarget,
    as_family,
    crossing,
    decide,
    difference,
    jackknife,
    least_observations,
    level_of,
    level_of_stages,
    mean_interval,
    paired_jackknife,
    paired_ratio,
    two_stage_mean,
)
from kvmark.stats.distributions import Spread, spread
from kvmark.stats.estimate import median_interval
from kvmark.stats.level import holm, paired_difference
from kvmark.stats.series import effective_sample_size


def autoregressive(n: int, phi: float, seed: int) -> list[float]:
    noise = np.random.default_rng(seed).normal(size=n)
    values: list[float] = signal.lfilter([1.0], [1.0, -phi], noise).tolist()
    return values


def test_error_is_half_the_width_of_the_interval() -> None:
    estimate = Estimate(10.0, 8.0, 12.0, 5, "ms", "by hand")
    assert estimate.error == 2.0
    assert estimate.relative_error == 0.2
    assert Estimate(10.0, None, None, 1, "ms", "by hand").error is None
    # The bounds of a transformed estimate are in order.
    lost = Estimate(0.9, 0.8, 0.95, 5, "ratio", "by hand").put(lambda left: (1 - left) * 100, "%")
    assert (lost.low, lost.value, lost.high) == pytest.approx((5.0, 10.0, 20.0))
    assert lost.unit == "%"
    assert Estimate.alone(3.0, "ms", "published").put(lambda ms: ms * 2, "ms").low is None


def test_a_mean_interval_is_scipys_t_interval() -> None:
    samples = np.random.default_rng(1).normal(50, 4, 20)
    expected = scipy_stats.t.interval(0.95, 19, samples.mean(), scipy_stats.sem(samples))
    estimate = mean_interval(samples.tolist(), "ms")
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    alone = mean_interval([3.0], "ms")
    assert (alone.value, alone.low, alone.high, alone.n) == (3.0, None, None, 1)
    with pytest.raises(ValueError, match="at least one sample"):
        mean_interval([], "ms")


positive = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=20))
def test_exchanging_the_sides_inverts_a_paired_ratio(pairs: list[tuple[float, float]]) -> None:
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    forth, back = (paired_ratio(*sides, floor=1e-4) for sides in ((before, after), (after, before)))
    assert forth.value == pytest.approx(1 / back.value)
    assert forth.low == pytest.approx(1 / back.high, rel=1e-6)


def test_a_difference_of_levels_is_scipys_welch_interval_of_logs() -> None:
    random = np.random.default_rng(4)
    before, after = random.lognormal(1, 0.2, 9), random.lognormal(1.1, 0.4, 14)
    welch = scipy_stats.ttest_ind(np.log(after), np.log(before), equal_var=False)
    expected = np.exp(welch.confidence_interval(0.95))
    ratio = difference(level_of(before.tolist()), level_of(after.tolist())).ratio
    assert (ratio.low, ratio.high) == pytest.approx(tuple(expected))


def test_equal_samples_have_the_error_of_their_instrument() -> None:
    assert mean_interval([2.0, 2.0, 2.0], "ms", floor=0.1).error == pytest.approx(0.43, abs=0.001)
    ratio = paired_ratio([2.0, 2.0, 2.0], [4.0, 4.0, 4.0], floor=0.01)
    assert (ratio.low or 0) == pytest.approx(2 * math.exp(-0.043), rel=1e-3)
    assert paired_ratio([2.0, 2.0], [4.0, 4.0]).low is None

    # Values without a logarithm have no ratio.
    with pytest.raises(ValueError, match="above 0"):
        paired_ratio([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="equal lengths"):
        paired_ratio([1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("series", "size", "tolerance"),
    [
        (np.random.default_rng(5).normal(size=5000).tolist(), 5000, 0.1),
        *[(autoregressive(40_000, phi, 6), 40_000 * (1 - phi) / (1 + phi), 0.12)
          for phi in (0.3, 0.6, 0.9)],
        # Negative correlation doesn't increase it.
        ([1.0, 2.0] * 50, 100, 0),
        ([4.0] * 30, 30, 0),
    ],
    ids=["independent", "0.3", "0.6", "0.9", "negative", "constant"],
)  # fmt: skip
def test_effective_sizes_are_exact(series: list[float], size: float, tolerance: float) -> None:
    assert effective_sample_size(series) == pytest.approx(size, rel=tolerance)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_an_effective_size_lies_between_one_and_the_length(series: list[float]) -> None:
    assert 1 <= effective_sample_size(series) <= len(series)


@pytest.mark.parametrize(
    ("n", "interval"), [(5, (None, None)), (6, (0, 5)), (8, (0, 7)), (10, (1, 8)), (20, (5, 14))]
)
def test_a_median_has_a_sign_interval(n: int, interval: tuple[float | None, float | None]) -> None:
    found = median_interval([float(value) for value in range(n)][::-1], "ns")
    assert (found.low, found.high) == interval
    assert found.value == (n - 1) / 2
    assert median_interval([], "ns") is None


def test_fiellers_interval_has_the_stated_coverage() -> None:
    random = np.random.default_rng(5)
    x = np.repeat([0.0, 0.03], 4)
    held = []
    for _ in range(1_000):
        y = 3 * (x - 0.012) + random.normal(scale=0.02, size=len(x))
        found = crossing(x.tolist(), y.tolist(), "x")
        low = -math.inf if found is None or found.low is None else found.low
        high = math.inf if found is None or found.high is None else found.high
        held.append(low <= 0.012 <= high)
    assert 0.93 <= np.mean(held) <= 0.99


@pytest.mark.parametrize(
    ("x", "y", "found"),
    [
        ([1, 2, 3, 4], [-3, -1, 1, 3], (2.5, 2.5, 2.5)),
        # The slope may be 0; two samples don't show their scatter.
        ([0, 0, 1, 1], [-1, 1, -0.9, 1.1], (0.0, None, None)),
        ([1, 2], [-1, 1], (1.5, None, None)),
        # The line doesn't rise.
        ([1, 2, 3], [3, 2, 1], None),
        ([1, 1, 1], [-1, 0, 1], None),
        ([1], [0], None),
    ],
)
def test_only_a_line_that_certainly_rises_has_a_crossing_with_an_interval(
    x: list[float], y: list[float], found: tuple[float | None, ...] | None
) -> None:
    estimate = crossing(x, y, "x")
    known = None if estimate is None else (estimate.value, estimate.low, estimate.high)
    assert known == (None if found is None else pytest.approx(found, abs=1e-9))


# Levels.


def within(value: float, spread: float, units: float) -> Level:
    return Level(math.log(value), spread, units, between_runs=False, method="intervals")


def test_a_ratio_is_inverted_when_the_sides_are_exchanged() -> None:
    one, other = level_of([100, 104, 98, 101]), level_of([110, 115, 112])
    there, back = difference(one, other), difference(other, one)
    assert there.ratio.value == pytest.approx(1 / back.ratio.value)
    assert there.ratio.low == pytest.approx(1 / (back.ratio.high or 0))
    assert there.p_value == pytest.approx(back.p_value)


def test_the_smallest_detectable_change_is_found_in_eight_of_ten_comparisons() -> None:
    chance = np.random.default_rng(5)
    spread, runs = 0.05, 10
    change = math.expm1((2.101 + 0.862) * spread * (2 / runs) ** 0.5)

    def compared(ratio: float) -> Effect:
        one, other = (chance.lognormal(math.log(100), spread, runs) for _ in range(2))
        return difference(level_of(one.tolist()), level_of((ratio * other).tolist()))

    assert compared(1.0).detectable is not None
    assert 760 <= sum(compared(1 + change).significant() for _ in range(1000)) <= 850


def test_a_single_run_has_the_scatter_of_the_repeated_side() -> None:
    repeated = level_of([100, 104, 98, 101, 97])
    alone = within(102, 0.0001, 1000)
    found = difference(repeated, alone)
    spread = repeated.spread or 0
    half = 2.776 * spread * (1 + 1 / 5) ** 0.5
    assert math.log((found.ratio.high or 0) / found.ratio.value) == pytest.approx(half, rel=1e-3)


def test_two_single_runs_are_compared_by_the_scatter_within_each() -> None:
    found = difference(within(100, 0.1, 25), within(110, 0.1, 25))
    assert found.significant()
    assert not difference(within(100, 0.1, 4), within(110, 0.1, 4)).significant()


def test_without_an_error_nothing_is_significant() -> None:
    with pytest.raises(ValueError, match="above 0"):
        level_of([1.0, 0.0])
    alone = Level(math.log(100), None, 1, between_runs=False, method="one count")
    found = difference(alone, within(200, 0.1, 20))
    # An error of 0 counts as unknown.
    for unknown in (found, difference(level_of([1000.0] * 5), level_of([1000.4] * 5))):
        assert (unknown.p_value, unknown.ratio.low, unknown.detectable) == (None, None, None)
        assert not unknown.significant()


def test_a_change_in_a_family_must_be_larger() -> None:
    found = difference(level_of([100, 103, 98, 101]), level_of([106, 108, 104, 107]))
    same = difference(level_of([100, 103, 98, 101]), level_of([101, 102, 99, 100]))
    assert found.significant()
    assert as_family([found])[0].significant()
    (alone, *_), many = as_family([found, same]), as_family([found, *[same] * 99])
    assert alone.significant()
    assert not many[0].significant()
    assert (many[0].p_value, many[0].ratio) == (found.p_value, found.ratio)
    assert many[0].detectable is not None
    assert found.detectable < alone.detectable < many[0].detectable


def test_effects_without_an_error_take_no_share_of_a_family_s_level() -> None:
    found = difference(level_of([100, 103, 98, 101]), level_of([106, 108, 104, 107]))
    unknown = difference(level_of([100.0]), level_of([101.0]))
    together = as_family([unknown, found, unknown])
    assert together[0] == unknown
    assert together[1].family_p_value == found.p_value


def test_holm_multiplies_the_smallest_by_all_and_never_reverses_an_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("floor", "candidate"),
    [(5e-4, level_of([1000.4] * 5, 5e-4)), (0.01, within(1001, 0.0001, 10))],
    ids=["repetitions", "a single run"],
)
def test_repetitions_equal_within_the_floor_do_not_differ(floor: float, candidate: Level) -> None:
    found = difference(level_of([1000.0] * 5, floor), candidate)
    assert found.p_value > 0.5
    assert found.ratio.low < 1


def test_equal_blocks_have_the_floor_as_their_error() -> None:
    found = paired_difference([0.001] * 12, floor=0.001)
    assert 0.2 < found.p_value < 0.5
    decided = decide([0.001] * 12, PrecisionTarget(0.01, None, 20), floor=0.001).effect
    assert decided.p_value == pytest.approx(found.p_value)


# The number of repetitions was decided by the scatter of the first five of them.


@pytest.mark.parametrize("scatter", [0.01, 0.05, 0.07, 0.1])
def test_the_interval_of_two_stages_has_the_stated_coverage(scatter: float) -> None:
    target = PrecisionTarget(within=0.05, find=None, most_blocks=20, first_stage=5)
    held = 0
    for figures in np.random.default_rng(7).normal(100.0, 100.0 * scatter, (2000, 20)):
        needed = decide([math.log(figure) for figure in figures[:5]], target).needed
        shown = two_stage_mean(figures[:5], figures[5:needed], "")
        held += (shown.low or 0) <= 100.0 <= (shown.high or 0)
    # 2000 intervals of 95 % scatter by ± 1 %.
    assert held / 2000 >= 0.94


def test_a_small_scatter_in_one_stage_does_not_narrow_the_interval() -> None:
    early, late = [100.0, 120.0, 80.0, 110.0, 90.0], [100.0] * 5
    wide, plain = two_stage_mean(early, late, "ops/s"), mean_interval(early + late, "ops/s")
    assert wide.error > plain.error
    assert (wide.value, wide.n, wide.method) == (100.0, 10, "mean, two stages, Stein")
    level, plain_level = level_of_stages(early, late), level_of(early + late)
    assert level.log == plain_level.log
    assert level.estimate("").error > plain_level.estimate("").error
    first, second = [100.0, 100.1, 99.9, 100.0, 100.0], [80.0, 120.0]
    assert two_stage_mean(first, second, "") == mean_interval([*first, *second], "")
    assert level_of_stages(first, second).units == 7


def test_without_two_stages_the_interval_is_that_of_all_samples() -> None:
    for first, second in (([1.0], [2.0, 3.0]), ([], [1.0, 2.0]), ([1.0, 2.0], [])):
        assert two_stage_mean(first, second, "") == mean_interval([*first, *second], "")
        assert level_of_stages(first, second) == level_of([*first, *second])


# Quantiles of merged histograms.


def bucket(low: int, width: int, runs: int) -> list[Counts]:
    """Runs with all times in one bucket."""
    one = Counts(np.array([low]), np.array([low + width - 1]), np.array([1000]))
    return [one] * runs


def test_one_run_alone_has_a_quantile_and_no_error_between_runs() -> None:
    found = jackknife(bucket(50_000, 64, 1), 0.5)
    assert found.spread is None
    assert jackknife([], 0.5) is None


def test_the_error_of_runs_in_one_bucket_is_half_its_width() -> None:
    for runs in (2, 20):
        found = jackknife(bucket(50_000, 64, runs), 0.5)
        assert found.stderr == pytest.approx(32 / 50_063)


@pytest.mark.parametrize(("low", "differs"), [(50_064, False), (51_000, True)])
def test_only_distant_buckets_differ_significantly(low: int, *, differs: bool) -> None:
    base, candidate = bucket(50_000, 64, 20), bucket(low, 64, 20)
    one, other = jackknife(base, 0.5), jackknife(candidate, 0.5)
    for effect in (difference(one, other), paired_jackknife(base, candidate, 0.5, 0.95)):
        assert effect.significant() == differs
        assert differs or 0.1 < effect.p_value < 1


def test_a_coarse_clock_makes_the_error_its_step() -> None:
    found = jackknife(bucket(1000, 1, 5), 0.5, step=100.0)
    assert found.stderr == pytest.approx(0.1)


values = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(values, st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]))
def test_a_quantile_is_the_order_statistic(samples: list[int], q: float) -> None:
    rank = max(1, math.ceil(round(q * len(samples), 9)))
    assert Counts.of(samples).quantile(q) == sorted(samples)[rank - 1]


@given(st.lists(values, min_size=1, max_size=5))
def test_merging_counts_is_counting_together(parts: list[list[int]]) -> None:
    merged = Counts.merge(Counts.of(part) for part in parts)
    together = Counts.of([value for part in parts for value in part])
    for column in ("low", "high", "count"):
        assert np.array_equal(getattr(merged, column), getattr(together, column))


def test_rounding_does_not_shift_the_rank_of_a_quantile() -> None:
    # 0.07 * 100 is 7.000000000000001 in binary.
    assert Counts.of(range(1, 101)).quantile(0.07) == 7


def test_a_mean_takes_the_middle_of_each_range_and_nothing_has_none() -> None:
    counts = Counts(np.array([0, 10]), np.array([2, 14]), np.array([3, 1]))
    assert counts.mean() == pytest.approx((3 * 1 + 12) / 4)
    empty = Counts.merge([])
    assert (empty.n, empty.quantile(0.5), empty.mean(), empty.resolution(0.5)) == (0, None, None, 0)


@pytest.mark.parametrize(
    ("q", "n"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000), (1.0, 1)]
)
def test_a_shown_quantile_has_ten_observations_beyond_it(q: float, n: int) -> None:
    assert least_observations(q) == n
    assert Counts.of(range(n)).shows(q)
    assert n == 1 or not Counts.of(range(n - 1)).shows(q)


@pytest.mark.parametrize(
    ("q", "step", "resolution"),
    [(0.05, 0.0, 1 / 101), (0.5, 0.0, 4 / 1007), (0.5, 25.0, 25 / 1007)],
)
def test_the_resolution_is_half_a_range_or_a_step(q: float, step: float, resolution: float) -> None:
    counts = Counts(np.array([100, 1000]), np.array([101, 1007]), np.array([9, 91]))
    assert counts.resolution(q, step) == pytest.approx(resolution)


ORDER = ("min", "p1", "p5", "p10", "median", "p90", "p95", "p99", "max")


def spread_of(values: list[float]) -> Spread:
    found = spread(values)
    assert found is not None
    return found


def test_the_rank_is_p_times_n_plus_one() -> None:
    ten = spread_of([*range(1, 11)])
    # 0.9 * 11 is 9.9: nine tenths of the way from the ninth value to the tenth. The ranks of p5 and
    # p95, 0.55 and 10.45, lie outside the values.
    assert (ten.p5, ten.median, ten.p90, ten.p95) == (1.0, 5.5, pytest.approx(9.9), 10.0)


def test_below_99_values_the_first_percentile_is_the_smallest() -> None:
    for n in (1, 2, 50, 98):
        found = spread_of([*range(n)])
        assert (found.p1, found.p99) == (found.min, found.max)
    assert spread_of([*range(199)]).p1 == 1.0


def test_no_value_has_no_spread_and_one_has_no_deviation() -> None:
    assert spread([]) is None
    one = spread_of([7.0])
    assert (one.mean, one.stddev, one.p95) == (7.0, 0.0, 7.0)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=150))
def test_the_numbers_rise_as_their_names_say(values: list[float]) -> None:
    ordered = [getattr(spread_of(values), name) for name in ORDER]
    assert ordered == sorted(ordered)
