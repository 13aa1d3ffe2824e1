"""Executed studies: failures, datasets, reports, run lengths, and servers of their own."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from scripted_store import store
from studies import PATIENCE_S, TOO_SHORT, MakeStudy, Program, quick

from kvmark.analysis.verdict.judge import Verdict, save_verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records import Records
from kvmark.testbed.state import all_testbeds
from programs import can_bound_memory, needs

QUIET = ("-q", "--json", "--report", "none")
AGAIN = ("study", "study.yaml", "-q", "--report", "none", "--resume")


def repetition(manifest: dict[str, Any]) -> int:
    """Which repetition of its case a run is; ids of one second are in no order."""
    return int(manifest["spec"]["study"]["repetition"])


def test_a_failing_case_is_a_result_and_the_study_continues(program: Program) -> None:
    (program.folder / "file").write_text("no folder")
    text = """
workload: ycsb/c
run: {operations: 500, records: 100, clients: 1}
factors:
  system: {levels: {none: "rocksdb:./file", there: "null:"}}
"""
    ended = program.study(text, "--json")
    assert ended.code == 1, ended
    rows = {row["levels"]["system"]: row for row in ended.json["rows"]}
    assert rows["none"]["figures"] is None
    [reason] = rows["none"]["failures"]
    assert "file" in reason
    assert rows["there"]["figures"]["verdict"]["judgement"] != "INVALID"
    told = program(*AGAIN)
    assert "FAILED" in told.out
    assert "Cases that came to no end" in told.out
    # A study of which nothing could be measured failed.
    ended = program.study('system: "rocksdb:./file"\nworkload: ycsb/c\n')
    assert ended.code == 3, ended
    assert "kvmark: no case measured anything: " in ended.err


@pytest.mark.parametrize(("limit", "duration"), [("300ms", "1h"), ("1h", "50ms")])
def test_a_case_beyond_its_limit_failed(program: Program, limit: str, duration: str) -> None:
    text = f"""
system: "sim:?mean_us=1000"
workload: ycsb/c
limit: {limit}
factors: {{clients: [1]}}
run: {{duration: {duration}, records: 10, interval: 10ms}}
"""
    ended = program.study(text)
    # It fails with 1 or, where nothing was measured until then, with 3.
    is_over = "the case took longer than its limit" in ended.out + ended.err
    assert is_over == (ended.code in (1, 3)) == (duration == "1h"), ended


def test_a_case_whose_system_hangs_while_it_opens_failed(program: Program) -> None:
    ends = threading.Event()
    with store(ends.wait) as server:
        system = f"redis://127.0.0.1:{server.port}?connect_timeout_ms=3600000"
        ended = program.study(f'system: "{system}"\nworkload: ycsb/c\nlimit: 100ms\n')
        ends.set()
    assert ended.code == 3, ended
    assert "the case took longer than its limit" in ended.err


def test_a_reader_asks_only_for_keys_that_were_acknowledged(program: Program) -> None:
    # The published reads failed because minutes of writing had not covered the keys. Here a case
    # before writes only a part of them, and so does a load that was cut short.
    text = f"""
system: "rocksdb:{program.folder}/db"
workloads:
  write:
    dataset: {{records: 5000, loaded: false}}
    groups: [{{mix: {{insert: 1}}}}]
  read:
    dataset: {{records: 5000}}
    groups: [{{mix: {{read: 1}}, keys: uniform}}]
order: written
factors:
  operation:
    levels:
      write: {{workload: write, operations: 700}}
      read: {{workload: read, operations: 5000}}
repetitions: 2
"""
    ended = program.study(text, "--json")
    # Runs of milliseconds may be imprecise.
    assert ended.code in (0, 1), ended
    assert ended.json["missing"] == 0
    made = sorted(program.manifests().values(), key=repetition)
    totals = [total for one in made for total in one["engine"]["totals"] if total["count"]]
    assert "miss" not in {total["outcome"] for total in totals}
    loads = [
        [phase["stopped_by"] for phase in one["engine"]["phases"] if phase["name"] == "load"]
        for one in made
        if one["spec"]["study"]["levels"]["operation"] == "read"
    ]
    # The first reader's records are loaded whatever a look at some of them says; then they stay.
    assert loads == [["operations"], ["skipped"]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smoke", "--scale 0.1 --repetitions 2"),
        (
            "hcassandra",
            "--system sim:?clock=virtual --scale 0.0001 --only clients=10,100 --repetitions 1",
        ),
        ("cassandra-initial", "--system null: --scale 0.001 --repetitions 1"),
    ],
)
def test_a_ready_study_runs_to_its_end(program: Program, name: str, words: str) -> None:
    report, file = program.folder / "report.html", name
    if name != "smoke":
        quick(name, program.folder)
        file = "slice.yaml"
    ended = program("study", file, *words.split(), "-q", "--json", "--report", report)
    assert ended.code in (0, 1), ended
    assert ended.json["missing"] == 0
    assert all(row["figures"] is not None for row in ended.json["rows"]), ended.json["rows"]
    page = report.read_text()
    assert f"Study {name}" in page
    assert "vega" in page


def test_published_figures_are_listed_with_measured_ones(tmp_path: Path, program: Program) -> None:
    (tmp_path / "theirs.csv").write_text("threads,rate,p99\n1,1000,2.5\n2,1900,3.5\n")
    text = """
name: beside
question: How do we compare?
system: "sim:?clock=virtual&servers=4"
workload: ycsb/c
run: {operations: 2000}
factors: {clients: [1, 2, 3], size: {path: records, levels: [50, 100]}}
effects: [{title: Twice the clients, from: {clients: 1}, to: {clients: 2}}]
published:
  source: a report of others
  file: theirs.csv
  factors: {clients: threads}
  figures: {throughput: rate, p99_ms: p99}
figure: {across: clients, series: [size]}
repetitions: 3
"""
    (tmp_path / "beside.yaml").write_text(text)
    report = tmp_path / "beside.md"
    ended = program("study", "beside.yaml", "-q", "--report", report)
    assert ended.code == 0, ended
    assert "Published: a report of others." in ended.out
    assert "1,900" in ended.out
    assert "+90" in ended.out
    # The effects name it, too.
    effects = report.read_text().partition("## Effects")[2]
    assert "\nPublished: a report of others." in effects.partition("##")[0]
    # The report of others knows no sizes: its figures are one series beside both.
    picture = (tmp_path / "beside" / "throughput.svg").read_text()
    assert re.findall(r">([^<>]*(?:size|published)[^<>]*)<", picture) == [
        "size 50", "size 100", "published",
    ]  # fmt: skip


def test_a_study_can_be_looked_at_before_it_is_run(tmp_path: Path, program: Program) -> None:
    listed = program("study")
    assert [line.partition(":")[0] for line in listed.out.splitlines()] == [
        "cassandra-initial", "hcassandra", "proxy", "smoke", "ycsb-published", "yugabyte-1.0.7",
    ]  # fmt: skip
    cases = program("study", "smoke", "--cases", "--json")
    assert {"clients": "4", "value_size": "100"} in cases.json["cases"]
    text = program("study", "smoke", "--text")
    assert "name: smoke" in text.out
    assert not (tmp_path / "runs").exists()


def test_the_manifest_of_a_run_has_its_case(tmp_path: Path, program: Program) -> None:
    words = ("--runs", "elsewhere", "--scale", "0.05", "--repetitions", "1")
    ended = program("study", "smoke", *words, *QUIET, "--only", "clients=2")
    made = program.manifests("elsewhere")
    assert sorted(made) == sorted(ended.json["runs"])
    for manifest in made.values():
        assert manifest["tags"] == [f"study:{ended.json['study']}"]
        assert manifest["spec"]["study"]["levels"]["clients"] == "2"
    definition = json.loads(
        (tmp_path / "elsewhere" / "studies" / ended.json["study"] / "study.json").read_text()
    )
    assert definition["asked"]["only"] == ["clients=2"]


def test_an_imprecise_run_is_not_repeated_when_its_study_is_resumed(program: Program) -> None:
    study = TOO_SHORT.replace("lengthen: 3", "lengthen: 0").replace("50ms", "250ms")
    effects = "effects: [{title: fewer, from: {clients: 8}, to: {clients: 2}}]\n"
    ended = program.study(f"{study}{effects}", "--json")
    [row] = [row for row in ended.json["rows"] if row["levels"]["clients"] == "8"]
    reasons = row["figures"]["verdict"]["reasons"]
    # As few operations end as there are clients, and all in one interval.
    assert [one["code"] for one in reasons if one["level"] == "INVALID"] == ["imprecise"], ended
    made = sorted(program.manifests())
    again = program(*AGAIN, "--json")
    assert sorted(program.manifests()) == made
    assert again.json["rows"] == ended.json["rows"]
    # It stands for its case, and in no effect.
    assert [one["by_case"] for one in again.json["effects"]] == [[]]


def test_a_longer_run_that_is_invalid_for_a_passing_cause_is_made_again(program: Program) -> None:
    study = TOO_SHORT.replace("lengthen: 3", "lengthen: 1").replace("50ms", "250ms")
    program.study(study, "--only", "clients=8")
    records = Records(program.folder / "runs")
    made = program.manifests()
    [longer] = (run for run, one in made.items() if one["spec"]["duration_ns"] == 500 * 10**6)
    # The first stands for its precision alone; the longer one met a cause that passes.
    late = Reason("schedule_late", Level.INVALID, None, "It was late.", {}, None, "Look.")
    save_verdict(records, records.open(longer), Verdict.of([late]))
    program.study(study, "--only", "clients=8", "--resume")
    again = program.manifests()
    assert [one["spec"]["duration_ns"] for run, one in again.items() if run not in made] == [
        500 * 10**6
    ]


def test_a_warm_up_ends_when_throughput_is_stationary(program: Program) -> None:
    words = ("--records", 10, "--duration", "1s", "--interval", "20ms", "--warmup", "1h")
    system = ("--system", "sim:?mean_us=200&clock=virtual", "--warmup-until", "stationary")
    ended = program("run", "ycsb/c", *words, *system, "-q")
    [manifest] = program.manifests().values()
    phases = {phase["name"]: phase for phase in manifest["engine"]["phases"]}
    warm_up = phases["warm_up"]
    assert warm_up["stopped_by"] == "until", ended
    assert 0.4e9 <= warm_up["end_ns"] - warm_up["start_ns"] < 60e9
    refused = program("run", "ycsb/c", *system, "--warmup", "0s", "-q")
    assert refused.code == 2
    assert "warmup-until: a warm-up of no length can't end" in refused.err


def test_a_run_without_a_length_is_warm_and_known_to_three_percent(program: Program) -> None:
    words = ("--records", 10, "--system", "sim:?mean_us=2000&clock=virtual&service=exponential")
    ended = program("run", "ycsb/c", *words, "--json", "-q")
    answer = json.loads(ended.out)
    (measured,) = answer["summary"]["phases"]
    assert measured["stopped_by"] == "until", ended
    # On the virtual clock the engine runs ahead of whoever looks.
    assert 10e3 <= measured["runtime_ms"] <= 60e3
    throughput = measured["throughput"]
    assert throughput["high"] - throughput["low"] < 2 * 0.031 * throughput["value"]
    assert 4e3 <= answer["summary"]["warm_up_ms"] <= 30e3
    shown = " ".join(program("show", "last", "--notes").out.split())
    assert "warm-up until throughput is steady or 30.0 s at most" in shown
    assert "until throughput is known to ± 3 % or 60.0 s at most" in shown


# Studies that start their own servers, inject faults, or lose their servers.


WARMUP = "server_warmup: 3s\n"
CORES = os.sched_getaffinity(0)
# Nothing is kept on a disk: what is killed has lost all its records.
KILLED = f"""
testbed: {{system: redis, cores: [{min(CORES)}]}}
workload: ycsb/c
run: {{records: 300, interval: 50ms, clients: 2, timeout: 1m}}
order: written
factors:
  killed:
    levels:
      before: {{operations: 1000}}
      yes: {{duration: 3s, faults: [{{at: 100ms, do: kill, node: primary-1, for: 50ms}}]}}
      no: {{operations: 1000}}
"""


@pytest.mark.parametrize(("warmup", "load"), [("", "operations"), (WARMUP, "skipped")])
def test_after_a_fault_a_case_finds_its_servers_and_all_records(
    program: Program, own_testbeds: Path, warmup: str, load: str
) -> None:
    ended = program.study(KILLED + warmup, "--json")
    assert ended.json["missing"] == 0, ended
    made = program.manifests().values()
    found = {one["spec"]["study"]["levels"]["killed"]: one for one in made}
    levels = ("before", "yes", "no")
    # Started anew they would have another port.
    nodes = [found[level]["testbed"]["nodes"] for level in levels]
    assert nodes[0] == nodes[1] == nodes[2]
    engine = found["no"]["engine"]
    assert {total["outcome"] for total in engine["totals"] if total["count"]} == {"ok"}
    # All is loaded again, or was for the warm-up.
    loads = [phase for phase in engine["phases"] if phase["name"] == "load"]
    assert [phase["stopped_by"] for phase in loads] == [load]
    kept = [found[level]["spec"]["study"] for level in levels]
    assert [one["after_start"] for one in kept] == [1, 2, 1]
    warmups = [one.get("server_warmup") for one in kept]
    assert warmups[0] == warmups[1]
    if warmup:
        assert warmups[1] != warmups[2]
        assert [bool(one["rounds_on_all_cores"]) for one in warmups] == [len(CORES) > 1] * 3
    assert not list(own_testbeds.iterdir())


def test_a_run_with_a_fault_is_made_no_longer(study: MakeStudy) -> None:
    # The fault would be another part of it.
    asked = study(KILLED.replace("operations: 1000", "duration: 3s") + "lengthen: 2\n")
    found = {case.labels["killed"]: asked.most_lengthened(case) for case in asked.cases}
    assert found == {"before": 2, "yes": 0, "no": 2}


@pytest.mark.parametrize(
    ("warmup", "logs"),
    [("", "runs/*/intervals.jsonl"), ("server_warmup: 1h", "runs/.tried-*/*/intervals.jsonl")],
    ids=["in a run", "in the warm-up of servers"],
)
def test_a_terminated_study_takes_its_servers_down(
    program: Program, own_testbeds: Path, warmup: str, logs: str
) -> None:
    run = "run: {records: 300, interval: 50ms, duration: 1h}"
    text = f"testbed: {{system: redis}}\nworkload: ycsb/c\n{run}\n{warmup}\n"
    process = program.begin_study(text, *QUIET, logs=logs)
    [testbed] = all_testbeds(own_testbeds)
    assert testbed.lives
    program.terminate(process)
    assert not testbed.lives
    assert not list(own_testbeds.iterdir())
    left = [path.name for path in (program.folder / "runs").iterdir()]
    assert not warmup or left == ["studies"]


def test_a_system_that_goes_down_fails_only_its_case(program: Program, own_testbeds: Path) -> None:
    text = """
workload: ycsb/c
order: written
run: {records: 100, interval: 50ms, clients: 1, duration: 1s}
factors:
  system: {levels: {lost: "up:mine", there: "null:"}}
"""
    assert program("up", "redis", "--name", "mine").code == 0
    process = program.begin_study(text, *QUIET, "--repetitions", "2")
    assert program("down", "mine").code == 0
    process.join(PATIENCE_S)
    assert process.exitcode == 1, (program.folder / "err").read_text()
    rows = json.loads((program.folder / "out").read_text())["rows"]
    found = {row["levels"]["system"]: row for row in rows}
    assert any("mine" in reason for reason in found["lost"]["failures"])
    assert not found["there"]["failures"]
    specs = [one["spec"]["study"] for one in program.manifests().values()]
    assert [spec["levels"]["system"] for spec in specs].count("there") == 2


@pytest.mark.heavy
def test_cassandra_initial_reads_large_datasets_from_disk(program: Program, testbeds: Path) -> None:
    needs("java", "mvn")
    if not can_bound_memory():
        pytest.skip("memory can't be bounded here")
    # Where the disk has to answer, the page cache may not: one of the two has to fail.
    both = ("data: exceeds}, least", "data: [fits, exceeds]}, least")
    quick("cassandra-initial", program.folder, both)
    choices = ("nodes=1", "study=random-lookup", "in_flight=10", "concurrent_reads=32")
    words = [word for choice in choices for word in ("--only", choice)]
    ended = program("study", "slice.yaml", *words, "--repetitions", "1", "--scale", "0.3", *QUIET)
    assert (ended.json["missing"], ended.code) == (0, 1), ended
    rows = {row["levels"]["data"]: row for row in ended.json["rows"]}
    assert not rows["exceeds"]["failures"]
    sentence = "bytes from their disks for an operation, and 4,096 at the least"
    assert sentence in rows["fits"]["failures"][0]
    # A record has 20,000 bytes.
    read = {data: row["disk_bytes"] for data, row in rows.items()}
    assert read["exceeds"] > max(2_000, 5 * (read["fits"] or 0)), read
    bounds = {"exceeds": 960 * 2**20, "fits": None}
    for manifest in program.manifests().values():
        data = manifest["spec"]["study"]["levels"]["data"]
        assert manifest["testbed"].get("memory_bytes") == bounds[data]
        groups = {one["name"]: one["clients"] for one in manifest["plan"]["groups"]}
        assert groups["clients"] == 10
        assert len(manifest["testbed"]["nodes"]) == 1
        totals = manifest["engine"]["totals"]
        assert {total["outcome"] for total in totals if total["count"]} == {"ok"}
