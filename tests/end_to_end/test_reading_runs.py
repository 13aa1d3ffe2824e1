"""Commands on stored runs: list, show, export, report, archive; `doctor` and `workloads`."""

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, fingerprint, run_folders, sentence_of
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

# YCSB's names for service times.
P99 = "99thPercentileLatency(us)"
MAX = "MaxLatency(us)"
Ids = tuple[str, str]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kvmark]:
    """Two runs, which no command may change: workload F on RocksDB, and C on a simulation."""
    folder = tmp_path_factory.mktemp("reading")
    kvmark = Kvmark(folder, folder / "runs")
    rocksdb = f"--system rocksdb:{folder}/db --records 500 --interval 50ms --operations 3000"
    kvmark(f"run ycsb/f {rocksdb} --tag old -q")
    sim = "--system sim:?clock=virtual --load never --rate 1000 --duration 1s"
    kvmark(f"run ycsb/c {sim} --tag new --tag fast -q")
    before = fingerprint(kvmark.runs)
    yield kvmark
    kvmark.close()
    assert fingerprint(kvmark.runs) == before


@pytest.fixture(scope="module")
def ids(measured: Kvmark) -> Ids:
    older, newer = run_folders(measured.runs)
    return older.name, newer.name


def test_runs_are_listed_newest_first_or_by_tag(measured: Kvmark, ids: Ids) -> None:
    listed = re.findall(r"^\d{8}-\d{6}\S*", measured("runs").out, re.MULTILINE)
    assert listed == [*reversed(ids)]
    [newest] = measured("runs --limit 1 --json").json["runs"]
    assert newest["entry"]["id"] == ids[1]
    [tagged] = measured("runs --tag old --json").json["runs"]
    assert tagged["entry"]["id"] == ids[0]
    assert tagged["entry"]["state"] == "closed"
    assert tagged["throughput"] > 0


def test_a_run_is_named_by_its_place_or_its_id(measured: Kvmark, ids: Ids) -> None:
    older, newer = ids
    for name, run in {"last": newer, "last~1": older, older: older, newer[:-1]: newer}.items():
        assert measured(f"show {name} --json").json["run"] == run


def test_the_export_for_ycsb_has_its_groups_and_counts(measured: Kvmark) -> None:
    lines = measured("runs export last~1 --format ycsb").out.splitlines()
    values = {tuple(line.split(", ")[:2]): line.split(", ")[2] for line in lines}
    assert float(values["[OVERALL]", "Throughput(ops/sec)"]) > 0
    names = ("READ", "UPDATE", "READ-MODIFY-WRITE")
    reads, updates, both = (int(values[f"[{name}]", "Operations"]) for name in names)
    # As in YCSB, the parts of a read-modify-write are reads and updates, too.
    assert (reads, updates) == (3000, both)
    assert values["[READ]", "Return=OK"] == str(reads)
    totals = measured.manifests()[0]["engine"]["totals"]
    slowest_ns = max(one["service"]["max"] for one in totals if one["operation"] == "READ")
    assert 0 <= int(values["[READ]", P99]) <= int(values["[READ]", MAX]) == slowest_ns // 1000


def test_exports_have_counts_that_add_up_manifest_and_summary(measured: Kvmark, ids: Ids) -> None:
    rows = csv.DictReader(measured("runs export --format csv").out.splitlines())
    reads = [row for row in rows if row["operation"] == "READ" and row["phase_name"] == "measure"]
    assert sum(int(row["count"]) for row in reads) == 1000
    document = measured(f"runs export {ids[0]} --format json").json
    assert document["manifest"]["id"] == ids[0]
    assert document["summary"]["phases"]


def test_the_public_package_counts_the_same_in_a_histogram_log(measured: Kvmark) -> None:
    log = measured.folder / "last.hlog"
    measured("runs export last~1 --format hlog -o", log)
    counted: dict[str, int] = {}
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 3))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        tag = histogram.get_tag()
        counted[tag] = counted.get(tag, 0) + histogram.get_total_count()
    reader.input_file.close()
    engine = measured.manifests()[0]["engine"]
    phases = {one["index"]: one["name"] for one in engine["phases"]}
    assert counted == {
        f"{'' if phases[one['phase']] == 'measure' else phases[one['phase']] + ':'}{one['group']}."
        f"{'READ-MODIFY-WRITE.' if one['part'] else ''}{one['operation']}-{time}": one["count"]
        for one in engine["totals"]
        for time in ("st", "rt", "wt")
    }


def test_a_report_is_a_page_without_references_or_a_text(measured: Kvmark) -> None:
    measured("runs report last last~1 -o both.html")
    page = (measured.folder / "both.html").read_text()
    assert "ycsb/f" in page
    markup = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", markup)
    measured("runs report last -o one.md")
    text = (measured.folder / "one.md").read_text()
    assert text.startswith("# ")
    assert "ycsb/c" in text
    (measured.folder / "page.html").mkdir()
    sentence = measured.refuses("runs report last -o page.html")
    assert "page.html is a folder; name a file" in sentence


def test_a_name_of_no_run_or_of_several_is_refused(measured: Kvmark, ids: Ids) -> None:
    for name in ("nosuch", "last~7", ids[0][:8]):
        assert name in measured.refuses("show", name)


def test_doctor_reports_the_state_of_the_machine_with_advice(kvmark: Kvmark) -> None:
    findings = {one["subject"]: one for one in kvmark("doctor --json").json["findings"]}
    subjects = {"engine", "build", "clock", "lag", "cores", "quiet", "open files", "runs"}
    assert subjects <= findings.keys()
    for finding in findings.values():
        assert finding["state"] in ("good", "mind", "bad")
        assert finding["state"] == "good" or finding["advice"]


def test_workloads_are_listed_and_printed(kvmark: Kvmark) -> None:
    lines = kvmark("workloads").out.splitlines()
    assert all(len(line) <= 100 and len(line.split()) > 2 for line in lines)
    names = [line.split()[0] for line in lines]
    assert names == sorted(names)
    assert {f"ycsb/{letter}" for letter in "abcdef"} <= set(names)
    text = kvmark("workloads ycsb/e").out
    assert "name: ycsb/e" in text
    workloads = kvmark("workloads --json").json["workloads"]
    assert {one["name"]: one["description"] for one in workloads}["ycsb/a"]
    document = {"schema": "kvmark/workload/1", "name": "ycsb/e", "text": text}
    assert kvmark("workloads ycsb/e --json").json == document


def test_exports_and_reports_have_json_documents(measured: Kvmark, ids: Ids) -> None:
    def export(options: str = "") -> Any:
        return measured(f"runs export --format csv {options} --json").json

    printed, written = export(), export("-o last.csv")
    assert (printed["run"], printed["format"], printed["output"]) == (ids[1], "csv", None)
    assert printed["text"] == measured("runs export --format csv").out
    assert (written["output"], written["text"]) == ("last.csv", None)
    assert (measured.folder / "last.csv").read_text() == printed["text"]
    reported = measured("runs report last -o json.md --json")
    document = {"schema": "kvmark/report/1", "runs": [ids[1]], "report": "json.md"}
    assert reported.json == document
    assert reported.err == ""


def test_an_empty_list_of_runs_creates_no_folder(kvmark: Kvmark) -> None:
    assert kvmark("runs").out.startswith(f"No runs in {kvmark.runs} yet: measure with kvmark run")
    assert kvmark("runs --json").json["runs"] == []
    assert not kvmark.runs.exists()


@pytest.mark.parametrize("words", ["export last~1 --format json", "list --json"])
def test_a_closed_pipe_is_no_error(measured: Kvmark, words: str) -> None:
    with measured.start(f"runs {words}").process as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_an_error_of_one_sentence(kvmark: Kvmark) -> None:
    with Path("/dev/full").open("w") as full:
        err = kvmark.start("workloads", out=full).finish(exits=3).err
    assert err == "kvmark: standard output can't be written because No space left on device\n"


@pytest.mark.parametrize("name", ["histograms.hlog", "events.jsonl", "intervals.parquet"])
def test_an_unreadable_file_of_a_run_is_named(kvmark: Kvmark, name: str) -> None:
    kvmark("run ycsb/a --system sim:?clock=virtual&mean_us=1000 --load never --duration 3s -q")
    (folder,) = run_folders(kvmark.runs)
    damaged = folder / name
    damaged.unlink()
    # Not even root can read a folder as a file.
    damaged.mkdir()
    sentence = sentence_of(kvmark("runs report last", exits=2).err)
    assert f"{damaged} can't be read" in sentence
    assert "report.html" not in sentence
    assert not (kvmark.folder / "kvmark-report.html").exists()


def test_a_run_without_histograms_is_archived_only_on_request(kvmark: Kvmark) -> None:
    kvmark("run ycsb/c --system null: --load never --operations 100 -q", exits=(0, 1))
    (run,) = run_folders(kvmark.runs)
    log = run / "histograms.hlog"
    log.unlink()
    assert "is missing" in kvmark.refuses("runs archive last -o a.tar.xz")
    kvmark("runs archive last -o a.tar.xz --no-histogram-logs")
    os.mkfifo(log)
    for words in ("archive last -o b.tar.xz", "export last --format hlog"):
        assert "no regular file" in kvmark.refuses(f"runs {words}", exits=(2, 3))
