"""Commands over runs on disk: list, show, export, report, and what stands beside them."""

import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Kvmark, fingerprint, run_folders, sentence_of
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from kvmark.cli import main

# YCSB's name for a service time.
P99 = "99thPercentileLatency(us)"
MAX = "MaxLatency(us)"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kvmark]:
    """Two runs: the older one of workload F on RocksDB, the newer one of C on a simulation.

    No command of this file may change them.
    """
    folder = tmp_path_factory.mktemp("reading")
    kvmark = Kvmark(folder, folder / "runs")
    rocksdb = ("--system", f"rocksdb:{folder}/db", "--records", "500", "--interval", "50ms")
    kvmark("run", "ycsb/f", *rocksdb, "--operations", "3000", "--tag", "old", "-q")
    sim = ("--system", "sim:?clock=virtual", "--load", "never", "--rate", "1000")
    kvmark("run", "ycsb/c", *sim, "--duration", "1s", "--tag", "new", "--tag", "fast", "-q")
    before = fingerprint(kvmark.runs)
    yield kvmark
    assert fingerprint(kvmark.runs) == before


@pytest.fixture(scope="module")
def ids(measured: Kvmark) -> tuple[str, str]:
    older, newer = run_folders(measured.runs)
    return older.name, newer.name


def test_runs_are_listed_newest_first(measured: Kvmark, ids: tuple[str, str]) -> None:
    older, newer = ids
    lines = measured("runs").out.splitlines()
    found = [line.split()[0] for line in lines if re.match(r"\d{8}-\d{6}", line)]
    assert found == [newer, older]


def test_the_list_can_be_short_tagged_and_json(measured: Kvmark, ids: tuple[str, str]) -> None:
    [newest] = measured("runs", "--limit", "1", "--json").json["runs"]
    assert newest["entry"]["id"] == ids[1]
    [tagged] = measured("runs", "--tag", "old", "--json").json["runs"]
    assert tagged["entry"]["id"] == ids[0]
    assert tagged["entry"]["state"] == "closed"
    assert tagged["throughput"] > 0


def test_a_run_goes_by_its_place_its_id_or_the_id_s_beginning(
    measured: Kvmark, ids: tuple[str, str]
) -> None:
    older, newer = ids
    words = {"last": newer, "last~1": older, older: older, newer[:-1]: newer}
    for word, meant in words.items():
        assert measured("show", word, "--json").json["run"] == meant


def test_the_final_text_of_ycsb_has_its_groups_and_counts(measured: Kvmark) -> None:
    lines = measured("runs", "export", "last~1", "--format", "ycsb").out.splitlines()
    values = {tuple(line.split(", ")[:2]): line.split(", ")[2] for line in lines}
    assert float(values["[OVERALL]", "Throughput(ops/sec)"]) > 0
    reads = int(values["[READ]", "Operations"])
    updates = int(values["[UPDATE]", "Operations"])
    both = int(values["[READ-MODIFY-WRITE]", "Operations"])
    # As in YCSB, the parts of a read-modify-write are reads and updates too.
    assert (reads, updates) == (3000, both)
    assert values["[READ]", "Return=OK"] == str(reads)
    totals = measured.manifest(measured("show", "last~1", "--json").json["run"])["engine"]["totals"]
    slowest_ns = max(one["service"]["max"] for one in totals if one["operation"] == "READ")
    assert 0 <= int(values["[READ]", P99]) <= int(values["[READ]", MAX]) == slowest_ns // 1000


def test_the_intervals_are_a_table_whose_counts_add_up(measured: Kvmark) -> None:
    rows = list(csv.DictReader(io.StringIO(measured("runs", "export", "--format", "csv").out)))
    reads = [row for row in rows if row["operation"] == "READ" and row["phase_name"] == "measure"]
    assert sum(int(row["count"]) for row in reads) == 1000


def test_json_holds_the_manifest_and_a_summary(measured: Kvmark, ids: tuple[str, str]) -> None:
    document = measured("runs", "export", ids[0], "--format", "json").json
    assert document["manifest"]["id"] == ids[0]
    assert document["summary"]["phases"]


def test_the_public_package_reads_the_histogram_log_and_counts_the_same(measured: Kvmark) -> None:
    log = measured.folder / "last.hlog"
    measured("runs", "export", "last~1", "--format", "hlog", "-o", log)
    counted: dict[str, int] = {}
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 3))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        tag = histogram.get_tag()
        counted[tag] = counted.get(tag, 0) + histogram.get_total_count()
    reader.input_file.close()
    manifest = measured.manifest(run_folders(measured.runs)[0].name)
    phases = {one["index"]: one["name"] for one in manifest["engine"]["phases"]}
    totals: dict[str, int] = {}
    for total in manifest["engine"]["totals"]:
        prefix = "" if phases[total["phase"]] == "measure" else f"{phases[total['phase']]}:"
        group = f"{total['group']}."
        part = "READ-MODIFY-WRITE." if total["part"] else ""
        for time in ("st", "rt", "wt"):
            totals[f"{prefix}{group}{part}{total['operation']}-{time}"] = total["count"]
    assert counted == totals


def test_a_report_is_a_page_or_a_text(measured: Kvmark) -> None:
    measured("runs", "report", "last", "last~1", "-o", "both.html")
    measured("runs", "report", "last", "-o", "one.md")
    assert "ycsb/f" in (measured.folder / "both.html").read_text()
    text = (measured.folder / "one.md").read_text()
    assert text.startswith("# ")
    assert "ycsb/c" in text


def test_a_page_needs_nothing_from_elsewhere(measured: Kvmark) -> None:
    measured("runs", "report", "last", "-o", "alone.html")
    page = (measured.folder / "alone.html").read_text()
    markup = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", markup)


def test_a_word_that_means_no_run_or_several_is_refused(
    measured: Kvmark,
    ids: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KVMARK_RUNS", str(measured.runs))
    for word in ("nosuch", "last~7", ids[0][:8]):
        assert main(["show", word]) == 2
        assert word in sentence_of(capsys.readouterr().err)


def test_doctor_says_what_the_machine_has_and_lacks(kvmark: Kvmark) -> None:
    found = kvmark("doctor", "--json").json["findings"]
    findings = {one["subject"]: one for one in found}
    assert {
        "engine",
        "build",
        "clock",
        "lag",
        "cores",
        "quiet",
        "open files",
        "runs",
    } <= findings.keys()
    for finding in findings.values():
        assert finding["state"] in ("good", "mind", "bad")
        assert finding["state"] == "good" or finding["advice"]


def test_workloads_are_listed_and_printed(kvmark: Kvmark) -> None:
    names = kvmark("workloads").out.split()
    assert names == sorted(names)
    assert {f"ycsb/{letter}" for letter in "abcdef"} <= set(names)
    assert "name: ycsb/e" in kvmark("workloads", "ycsb/e").out


def test_every_answer_can_be_one_json_document(measured: Kvmark, ids: tuple[str, str]) -> None:
    exported = measured("runs", "export", "--format", "csv", "--json").json
    assert (exported["run"], exported["format"], exported["output"]) == (ids[1], "csv", None)
    assert exported["text"] == measured("runs", "export", "--format", "csv").out
    written = measured("runs", "export", "--format", "csv", "-o", "last.csv", "--json").json
    assert (written["output"], written["text"]) == ("last.csv", None)
    assert (measured.folder / "last.csv").read_text() == exported["text"]
    reported = measured("runs", "report", "last", "-o", "json.md", "--json")
    assert reported.json == {
        "schema": "kvmark/report/1", "runs": [ids[1]], "report": "json.md",
    }  # fmt: skip
    assert reported.err == ""
    workloads = measured("workloads", "--json").json["workloads"]
    assert {one["name"]: one["description"] for one in workloads}["ycsb/a"]
    assert measured("workloads", "ycsb/a", "--json").json == {
        "schema": "kvmark/workload/1",
        "name": "ycsb/a",
        "text": measured("workloads", "ycsb/a").out,
    }


def test_there_are_no_runs_at_first(kvmark: Kvmark) -> None:
    assert kvmark("runs").out == "No runs yet.\n"
    assert kvmark("runs", "--json").json["runs"] == []
    assert not kvmark.runs.exists()


@pytest.mark.parametrize("words", [("export", "last~1", "--format", "json"), ("list", "--json")])
def test_nobody_reading_is_no_error(measured: Kvmark, words: tuple[str, ...]) -> None:
    started = measured.start("runs", *words)
    assert started.stdout is not None
    started.stdout.close()
    assert started.wait(timeout=measured.patience_s) == 0
    assert started.stderr is not None
    assert started.stderr.read() == ""
    started.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_answer_that_cannot_be_written_is_one_sentence(kvmark: Kvmark) -> None:
    with Path("/dev/full").open("w") as full:
        result = kvmark.finish(kvmark.start("workloads", out=full), 3)
    assert result.err == (
        "kvmark: standard output can't be written because No space left on device\n"
    )


@pytest.mark.parametrize("name", ["histograms.hlog", "events.jsonl", "intervals.parquet"])
def test_a_file_that_can_not_be_read_is_named_and_not_the_one_to_be_written(
    kvmark: Kvmark, name: str
) -> None:
    words = ("--system", "sim:?clock=virtual&mean_us=1000", "--load", "never", "--duration", "3s")
    kvmark("run", "ycsb/a", *words, "-q")
    (folder,) = run_folders(kvmark.runs)
    damaged = folder / name
    damaged.unlink()
    # Nobody can read a folder as a file, not even root.
    damaged.mkdir()
    sentence = sentence_of(kvmark("runs", "report", "last", exits=2).err)
    assert f"{damaged} can't be read" in sentence
    assert "report.html" not in sentence
    assert not (kvmark.folder / "kvmark-report.html").exists()


def test_a_report_that_can_not_be_written_is_named(kvmark: Kvmark) -> None:
    kvmark("run", "ycsb/a", "--system", "null:", "--load", "never", "--operations", "1k", "-q")
    (kvmark.folder / "page.html").mkdir()
    sentence = sentence_of(kvmark("runs", "report", "last", "-o", "page.html", exits=2).err)
    assert "page.html is a folder; name a file" in sentence


def test_a_run_without_its_histograms_is_archived_only_as_one(kvmark: Kvmark) -> None:
    kvmark("run", "ycsb/c", "--system", "null:", "--operations", 100, "-q", exits=(0, 1))
    (run,) = run_folders(kvmark.runs)
    log = run / "histograms.hlog"
    log.unlink()
    assert "is missing" in kvmark.refuses("runs", "archive", "last", "-o", "a.tar.xz")
    kvmark("runs", "archive", "last", "-o", "a.tar.xz", "--no-histogram-logs")
    os.mkfifo(log)
    for words in (("archive", "last", "-o", "b.tar.xz"), ("export", "last", "--format", "hlog")):
        assert "no regular file" in kvmark.refuses("runs", *words, exits=(2, 3))
