"""Possible runs are accepted, and statements of the user's own stand in their plans."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SpecError
from plans import plan_of, spec_of

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
    fault |= {"command": None, "undo": None}
    assert plain["faults"] == [fault]


def test_updates_that_drop_fields_are_not_verified() -> None:
    workload = "groups: [{mix: {update: 1}, write_fields: one}]"
    spec_of(workload, "memcached://localhost", verify=True)
    with pytest.raises(SpecError, match="update=replace memcached drops the fields"):
        spec_of(workload, "memcached://localhost?update=replace", verify=True)


GOOD = (Path(__file__).parent / "statements.yaml").read_text()


def test_statements_stand_in_the_plan_with_their_arguments() -> None:
    compiled = plan_of(GOOD)
    assert compiled.prepare == ("CONFIG SET x y",)
    names = [statement.name for statement in compiled.statements]
    assert names == ["SET", "GET", "LOOK", "MSET"]
    set_, get, _, mset = compiled.statements
    assert [argument.name for argument in set_.arguments] == ["key", "value", "ttl"]
    assert [argument.generator["generator"] for argument in set_.arguments] == [
        "key", "field", "number",
    ]  # fmt: skip
    assert get.expects == (1,)
    assert {argument.each for argument in mset.arguments} == {"item"}


def test_a_mix_names_statements_and_what_they_do() -> None:
    compiled = plan_of(GOOD)
    clients, loader = compiled.groups
    assert [(one.kind, one.statement) for one in clients.mix] == [("read", 1), ("update", 0)]
    assert [(one.kind, one.statement) for one in loader.mix] == [("insert", 0)]
    assert compiled.dataset.probe == 2


def test_a_load_happens_only_where_something_loads() -> None:
    names = [phase.name for phase in plan_of(GOOD.replace("load: SET\n", "")).phases]
    assert names == ["warm_up", "measure"]
    assert plan_of(GOOD).phases[0].name == "load"


def test_a_load_whose_records_can_not_be_looked_for_is_always_done() -> None:
    assert plan_of(GOOD).phases[0].only_if_missing
    assert not plan_of(GOOD.replace("probe: LOOK\n", "")).phases[0].only_if_missing


def test_the_depth_of_a_pipeline_changes_only_the_statements_that_have_one() -> None:
    sizes = [one.commands["size"] for one in plan_of(GOOD, pipeline_depth=64).statements]
    assert sizes == [1, 64, 1, 1]


def test_verifying_reads_everything_back_through_the_probe() -> None:
    compiled = plan_of(GOOD.replace(" EX {ttl}", " {ttl} KEEPTTL"), verify=True)
    last = compiled.phases[-1]
    reader = compiled.groups[last.groups[0].group]
    assert (last.name, reader.name) == ("verify", "verify")
    assert [(one.kind, one.statement) for one in reader.mix] == [("read", 2)]
