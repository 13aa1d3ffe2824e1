"""Tables, and numbers as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import DRIFT, assert_golden, run_answer, run_lines, sequence_answer, sequence_row

from kvmark.analysis.compare.bounds import ObjectiveFigure
from kvmark.analysis.summary.chart_data import Stretch
from kvmark.analysis.summary.faults import FaultEffect
from kvmark.analysis.summary.run import SweepSummary, Times
from kvmark.analysis.verdict.cases import SequenceRow
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level
from kvmark.records import Case
from kvmark.records.model import LostWrite, LostWritesRecord
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Column, Grid, to_markdown, to_text
from kvmark.report.views.run import around_faults_grid, run_facts, run_sentence, run_text
from kvmark.report.views.runs_list import runs_text
from kvmark.report.views.screen import run_screen, sequence_screen
from kvmark.report.views.sequence import sequence_grid
from kvmark.spec.metric import parse_objective
from kvmark.stats import Counts, Estimate

# Three cases: two sizes of one workload, and one whose verdict is SUSPECT.
ROWS = (sequence_row("load", 1_000), sequence_row("load", 10_000), sequence_row("E", 1_000))
SMALL = replace(sequence_answer(), rows=ROWS)
FIRST = LostWrite("a\x1bb", 3, 10**9, 1_002_000_000, "measure", "clients", "value", "incomplete")
LAST = replace(FIRST, key="c", field=None, acknowledged_at_ns=2_500_000_000, found="missing")
LOST = LostWritesRecord(1_002_000_000, 2_500_000_000, (FIRST, LAST))
SWEEP = SweepSummary(100, 100, 98, 1, 1, 0, 0, 0, 0, 0, LOST)
KILL = FaultEffect("2s kill node-1", "node-1", 2_600_000_000, None, 10**9, None, None, None, {})
KILLED = replace(run_answer().summary, sweep=SWEEP, faults=(KILL,))
TEXTS = {
    **{f"sequence_{width}.txt": to_text(sequence_grid(SMALL), width).plain for width in (80, 140)},
    "sequence_screen.txt": sequence_screen(SMALL, 120).plain,
    "run_screen.txt": run_screen(run_answer(), 120).plain,
    "run_lost.txt": run_screen(replace(run_answer(), summary=KILLED), 100).plain,
    "sequence.md.txt": to_markdown(sequence_grid(SMALL)),
    "run_120.txt": run_text(run_answer(), 120).plain,
    "runs_120.txt": runs_text(run_lines(), 120).plain,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_equals_its_golden_file(name: str) -> None:
    """Errors with their n, published figures, verdicts, and dashes for too few operations."""
    assert_golden(name, TEXTS[name])


@pytest.mark.parametrize(("judgement", "suffix"), [
    (Level.INVALID, ", but the run is INVALID: too many errors."), (Level.SUSPECT, "."),
])  # fmt: skip
def test_a_headline_says_that_a_run_is_invalid_and_counts_its_reasons(
    judgement: Level, suffix: str
) -> None:
    held = ObjectiveFigure(parse_objective("p99<10ms"), 8_978_000.0)
    sweep = SweepSummary(100, 100, 100, *[0] * 7, None)
    reasons = [DRIFT, replace(DRIFT, code="too_many_errors", level=judgement)]
    run = run_answer()
    run = replace(
        run, objectives=(held,), verdict=Verdict.of(reasons[::-1]),
        summary=replace(run.summary, sweep=sweep),
    )  # fmt: skip
    sentence = run_sentence(run)
    assert f"p99<10ms held with 8.978 ms{suffix}" in sentence
    assert f"had lost an acknowledged write{suffix}" in sentence
    number = {Level.INVALID: "one reason", Level.SUSPECT: "2 reasons"}[judgement]
    assert sentence.endswith(f"The run is {judgement.value}, for {number}.")


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
    summary = replace(run.summary, phases=(replace(phase, generator_lag=lag, rows=25_092),))
    facts = {fact.label: fact.text for fact in run_facts(replace(run, summary=summary))}
    assert facts["Generator lag"] == told
    assert facts["Records"] == "25,092 returned by reads or written in batches"


def test_a_stretch_without_a_completed_operation_has_no_share_of_failures() -> None:
    times = run_answer().summary.phases[0].operations[0].response
    quiet = Stretch("before", 4_000_000_000, 6_000_000_000, 900, 100, times)
    gone = Stretch("2s kill node-1", 6_000_000_000, 9_000_000_000, 0, 0, Times.of(Counts.empty()))
    first, second = ([cell.text for cell in row] for row in around_faults_grid([quiet, gone]).rows)
    assert first[:5] == ["before", "0 ns", "2.00 s", "450", "10.0"]
    assert second == ["2s kill node-1", "2.00 s", "3.00 s", "0", *[units.ABSENT] * 5]


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


@pytest.mark.parametrize(("value", "text"), [
    (3.14159, "3.14"), (51_234.5, "51,234"), (0.00123456, "0.00123"), (99.96, "100"),
    (9.999, "10.0"), (0.0, "0"), (None, "–"), (float("nan"), "–"),
])  # fmt: skip
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    assert units.significant(value) == text


@pytest.mark.parametrize(("value", "error", "text"), [
    (17_953.32, 312.4, "17,950 ± 310"), (12.3456, 0.0312, "12.346 ± 0.031"),
    (504_000.0, 10_080.0, "504,000 ± 10,000"), (12.0, None, "12.0"), (12.0, 0.0, "12.0"),
    (200.000001, 0.00003, "200"), (200.0001, 0.003, "200.0001 ± 0.0030"),
])  # fmt: skip
def test_an_estimate_ends_where_its_error_begins(
    value: float, error: float | None, text: str
) -> None:
    low, high = (None, None) if error is None else (value - error, value + error)
    assert units.estimate(Estimate(value, low, high, 20, "ops/s", "t")) == text


@given(st.floats(1e-9, 1e15), st.integers(2, 6))
def test_rounding_keeps_the_number(value: float, digits: int) -> None:
    shown = float(units.significant(value, digits).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * 1.001)


def test_times_and_sizes_have_a_suitable_unit() -> None:
    times = (0.3, 900, 96_700, 999_700, -2_500_000, 2.5e12, None)
    texts = ["0.300 ns", "900 ns", "96.7 µs", "1.00 ms", "-2.50 ms", "2,500 s", "–"]
    assert [units.with_unit(ns) for ns in times] == texts
    assert [units.size(n) for n in (999, 1_500, 312_000_000)] == ["999 B", "1.50 kB", "312 MB"]
