"""Statements of the user's own stand in the plan."""

from pathlib import Path

from plans import plan_of

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
