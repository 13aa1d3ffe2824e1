"""Scaling laws and capacities as people read them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvmark.analysis.models.scaling import Observation, ScalingLaw, scaling_law
from kvmark.report.format.html import html
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


def test_a_peak_is_said_with_its_interval() -> None:
    said = scaling_sentence(law(0.0008))
    assert re.fullmatch(r"Throughput peaks at 34\.8 \(\S+ to \S+\) clients, with .+ ops/s\.", said)


def test_without_a_peak_the_highest_that_was_measured_is_said() -> None:
    assert "levels off as far as was measured" in scaling_sentence(law(0.0))


def test_only_what_keeps_pace_is_said_to_rise_in_proportion() -> None:
    straight = scaling_law("", "clients", [Observation(n, 1_000.0 * n) for n in LEVELS])
    capped = scaling_law("", "clients", [Observation(n, 1_000.0 * min(n, 8)) for n in LEVELS])
    assert "rises in proportion" in scaling_sentence(straight)
    assert "rises in proportion" not in scaling_sentence(capped)


def test_without_a_law_the_reason_is_said_and_the_levels_are_shown() -> None:
    few = scaling_law("lookups", "nodes", [Observation(4, 2_382.8), Observation(17, 3_265.7)])
    text = " ".join(scaling_text(ScalingAnswer("Scaling", (few,)), 100).plain.split())
    assert "No law is fitted over nodes." in text
    assert "1.37 times as" in text
    assert "2,383" in text
    assert "σ" not in text


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    answer = ScalingAnswer("Scaling", (law(0.0008), law(0.0, "writes")))
    assert max(map(len, scaling_text(answer, width).plain.splitlines())) <= width


def test_the_figure_has_the_points_the_line_and_the_peak(tmp_path: Path) -> None:
    figure = scaling_figure([law(0.0008), law(0.0, "writes")])
    assert figure.data["series"].value_counts().sort("series").rows() == [
        ("law", 162),
        ("measured", 14),
        ("peak", 1),
    ]
    figure.save_svg(tmp_path / "scaling.svg")
    assert "<svg" in (tmp_path / "scaling.svg").read_text()


def test_the_page_says_the_law_and_what_speaks_against_it() -> None:
    page = scaling_page(ScalingAnswer("Scaling", (law(0.0),)), ("kvmark", "scaling"))
    text = html(page)
    assert "levels off" in text
    assert "no_decline" in text


def answer(found: str, low: float | None, high: float | None, reason: str = "") -> CapacityAnswer:
    objective = parse_objective("p99<10ms")
    lines = tuple(
        CapacityLine(rate, "confirm", f"run-{rate:g}", outcome, (), {"p99<10ms": ns}, rate, ())
        for rate, outcome, ns in ((500.0, "holds", 9.1e6), (515.0, "missed", 1.001e7)) * 2
    )
    estimate = Estimate(507.0, 503.0, 512.0, 4, "ops/s", "") if found == "found" else None
    return CapacityAnswer(
        workload="ycsb/a",
        system="redis://127.0.0.1:6379",
        objectives=(objective,),
        found=found,  # type: ignore[arg-type]
        low=low,
        high=high,
        reason=reason,
        estimate=estimate,
        tag="capacity:20261123-0615-ab12",
        lines=lines,
        clients=16,
    )


def test_a_capacity_is_said_with_its_interval_and_the_runs_at_its_ends() -> None:
    assert capacity_sentence(answer("found", 500.0, 515.0)) == (
        "The capacity of ycsb/a on redis://127.0.0.1:6379 with p99<10ms is 507 (503 to 512) ops/s,"
        " with its 95 % interval: 2 of 2 runs held at 500 ops/s and 0 of 2 at 515 ops/s."
    )


def test_ends_of_a_search_are_not_called_an_interval() -> None:
    bracket = Estimate(500.0, None, None, 4, "ops/s", "highest rate that held")
    said = capacity_sentence(replace(answer("found", 500.0, 515.0), estimate=bracket))
    assert "lies between 500 and 515 ops/s: 2 of 2 runs held at 500 ops/s" in said
    assert said.endswith("no confidence interval.")
    assert "95 %" not in said


def test_figures_near_the_bound_are_not_rounded_onto_it() -> None:
    assert "10.01" in capacity_text(answer("found", 500.0, 515.0), 120).plain


def test_without_a_capacity_the_reason_is_said() -> None:
    said = capacity_sentence(answer("nowhere", None, 500.0, "even at 5 ops/s p99<10ms was missed"))
    assert said.startswith("There is no capacity of ycsb/a")
    assert said.endswith("even at 5 ops/s p99<10ms was missed.")


def test_an_answer_without_an_upper_end_says_at_least() -> None:
    said = capacity_sentence(answer("generator", 500.0, None, "the generator was late"))
    assert "is at least 500 ops/s: the generator was late." in said
