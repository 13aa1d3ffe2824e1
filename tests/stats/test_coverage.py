"""The coverage of the interval of one run, simulated and on the page."""

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kvmark.stats import LEAST_INTERVALS, Counts, quantile_of_intervals
from kvmark.stats.series import mean_error, rate_of_intervals

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "method" / "intervals.md"
PHIS = (0.0, 0.4, 0.8)
LENGTHS = (LEAST_INTERVALS, 60)


@cache
def coverage() -> ModuleType:
    """The script that writes the page's tables."""
    spec = importlib.util.spec_from_file_location(
        "interval_coverage", ROOT / "scripts" / "interval_coverage.py"
    )
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("n", LENGTHS)
def test_the_interval_of_a_rate_has_the_stated_coverage(n: int, phi: float) -> None:
    held = coverage().of_rates(n, phi, 2000, seed=5)
    assert 0.93 <= held.share <= 0.97


@pytest.mark.parametrize("phi", PHIS)
def test_the_interval_of_a_median_has_the_stated_coverage(phi: float) -> None:
    # 100 intervals of 95 % scatter by ± 2.2 %.
    held = coverage().of_quantiles(0.5, LEAST_INTERVALS, phi, 100)
    assert held.share >= 0.88
    assert held.intervals >= 85


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_the_interval_of_an_engine_s_run_of_the_usual_length_has_the_stated_coverage(
    phi: float, tmp_path: Path
) -> None:
    pytest.importorskip("kvmark._engine")
    *_, end = coverage().ENDS.values()
    held = coverage().of_engine(phi, 40, tmp_path, end)
    # 40 intervals of 95 % scatter by ± 3.4 %.
    assert held.share >= 0.85
    assert held.intervals == 40
    assert 0 < held.half < 0.2


def test_a_run_that_ended_at_a_precision_has_a_wider_interval() -> None:
    rates = coverage().correlated(np.random.default_rng(1), 60, 0.4) + 100
    plain, ended = (
        rate_of_intervals(100.0, rates.tolist(), until_known=known).plain("ops/s")
        for known in (False, True)
    )
    assert 1.05 < (ended.error or 0) / (plain.error or 1) < 1.2


def test_too_few_intervals_give_no_interval_and_a_reason() -> None:
    few = np.arange(LEAST_INTERVALS - 1) + 100.0
    assert mean_error(few) is None
    assert mean_error([*few, 100.0]) is not None
    found = rate_of_intervals(100.0, few.tolist()).plain("ops/s")
    assert (found.low, found.high, found.n) == (None, None, 24)
    assert found.method == "no interval: 24 of the 25 intervals that an error needs"


def test_the_value_is_that_of_the_whole_run() -> None:
    rates = [90.0, 110.0] * 20
    assert rate_of_intervals(105.0, rates).plain("ops/s").value == pytest.approx(105.0)
    with pytest.raises(ValueError, match="above 0"):
        rate_of_intervals(0.0, rates)


def intervals(shifts: np.ndarray[tuple[int], np.dtype[np.float64]], count: int) -> list[Counts]:
    """Lognormal times of each interval, shifted."""
    chance = np.random.default_rng(3)
    return [
        Counts.of(np.exp(11 + shift + chance.normal(0, 0.5, count)).astype(np.int64))
        for shift in shifts
    ]


def test_correlated_intervals_give_a_larger_error() -> None:
    chance = np.random.default_rng(5)
    steady = chance.normal(0, 0.1, 60)
    waves = np.repeat(chance.normal(0, 0.1, 6), 10)
    one, other = (quantile_of_intervals(intervals(shifts, 200), 0.5) for shifts in (steady, waves))
    assert (other.stderr or 0) > 1.5 * (one.stderr or 0)


def test_a_tail_beyond_what_was_observed_has_no_interval() -> None:
    late = [*np.zeros(29), 5.0]
    found = quantile_of_intervals(intervals(np.array(late), 200), 0.99)
    assert found.stderr is None
    assert found.method == "no interval: it would reach beyond what was observed"


def test_the_error_of_times_in_one_bucket_is_half_its_width() -> None:
    one = Counts(np.array([50_000]), np.array([50_063]), np.array([100]))
    found = quantile_of_intervals([one] * 30, 0.5)
    assert found.stderr == pytest.approx(32 / 50_063)


def test_no_observation_has_no_quantile() -> None:
    assert quantile_of_intervals([], 0.5) is None


def test_the_page_shows_the_stated_coverage() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition(coverage().BEGIN.format("rates"))[2].partition("<!--")[0]
    rows = [re.findall(r"([\d.]+) %,", line) for line in table.splitlines() if " %" in line]
    assert len(rows) == len(coverage().LENGTHS)
    for row in rows:
        assert len(row) == len(coverage().PHIS)
        assert all(93 <= float(share) <= 97 for share in row)
    firsts = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert [int(first) for first in firsts] == list(coverage().LENGTHS)
