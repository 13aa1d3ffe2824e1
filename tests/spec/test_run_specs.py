"""Possible runs are accepted; refusals.toml has the others."""

import json
from typing import Any

import pytest

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.spec.faults import parse_fault
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import WorkloadSpec, parse_workload

S = 10**9
TWO_GROUPS = """
name: two
groups:
  - {name: writers, mix: {update: 1}, rate: 100}
  - {name: readers, mix: {read: 1}, think_time: 1ms}
"""


def run(workload: WorkloadSpec | None = None, url: str = "null:", **changes: Any) -> RunSpec:
    known = workload or catalog.load("ycsb/a")
    return RunSpec(workload=known, system=parse_system_url(url), **changes)


@pytest.mark.parametrize("changes", [{"clients": 2}, {"arrival": "poisson"}])
def test_one_of_several_groups_can_be_chosen_and_changed(changes: dict[str, Any]) -> None:
    spec = run(parse_workload(TWO_GROUPS, "w.yaml"), groups=("writers",), **changes)
    assert [group.name for group in spec.active_groups] == ["writers"]


@pytest.mark.parametrize(
    ("faults", "changes"),
    [
        # A ramp may fall and end after its operations; one with its own time may be warmed up.
        ("", {"rate": "ramp:50..1", "operations": 9, "duration_ns": S}),
        ("", {"rate": "ramp:1..5/1s", "warmup_ns": 9, "duration_ns": S}),
        # Where the end isn't known, a fault may begin late if it ends by itself.
        ("40s kill n for 2s", {"operations": 10}),
        ("40s kill n for 2s", {"until_stderr": 0.1}),
        ("40s kill n for 2s", {"duration_ns": 41 * S}),
        ("1s restart n", {"operations": 10}),
        ("1s restart n", {"until_stderr": 0.1}),
        ("1s pause n", {"operations": 10, "duration_ns": 2 * S}),
        # Faults of one server come one after the other.
        ("1s pause n for 2s; 4s kill n; 2s kill other", {}),
    ],
)
def test_a_possible_run_is_accepted(faults: str, changes: dict[str, Any]) -> None:
    spec = run(faults=tuple(map(parse_fault, filter(None, faults.split("; ")))), **changes)
    assert "; ".join(fault.text for fault in spec.faults) == faults


def test_a_spec_is_plain_json() -> None:
    spec = run(
        rate=5.0, pin=(0, 1), groups=("clients",), faults=(parse_fault("1s pause n for 2s"),)
    )
    plain = json.loads(json.dumps(spec.as_json()))
    assert plain["system"] == "null:"
    assert plain["workload"]["name"] == "ycsb/a"
    assert plain["pin"] == [0, 1]
    fault = {"at_ns": S, "do": "pause", "node": "n", "for_ns": 2 * S, "by": None, "others": []}
    assert plain["faults"] == [fault]


def test_updates_that_drop_fields_are_not_verified() -> None:
    workload = parse_workload("groups: [{mix: {update: 1}, write_fields: one}]", "w.yaml")
    run(workload, "memcached://localhost", verify=True)
    with pytest.raises(SpecError, match="update=replace memcached drops the fields"):
        run(workload, "memcached://localhost?update=replace", verify=True)
