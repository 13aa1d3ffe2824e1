"""Studies that start their own servers, inject faults, or lose their servers."""

import json
import os
from pathlib import Path

import pytest
from studies import PATIENCE_S, MakeStudy, Program, needs, quick

from kvmark.testbed.process import make_group, remove_group
from kvmark.testbed.state import all_testbeds

QUIET = ("-q", "--json", "--report", "none")
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


def bounds_memory() -> None:
    """Skips where this user or machine can't bound what a server takes."""
    try:
        remove_group(make_group(f"kvmark-test-{os.getpid()}", 2**30))
    except Exception as refused:  # noqa: BLE001 - whatever it is, there is no bound
        pytest.skip(str(refused))


def test_cassandra_initial_reads_large_datasets_from_disk(program: Program, testbeds: Path) -> None:
    needs("java", "mvn")
    bounds_memory()
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
