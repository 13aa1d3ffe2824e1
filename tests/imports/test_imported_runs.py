"""An imported file is a run like any other: listed, shown, reported, exported, and never judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.analysis.summary.imported import imported_rows
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import judge, save_verdict
from kvmark.cli import main
from kvmark.errors import RecordsError, RunError
from kvmark.imports import writing
from kvmark.imports.recognition import ReadFile, read_file
from kvmark.imports.writing import keep
from kvmark.records import Records, Run
from kvmark.records.export import as_hlog, as_ycsb
from kvmark.records.store import Judgement
from kvmark.report.format import write_html
from kvmark.report.views import pages
from kvmark.report.views.gather import run_answer
from kvmark.report.views.run import charts_text, run_text

Keep = Callable[[ReadFile], Run]
SAMPLES = (
    "ycsb-a.txt",
    "memtier.json",
    "latte-report.json",
    "db_bench.txt",
    "cql-stress-fixed.hlog",
)


@pytest.fixture
def sample(data: Path) -> Callable[[str], ReadFile]:
    return lambda name: read_file(next(data.glob(f"*/{name}")))


def test_what_a_file_does_not_say_stays_unknown(
    sample: Callable[[str], ReadFile], imported: Keep
) -> None:
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


def test_rows_are_in_common_units(sample: Callable[[str], ReadFile], imported: Keep) -> None:
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


def test_an_imported_run_is_not_judged_and_says_so(
    sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    verdict = judge(imported(sample("ycsb-a.txt")))
    assert verdict.judgement is Judgement.SUSPECT
    (reason,) = verdict.reasons
    assert reason.code == "imported"
    assert reason.sentence.startswith("Imported from YCSB: not judged")


def test_it_is_tagged_listed_and_found(
    records: Records, sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    run = imported(sample("ycsb-a.txt"))
    (entry,) = records.list()
    assert (entry.id, entry.state, entry.name, entry.system) == (
        run.id,
        "closed",
        "theirs",
        "RocksDB",
    )
    assert entry.tags == ("imported",)
    assert records.open("last").manifest == run.manifest
    assert all(path.stat().st_mode & 0o222 == 0 for path in run.path.iterdir())


@pytest.mark.parametrize("name", [*SAMPLES, "yugabyte-1.0.7.csv", "cassandra-initial.csv"])
def test_it_is_shown_with_its_figures_as_they_were(
    name: str, sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    file = sample(name)
    answer = run_answer(imported(file), text_width=160)
    text = run_text(answer, 160).plain
    assert f"file {name}: not judged." in text
    for figure in file.reading.figures:
        assert f"{figure.value:,}" in text
    assert not {"nan", "None", "inf"} & set(text.split())


@pytest.mark.parametrize("name", SAMPLES)
def test_its_histogram_is_drawn_where_the_file_has_one(
    name: str, sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    file = sample(name)
    text = charts_text(run_answer(imported(file), text_width=80), 80).plain
    fine = any(each.count for each in file.reading.histograms)
    assert ("logarithmic axis" in text) <= fine
    assert max(map(len, text.splitlines()), default=0) <= 80


def test_a_report_on_several_imported_runs_is_written(
    sample: Callable[[str], ReadFile], imported: Keep, tmp_path: Path
) -> None:
    answers = [
        run_answer(imported(sample(name))) for name in ("ycsb-a.txt", "cassandra-initial.csv")
    ]
    written = tmp_path / "report.html"
    write_html(pages.runs_page(answers), written)
    assert written.read_text().count("not judged") >= 2


def test_figures_over_time_and_quantile_curves_are_drawn_where_they_are_known(
    sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    drawn = {}
    for name in (
        "cassandra-stress-direct.log",
        "memtier.json",
        "redis-benchmark.csv",
        "db_bench.txt",
    ):
        answer = run_answer(imported(sample(name)), page_runs=1)
        figures = pages.run_page(answer).figures
        drawn[name] = {figure.title for figure in figures}
    over_time = {"Completed rate over time", "Service time over time"}
    curves = {"Response and service time at every quantile"}
    assert drawn["cassandra-stress-direct.log"] == drawn["memtier.json"] == over_time | curves
    assert drawn["redis-benchmark.csv"] == drawn["db_bench.txt"] == curves


def test_it_is_exported_as_hlog_and_never_invented_as_ycsb(
    data: Path, sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    run = imported(sample("cql-stress-fixed.hlog"))
    assert as_hlog(run) == (data / "samples/cql-stress-fixed.hlog").read_bytes()
    assert run.manifest.model_dump(mode="json")["imported"]["origin"]["tool"] == "Cql-stress"
    with pytest.raises(RecordsError, match="was imported"):
        as_ycsb(run)
    with pytest.raises(RecordsError):
        as_hlog(imported(sample("ycsb-a.txt")))


def test_a_run_that_can_not_be_written_leaves_nothing(
    records: Records,
    sample: Callable[[str], ReadFile],
    imported: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "to_parquet", full)
    with pytest.raises(RunError, match="disk is full"):
        imported(sample("ycsb-a.txt"))
    assert list(records.root.iterdir()) == []


def test_a_killed_import_is_in_no_list(records: Records, sample: Callable[[str], ReadFile]) -> None:
    file = sample("ycsb-a.txt")
    records.root.mkdir()
    (records.root / ".importing-x").mkdir()
    assert records.list() == []
    keep(records, [file])
    assert len(records.list()) == 1


@pytest.fixture
def command(
    records: Records, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line; returns its exit code, its answer, and what else it said."""
    monkeypatch.setenv("KVMARK_RUNS", str(records.root))

    def apply(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return apply


def test_the_command_names_format_figures_and_run(
    command: Callable[..., tuple[int, str, str]], records: Records, data: Path
) -> None:
    code, out, _ = command("import", data / "samples/ycsb-a.txt", "--name", "peer", "--tag", "ci")
    (entry,) = records.list()
    assert code == 0
    assert f"is YCSB text, now run {entry.id}" in out
    assert "7,575.757575757576 ops/s" in out
    assert (entry.name, entry.tags) == ("peer", ("imported", "ci"))
    assert records.verdict_path(entry.id).exists()
    code, out, _ = command("runs", "--tag", "imported")
    assert (code, entry.id in out, "SUSPECT" in out) == (0, True, True)
    code, out, _ = command("show")
    assert (code, "not judged" in out) == (0, True)


def test_the_command_answers_in_json(
    command: Callable[..., tuple[int, str, str]], data: Path
) -> None:
    files = [data / "samples/memtier.json", data / "samples/db_bench.txt"]
    code, out, _ = command("import", *files, "--json")
    first, second = json.loads(out)["runs"]
    assert code == 0
    assert (first["recognised_as"], second["recognised_as"]) == ("memtier", "db_bench")
    assert second["rows"][0]["labels"] == {"benchmark": "fillseq"}
    assert second["rows"][0]["throughput"] == 437363


def test_of_several_files_with_a_bad_one_none_is_imported(
    command: Callable[..., tuple[int, str, str]], records: Records, data: Path, tmp_path: Path
) -> None:
    bad, worse = tmp_path / "bad.txt", tmp_path / "worse.txt"
    bad.write_text("nothing\n")
    worse.write_text("")
    code, out, err = command("import", data / "samples/ycsb-a.txt", bad, worse)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 2
    assert f"kvmark: {bad}:1: it is of no known kind" in err
    assert records.list() == []


def test_wrong_words_are_refused(command: Callable[..., tuple[int, str, str]], data: Path) -> None:
    sample = data / "samples/ycsb-a.txt"
    assert command("import")[0] == 2
    code, _, err = command("import", sample, sample, "--name", "x")
    assert (code, "--name is for one file" in err) == (2, True)
    code, _, err = command("import", "nowhere.txt")
    assert (code, "nowhere.txt: it isn't there" in err) == (2, True)


def test_two_logs_of_one_tool_can_be_compared(
    command: Callable[..., tuple[int, str, str]], data: Path
) -> None:
    for name in ("direct", "shotover-release-16-threads"):
        log = data / f"published/cassandra-stress-{name}.log"
        assert command("import", log, "--name", "stress")[0] == 0
    _, out, _ = command("compare", "last~1", "last")
    # The rate of the first rises for a fifth of the run: its interval knows.
    assert "−26.7 %" in out
    assert "No difference of throughput was seen" in out


def test_a_verdict_of_an_imported_run_is_kept_beside_it(
    records: Records, sample: Callable[[str], ReadFile], imported: Keep
) -> None:
    run = imported(sample("ycsb-a.txt"))
    save_verdict(records, run, judge(run))
    assert json.loads(records.verdict_path(run.id).read_text())["judgement"] == "SUSPECT"


def test_of_several_files_none_stays_when_the_last_can_not_be_moved_into_place(
    records: Records, sample: Callable[[str], ReadFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [sample(name) for name in ("ycsb-a.txt", "redis-benchmark.csv", "memtier.json")]
    replace, moved = Path.replace, []

    def fail_at_the_third(path: Path, target: Path) -> Path:
        if path.name.startswith(".importing-"):
            moved.append(target)
            if len(moved) == 3:
                raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_third)
    with pytest.raises(RunError, match="disk is full"):
        keep(records, files)
    assert len(moved) == 3
    assert list(records.root.iterdir()) == []


def test_a_verdict_that_can_not_be_kept_is_no_reason_to_import_nothing(
    command: Callable[..., tuple[int, str, str]],
    records: Records,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise RunError("the verdict can't be written")

    monkeypatch.setattr("kvmark.analysis.verdict.judge.save_verdict", full)
    assert command("import", data / "samples/ycsb-a.txt")[0] == 0
    assert [entry.state for entry in records.list()] == ["closed"]
