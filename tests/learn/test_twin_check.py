"""The judgement of each figure, of all, and its sentence."""

import pytest

from kvmark.learn import TwinCheck, TwinFigure
from kvmark.report.views.trace import twin_sentence, twin_text
from kvmark.stats import Estimate

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
