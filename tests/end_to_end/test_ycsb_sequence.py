"""The published sequence on embedded RocksDB, from the command to the report."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, Result, run_folders

SEQUENCE = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")
SMALL = ("--records", "200,500", "--repetitions", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sequence")


@pytest.fixture(scope="module")
def sequence(folder: Path) -> Result:
    # Two repetitions of so few operations may be imprecise, which is no.
    return Kvmark(folder, folder / "runs")("ycsb", *SMALL, exits=(0, 1))


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("document")
    words = ("--records", "1000", "--repetitions", "1", "--report", "none", "--json")
    return Kvmark(folder, folder / "runs")("ycsb", *words)


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("default")
    words = ("--records", "100", "--workloads", "load,a,e", "--report", "none", "--json")
    kvmark = Kvmark(folder, folder / "runs")
    # It looks at the scatter in a process of its own, which one that was preloaded can't start.
    return kvmark.finish(kvmark.start("ycsb", *words), exits=(0, 1))


def test_cases_and_time_limit_are_announced(default: Result) -> None:
    assert default.err.splitlines()[0] == (
        "3 cases, each 5 times, then up to 20 times until its throughput is within ± 5 %;"
        " time limit 10 min (--budget)."
    )


def test_the_document_has_the_repetitions_of_each_case(default: Result) -> None:
    document = json.loads(default.out)
    plan = document["repetitions"]
    assert (plan["first_stage"], plan["most"], plan["within"]) == (5, 20, 0.05)
    assert plan["budget_s"] == 600
    assert 0 < plan["used_s"] < 600
    got = {case["workload"]: case["repetitions"] for case in plan["cases"]}
    assert all(5 <= count <= 20 for count in got.values())
    runs = {
        row["case"]["workload"].lower(): len(row["figures"]["runs"]) for row in document["rows"]
    }
    assert runs == got
    wanted = {case["workload"]: case["wanted"] for case in plan["cases"]}
    assert all(got[name] >= wanted[name] for name in got)


def test_each_run_records_its_stage(default: Result) -> None:
    kvmark = Kvmark(default.folder, default.folder / "runs")
    steps = [kvmark.manifest(run)["spec"]["sequence"] for run in json.loads(default.out)["runs"]]
    assert all(step["stage"] == (1 if step["repetition"] < 5 else 2) for step in steps)


def test_a_short_budget_runs_each_case_once_and_prints_one_that_is_enough(
    tmp_path: Path,
) -> None:
    kvmark = Kvmark(tmp_path, tmp_path / "runs")
    words = ("--records", "100", "--workloads", "load,a", "--report", "none")
    done = kvmark("ycsb", *words, "--budget", "1ms")
    told = " ".join(done.out.split())
    assert "load with 100 records and A with 100 records ran once instead of 5" in told
    assert "--budget 1m is enough." in told
    assert len(run_folders(kvmark.runs)) == 2


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("0s", "must be longer than 0; write none for no limit"),
        ("soon", "'soon' is not a duration; write it like 30s, 500ms or 1h30m"),
    ],
)
def test_an_invalid_budget_is_rejected(tmp_path: Path, budget: str, sentence: str) -> None:
    told = Kvmark(tmp_path, tmp_path / "runs").refuses("ycsb", "--budget", budget)
    assert told.endswith(sentence)


def test_the_table_has_every_workload_and_the_published_columns(sequence: Result) -> None:
    lines = sequence.out.splitlines()
    heading = next(line for line in lines if line.startswith("workload"))
    for column in ("store", "records", "runtime ms", "ops/s", "p50", "p95", "p99", "verdict"):
        assert column in heading, sequence
    assert "response time" in sequence.out
    assert "service time" in sequence.out
    # A verdict's reason may be broken before the store's name, too.
    stores = [line.split()[:3] for line in lines if line.split()[1:2] == ["RocksDB"]]
    rows = [row for row in stores if row[0] in SEQUENCE]
    assert rows == [[name, "RocksDB", size] for name in SEQUENCE for size in ("200", "500")]


def test_progress_is_on_standard_error_only(sequence: Result) -> None:
    assert "[1/36]" in sequence.err
    assert "[36/36]" in sequence.err
    assert "[1/36]" not in sequence.out


def test_the_report_is_one_page_and_its_path_is_printed(sequence: Result, folder: Path) -> None:
    report = folder / "kvmark-ycsb.html"
    assert str(report) in sequence.err
    page = report.read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "RocksDB" in page


def test_the_scratch_database_is_removed(sequence: Result, folder: Path) -> None:
    assert len(run_folders(folder / "runs")) == 36
    assert not list((folder / "runs").glob("scratch*"))


def test_json_is_one_document_with_every_row_and_nothing_else(document: Result) -> None:
    rows = json.loads(document.out)["rows"]
    assert [row["case"]["workload"] for row in rows] == list(SEQUENCE)
    assert all(row["case"]["records"] == 1000 for row in rows)
    assert all(row["figures"]["throughput"]["value"] > 0 for row in rows)


def test_rows_have_the_published_figures(document: Result) -> None:
    rows = json.loads(document.out)["rows"]
    published = [row["case"]["workload"] for row in rows if row["published"]]
    assert published == [name for name in SEQUENCE if name not in ("delete", "reload")]


def test_report_none_writes_no_report(document: Result) -> None:
    assert not list(document.folder.glob("*.html"))


def test_delete_removes_inserted_records_too_and_every_scan_hits(document: Result) -> None:
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


def test_the_load_flag_loads_once(kvmark: Kvmark) -> None:
    done = kvmark("ycsb", "-load", "--records", "50", "--system", "null:", "--report", "none")
    assert done.err.splitlines()[0] == "One case, once; no time limit."
    assert len(run_folders(kvmark.runs)) == 1


def test_lists_and_show_tell_one_verdict_of_a_run_and_the_table_that_of_the_case(
    default: Result,
) -> None:
    kvmark = Kvmark(default.folder, default.folder / "runs")
    lines = kvmark("runs", "--limit", "1000", "--json").json["runs"]
    listed = {line["entry"]["id"]: line["judgement"] for line in lines}
    rows = json.loads(default.out)["rows"]
    for row in rows:
        verdict, runs = row["figures"]["verdict"], row["figures"]["runs"]
        assert verdict["runs"] == len(runs)
        shown = kvmark("show", runs[0], "--json").json["verdict"]
        assert shown["judgement"] == listed[runs[0]]
        # A run of a hundred operations is too short by itself, and a case of five isn't.
        assert ("too_short", "SUSPECT") in levels(shown)
        assert ("too_short", "NOTE") in levels(verdict)


def levels(verdict: dict[str, Any]) -> set[tuple[str, str]]:
    return {(reason["code"], reason["level"]) for reason in verdict["reasons"]}
