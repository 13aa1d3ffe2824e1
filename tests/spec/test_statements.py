"""Statements of the user's own: what a file can say, and how each mistake is answered."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SpecError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import parse_workload

GOOD = (Path(__file__).parent / "statements.yaml").read_text()
LASTING = GOOD.replace(" EX {ttl}", " {ttl}")
"""What is written stays."""


def plan(text: str = GOOD, **more: Any) -> Plan:
    workload = parse_workload(text, "w.yaml")
    return compile_run(RunSpec(workload=workload, system=parse_system_url("null:"), **more), 2)


def test_statements_stand_in_the_plan_with_their_arguments() -> None:
    compiled = plan()
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
    compiled = plan()
    clients, loader = compiled.groups
    assert [(one.kind, one.statement) for one in clients.mix] == [("read", 1), ("update", 0)]
    assert [(one.kind, one.statement) for one in loader.mix] == [("insert", 0)]
    assert compiled.dataset.probe == 2


def test_a_load_happens_only_where_something_loads() -> None:
    names = [phase.name for phase in plan(GOOD.replace("load: SET\n", "")).phases]
    assert names == ["warm_up", "measure"]
    assert plan().phases[0].name == "load"


def test_a_load_whose_records_can_not_be_looked_for_is_always_done() -> None:
    assert plan().phases[0].only_if_missing
    assert not plan(GOOD.replace("probe: LOOK\n", "")).phases[0].only_if_missing


def test_the_depth_of_a_pipeline_changes_only_the_statements_that_have_one() -> None:
    sizes = [one.commands["size"] for one in plan(pipeline_depth=64).statements]
    assert sizes == [1, 64, 1, 1]


def test_verifying_reads_everything_back_through_the_probe() -> None:
    compiled = plan(LASTING, verify=True)
    last = compiled.phases[-1]
    reader = compiled.groups[last.groups[0].group]
    assert (last.name, reader.name) == ("verify", "verify")
    assert [(one.kind, one.statement) for one in reader.mix] == [("read", 2)]


def test_a_depth_without_a_pipeline_and_a_sweep_without_a_probe_are_refused() -> None:
    with pytest.raises(SpecError, match=r"no statement of .* has 'commands'"):
        plan(GOOD.replace(", commands: 4", ""), pipeline_depth=2)
    with pytest.raises(SpecError, match="has no statement that reads a record back"):
        plan(GOOD.replace("probe: LOOK\n", ""), verify=True)


@pytest.mark.parametrize("expiry", ["EX 60", "px {ttl}", "KEEPTTL EXAT 9"])
def test_what_expires_is_not_verified(expiry: str) -> None:
    with pytest.raises(SpecError, match="has a time to live, so that it may be gone rightly"):
        plan(LASTING.replace("{value} {ttl}", f"{{value}} {{ttl}} {expiry}"), verify=True)
    plan(LASTING.replace("{value} {ttl}", "{value} {ttl} KEEPTTL"), verify=True)


def test_updates_that_drop_fields_are_not_verified() -> None:
    def spec(url: str) -> RunSpec:
        workload = parse_workload("groups: [{mix: {update: 1}, write_fields: one}]", "w.yaml")
        return RunSpec(workload=workload, system=parse_system_url(url), verify=True)

    with pytest.raises(SpecError, match="update=replace memcached drops the fields"):
        spec("memcached://localhost?update=replace")
    spec("memcached://localhost")
