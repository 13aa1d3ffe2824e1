"""A run's course besides rate and response time, several runs side by side, and folders."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
from synthetic import estimate, run_answer, sequence_answer

from kvmark.analysis import Case
from kvmark.report.format.folder import FolderFormat, write_folder
from kvmark.report.format.html import html
from kvmark.report.model.answers import Fact, RunAnswer, RunCourse
from kvmark.report.model.figures import course_figures
from kvmark.report.model.page import run_page, runs_page, sequence_page
from kvmark.report.views.side_by_side import side_by_side_figures, side_by_side_grid


def test_a_run_shows_its_spread_its_errors_and_what_it_used() -> None:
    run = run_answer()
    course = run.course()
    drawn = {figure.name: figure for figure in course_figures(run)}
    assert list(drawn) == ["spread", "failures", "cores", "memory"]
    assert drawn["spread"].data.equals(course.spread)
    assert drawn["cores"].data["value"].to_list() == course.resources["cores"].to_list()
    assert drawn["failures"].data["series"].unique().to_list() == ["timeout"]


def test_what_a_run_does_not_have_is_not_drawn() -> None:
    assert list(course_figures(dataclasses.replace(run_answer(), course=RunCourse))) == []


def test_a_figure_of_a_course_is_svg_too(tmp_path: Path) -> None:
    for figure in course_figures(run_answer()):
        figure.save(tmp_path / f"{figure.name}.svg")
        assert (tmp_path / f"{figure.name}.svg").read_text().startswith("<svg")


def test_runs_stand_side_by_side_with_their_intervals() -> None:
    slow = run_answer("slow")
    phase = dataclasses.replace(
        slow.summary.phases[0], throughput=estimate(9_000.0, 0.05, 50, "ops/s")
    )
    slow = dataclasses.replace(slow, summary=dataclasses.replace(slow.summary, phases=(phase,)))
    runs = [run_answer(), slow]
    grid = side_by_side_grid(runs)
    texts = {cell.text for row in grid.rows for cell in row}
    assert {"51,870 ± 410", "9,000 ± 450", "READ", "SCAN"} <= texts
    rates = side_by_side_figures(runs)[0].data
    assert rates["value"].to_list() == [51_873.0, 9_000.0]
    assert rates["low"].to_list() == pytest.approx([51_873.0 * 0.992, 8_550.0])
    assert rates["run"].to_list() == ["1", "2"]


def test_runs_side_by_side_are_told_apart_by_what_was_asked_of_them() -> None:
    asked = (Fact("Workload", "ycsb/a"), Fact("Load", "closed model, 10 clients"))
    few = dataclasses.replace(run_answer("one"), asked=asked)
    more = (asked[0], Fact("Load", "closed model, 400 clients"))
    rows = side_by_side_grid([few, few, dataclasses.replace(few, asked=more)]).rows
    named = {row[0].text: row[1].text for row in rows}
    assert named == dict.fromkeys("12", "one, closed model, 10 clients") | {
        "3": "one, closed model, 400 clients"
    }


def test_curves_of_several_runs_share_their_axes() -> None:
    curves = side_by_side_figures([run_answer(), run_answer()])[-1].data
    assert curves["time"].unique().sort().to_list() == ["run 1", "run 2"]
    assert curves["panel"].unique().sort().to_list() == ["READ", "READ-MODIFY-WRITE"]


def test_many_runs_have_no_figures_of_their_own() -> None:
    asked: list[int] = []

    def counted(number: int) -> RunAnswer:
        return dataclasses.replace(run_answer(), course=lambda: asked.append(number) or RunCourse())

    parts = runs_page([counted(number) for number in range(9)]).parts
    assert [len(part.figures) > 0 for part in parts] == [True, *[False] * 9]
    assert not asked, "nor is their course read"


def test_a_study_of_two_hundred_cases_is_a_page_under_five_megabytes() -> None:
    base = sequence_answer()
    rows = tuple(
        dataclasses.replace(row, case=Case(f"{row.case.workload}{n}", "RocksDB", row.case.records))
        for n in range(6)
        for row in base.rows
    )[:200]
    curves = tuple(
        dataclasses.replace(curve, panel=f"{curve.panel}{n}")
        for n in range(6)
        for curve in base.curves
    )
    assert len(rows) == 200
    plans = {f"Plan of case {n}": {"format": 1, "seeds": list(range(500))} for n in range(200)}
    provenance = dataclasses.replace(base.provenance, documents=plans)
    answer = dataclasses.replace(base, rows=rows, curves=curves, provenance=provenance)
    assert len(html(sequence_page(answer)).encode()) < 5_000_000


def test_two_hundred_runs_are_a_page_under_five_megabytes() -> None:
    assert len(html(runs_page([run_answer() for _ in range(200)])).encode()) < 5_000_000


def many(count: int) -> list[RunAnswer]:
    """Runs with ids and host documents of their own, and a plan that all of them have."""
    base = run_answer()
    return [
        dataclasses.replace(
            base,
            summary=dataclasses.replace(base.summary, id=f"run-{number}"),
            provenance=dataclasses.replace(
                base.provenance, documents={"Plan": {"groups": list(range(300))}, "Host": {}}
            ),
        )
        for number in range(count)
    ]


def test_five_hundred_runs_are_a_page_of_four_megabytes_at_most() -> None:
    page = runs_page(many(500))
    assert len(html(page).encode()) <= 4_000_000
    assert [part.name for part in page.parts] == ["side-by-side"]
    assert "no section for each run" in page.parts[0].answer
    assert {row[0].text for row in page.parts[0].grids[0].rows} == {str(n) for n in range(1, 501)}


def test_a_hundred_runs_have_sections_of_their_own() -> None:
    page = runs_page(many(100))
    assert len(page.parts) == 101
    assert not page.parts[0].answer


def test_a_document_that_several_runs_have_is_on_their_page_once() -> None:
    first, other, same = many(3)
    plan = {"Plan": {"groups": []}, "Host": {}}
    other = dataclasses.replace(
        other, provenance=dataclasses.replace(other.provenance, documents=plan)
    )
    told = [source.provenance for source in runs_page([first, other, same]).sources]
    assert [one.documents.get("Plan") for one in told] == [
        first.provenance.documents["Plan"], {"groups": []}, None
    ]  # fmt: skip
    assert told[2].facts[-1] == Fact("Plan", "same as run-0")
    assert told[0].facts == first.provenance.facts


def test_more_curves_than_can_be_told_apart_are_not_drawn() -> None:
    asked: list[int] = []

    def counted(run: RunAnswer) -> RunAnswer:
        return dataclasses.replace(run, curves=lambda: asked.append(1) or ())

    drawn = side_by_side_figures([counted(run) for run in many(51)])
    assert [figure.name for figure in drawn] == ["throughputs", "response-quantiles"]
    assert not asked


@pytest.mark.parametrize("form", ["png", "svg", "pdf", "csv"])
def test_a_report_is_a_folder_of_files_too(tmp_path: Path, form: FolderFormat) -> None:
    page = run_page(run_answer())
    written = write_folder(page, tmp_path / "report", form)
    figures = [figure.name for part in page.parts for figure in part.figures]
    pictures = [path.stem for path in written if not path.stem.startswith("table-")]
    assert pictures == figures
    assert all(path.stat().st_size > 0 for path in written)


def test_a_table_is_csv_with_its_units_in_the_headings(tmp_path: Path) -> None:
    write_folder(run_page(run_answer()), tmp_path, "csv")
    with (tmp_path / "table-operations-1.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert "response time, µs p99" in rows[0]
    assert [row[0] for row in rows[1:]] == ["READ", "READ-MODIFY-WRITE", "READ", "UPDATE", "SCAN"]
