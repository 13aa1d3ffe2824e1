"""Studies that start their own servers, inject faults, or lose their servers."""

import json
from pathlib import Path

from studies import PATIENCE_S, Program

from kvmark.testbed.state import all_testbeds

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


def test_after_a_fault_a_case_finds_the_same_servers_and_all_records_again(
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


def test_a_study_that_is_terminated_takes_its_servers_down(
    program: Program, own_testbeds: Path
) -> None:
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


def test_a_system_that_goes_down_fails_its_case_and_not_the_study(
    program: Program, own_testbeds: Path
) -> None:
    text = """
workload: ycsb/c
order: written
run: {records: 100, interval: 50ms, clients: 1, duration: 1s}
factors:
  system: {levels: {lost: "up:mine", there: "null:"}}
"""
    assert program("up", "redis", "--name", "mine").code == 0
    words = ("-q", "--json", "--report", "none", "--repetitions", "2")
    process = program.begin_study(text, *words)
    assert program("down", "mine").code == 0
    process.join(PATIENCE_S)
    assert process.exitcode == 1, (program.folder / "err").read_text()
    rows = json.loads((program.folder / "out").read_text())["rows"]
    found = {row["levels"]["system"]: row for row in rows}
    assert any("mine" in reason for reason in found["lost"]["failures"])
    assert not found["there"]["failures"]
    specs = [one["spec"]["study"] for one in program.manifests().values()]
    assert [spec["levels"]["system"] for spec in specs].count("there") == 2
