"""Histograms and timelines made of text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from synthetic import assert_golden, run_answer

from kvmark.analysis.summary.chart_data import Timeline, TimelineFault, steps_of
from kvmark.report.model import units
from kvmark.report.views.run import charts_text, run_text
from kvmark.report.views.text_charts import TIMELINE_MARGIN, steps_lines, timeline_lines
from kvmark.stats import Counts

WIDTHS = (40, 60, 80, 120, 160)
HUMPS = Counts.of([20_000 + n for n in range(5_000)] + [900_000_000] * 100)
LEVEL = Timeline("measure", 4 * 10**9, 10**9, (10.0,) * 4, (0.0,) * 4, (1_000,) * 4, ())


def histogram(*kinds: tuple[str, Counts], width: int = 80, group: str = "clients") -> str:
    steps = steps_of("response", {(group, name): counts for name, counts in kinds})
    assert steps is not None
    return "\n".join(line.plain for line in steps_lines(steps, width, "Operations that ended ok"))


def timeline(drawn: Timeline, width: int = 80) -> str:
    return "\n".join(line.plain for line in timeline_lines(drawn, width))


def counts_of(text: str) -> int:
    lines = [line for line in text.splitlines() if "⋮" not in line]
    rows = [line.partition("│")[2] for line in lines]
    return sum(int(n.replace(",", "")) for row in rows for n in re.findall(r" ([\d,]+)\b", row))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_lines_of_a_histogram_show_every_operation(width: int) -> None:
    assert counts_of(histogram(("READ", HUMPS), width=width)) == HUMPS.n


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    kinds = [(name, HUMPS) for name in ("READ", "UPDATE", "READ-MODIFY-WRITE", "SCAN")]
    failing = replace(
        LEVEL, succeeded_per_s=(1_234_567.0,) * (width - TIMELINE_MARGIN),
        failed_per_s=(3.0,) * (width - TIMELINE_MARGIN), response_ns_p99=(None,),
    )  # fmt: skip
    for text in (histogram(*kinds, width=width), timeline(failing, width)):
        assert max(map(len, text.splitlines())) <= width


def test_a_histogram_has_marks_and_wide_gaps_of_one_line() -> None:
    assert_golden("histogram_80.txt", histogram(("READ", HUMPS)))


def test_kinds_are_side_by_side_where_there_is_room() -> None:
    wide = histogram(("READ", HUMPS), ("UPDATE", HUMPS), width=100).splitlines()
    assert [line for line in wide if "READ" in line and "UPDATE" in line]
    narrow = histogram(("READ", HUMPS), ("UPDATE", HUMPS), width=40).splitlines()
    assert not [line for line in narrow if "READ" in line and "UPDATE" in line]


def test_few_operations_have_a_bar_and_a_maximum() -> None:
    text = histogram(("READ", Counts.of([5_000])))
    assert counts_of(text) == 1
    assert text.endswith("max")
    assert "p50" not in text.splitlines()[-1]


def test_a_timeline_has_failures_and_faults_below_their_cells() -> None:
    faults = (TimelineFault("1s kill primary-1 for 2s", 1, 2), TimelineFault("3s pause x", 3, 3))
    failing = replace(LEVEL, failed_per_s=(0.0, 0.0, 3.0, 0.0), faults=faults)
    assert_golden("timeline_80.txt", timeline(failing))
    assert "failed/s" not in timeline(LEVEL)


def test_unknown_values_are_blank() -> None:
    hole = replace(LEVEL, succeeded_per_s=(10.0, None, 0.0, 10.0), response_ns_p99=(None,) * 4)
    text = timeline(hole)
    assert "┤█  █" in text
    assert "p99" not in text.partition("intervals.")[2]


def test_a_run_of_failures_only_has_a_rate_of_nothing() -> None:
    failing = replace(LEVEL, succeeded_per_s=(0.0,) * 4, failed_per_s=(9.0,) * 4)
    text = timeline(failing)
    assert "ops/s 0 ┤\n" in text
    assert "failed/s 9.00 ┤████" in text


def test_a_name_cannot_control_the_terminal() -> None:
    text = histogram(("READ\x1b[2J", HUMPS))
    fault = TimelineFault("\x1b[2J", 0, 0)
    assert "\x1b" not in text + timeline(replace(LEVEL, faults=(fault,)))


def test_the_answer_of_a_run_ends_with_its_pictures() -> None:
    steps = steps_of("response", {("clients", "READ"): HUMPS})
    answer = replace(run_answer(), time_steps=steps, timelines=(LEVEL,))
    assert run_text(answer, 80).plain.endswith(charts_text(answer, 80).plain)
    assert charts_text(answer, 80).plain.startswith("Response time\n")
    assert charts_text(run_answer(), 80).plain == ""


def test_only_zero_has_the_lowest_block() -> None:
    assert units.sparkline([0, 0.001, 50, 100, None], 100) == "▁▂▅█ "
    assert units.sparkline([0, 0], 0) == "▁▁"


def test_contrast_shows_small_changes_between_high_values() -> None:
    assert units.contrast([1000, 1001, 1002]) == "▁▅█"
    assert units.contrast([5, 5]) == "▄▄"
    assert units.contrast([]) == ""


def test_a_bar_above_zero_is_never_empty_or_too_long() -> None:
    assert units.bar(0, 100, 10) == ""
    assert units.bar(0.001, 100, 10) == "▏"
    assert units.bar(100, 100, 10) == "█" * 10
    assert units.bar(55, 100, 10) == "█████▌"


def test_columns_rise_from_the_base_line() -> None:
    assert units.columns([0, 50, 100, None], 100, 2) == ["  █ ", " ██ "]


def test_where_the_encoding_lacks_blocks_there_are_ascii_signs() -> None:
    text = histogram(("READ", HUMPS)) + timeline(LEVEL) + "…–±µ·"
    for encoding in ("ascii", "latin-1"):
        plain = units.writable(text, encoding)
        assert plain.encode(encoding)
        assert "?" not in plain
    assert units.writable(text, "utf-8") == text
