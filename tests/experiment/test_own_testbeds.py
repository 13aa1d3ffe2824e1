"""Studies that start their own servers, inject faults, or lose their servers."""

import json
import os
from pathlib import Path

import pytest
from studies import PATIENCE_S, Program, needs, quick

from kvmark.testbed.process import make_group, remove_group
from kvmark.testbed.state import all_testbeds

QUIET = ("-q", "--json", "--report", "none")
# Nothing is kept on a disk: what is killed has lost all its records.
TEXT = """
testbed: {system: redis}
workload: ycsb/c
run: {records: 300, interval: 50ms, clients: 2, timeout: 1m}
order: written
factors:
  killed:
    levels:
      yes: {duration: 4s, faults: [{at: 100ms, do: kill, node: primary-1, for: 50ms}]}
      no: {operations: 1000}
"""


def test_after_a_fault_a_case_finds_its_servers_and_records(
    program: Program, own_testbeds: Path
) -> None:
    ended = program.study(TEXT, "--json")
    assert ended.json["missing"] == 0, ended
    made = program.manifests().values()
    found = {one["spec"]["study"]["levels"]["killed"]: one for one in made}
    # Started anew they would have another port.
    nodes = [found[level]["testbed"]["nodes"] for level in ("yes", "no")]
    assert nodes[0] == nodes[1]
    totals = found["no"]["engine"]["totals"]
    assert {total["outcome"] for total in totals if total["count"]} == {"ok"}
    loads = [phase for phase in found["no"]["engine"]["phases"] if phase["name"] == "load"]
    assert [phase["stopped_by"] for phase in loads] == ["operations"]
    assert not list(own_testbeds.iterdir())


def test_a_terminated_study_takes_its_servers_down(program: Program, own_testbeds: Path) -> None:
    text = """
testbed: {system: redis}
workload: ycsb/c
run: {records: 300, interval: 50ms, duration: 1h}
"""
    process = program.begin_study(text, "-q", "--report", "none")
    [testbed] = all_testbeds(own_testbeds)
    assert testbed.lives
    program.terminate(process)
    assert not testbed.lives
    assert not list(own_testbeds.iterdir())


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
