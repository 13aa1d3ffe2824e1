"""Histograms and timelines made of text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from synthetic import assert_golden

from kvmark.analysis.summary.chart_data import Timeline, TimelineFault, steps_of
from kvmark.records.watch import Cells
from kvmark.report.model import units
from kvmark.report.views.text_charts import TIMELINE_MARGIN, steps_lines, timeline_lines
from kvmark.stats import Counts

HUMPS = Counts.of([20_000 + n for n in range(5_000)] + [900_000_000] * 100)
FLAT = Cells((10.0,) * 4, (0.0,) * 4, (1_000,) * 4)


def level(*faults: TimelineFault, **values: tuple[float | None, ...]) -> Timeline:
    """A timeline of four seconds, with other values or faults."""
    return Timeline("measure", 4 * 10**9, 10**9, replace(FLAT, **values), faults)


def histogram(*kinds: tuple[str, Counts], width: int = 80) -> str:
    steps = steps_of("response", {("clients", name): counts for name, counts in kinds})
    assert steps is not None
    return "\n".join(line.plain for line in steps_lines(steps, width, "Operations that ended ok"))


def timeline(drawn: Timeline, width: int = 80) -> str:
    return "\n".join(line.plain for line in timeline_lines(drawn, width))


def counts_of(text: str) -> int:
    lines = [line for line in text.splitlines() if "⋮" not in line]
    rows = [line.partition("│")[2] for line in lines]
    return sum(int(n.replace(",", "")) for row in rows for n in re.findall(r" ([\d,]+)\b", row))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
def test_a_chart_shows_every_operation_and_is_no_wider_than_the_terminal(width: int) -> None:
    assert counts_of(histogram(("READ", HUMPS), width=width)) == HUMPS.n
    kinds = [(name, HUMPS) for name in ("READ", "UPDATE", "READ-MODIFY-WRITE", "SCAN")]
    failing = level(
        succeeded_per_s=(1_234_567.0,) * (width - TIMELINE_MARGIN),
        failed_per_s=(3.0,) * (width - TIMELINE_MARGIN), response_ns_p99=(None,),
    )  # fmt: skip
    for text in (histogram(*kinds, width=width), timeline(failing, width)):
        assert max(map(len, text.splitlines())) <= width


def test_a_histogram_has_marks_and_wide_gaps_of_one_line() -> None:
    assert_golden("histogram_80.txt", histogram(("READ", HUMPS)))


def test_kinds_are_side_by_side_where_there_is_room() -> None:
    for width, fits in ((100, True), (40, False)):
        lines = histogram(("READ", HUMPS), ("UPDATE", HUMPS), width=width).splitlines()
        assert any("READ" in line and "UPDATE" in line for line in lines) == fits


def test_few_operations_have_a_bar_and_a_maximum() -> None:
    text = histogram(("READ", Counts.of([5_000])))
    assert counts_of(text) == 1
    assert text.endswith(" max")


def test_a_timeline_has_failures_and_faults_below_their_cells() -> None:
    faults = (TimelineFault("1s kill primary-1 for 2s", 1, 2), TimelineFault("3s pause x", 3, 3))
    failing = level(*faults, failed_per_s=(0.0, 0.0, 3.0, 0.0))
    assert_golden("timeline_80.txt", timeline(failing))
    assert "failed/s" not in timeline(level())


def test_unknown_values_are_blank_and_a_rate_of_nothing_has_a_line() -> None:
    hole = level(succeeded_per_s=(10.0, None, 0.0, 10.0), response_ns_p99=(None,) * 4)
    text = timeline(hole)
    assert "┤█  █" in text
    assert "p99" not in text.partition("intervals.")[2]
    text = timeline(level(succeeded_per_s=(0.0,) * 4, failed_per_s=(9.0,) * 4))
    assert "ops/s 0 ┤\n" in text
    assert "failed/s 9.00 ┤████" in text


def test_a_name_cannot_control_the_terminal() -> None:
    text = histogram(("READ\x1b[2J", HUMPS))
    fault = TimelineFault("\x1b[2J", 0, 0)
    assert "\x1b" not in text + timeline(level(fault))


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        # Only 0 has the lowest block.
        (units.sparkline([0, 0.001, 50, 100, None], 100), "▁▂▅█ "),
        (units.sparkline([0, 0], 0), "▁▁"),
        # Contrast shows small changes between high values.
        (units.contrast([1000, 1001, 1002]), "▁▅█"),
        (units.contrast([5, 5]), "▄▄"),
        (units.contrast([]), ""),
        # A bar above 0 is neither empty nor too long.
        (units.bar(0, 100, 10), ""),
        (units.bar(0.001, 100, 10), "▏"),
        (units.bar(100, 100, 10), "█" * 10),
        (units.bar(55, 100, 10), "█████▌"),
        ("\n".join(units.columns([0, 50, 100, None], 100, 2)), "  █ \n ██ "),
    ],
)
def test_blocks_rise_with_their_values(blocks: str, text: str) -> None:
    assert blocks == text


def test_where_the_encoding_lacks_blocks_there_are_ascii_signs() -> None:
    text = histogram(("READ", HUMPS)) + timeline(level()) + "…–±µ·"
    for encoding in ("ascii", "latin-1"):
        plain = units.writable(text, encoding)
        assert plain.encode(encoding)
        assert "?" not in plain
    assert units.writable(text, "utf-8") == text
