"""The published sequence on embedded RocksDB, from the command to the report."""

import json
from pathlib import Path

import pytest
from command_line import Kvmark, Result, run_folders

SEQUENCE = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")
SMALL = ("--records", "200,500", "--repetitions", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sequence")


@pytest.fixture(scope="module")
def sequence(folder: Path) -> Result:
    return Kvmark(folder, folder / "runs")("ycsb", *SMALL)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("document")
    words = ("--records", "1000", "--repetitions", "1", "--report", "none", "--json")
    return Kvmark(folder, folder / "runs")("ycsb", *words)


def test_the_table_has_every_workload_and_the_published_columns(sequence: Result) -> None:
    lines = sequence.out.splitlines()
    heading = next(line for line in lines if line.startswith("workload"))
    for column in ("store", "records", "runtime ms", "ops/s", "p50", "p95", "p99", "verdict"):
        assert column in heading, sequence
    assert "response time" in sequence.out
    assert "service time" in sequence.out
    rows = [line.split()[:3] for line in lines if line.split()[1:2] == ["RocksDB"]]
    assert rows == [[name, "RocksDB", size] for name in SEQUENCE for size in ("200", "500")]


def test_progress_is_on_standard_error_only(sequence: Result) -> None:
    assert "[1/36]" in sequence.err
    assert "[36/36]" in sequence.err
    assert "[1/36]" not in sequence.out


def test_the_report_is_one_page_and_its_place_is_told(sequence: Result, folder: Path) -> None:
    report = folder / "kvmark-ycsb.html"
    assert str(report) in sequence.err
    page = report.read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "RocksDB" in page


def test_the_database_of_its_own_is_gone(sequence: Result, folder: Path) -> None:
    assert len(run_folders(folder / "runs")) == 36
    assert not list((folder / "runs").glob("scratch*"))


def test_json_is_one_document_with_every_row_and_nothing_else(document: Result) -> None:
    rows = json.loads(document.out)["rows"]
    assert [row["case"]["workload"] for row in rows] == list(SEQUENCE)
    assert all(row["case"]["records"] == 1000 for row in rows)
    assert all(row["figures"]["throughput"]["value"] > 0 for row in rows)


def test_published_figures_stand_beside_the_measured_ones(document: Result) -> None:
    rows = json.loads(document.out)["rows"]
    published = [row["case"]["workload"] for row in rows if row["published"]]
    assert published == [name for name in SEQUENCE if name not in ("delete", "reload")]


def test_no_report_is_written_when_none_is_wanted(document: Result) -> None:
    assert not list(document.folder.glob("*.html"))


def test_delete_removes_what_was_inserted_too_and_every_scan_hits(document: Result) -> None:
    kvmark = Kvmark(document.folder, document.folder / "runs")
    kinds: dict[str, dict[str, int]] = {}
    plans: dict[str, int] = {}
    for run in json.loads(document.out)["runs"]:
        manifest = kvmark.manifest(run)
        totals = manifest["engine"]["totals"]
        assert {total["outcome"] for total in totals} == {"ok"}, totals
        name = manifest["plan"]["name"]
        kinds[name] = {total["operation"]: total["count"] for total in totals}
        plans[name] = manifest["plan"]["dataset"]["count"]
    inserted = kinds["ycsb/d"]["INSERT"]
    assert inserted > 0
    assert kinds["ycsb/delete"] == {"DELETE": 1000 + inserted}
    assert kinds["ycsb/reload"] == {"INSERT": 1000}
    assert plans["ycsb/e"] == 1000
    assert kinds["ycsb/e"]["SCAN"] > 900
