"""An imported file is a run like any other: listed, shown, reported, exported, and never judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from imports.samples import DATA, Keep, Read, path_of, sample
from kvmark.analysis.summary.imported import imported_curves, imported_rows
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import judge
from kvmark.cli import main
from kvmark.errors import RecordsError, RunError
from kvmark.imports import writing
from kvmark.imports.writing import keep
from kvmark.records import Records
from kvmark.records.export import as_hlog, as_ycsb
from kvmark.records.store import Judgement
from kvmark.report.format import write_html
from kvmark.report.views import pages
from kvmark.report.views.gather import run_answer
from kvmark.report.views.run import charts_text, run_text

Command = Callable[..., tuple[int, str, str]]
SAMPLES = (
    "ycsb-a.txt", "memtier.json", "latte-report.json", "db_bench.txt", "cql-stress-fixed.hlog",
)  # fmt: skip
YCSB = path_of("ycsb-a.txt")


def test_what_a_file_does_not_say_stays_unknown(imported: Keep) -> None:
    run = imported(sample("redis-benchmark.csv"))
    manifest = run.manifest
    assert manifest.imported is not None
    assert manifest.imported.origin.version is None
    assert manifest.imported.origin.started_wall_ns is None
    assert manifest.engine.capabilities is manifest.engine.clock is None
    assert (manifest.engine.system.system, manifest.engine.system.version) == ("", "")
    assert summarize(run).phases == ()
    for row in imported_rows(manifest.imported):
        assert (row.operations, row.runtime_ms) == (None, None)
        assert set(row.times_ns) == {"service"}
    assert run.intervals.is_empty()


def test_rows_are_in_common_units(imported: Keep, read: Read) -> None:
    run = imported(sample("ycsb-a.txt"))
    assert run.manifest.imported is not None
    rows = {row.operation: row for row in imported_rows(run.manifest.imported)}
    assert rows[None].throughput == 7575.757575757576
    assert rows[None].runtime_ms == 132
    assert rows["READ"].operations == 495
    assert rows["READ"].times_ns["service"]["p99"] == 52_000
    log = imported(sample("cassandra-stress-direct.log")).manifest.imported
    assert log is not None
    row = imported_rows(log)[0]
    assert (row.runtime_ms, row.times_ns["service"]["p50"]) == (62_000, 300_000)
    assert row.times_ns["service"]["p999"] == 15_800_000
    near = imported(read("p5.5_ms,p55_ms\n1,2\n")).manifest.imported
    assert near is not None
    assert imported_rows(near)[0].times_ns["service"] == {"p5.5": 1e6, "p55": 2e6}
    assert [curve.points for curve in imported_curves(near)] == [
        ((0.055, 10**6), (0.55, 2 * 10**6))
    ]


def test_an_imported_run_is_listed_and_not_judged(records: Records, imported: Keep) -> None:
    run = imported(sample("ycsb-a.txt"))
    (entry,) = records.list()
    known = (entry.id, entry.state, entry.name, entry.system, entry.tags)
    assert known == (run.id, "closed", "theirs", "RocksDB", ("imported",))
    assert records.open("last").manifest == run.manifest
    assert all(path.stat().st_mode & 0o222 == 0 for path in run.path.iterdir())
    verdict = judge(run)
    assert verdict.judgement is Judgement.SUSPECT
    (reason,) = verdict.reasons
    assert reason.code == "imported"
    assert reason.sentence.startswith("Imported from YCSB: not judged")


@pytest.mark.parametrize("name", [*SAMPLES, "yugabyte-1.0.7.csv", "cassandra-initial.csv"])
def test_it_is_shown_with_its_figures_as_they_were(name: str, imported: Keep) -> None:
    file = sample(name)
    text = run_text(run_answer(imported(file), text_width=160), 160).plain
    assert f"file {name}: not judged." in text
    for figure in file.figures:
        assert f"{figure.value:,}" in text
    assert not {"nan", "None", "inf"} & set(text.split())


@pytest.mark.parametrize("name", SAMPLES)
def test_its_histogram_is_drawn_where_the_file_has_one(name: str, imported: Keep) -> None:
    file = sample(name)
    text = charts_text(run_answer(imported(file), text_width=80), 80).plain
    fine = any(each.count for each in file.histograms)
    assert ("logarithmic axis" in text) <= fine
    assert max(map(len, text.splitlines()), default=0) <= 80


def test_a_report_on_several_imported_runs_is_written(imported: Keep, tmp_path: Path) -> None:
    names = ("ycsb-a.txt", "cassandra-initial.csv")
    written = tmp_path / "report.html"
    write_html(pages.runs_page([run_answer(imported(sample(name))) for name in names]), written)
    assert written.read_text().count("not judged") >= 2


@pytest.mark.parametrize(
    ("name", "has_intervals"),
    [("cassandra-stress-direct.log", True), ("memtier.json", True), ("redis-benchmark.csv", False),
     ("db_bench.txt", False)],
)  # fmt: skip
def test_figures_over_time_and_quantile_curves_are_drawn_where_they_are_known(
    name: str, *, has_intervals: bool, imported: Keep
) -> None:
    answer = run_answer(imported(sample(name)), page_runs=1)
    over_time = {"Completed rate over time", "Service time over time"} if has_intervals else set()
    curves = {"Response and service time at every quantile"}
    assert {figure.title for figure in pages.run_page(answer).figures} == over_time | curves


def test_it_is_exported_as_hlog_and_never_invented_as_ycsb(imported: Keep) -> None:
    run = imported(sample("cql-stress-fixed.hlog"))
    assert as_hlog(run) == path_of("cql-stress-fixed.hlog").read_bytes()
    assert run.manifest.model_dump(mode="json")["imported"]["origin"]["tool"] == "Cql-stress"
    with pytest.raises(RecordsError, match="was imported"):
        as_ycsb(run)
    with pytest.raises(RecordsError):
        as_hlog(imported(sample("ycsb-a.txt")))


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_run_that_can_not_be_written_leaves_nothing(
    records: Records, imported: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "to_parquet", full)
    with pytest.raises(RunError, match="disk is full"):
        imported(sample("ycsb-a.txt"))
    assert list(records.root.iterdir()) == []


def test_a_killed_import_is_in_no_list(records: Records) -> None:
    records.root.mkdir()
    (records.root / ".importing-x").mkdir()
    assert records.list() == []
    keep(records, [sample("ycsb-a.txt")])
    assert len(records.list()) == 1


def test_of_several_files_none_stays_when_the_last_can_not_be_moved_into_place(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [sample(name) for name in ("ycsb-a.txt", "redis-benchmark.csv", "memtier.json")]
    replace, moved = Path.replace, []

    def fail_at_the_third(path: Path, target: Path) -> Path:
        if path.name.startswith(".importing-"):
            moved.append(target)
            if len(moved) == 3:
                full()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_third)
    with pytest.raises(RunError, match="disk is full"):
        keep(records, files)
    assert len(moved) == 3
    assert list(records.root.iterdir()) == []


@pytest.fixture
def command(
    records: Records, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command line; returns its exit code, its answer, and what else it said."""
    monkeypatch.setenv("KVMARK_RUNS", str(records.root))
    return lambda *words: (main([*map(str, words)]), *capsys.readouterr())


def test_the_command_names_format_figures_and_run(command: Command, records: Records) -> None:
    code, out, _ = command("import", YCSB, "--name", "peer", "--tag", "ci")
    (entry,) = records.list()
    assert code == 0
    assert f"is YCSB text, now run {entry.id}" in out
    assert "7,575.757575757576 ops/s" in out
    assert (entry.name, entry.tags) == ("peer", ("imported", "ci"))
    assert json.loads(records.verdict_path(entry.id).read_text())["judgement"] == "SUSPECT"
    code, out, _ = command("runs", "--tag", "imported")
    (line,) = [line.split() for line in out.splitlines() if entry.id in line]
    assert code == 0
    assert line[4:] == ["RocksDB", "7,576", "–", "361", "µs", "SUSPECT", "imported,", "ci"]
    code, out, _ = command("show")
    assert (code, "not judged" in out) == (0, True)
    command(
        "run", "ycsb/c", "--system", "sim:?clock=virtual", "--load", "never", "--operations", 99
    )
    _, out, _ = command("compare", "last", entry.id, "--allow", "system")
    rows = {line.split()[0] for line in out.splitlines() if ".service." in line}
    assert rows == {f"READ.service.{name}" for name in ("mean", "p50")}
    report = records.root / "both.md"
    assert command("runs", "report", "last", entry.id, "-o", report)[0] == 0
    rows = [
        line.split(" | ") for line in report.read_text().splitlines() if line.startswith("| 2 ")
    ]
    assert {(row[2], row[-1]) for row in rows} >= {("7,576", "not judged |")}


def test_the_command_answers_in_json(command: Command) -> None:
    code, out, _ = command("import", path_of("memtier.json"), path_of("db_bench.txt"), "--json")
    first, second = json.loads(out)["runs"]
    assert code == 0
    assert (first["recognised_as"], second["recognised_as"]) == ("memtier", "db_bench")
    assert second["rows"][0]["labels"] == {"benchmark": "fillseq"}
    assert second["rows"][0]["throughput"] == 437363


def test_of_several_files_with_a_bad_one_none_is_imported(
    command: Command, records: Records, tmp_path: Path
) -> None:
    bad, worse = tmp_path / "bad.txt", tmp_path / "worse.txt"
    bad.write_text("nothing\n")
    worse.write_text("")
    code, out, err = command("import", YCSB, bad, worse)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 2
    assert f"kvmark: {bad}:1: it is of no known kind" in err
    assert records.list() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [((), ""), ((YCSB, YCSB, "--name", "x"), "--name is for one file"),
     (("nowhere.txt",), "nowhere.txt: it isn't there")],
)  # fmt: skip
def test_wrong_words_are_refused(words: tuple[object, ...], message: str, command: Command) -> None:
    code, _, err = command("import", *words)
    assert (code, message in err) == (2, True)


def test_two_logs_of_one_tool_can_be_compared(command: Command) -> None:
    for name in ("direct", "shotover-release-16-threads"):
        log = DATA / f"published/cassandra-stress-{name}.log"
        assert command("import", log, "--name", "stress")[0] == 0
    _, out, _ = command("compare", "last~1", "last")
    # The rate of the first rises for a fifth of the run: its interval knows.
    assert "−26.7 %" in out
    assert "No difference of throughput was seen" in out


@pytest.mark.parametrize(
    ("sides", "message"),
    [("last~1 last", "PING_INLINE, PING_MBULK, SET, GET, INCR, LPUSH, MSET (10 keys); choose"),
     ("last~1 last#FOO", "has no case 'FOO': it has PING_INLINE, PING_MBULK, SET"),
     ("last~1#GET last", "is no import"), ("last#GET last#SET", "case.test GET against SET"),
     ("last last", "INCR ±0 % – ±0 % – ±0 % –"),
     ("last~1 last#get", "unknown system (redis-benchmark), run ")],
)  # fmt: skip
def test_a_case_of_an_import_is_compared_by_service_times(
    sides: str, message: str, command: Command
) -> None:
    words = ("--operations", 2000, "--load", "never")
    command("run", "ycsb/c", "--system", "sim:?clock=virtual", *words)
    command("import", path_of("redis-benchmark.csv"))
    code, out, err = command("compare", *sides.split())
    assert message in " ".join((err if code else out).split())
    assert not {"None", ","} & {*out.split()}
    if "#get" in sides:
        _, document, _ = command("compare", *sides.split(), "--json")
        (case,) = json.loads(document)["comparison"]["cases"]
        values = {one["metric"]["quantile"]: one["candidate"]["value"] for one in case["rows"][2:]}
        assert values == {"p50": 55_000, "p95": 79_000, "p99": 127_000}
        assert {one["metric"]["time"] for one in case["rows"][1:]} == {"service"}
    assert "84,034 – 89,286" in command("runs")[1]


def test_a_report_may_have_one_case_of_an_import(command: Command, tmp_path: Path) -> None:
    command("import", path_of("redis-benchmark.csv"))
    page = tmp_path / "page.md"
    _, out, _ = command("runs", "report", "last#get", "last#SET", "--output", page, "--json")
    assert [run.partition("#")[2] for run in json.loads(out)["runs"]] == ["GET", "SET"]
    assert "PING_INLINE" not in page.read_text()
    assert command("runs", "report", "last#FOO", "--output", page, "--force")[0] == 2


def test_a_verdict_that_can_not_be_kept_is_no_reason_to_import_nothing(
    command: Command, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RunError("the verdict can't be written")

    monkeypatch.setattr("kvmark.analysis.verdict.judge.save_verdict", refuse)
    assert command("import", YCSB)[0] == 0
    assert [entry.state for entry in records.list()] == ["closed"]
