"""From recorded runs to the answers, pages and texts of a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvmark.records import Records, Run
from kvmark.report.format import html
from kvmark.report.views.gather import run_answer, run_answers, sequence_answer
from kvmark.report.views.pages import run_page, runs_page, sequence_page
from kvmark.report.views.run import charts_text, run_text
from kvmark.report.views.screen import sequence_screen
from runs_on_disk import PLAN, closed


def recorded(records: Records, workload: str, size: int, rate: float | None = None) -> Run:
    """A run of 4 s and 250 ops/s."""
    (group,) = PLAN["groups"]
    if rate is not None:
        arrival = {"process": "uniform", "rates": [{"at_ns": 0, "rate": rate}]}
        group = {**group, "arrival": arrival}
    dataset = {**PLAN["dataset"], "count": size}
    return closed(records, name=f"ycsb/{workload}", dataset=dataset, groups=[group])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Workloads A and C at two sizes, twice each."""
    records = Records(tmp_path_factory.mktemp("gathering") / "runs")
    return [
        recorded(records, workload, size)
        for workload in "ac"
        for size in (1_000, 10_000)
        for _ in range(2)
    ]


def test_a_sequence_has_a_row_per_case_and_curves_at_its_largest_size(runs: list[Run]) -> None:
    answer = sequence_answer(runs)
    assert answer.title == "YCSB on null"
    assert answer.question == (
        "A and C with 1,000 and 10,000 records; closed model, 2 clients; each case 2 times."
    )
    cases = [(row.case.workload, row.case.records) for row in answer.rows]
    assert cases == [("A", 1_000), ("A", 10_000), ("C", 1_000), ("C", 10_000)]
    curves = [(curve.panel, curve.time) for curve in answer.curves]
    assert curves == [(name, time) for name in "AC" for time in ("response", "service")]
    assert "null 0.1.0" in html(sequence_page(answer))
    assert "250" in sequence_screen(answer, 120).plain
    # It names its runs, and has a plan per case.
    documents = answer.provenance.documents
    assert sum(title.startswith("Plan of") for title in documents) == 4
    ids = documents["Runs of each case"]
    assert isinstance(ids, dict)
    assert sorted(run for of_case in ids.values() for run in of_case) == sorted(r.id for r in runs)


def test_a_sequence_at_targets_draws_response_time_against_throughput(tmp_path: Path) -> None:
    records = Records(tmp_path / "runs")
    offered = [recorded(records, "a", 1_000, rate) for rate in (1_000.0, 2_000.0, None)]
    figure = sequence_page(sequence_answer(offered)).figures[0]
    assert figure.name == "throughput-latency"
    assert figure.data["series"].unique().sort().to_list() == ["null p50", "null p99"]
    assert len(figure.data) == 6
    assert "<svg" in figure.svg()


def test_a_run_has_its_request_its_total_rows_and_a_curve_per_time(runs: list[Run]) -> None:
    answer = run_answer(runs[0], page_runs=1)
    assert answer.intervals["operation"].unique().to_list() == ["TOTAL"]
    curves = [(curve.panel, curve.time) for curve in answer.curves]
    assert curves == [("READ", "response"), ("READ", "service")]
    assert {fact.label: fact.text for fact in answer.request} == {
        "Workload": "ycsb/a, 1,000 records of 10 fields of 100 bytes",
        "Load": "closed model, 2 clients",
        "Phases": "measure 4.00 s",
    }
    assert runs[0].id in html(run_page(answer))


def test_a_text_of_a_run_has_charts_of_the_terminal_s_width(runs: list[Run]) -> None:
    answer = run_answer(runs[0], text_width=120)
    assert answer.curves == ()
    text, charts = run_text(answer, 120).plain, charts_text(answer, 120).plain
    assert "250 ops/s" in text
    assert charts.startswith("Response time\n")
    assert charts_text(run_answer(runs[0]), 80).plain == ""


def test_many_runs_keep_what_their_page_shows(runs: list[Run]) -> None:
    one, eight, nine, many = (run_answers(runs[:1], count)[0] for count in (1, 8, 9, 51))
    assert [bool(answer.response_quantiles) for answer in (one, eight, nine)] == [False, True, True]
    # The frames of a course that isn't read have no columns.
    assert [answer.spread.width > 0 for answer in (one, eight, nine)] == [True, True, False]
    assert nine.intervals.is_empty()
    assert (bool(nine.curves), bool(many.curves)) == (True, False)
    parts = runs_page(run_answers(runs[:2], 2)).parts
    assert [part.name for part in parts] == ["side-by-side", "run-1", "run-2"]


def test_no_run_makes_no_sequence() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        sequence_answer([])
