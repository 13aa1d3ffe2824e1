"""Scaling laws and capacities as sentences, tables and figures."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvmark.analysis.scaling import Observation, ScalingLaw, scaling_law
from kvmark.report.format import html
from kvmark.report.views.capacity import (
    CapacityAnswer,
    CapacityLine,
    capacity_sentence,
    capacity_text,
)
from kvmark.report.views.scaling import (
    ScalingAnswer,
    scaling_figure,
    scaling_page,
    scaling_sentence,
    scaling_text,
)
from kvmark.spec.objective import parse_objective
from kvmark.stats import Estimate

LEVELS = (1, 2, 4, 8, 16, 32, 64)


def law(kappa: float, title: str = "reads") -> ScalingLaw:
    figures = [
        Observation(n, 1_000 * n / (1 + 0.03 * (n - 1) + kappa * n * (n - 1))) for n in LEVELS
    ]
    return scaling_law(title, "clients", figures)


def test_a_sentence_has_the_peak_with_its_interval_or_the_highest_throughput() -> None:
    assert re.fullmatch(
        r"Throughput peaks at 34\.8 \(\S+ to \S+\) clients, with .+ ops/s\.",
        scaling_sentence(law(0.0008)),
    )
    assert "levels off as far as was measured" in scaling_sentence(law(0.0))


def test_only_proportional_throughput_rises_in_proportion() -> None:
    straight = scaling_law("", "clients", [Observation(n, 1_000.0 * n) for n in LEVELS])
    capped = scaling_law("", "clients", [Observation(n, 1_000.0 * min(n, 8)) for n in LEVELS])
    assert "rises in proportion" in scaling_sentence(straight)
    assert "rises in proportion" not in scaling_sentence(capped)


def test_without_a_law_the_reason_and_the_levels_are_printed() -> None:
    few = scaling_law("lookups", "nodes", [Observation(4, 2_382.8), Observation(17, 3_265.7)])
    text = " ".join(scaling_text(ScalingAnswer("Scaling", (few,)), 100).plain.split())
    for expected in ("No law is fitted over nodes.", "1.37 times as", "2,383"):
        assert expected in text
    assert "σ" not in text


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    answer = ScalingAnswer("Scaling", (law(0.0008), law(0.0, "writes")))
    assert max(map(len, scaling_text(answer, width).plain.splitlines())) <= width


def test_the_figure_has_the_points_the_line_and_the_peak(tmp_path: Path) -> None:
    figure = scaling_figure([law(0.0008), law(0.0, "writes")])
    series = figure.data["series"].value_counts().sort("series").rows()
    assert series == [("law", 162), ("measured", 14), ("peak", 1)]
    assert "<svg" in figure.svg()


def test_the_page_has_the_law_and_its_caveats() -> None:
    text = html(scaling_page(ScalingAnswer("Scaling", (law(0.0),)), ("kvmark", "scaling")))
    assert "levels off" in text
    assert "no_decline" in text


def capacity(low: float | None, high: float | None, reason: str = "") -> CapacityAnswer:
    lines = tuple(
        CapacityLine(rate, "confirm", f"run-{rate:g}", outcome, {"p99<10ms": ns}, rate, 16)
        for rate, outcome, ns in ((500.0, "holds", 9.1e6), (515.0, "missed", 1.001e7)) * 2
    )
    return CapacityAnswer(
        workload="ycsb/a",
        system="redis://127.0.0.1:6379",
        objectives=(parse_objective("p99<10ms"),),
        low=low,
        high=high,
        reason=reason,
        estimate=None if reason else Estimate(507.0, 503.0, 512.0, 4, "ops/s", ""),
        lines=lines,
        clients=16,
    )


def test_a_capacity_has_its_interval_and_the_runs_at_its_ends() -> None:
    assert capacity_sentence(capacity(500.0, 515.0)) == (
        "The capacity of ycsb/a on redis://127.0.0.1:6379 with p99<10ms is 507 (503 to 512) ops/s,"
        " with its 95 % interval: 2 of 2 runs held at 500 ops/s and 0 of 2 at 515 ops/s."
    )
    # Three digits would round it to the bound.
    assert "10.01" in capacity_text(capacity(500.0, 515.0), 120).plain


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
    least = capacity_sentence(capacity(500.0, None, "the generator was late"))
    assert "is at least 500 ops/s: the generator was late." in least
