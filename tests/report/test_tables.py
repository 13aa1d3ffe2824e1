"""Tables, and numbers as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import assert_golden, run_answer, run_lines, sequence_answer, sequence_row

from kvmark.analysis.summary.chart_data import Stretch
from kvmark.analysis.summary.run import Times
from kvmark.analysis.verdict.cases import SequenceRow
from kvmark.records import Case
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Column, Grid, to_markdown, to_text
from kvmark.report.views.run import around_faults_grid, run_facts, run_text
from kvmark.report.views.runs_list import runs_text
from kvmark.report.views.screen import run_screen, sequence_screen
from kvmark.report.views.sequence import sequence_grid
from kvmark.stats import Counts, Estimate

# Three cases: two sizes of one workload, and one whose verdict is SUSPECT.
ROWS = (sequence_row("load", 1_000), sequence_row("load", 10_000), sequence_row("E", 1_000))
SMALL = replace(sequence_answer(), rows=ROWS)
TEXTS = {
    **{f"sequence_{width}.txt": to_text(sequence_grid(SMALL), width).plain for width in (80, 140)},
    "sequence_screen.txt": sequence_screen(SMALL, 120).plain,
    "run_screen.txt": run_screen(run_answer(), 120).plain,
    "sequence.md.txt": to_markdown(sequence_grid(SMALL)),
    "run_120.txt": run_text(run_answer(), 120).plain,
    "runs_120.txt": runs_text(run_lines(), 120).plain,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_equals_its_golden_file(name: str) -> None:
    """Errors with their n, published figures, verdicts, and dashes for too few operations."""
    assert_golden(name, TEXTS[name])


def column(grid: Grid, heading: str) -> list[str]:
    place = [column.heading for column in grid.columns].index(heading)
    return [row[place].text for row in grid.rows]


def grid_of(*rows: SequenceRow) -> Grid:
    return sequence_grid(replace(sequence_answer(), rows=rows))


def test_a_column_of_some_cases_is_there_only_with_such_a_case() -> None:
    grid = grid_of(sequence_row("A", 1_000, runs=5), sequence_row("E", 1_000, runs=1))
    assert column(grid, "n") == ["5", "1"]
    assert grid.notes[0].endswith("n = 1 to 5 runs; where n is 1, over the intervals of that run.")
    row = sequence_row("A", 1_000)
    limited = replace(row, case=Case("A", "RocksDB", 1_000, 2_000.0), published=None)
    assert column(grid_of(limited, row), "target ops/s") == ["2,000", "max"]
    assert not {"n", "target ops/s"} & {one.heading for one in sequence_grid(SMALL).columns}
    own = grid_of(sequence_row("delete", 1_000))
    assert "published" not in dict(own.bands)
    assert not any("Published" in note for note in own.notes)


@pytest.mark.parametrize(("reads", "told"), [
    (51_234, "p50 3.00 µs, p99 12.0 µs, 51,234 reads sampled"),
    (100, "p50 3.00 µs, 100 reads sampled"),
])  # fmt: skip
def test_a_run_says_how_late_its_generator_stamped(reads: int, told: str) -> None:
    low = np.array([3000, 12_000])
    lag = Times.of(Counts(low, low, np.array([reads - reads // 20, reads // 20])))
    run = run_answer()
    assert "Generator lag" not in {fact.label for fact in run_facts(run)}
    (phase,) = run.summary.phases
    summary = replace(run.summary, phases=(replace(phase, generator_lag=lag),))
    facts = {fact.label: fact.text for fact in run_facts(replace(run, summary=summary))}
    assert facts["Generator lag"] == told


def test_a_stretch_without_a_completed_operation_has_no_share_of_failures() -> None:
    times = run_answer().summary.phases[0].operations[0].response
    quiet = Stretch("before", 4_000_000_000, 6_000_000_000, 900, 100, times)
    gone = Stretch("2s kill node-1", 6_000_000_000, 9_000_000_000, 0, 0, Times.of(Counts.empty()))
    first, second = ([cell.text for cell in row] for row in around_faults_grid([quiet, gone]).rows)
    assert first[:5] == ["before", "0", "2.00", "450", "10.0"]
    assert second == ["2s kill node-1", "2.00", "3.00", "0", *[units.ABSENT] * 5]


@pytest.mark.parametrize("width", range(80, 161, 5))
def test_every_cell_is_shown_and_no_line_is_wider_than_the_terminal(width: int) -> None:
    texts = to_text(sequence_grid(sequence_answer()), width), run_text(run_answer(), width)
    assert max(line.cell_len for text in texts for line in text.split("\n")) <= width
    cells = {cell.text for row in sequence_grid(sequence_answer()).rows for cell in row}
    assert all(cell in texts[0].plain for cell in cells)


def test_a_name_can_neither_command_a_terminal_nor_break_out_of_a_markdown_table() -> None:
    grid = Grid("\x1b[2J", (Column("name", number=False),), ((Cell("a\x1b]0;x\x07b\nc"),),))
    assert not {"\x1b", "\x07"} & set(to_text(grid, 80).plain)
    grid = Grid("", (Column("name", number=False),), ((Cell("a|b<script>\n[x](y)"),),))
    assert to_markdown(grid).splitlines()[2] == r"| a\|b&lt;script&gt; \[x\](y) |"


SECONDS, MICROS = units.TIME_UNITS[3], units.TIME_UNITS[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.14159, "3.14"), (51_234.5, "51,234"), (0.00123456, "0.00123"), (99.96, "100"),
        (9.999, "10.0"), (0.0, "0"), (None, "–"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (17_953.32, 312.4, "17,950 ± 310"),
        (12.3456, 0.0312, "12.346 ± 0.031"),
        (504_000.0, 10_080.0, "504,000 ± 10,000"),
        (12.0, None, "12.0"),
        (12.0, 0.0, "12.0"),
    ],
)
def test_an_estimate_ends_at_its_error(value: float, error: float | None, text: str) -> None:
    low, high = (None, None) if error is None else (value - error, value + error)
    assert units.estimate(Estimate(value, low, high, 20, "ops/s", "t")) == text


@given(st.floats(1e-9, 1e15), st.integers(2, 6))
def test_rounding_keeps_the_number(value: float, digits: int) -> None:
    shown = float(units.significant(value, digits).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * 1.001)


def test_times_and_sizes_have_a_suitable_unit() -> None:
    assert units.time_unit([900, 15_000, 95_000]).name == "µs"
    assert units.time_unit([15_000_000, None, 2_000_000_000, 40_000_000]).name == "ms"
    assert units.time_unit([None]).name == "µs"
    assert [units.with_unit(ns) for ns in (95_012, 2.5e9, None)] == ["95.0 µs", "2.50 s", "–"]
    assert [units.size(n) for n in (999, 1_500, 312_000_000)] == ["999 B", "1.50 kB", "312 MB"]


@pytest.mark.parametrize(
    ("time_ns", "unit", "text"),
    [
        (56_400, SECONDS, "56.4 µs"), (9_120_000, SECONDS, "9.12 ms"),
        (20_000_000, SECONDS, "0.0200"), (2.02e9, MICROS, "2.02 s"),
        (12_345_000, MICROS, "12,345"), (0, SECONDS, "0"), (None, SECONDS, "–"),
    ],
)  # fmt: skip
def test_a_time_far_from_its_unit_has_another(
    time_ns: float | None, unit: units.TimeUnit, text: str
) -> None:
    assert units.duration(time_ns, unit) == text
