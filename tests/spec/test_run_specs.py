"""Possible runs are accepted; refusals.toml has the others."""

import json
from typing import Any

import pytest

from kvmark.errors import SpecError
from plans import spec_of

S = 10**9
TWO_GROUPS = """
name: two
groups:
  - {name: writers, mix: {update: 1}, rate: 100}
  - {name: readers, mix: {read: 1}, think_time: 1ms}
"""


@pytest.mark.parametrize("changes", [{"clients": 2}, {"arrival": "poisson"}])
def test_one_of_several_groups_can_be_chosen_and_changed(changes: dict[str, Any]) -> None:
    spec = spec_of(TWO_GROUPS, groups=("writers",), **changes)
    assert [group.name for group in spec.active_groups] == ["writers"]


@pytest.mark.parametrize(
    ("faults", "changes"),
    [
        # A ramp may fall and end after its operations; one with its own time may be warmed up.
        ([], {"rate": "ramp:50..1", "operations": 9, "duration_ns": S}),
        ([], {"rate": "ramp:1..5/1s", "warmup_ns": 9, "duration_ns": S}),
        # Where the end isn't known, a fault may begin late if it ends by itself.
        (["40s kill n for 2s"], {"operations": 10}),
        (["40s kill n for 2s"], {"until_stderr": 0.1}),
        (["40s kill n for 2s"], {"duration_ns": 41 * S}),
        (["1s restart n"], {"operations": 10}),
        (["1s restart n"], {"until_stderr": 0.1}),
        (["1s pause n"], {"operations": 10, "duration_ns": 2 * S}),
        # Faults of one server come one after the other.
        (["1s pause n for 2s", "4s kill n", "2s kill other"], {}),
    ],
)
def test_a_possible_run_is_accepted(faults: list[str], changes: dict[str, Any]) -> None:
    spec = spec_of("ycsb/a", faults=faults, **changes)
    assert [fault.text for fault in spec.faults] == faults


def test_a_spec_is_plain_json() -> None:
    options = {"rate": 5.0, "pin": [0, 1], "groups": ["clients"], "faults": ["1s pause n for 2s"]}
    plain = json.loads(json.dumps(spec_of("ycsb/a", **options).as_json()))
    assert plain["system"] == "null:"
    assert plain["workload"]["name"] == "ycsb/a"
    assert plain["pin"] == [0, 1]
    fault = {"at_ns": S, "do": "pause", "node": "n", "for_ns": 2 * S, "by": None, "others": []}
    assert plain["faults"] == [fault]


def test_updates_that_drop_fields_are_not_verified() -> None:
    workload = "groups: [{mix: {update: 1}, write_fields: one}]"
    spec_of(workload, "memcached://localhost", verify=True)
    with pytest.raises(SpecError, match="update=replace memcached drops the fields"):
        spec_of(workload, "memcached://localhost?update=replace", verify=True)
