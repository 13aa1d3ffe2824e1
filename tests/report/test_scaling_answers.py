"""Scaling laws and capacities as sentences, tables and figures."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from kvmark.analysis.capacity import Capacity, Found, Outcome, RateRun
from kvmark.analysis.scaling import Observation, ScalingLaw, scaling_law
from kvmark.report.format import html
from kvmark.report.views.capacity import CapacityAnswer, capacity_sentence, capacity_text
from kvmark.report.views.scaling import scaling_page, scaling_sentence, scaling_text
from kvmark.spec.metric import parse_objective
from kvmark.stats import Estimate

LEVELS = (1, 2, 4, 8, 16, 32, 64)


def usl(kappa: float) -> Callable[[int], float]:
    return lambda n: 1_000 * n / (1 + 0.03 * (n - 1) + kappa * n * (n - 1))


def law(kappa: float, title: str = "reads") -> ScalingLaw:
    return scaling_law(title, "clients", [Observation(n, usl(kappa)(n)) for n in LEVELS])


@pytest.mark.parametrize(
    ("throughput", "sentence"),
    [
        (usl(0.0008), r"Throughput peaks at 34\.8 \(\S+ to \S+\) clients, with .+ ops/s\."),
        (usl(0.0), "Throughput levels off as far as was measured; .*"),
        (lambda n: 1_000.0 * n, "Throughput rises in proportion as far as was measured; .*"),
        (lambda n: 1_000.0 * min(n, 8), "(?!.*rises in proportion).*"),
    ],
)
def test_a_sentence_has_the_peak_or_the_highest(
    throughput: Callable[[int], float], sentence: str
) -> None:
    fitted = scaling_law("", "clients", [Observation(n, throughput(n)) for n in LEVELS])
    assert re.fullmatch(sentence, scaling_sentence(fitted))


def test_without_a_law_the_reason_and_the_levels_are_printed() -> None:
    few = scaling_law("lookups", "nodes", [Observation(4, 2_382.8), Observation(17, 3_265.7)])
    text = " ".join(scaling_text("Scaling", (few,), 100).plain.split())
    for expected in ("No law is fitted over nodes.", "1.37 times as", "2,383"):
        assert expected in text
    assert "σ" not in text


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    laws = (law(0.0008), law(0.0, "writes"))
    assert max(map(len, scaling_text("Scaling", laws, width).plain.splitlines())) <= width


def test_the_page_has_the_laws_their_caveats_and_their_figure() -> None:
    laws = (law(0.0008), law(0.0, "writes"))
    page = scaling_page("Scaling", laws, ("kvmark", "scaling"))
    text = html(page)
    assert "levels off" in text
    assert "no_decline" in text
    (figure,) = page.figures
    series = figure.data["series"].value_counts().sort("series").rows()
    assert series == [("law", 162), ("measured", 14), ("peak", 1)]
    assert "<svg" in figure.svg()


def capacity(
    low: float | None, high: float | None, reason: str = "", limit: Found = "nowhere"
) -> CapacityAnswer:
    ends: list[tuple[float, Outcome, float]]
    ends = [(500.0, "holds", 9.1e6), (515.0, "missed", 1.001e7)]
    runs = tuple(
        RateRun(rate, "confirm", f"run-{rate:g}", outcome, (), {"p99<10ms": ns}, rate, clients=16)
        for rate, outcome, ns in ends * 2
    )
    found = Capacity(limit if reason else "found", low, high, reason, runs, 16)
    estimate = None if reason else Estimate(507.0, 503.0, 512.0, 4, "ops/s", "")
    objectives = (parse_objective("p99<10ms"),)
    return CapacityAnswer("ycsb/a", "redis://127.0.0.1:6379", objectives, found, estimate)


def test_a_capacity_has_its_interval_and_the_runs_at_its_ends() -> None:
    assert capacity_sentence(capacity(500.0, 515.0)) == (
        "The capacity of ycsb/a on redis://127.0.0.1:6379 with p99<10ms is 507 (503 to 512) ops/s,"
        " with its 95 % interval: 2 of 2 runs held at 500 ops/s and 0 of 2 at 515 ops/s."
    )
    # Three digits would round it to the bound.
    text = capacity_text(capacity(500.0, 515.0), 120).plain
    assert re.search(r" p99<10ms  outcome .*\n.* 9.1 ms .*\n.* 10.01 ms ", text, re.DOTALL)


def test_ends_of_a_search_are_not_called_an_interval() -> None:
    bracket = Estimate(500.0, None, None, 4, "ops/s", "highest rate that held")
    sentence = capacity_sentence(replace(capacity(500.0, 515.0), estimate=bracket))
    assert "lies between 500 and 515 ops/s: 2 of 2 runs held at 500 ops/s" in sentence
    assert sentence.endswith("no confidence interval.")
    assert "95 %" not in sentence


def test_a_capacity_without_an_end_has_a_reason() -> None:
    none = capacity_sentence(capacity(None, 500.0, "even at 5 ops/s p99<10ms was missed"))
    assert none.startswith("There is no capacity of ycsb/a")
    assert none.endswith("even at 5 ops/s p99<10ms was missed.")
    unknown = capacity(None, 500.0, "even at 5 ops/s 20 % were late", "generator")
    assert "isn't known: in 0 of 4 runs the generator was late" in capacity_sentence(unknown)
    least = capacity_sentence(capacity(500.0, None, "the generator was late"))
    assert "is at least 500 ops/s: the generator was late." in least
