"""`describe` finds the laws that a trace was made by, and sees what was planted in it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from kvmark.analysis.trace import TraceAnswer, describe
from kvmark.stats.distributions import fit_gaussian, fit_zipf
from learn.planted import S, recorded

Numbers = NDArray[np.int64]


def described(
    folder: Path, keys: Numbers, at_ns: Numbers, kinds: list[str] | None = None, **more: pl.Series
) -> TraceAnswer:
    """The description of a trace of these operations, by default reads."""
    folder.mkdir(exist_ok=True)
    return describe(recorded(folder, keys, at_ns, kinds or ["read"] * len(keys), **more))


def test_a_trace_says_how_its_operations_ended_and_after_what_time(tmp_path: Path) -> None:
    at_ns = np.arange(1000, dtype=np.int64)
    took_us = np.append(np.arange(1, 991), [0] * 9 + [1_234_567])
    completed_ns = pl.Series(at_ns + took_us * 1000).scatter(list(range(990, 999)), None)
    ends = ["ok"] * 980 + ["miss"] * 10 + [None] * 9 + ["timeout"]
    given = {"completed_ns": completed_ns, "outcome": pl.Series(ends, dtype=pl.String)}
    answer = described(tmp_path, at_ns % 7, at_ns, **given)
    counted = [(one.name, one.operations) for one in answer.outcomes]
    assert counted == [("ok", 980), ("miss", 10), ("unanswered", 9), ("timeout", 1)]
    answered = next(one for one in answer.sizes if one.what == "answered_us")
    assert (answered.p50, answered.p99, answered.largest) == (496, 982, 1_230_000)
    assert answered.share == pytest.approx(0.991)


@pytest.mark.parametrize(("took_us", "told_us"), [(0, 0), (9_999, 9_990), (10**13 + 1, 10**13)])
def test_three_digits_of_a_response_time_are_told(
    tmp_path: Path, took_us: int, told_us: int
) -> None:
    given = {"completed_ns": pl.Series([took_us * 1000])}
    answer = described(tmp_path, np.arange(1), np.arange(1), **given)
    answered = next(one for one in answer.sizes if one.what == "answered_us")
    assert answered.largest == told_us


def test_nothing_is_told_of_ends_that_nobody_knows(tmp_path: Path) -> None:
    answer = described(tmp_path, np.arange(9), np.arange(9))
    assert answer.outcomes == ()
    assert {one.what for one in answer.sizes} == {"key_size", "value_size"}


def zipfian(chance: np.random.Generator, theta: float, keys: int, count: int) -> Numbers:
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -theta
    return chance.choice(keys, size=count, p=weights / weights.sum())


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("theta", [0.5, 0.99, 1.0, 1.3])
def test_a_zipfian_law_is_found(chance: np.random.Generator, theta: float) -> None:
    counts = np.bincount(zipfian(chance, theta, 2000, 400_000))
    fit = fit_zipf(sorted(counts[counts > 0].tolist(), reverse=True))
    assert fit.theta == pytest.approx(theta, abs=0.02)
    assert fit.off < 0.01


def test_a_law_that_is_not_zipfian_is_off_and_fewer_than_two_items_have_none() -> None:
    fit = fit_zipf([1000] * 100 + [1] * 10_000)
    assert fit.off > 0.1
    assert (fit_zipf([]), fit_zipf([5])) == (None, None)


def test_a_gaussian_law_is_found(chance: np.random.Generator) -> None:
    counts = np.bincount(np.rint(chance.normal(600, 100, 200_000)).astype(np.int64))
    ranked = sorted(counts[counts > 0].tolist(), reverse=True)
    fit = fit_gaussian(ranked)
    assert fit.deviation == pytest.approx(100, rel=0.02)
    assert fit.off < 0.01 < fit_zipf(ranked).off
    assert (fit_gaussian([]), fit_gaussian([5])) == (None, None)


def test_kinds_clients_and_sizes_are_counted(tmp_path: Path) -> None:
    count = 1000
    kinds = ["read"] * 750 + ["update"] * 250
    answer = described(tmp_path, np.arange(count), np.arange(count) * S // 100, kinds)
    assert [(one.name, one.operations, one.share) for one in answer.kinds] == [
        ("read", 750, 0.75), ("update", 250, 0.25),
    ]  # fmt: skip
    assert answer.clients == 3
    sizes = {one.what: one for one in answer.sizes}
    assert sizes["value_size"].mean == pytest.approx(49.5)
    assert (sizes["value_size"].p50, sizes["value_size"].p99) == (49, 98)
    assert "ttl_ms" not in sizes
    assert answer.keys == count
    assert answer.first_reads == 1.0


def test_poisson_and_steady_rates_differ(tmp_path: Path, chance: np.random.Generator) -> None:
    count = 100_000
    poisson = np.cumsum(chance.exponential(S / 1000, count)).astype(np.int64)
    steady = np.arange(count, dtype=np.int64) * (S // 1000)
    keys = np.zeros(count, dtype=np.int64)
    random = described(tmp_path / "a", keys, poisson).rate
    even = described(tmp_path / "b", keys, steady).rate
    for spread in ("10 ms", "1 s"):
        assert random.dispersion[spread] == pytest.approx(1, abs=0.35)
        assert even.dispersion[spread] < 0.1
    assert random.mean == pytest.approx(1000, rel=0.02)
    assert even.peak == 1000


def test_bursts_are_seen(tmp_path: Path) -> None:
    # A thousand a second for ten seconds, then a tenth of it.
    fast, slow = np.arange(10_000) * S // 1000, 10 * S + np.arange(1000) * S // 100
    at_ns = np.concatenate([fast + 20 * S * turn for turn in range(5)]).astype(np.int64)
    both = np.sort(np.concatenate([at_ns, *(slow + 20 * S * turn for turn in range(5))]))
    answer = described(tmp_path, np.zeros(len(both), np.int64), both)
    assert answer.rate.peak / answer.rate.mean == pytest.approx(1000 / 550, rel=0.03)
    assert answer.rate.dispersion["1 s"] > 100
    assert answer.rate.autocorrelation > 0.7


def test_a_shuffled_order_has_another_cache(tmp_path: Path, chance: np.random.Generator) -> None:
    # A working set that moves: each thousand operations are on a hundred keys of their own.
    keys = np.concatenate([chance.integers(0, 100, 1000) + 100 * turn for turn in range(200)])
    at_ns = np.arange(len(keys), dtype=np.int64) * (S // 1000)
    local = described(tmp_path / "a", keys, at_ns)
    shuffled = described(tmp_path / "b", chance.permutation(keys), at_ns)
    assert local.popularity == shuffled.popularity
    assert local.keys == shuffled.keys
    one, other = (
        {cache.share: cache.hits for cache in answer.caches} for answer in (local, shuffled)
    )
    assert one[0.01] > 0.85
    assert other[0.01] < 0.02
    assert sum(local.working_set) < 1.1 * local.keys < sum(shuffled.working_set) / 5


def test_reads_of_what_was_never_written_are_told(tmp_path: Path) -> None:
    keys = np.array([1, 1, 2, 2, 3])
    kinds = ["update", "read", "read", "read", "read"]
    answer = described(tmp_path, keys, np.arange(5) * S, kinds)
    assert answer.unwritten_reads == 0.75
    assert answer.first_reads == 0.5


def test_keys_beyond_a_limit_are_estimated(tmp_path: Path, chance: np.random.Generator) -> None:
    keys = zipfian(chance, 0.8, 600_000, 1_500_000)
    at_ns = np.arange(len(keys), dtype=np.int64) * 1000
    answer = described(tmp_path, keys, at_ns)
    exact = len(np.unique(keys))
    assert answer.sampled < 1
    assert answer.keys == pytest.approx(exact, rel=0.02)
    assert answer.top_share == pytest.approx(np.bincount(keys).max() / len(keys), rel=1e-9)


def test_operations_without_a_key_are_no_popular_key(tmp_path: Path) -> None:
    kinds, sizes = ["other", "other", "other", "read"], pl.Series([0, 0, 0, 4])
    answer = described(tmp_path, np.array([7, 7, 7, 9]), np.arange(4), kinds, key_size=sizes)
    assert (answer.operations, answer.keys, answer.top_share) == (4, 1, 0.25)


def test_operations_of_less_than_a_second_have_their_number_as_peak(tmp_path: Path) -> None:
    answer = described(tmp_path / "once", np.arange(5), np.zeros(5, dtype=np.int64))
    assert (answer.rate.mean, answer.rate.peak) == (None, 5)
    at_ns = np.arange(50, dtype=np.int64) * (S // 100)
    assert described(tmp_path / "short", np.arange(50), at_ns).rate.peak == 50
