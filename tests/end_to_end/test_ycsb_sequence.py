"""The published sequence on embedded RocksDB, from the command to the report."""

import pytest
from command_line import Kvmark, Result, counts, levels, outcomes, run_folders

SEQUENCE = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")


def in_folder(tmp_path_factory: pytest.TempPathFactory) -> Kvmark:
    folder = tmp_path_factory.mktemp("sequence")
    return Kvmark(folder, folder / "runs")


@pytest.fixture(scope="module")
def sequence(tmp_path_factory: pytest.TempPathFactory) -> Result:
    # Two repetitions of few operations may be imprecise: exit code 1.
    kvmark = in_folder(tmp_path_factory)
    return kvmark("ycsb --records 200,500 --repetitions 2", exits=(0, 1))


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Result:
    words = "ycsb --records 1000 --repetitions 1 --report none --json"
    return in_folder(tmp_path_factory)(words)


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Result:
    kvmark = in_folder(tmp_path_factory)
    words = "ycsb --records 100 --workloads load,a,e --report none --json"
    # It estimates the variation in a further process, which a preloaded process can't start.
    return kvmark.finish(kvmark.start(words), exits=(0, 1))


def test_cases_and_time_limit_are_announced(default: Result) -> None:
    assert default.err.splitlines()[0] == (
        "3 cases, each 5 times, then up to 20 times until its throughput is within ± 5 %;"
        " time limit 10 min (--budget)."
    )


def test_the_document_has_the_repetitions_of_each_case(default: Result) -> None:
    document = default.json
    plan = document["repetitions"]
    limits = ("first_stage", "most", "within", "budget_s")
    assert [plan[name] for name in limits] == [5, 20, 0.05, 600]
    assert 0 < plan["used_s"] < 600
    made = {case["workload"]: case["repetitions"] for case in plan["cases"]}
    assert all(5 <= count <= 20 for count in made.values())
    assert made == {
        row["case"]["workload"].lower(): len(row["figures"]["runs"]) for row in document["rows"]
    }
    assert all(made[case["workload"]] >= case["wanted"] for case in plan["cases"])


def test_the_spec_of_each_run_has_its_stage(default: Result) -> None:
    kvmark = Kvmark(default.folder, default.folder / "runs")
    steps = [kvmark.manifest(run)["spec"]["sequence"] for run in default.json["runs"]]
    assert all(step["stage"] == (1 if step["repetition"] < 5 else 2) for step in steps)


def test_a_too_short_budget_runs_each_case_once(kvmark: Kvmark) -> None:
    done = kvmark("ycsb --records 100 --workloads load,a --report none --budget 1ms")
    out = " ".join(done.out.split())
    assert "load with 100 records and A with 100 records ran once instead of 5" in out
    assert "--budget 1m is enough." in out
    assert len(run_folders(kvmark.runs)) == 2


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("0s", "must be longer than 0; write none for no limit"),
        ("soon", "'soon' is not a duration; write it like 30s, 500ms or 1h30m"),
    ],
)
def test_a_wrong_budget_is_refused(kvmark: Kvmark, budget: str, sentence: str) -> None:
    assert kvmark.refuses(f"ycsb --budget {budget}").endswith(sentence)


def test_the_table_has_every_workload_and_the_published_columns(sequence: Result) -> None:
    lines = sequence.out.splitlines()
    heading = next(line for line in lines if line.startswith("workload"))
    for column in ("store", "records", "runtime ms", "ops/s", "p50", "p95", "p99", "verdict"):
        assert column in heading, sequence
    assert "response time" in sequence.out
    assert "service time" in sequence.out
    # The reason of a verdict may have a line break before the store's name, too.
    stores = [line.split()[:3] for line in lines if line.split()[1:2] == ["RocksDB"]]
    rows = [row for row in stores if row[0] in SEQUENCE]
    assert rows == [[name, "RocksDB", size] for name in SEQUENCE for size in ("200", "500")]


def test_progress_is_on_standard_error_only(sequence: Result) -> None:
    assert "[1/36]" in sequence.err
    assert "[36/36]" in sequence.err
    assert "[1/36]" not in sequence.out


def test_the_report_is_one_page_whose_path_is_printed(sequence: Result) -> None:
    report = sequence.folder / "kvmark-ycsb.html"
    assert str(report) in sequence.err
    page = report.read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "RocksDB" in page


def test_the_temporary_database_is_removed(sequence: Result) -> None:
    assert len(run_folders(sequence.folder / "runs")) == 36
    assert not list((sequence.folder / "runs").glob("scratch*"))


def test_the_document_has_every_row(document: Result) -> None:
    rows = document.json["rows"]
    assert [row["case"]["workload"] for row in rows] == list(SEQUENCE)
    assert all(row["case"]["records"] == 1000 for row in rows)
    assert all(row["figures"]["throughput"]["value"] > 0 for row in rows)
    published = [row["case"]["workload"] for row in rows if row["published"]]
    assert published == [name for name in SEQUENCE if name not in ("delete", "reload")]


def test_report_none_writes_no_report(document: Result) -> None:
    assert not list(document.folder.glob("*.html"))


def test_delete_removes_inserted_records_too_and_every_scan_hits(document: Result) -> None:
    kvmark = Kvmark(document.folder, document.folder / "runs")
    manifests = {one["plan"]["name"]: one for one in map(kvmark.manifest, document.json["runs"])}
    assert set.union(*map(outcomes, manifests.values())) == {"ok"}
    inserted = counts(manifests["ycsb/d"])["INSERT"]
    assert inserted > 0
    assert counts(manifests["ycsb/delete"]) == {"DELETE": 1000 + inserted}
    assert counts(manifests["ycsb/reload"]) == {"INSERT": 1000}
    assert manifests["ycsb/e"]["plan"]["dataset"]["count"] == 1000
    assert counts(manifests["ycsb/e"])["SCAN"] > 900


def test_the_flag_load_of_ycsb_loads_once(kvmark: Kvmark) -> None:
    done = kvmark("ycsb -load --records 50 --system null: --report none")
    assert done.err.splitlines()[0] == "One case, once; no time limit."
    assert len(run_folders(kvmark.runs)) == 1


def test_a_list_has_verdicts_of_runs_and_a_table_those_of_cases(default: Result) -> None:
    kvmark = Kvmark(default.folder, default.folder / "runs")
    lines = kvmark("runs --limit 1000 --json").json["runs"]
    listed = {line["entry"]["id"]: line["judgement"] for line in lines}
    for row in default.json["rows"]:
        verdict, runs = row["figures"]["verdict"], row["figures"]["runs"]
        assert verdict["runs"] == len(runs)
        shown = kvmark(f"show {runs[0]} --json").json["verdict"]
        assert shown["judgement"] == listed[runs[0]]
        # A run of a hundred operations alone is too short; a case of five such runs isn't.
        assert levels(shown)["too_short"] == "SUSPECT"
        assert levels(verdict)["too_short"] == "NOTE"
