"""The coverage of the interval of one run, simulated, on the page, and as the engine's rule."""

from __future__ import annotations

import json
import re
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from kvmark.stats import LEAST_INTERVALS, Counts, quantile_of_intervals
from kvmark.stats.series import mean_error, rate_of_intervals

ROOT = Path(__file__).resolve().parents[2]
PHIS = (0.0, 0.4, 0.8)


@cache
def coverage() -> SimpleNamespace:
    """The script that writes the page's tables."""
    script = ROOT / "scripts" / "interval_coverage.py"
    return SimpleNamespace(**runpy.run_path(str(script), run_name="interval_coverage"))


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("n", [LEAST_INTERVALS, 60])
def test_the_interval_of_a_rate_has_the_stated_coverage(n: int, phi: float) -> None:
    held = coverage().of_rates(n, phi, 2000, seed=5)
    assert 0.93 <= held.share <= 0.97


@pytest.mark.parametrize("phi", PHIS)
def test_the_interval_of_a_median_has_the_stated_coverage(phi: float) -> None:
    # 100 intervals of 95 % scatter by ± 2.2 %.
    held = coverage().of_quantiles(0.5, LEAST_INTERVALS, phi, 100)
    assert held.share >= 0.88
    assert held.intervals >= 85


def test_the_page_shows_the_stated_coverage() -> None:
    text = (ROOT / "docs" / "method" / "intervals.md").read_text(encoding="utf-8")
    table = text.partition(coverage().BEGIN.format("rates"))[2].partition("<!--")[0]
    rows = [re.findall(r"([\d.]+) %,", line) for line in table.splitlines() if " %" in line]
    assert [len(row) for row in rows] == [len(coverage().PHIS)] * len(coverage().LENGTHS)
    assert all(93 <= float(share) <= 97 for row in rows for share in row)
    firsts = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert [int(first) for first in firsts] == list(coverage().LENGTHS)


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
    # The value is that of the whole run.
    assert rate_of_intervals(105.0, [90.0, 110.0] * 20).value == pytest.approx(105.0)
    with pytest.raises(ValueError, match="above 0"):
        rate_of_intervals(0.0, [90.0, 110.0] * 20)


def test_a_tail_beyond_what_was_observed_has_no_interval() -> None:
    chance = np.random.default_rng(3)
    found = quantile_of_intervals(
        [
            Counts.of(np.exp(11 + shift + chance.normal(0, 0.5, 200)).astype(np.int64))
            for shift in (*[0.0] * 29, 5.0)
        ],
        0.99,
    )
    assert found.stderr is None
    assert found.method == "no interval: it would reach beyond what was observed"
    assert quantile_of_intervals([], 0.5) is None


def test_the_error_of_times_in_one_bucket_is_half_its_width() -> None:
    one = Counts(np.array([50_000]), np.array([50_063]), np.array([100]))
    found = quantile_of_intervals([one] * 30, 0.5)
    assert found.stderr == pytest.approx(32 / 50_063)


# Runs that end at a precision: the engine's rule against the interval that is printed.

BOUND = 0.03


class Stop:
    """A rule that looks at a precision."""

    def __init__(self) -> None:
        engine = pytest.importorskip("kvmark._engine")
        until = {"rule": "precision", "bound": BOUND, "min_intervals": 50, "max_intervals": None}
        self.rule = engine.StopRule(json.dumps(until))

    def push(self, rate: float) -> None:
        """Gives it an interval of a thousand seconds, whose rates are whole to a thousandth."""
        operations = round(1000 * rate)
        self.rule.push(0, 1000 * 10**9, operations, operations, 0)

    def ends(self, series: NDArray[np.float64]) -> tuple[int, bool]:
        """After how many intervals a run ends, and whether the rule ended it."""
        for n, rate in enumerate(series, 1):
            self.push(rate)
            if self.rule.satisfied():
                return n, True
        return len(series), False


def rates_near_1000(seed: list[int], runs: int, phi: float, scatter: float) -> NDArray[np.float64]:
    """Rates of so many runs of 300 intervals; neighbours are correlated by phi."""
    steps = np.random.default_rng(seed).normal(size=(runs, 300))
    steps[:, 1:] *= (1 - phi**2) ** 0.5
    for place in range(1, 300):
        steps[:, place] += phi * steps[:, place - 1]
    return 1000 * (1 + scatter * steps)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
@pytest.mark.parametrize("n", [25, 50, 77, 300])
def test_the_engine_and_the_report_estimate_the_same_error(phi: float, n: int) -> None:
    (series,) = rates_near_1000([7, n], 1, phi, 0.05)
    stop = Stop()
    for rate in series[:n]:
        stop.push(rate)
    found = mean_error(np.round(1000 * series[:n]) / 1000)
    printed = found.raised(0.7).stderr / series[:n].mean()
    assert stop.rule.relative_stderr() == pytest.approx(printed, rel=1e-5)


@pytest.mark.parametrize("phi", [0.0, 0.4, 0.8, 0.9])
def test_the_printed_interval_of_a_run_ended_at_a_precision_covers_the_truth(phi: float) -> None:
    held = runs = ended = 0
    for scatter in (0.03, 0.05, 0.1):
        seed = [1, round(phi * 100), round(scatter * 100)]
        for series in rates_near_1000(seed, 400, phi, scatter):
            n, by_rule = Stop().ends(series)
            found = rate_of_intervals(
                float(series[:n].mean()), series[:n].tolist(), until_known=by_rule
            ).plain("ops/s")
            held, runs, ended = held + (found.low <= 1000 <= found.high), runs + 1, ended + by_rule
            assert not by_rule or found.relative_error < BOUND * 1.02
    assert ended
    assert held / runs >= 0.93
