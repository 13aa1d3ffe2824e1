"""`learn` finds the laws of a generated trace, and reports its losses; the judgement of a twin."""

from pathlib import Path

import numpy as np
import pytest

from kvmark.analysis.trace import describe
from kvmark.learn import TwinCheck, TwinFigure, drawn_figures, learn, workload_text
from kvmark.learn.drawn import keys_of_workload
from kvmark.learn.keys import fit_keys
from kvmark.learn.learning import fit_arrivals, fit_sizes
from kvmark.report.views.trace import twin_sentence, twin_text
from kvmark.spec.workload import parse_workload
from kvmark.stats import Estimate
from learn.planted import AGAIN, ZIPFIAN, S, drawn, poisson, workload, written


def test_a_planted_law_of_copies_is_found() -> None:
    fit = fit_keys(drawn(AGAIN, 200_000).keys)
    assert fit.law["share"] == pytest.approx(0.5, abs=0.03)
    assert fit.law["of"]["theta"] == pytest.approx(0.9, abs=0.04)
    assert fit.records == pytest.approx(5000, rel=0.1)
    found = np.array([*fit.law["gaps"], *[0] * 8][:8]) / sum(fit.law["gaps"])
    assert found == pytest.approx(np.array(AGAIN["gaps"]) / 14, abs=0.03)
    assert fit.gaps_off < 0.01


def test_independent_keys_and_a_shuffled_order_have_the_popularity_and_no_copies() -> None:
    fit = fit_keys(drawn(ZIPFIAN, 200_000).keys)
    shuffled = fit_keys(np.random.default_rng(3).permutation(drawn(AGAIN, 200_000).keys))
    for law, tolerance in ((fit.law, 0.03), (shuffled.law, 0.04)):
        assert law["distribution"] == "zipfian"
        assert law["theta"] == pytest.approx(0.9, abs=tolerance)
    assert fit.gaps_off < 0.01


def test_popular_keys_beyond_a_zipfian_law_have_individual_shares() -> None:
    head = {"distribution": "head", "shares": [0.2] * 3, "theta": 0.6}
    fit = fit_keys(drawn(head, 100_000).keys)
    assert fit.law["distribution"] == "head"
    assert fit.law["shares"][:3] == pytest.approx([0.2] * 3, abs=0.01)
    assert fit.popularity_off < 0.02


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (ZIPFIAN, "the right popularity in a shuffled order"),
        ({**AGAIN, "of": {**ZIPFIAN, "theta": 0.5}}, "another popularity"),
        ({**AGAIN, "share": 0.2}, "fewer copies"),
    ],
)
def test_another_law_of_keys_has_other_hit_ratios(
    tmp_path: Path, keys: dict[str, object], what: str
) -> None:
    trace = written(tmp_path, drawn(AGAIN), poisson(60_000, 5000))
    figures = list(drawn_figures(trace, workload(keys), range(11, 16)))
    assert "unlike" in [one.judgement for one in figures], what


def test_the_number_of_records_can_be_replaced(tmp_path: Path) -> None:
    trace = written(tmp_path, drawn(AGAIN), poisson(60_000, 5000))
    learned = learn(trace, "more", records=1_000_000)
    spec = parse_workload(workload_text(learned), "more.yaml")
    assert spec.dataset.records == 1_000_000
    assert keys_of_workload(spec, 10_000, 1).max() > 100_000


def test_losses_are_reported_by_name(tmp_path: Path) -> None:
    learned = learn(written(tmp_path, drawn(AGAIN), poisson(60_000, 5000)), "twin")
    names = [part.name for part in learned.parts]
    assert names == [
        "kinds", "popularity", "locality", "read after write", "sizes", "arrivals", "sessions",
    ]  # fmt: skip
    assert all(part.loses for part in learned.parts)
    text = workload_text(learned)
    assert all(f"# - {name}: " in text for name in names)
    assert "20 clients" in text


def test_arrivals_are_distinguished_by_their_dispersion(tmp_path: Path) -> None:
    count = 60_000
    chance, bursts, now = np.random.default_rng(7), [], 0.0
    while sum(map(len, bursts)) < count:
        for rate, mean_s in ((20_000, 0.2), (1000, 1.0)):
            length_s = chance.exponential(mean_s)
            inside = chance.random(chance.poisson(rate * length_s)) * length_s
            bursts.append(now + np.sort(inside))
            now += length_s
    instants = {
        "even": np.arange(count) * (S // 5000),
        "poisson": poisson(count, 5000),
        "bursts": (np.concatenate(bursts)[:count] * S).astype(np.int64),
    }
    fits = {}
    for name, at_ns in instants.items():
        (tmp_path / name).mkdir()
        trace = written(tmp_path / name, drawn(ZIPFIAN), at_ns)
        fits[name] = fit_arrivals(trace, describe(trace).rate)
    even, independent, bursty = (fits[name] for name in instants)
    assert (even.process, even.rate) == ("constant", pytest.approx(5000, rel=0.01))
    assert (independent.process, independent.rate) == ("poisson", pytest.approx(5000, rel=0.02))
    assert isinstance(bursty.rate, str)
    own, law = bursty.dispersion["10 ms"]
    assert 0.5 < law / own < 2


def test_sizes_have_the_mean_of_the_trace() -> None:
    chance = np.random.default_rng(1)
    sizes = np.clip(chance.lognormal(5, 1, 20_000), 1, 50_000).astype(np.int64)
    fit = fit_sizes(sizes)
    assert fit.off < 0.05
    assert fit.law_mean == pytest.approx(fit.mean, rel=0.02)
    assert fit_sizes(np.full(10, 77)).law == 77


WITHIN, BEYOND, ON = (-0.01, 0.02), (0.06, 0.1), (-0.01, 0.06)


def figure(ends: tuple[float, float] | None) -> TwinFigure:
    low, high = ends or (None, None)
    found = Estimate(0.03, low, high, 5, "share", "a test")
    return TwinFigure("throughput", 100.0, 103.0, found, margin=0.05)


@pytest.mark.parametrize(
    ("ends", "judgement"),
    [
        (WITHIN, "alike"),
        (BEYOND, "unlike"),
        ((-0.1, -0.06), "unlike"),
        (ON, "unknown"),
        ((-0.2, 0.2), "unknown"),
        (None, "unknown"),
    ],
)
def test_a_figure_is_judged_by_its_interval_and_its_margin(
    ends: tuple[float, float] | None, judgement: str
) -> None:
    assert figure(ends).judgement == judgement


def test_one_figure_beyond_its_margin_fails_the_check() -> None:
    assert TwinCheck((figure(WITHIN), figure(ON), figure(BEYOND))).judgement == "unlike"
    assert TwinCheck((figure(WITHIN), figure(ON))).judgement == "unknown"
    assert TwinCheck((figure(WITHIN),)).judgement == "alike"


def test_the_answer_names_the_judgement_and_its_figures() -> None:
    twin, none, open_ = (TwinCheck((figure(ends),)) for ends in (WITHIN, BEYOND, ON))
    assert "is a twin of the trace" in twin_text(twin, 100).plain
    assert twin_sentence(none) == "The workload is no twin of the trace: throughput."
    assert twin_sentence(open_).endswith("undecided: throughput; give more --blocks.")
