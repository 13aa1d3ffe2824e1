"""Study files: their keys, errors with lines, and the cases with their order; ready studies."""

from itertools import pairwise
from pathlib import Path

import pytest
from studies import REFUSALS, MakeStudy

from kvmark import catalog
from kvmark.errors import KvmarkError, SpecError
from kvmark.experiment.study.definition import Study
from kvmark.spec.study import changed, multiplied, parse_study, split
from kvmark.spec.url import SystemName, parse_system_url
from kvmark.testbed.system import read_size

HEAD = """name: mine
question: What is it?
system: "null:"
workload: ycsb/a
"""


@pytest.mark.parametrize(("text", "sentence"), REFUSALS["study"])
def test_an_error_in_the_file_has_its_line(study: MakeStudy, text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as problem:
        study(f"{HEAD}{text}\n").check()
    assert sentence in str(problem.value)


def test_levels_change_the_run_the_workload_and_the_system_s_options(study: MakeStudy) -> None:
    text = """
system: "sim:?servers=1"
workload: ycsb/a
factors:
  clients: [4]
  size: {path: workload.dataset.fields.length, levels: [7]}
  reads: {path: workload.groups.clients.mix.read, levels: [0.25]}
  servers: {path: options.sim.servers, levels: [3]}
"""
    made = study(text)
    [case] = made.cases
    spec = made.run_spec(case, made.resolve(made.system_name(case)), 0)
    assert spec.clients == 4
    assert spec.workload.dataset.fields.length.model_dump()["size"] == 7
    assert spec.workload.groups[0].mix.read == 0.25
    assert dict(spec.system.options) == {"servers": "3"}
    assert spec.system.text == "sim:?servers=3"


def test_pin_of_the_command_line_undoes_no_level_s_own(study: MakeStudy) -> None:
    levels = "factors:\n  cores: {path: run.pin, levels: {one: [0], both: [0, 1]}}\n"
    study(f"{HEAD}{levels}").check()
    sentence = "cores one: a level has its own pin, which --pin would undo; leave it out"
    with pytest.raises(SpecError, match=sentence):
        study(f"{HEAD}{levels}", pin=(1,)).check()


def test_a_workload_is_in_the_study_or_a_file_beside_it(study: MakeStudy, tmp_path: Path) -> None:
    (tmp_path / "beside.yaml").write_text("groups: [{mix: {read: 1}}]\n")
    text = """
system: "null:"
workloads:
  own: {groups: [{mix: {update: 1}}]}
factors: {workload: [own, ./beside.yaml, ycsb/c]}
"""
    made = study(text)
    system = made.resolve(SystemName("null:"))
    names = [made.run_spec(case, system, 0).workload.name for case in made.cases]
    assert names == ["mine/own", "beside", "ycsb/c"]


def test_a_part_of_a_path_is_a_key_a_name_or_a_number() -> None:
    values = {"groups": [{"name": "readers", "clients": 1}, {"name": "writers", "clients": 2}]}
    by_name = changed(values, ("groups", "writers", "clients"), 9)
    assert by_name["groups"][1] == {"name": "writers", "clients": 9}
    assert changed(values, ("groups", "1", "clients"), 9) == by_name
    assert values["groups"][1]["clients"] == 2
    assert split("testbed.set.memtable.allocation") == ("testbed", "set", "memtable.allocation")
    assert split("clients") == ("run", "clients")


def test_scale_multiplies_counts_and_durations_down_to_one() -> None:
    assert multiplied("10k", 0.01) == 100
    assert multiplied(3, 0.001) == 1
    assert multiplied("5m", 0.001) == "300000000ns"
    assert multiplied("1s", 1e-9) == "1000000ns"


@pytest.mark.parametrize("name", catalog.study_names())
def test_a_ready_study_has_a_name_and_a_question(name: str) -> None:
    file = parse_study(catalog.study_text(name), f"{name}.yaml")
    assert file.spec.name == name
    assert file.spec.question.rstrip().endswith("?")
    assert file.text.startswith("#")
    # Without credentials it is stored unchanged.
    assert file.text == catalog.study_text(name)


WITH_SECRETS = """
# Was redis://u:s3cret@old/0 # and cql://u:s3cret@older
name: secretive
question: 'Is "it" kept?'  # redis://s3cret@h is not.
system: &one "redis://u:s3cret\\u0040x@h/0?tls=true"
workload: ycsb/c
through:
  proxies:
    folded: >-
      redis://u:s3cret@h:2
    plain: redis://:s3cret@h:3/1   # said
factors:
  system:
    levels: [*one, !!str 'redis://u:s3''cret@h:4', "null:"]
  clients: [1, 2]
"""


def test_a_file_is_stored_without_credentials_and_otherwise_unchanged() -> None:
    file = parse_study(WITH_SECRETS, "study.yaml")
    assert "s3" not in file.text
    kept = parse_study(file.text, "study.yaml")
    assert kept.text == file.text
    assert [one.label for one in kept.spec.levels["system"]] == [
        "redis://h/0?tls=true", "redis://h:4", "null:",
    ]  # fmt: skip
    assert [str(one) for one in kept.spec.through.proxies.values()] == [
        "redis://h:2", "redis://h:3/1",
    ]  # fmt: skip
    # What is no system stands as it stood.
    rest = (one for one in WITH_SECRETS.splitlines() if "redis" not in one and "folded" not in one)
    assert set(rest) <= set(file.text.splitlines())
    assert file.spec.system.reveal() == "redis://u:s3cret@x@h/0?tls=true"


# Cases.


TEXT = """
system: "null:"
workload: ycsb/a
factors:
  clients: [1, 2, 3]
  keys: {path: workload.groups.clients.keys, levels: [uniform, sequential]}
exclude:
  - {clients: [2, 3], keys: sequential}
repetitions: 5
seed: 3
"""


def titles(study: Study) -> list[str]:
    return [case.title for case in study.cases]


def test_all_combinations_are_cases_but_those_that_a_rule_excludes(study: MakeStudy) -> None:
    every = ["1, keys uniform", "1, keys sequential", "2, keys uniform", "3, keys uniform"]
    assert titles(study(TEXT)) == [f"clients {rest}" for rest in every]
    assert titles(study(TEXT, only=("clients=2,3",))) == titles(study(TEXT))[2:]
    for only, sentence in REFUSALS["choice"]:
        with pytest.raises(KvmarkError, match=sentence):
            titles(study(TEXT, only=tuple(only.split())))


def test_each_repetition_is_a_block_of_all_cases_in_random_order(study: MakeStudy) -> None:
    runs = [(block, case.title) for block, case in study(TEXT).runs()]
    assert [block for block, _ in runs] == [block for block in range(5) for _ in range(4)]
    orders = [tuple(title for block, title in runs if block == one) for one in range(5)]
    assert {frozenset(order) for order in orders} == {frozenset(titles(study(TEXT)))}
    assert len(set(orders)) > 1
    assert runs == [(block, case.title) for block, case in study(TEXT).runs()]
    assert runs != [(block, case.title) for block, case in study(TEXT, seed=4).runs()]
    # The order of the file is an option.
    made = study(f"{TEXT}order: written\n")
    assert [case.title for _, case in made.runs()] == titles(made) * 5


def test_cases_of_one_testbed_come_one_after_the_other(study: MakeStudy) -> None:
    text = catalog.study_text("cassandra-initial")
    cases = [case.labels for _, case in study(text, repetitions=1).runs()]
    names = ("nodes", "data", "concurrent_reads")
    testbeds = [tuple(case[name] for name in names) for case in cases]
    changes = sum(one != other for one, other in pairwise(testbeds))
    assert changes == 6
    assert len(cases) == 47
    # A bound on memory means nothing to a system that the study doesn't start.
    assert "data" in study(text, system="null:").without_effect


def test_servers_stay_up_for_all_blocks_if_a_block_is_that_of_a_testbed(study: MakeStudy) -> None:
    text = f"{catalog.study_text('cassandra-initial')}\nblocks: testbed\n"
    whole = list(study(catalog.study_text("cassandra-initial"), repetitions=3).runs())
    runs = list(study(text, repetitions=3).runs())
    assert len(runs) == len(whole)
    assert {(block, case.title) for block, case in runs} == {
        (block, case.title) for block, case in whole
    }
    testbeds = [tuple(case.labels[name] for name in ("nodes", "data", "concurrent_reads"))
                for _, case in runs]  # fmt: skip
    assert sum(one != other for one, other in pairwise(testbeds)) == len(set(testbeds)) - 1
    first = [block for (block, _), testbed in zip(runs, testbeds, strict=True)
             if testbed == testbeds[0]]  # fmt: skip
    assert first == sorted(first)
    assert set(first) == {0, 1, 2}


def test_each_case_of_the_scale_test_was_published(study: MakeStudy) -> None:
    made = study(catalog.study_text("hcassandra"))
    published = study(catalog.study_text("hcassandra"), only=("published",))
    assert len(made.cases) == len(published.cases) == 28
    # Several nodes only where the question is about nodes.
    single = {case.labels["clients"] for case in made.cases if case.labels["nodes"] == "1"}
    assert single == {"10", "100", "400", "1600", "5000", "10000"}
    # Factors that another system doesn't know are left out.
    made = study(catalog.study_text("hcassandra"), system="null:")
    assert made.factors == ("scenario", "operation", "clients")
    assert made.without_effect == ("nodes", "replication_factor", "consistency", "node_down")


# Ready studies.


@pytest.mark.parametrize(
    "words",
    [
        "smoke null: clients=1,4",
        "yugabyte-1.0.7 redis://h application=RedisKeyValue,RedisHashPipelined writers=10,128",
        "hcassandra up: scenario=2 clients=100,400 consistency=LOCAL_ONE,TWO",
    ],
)
def test_each_factor_of_a_ready_study_has_its_effect(study: MakeStudy, words: str) -> None:
    name, system, *only = words.split()
    system = None if system == "up:" else system
    made = study(catalog.study_text(name), system=system, only=tuple(only))
    for case in made.cases:
        plan, faults = made.plan(case), made.run_spec(case, parse_system_url("cql://h"), 0).faults
        options = plan.system.options
        found = {
            **{group.name: group.clients for group in plan.groups},
            "value_size": plan.dataset.fields.length.get("size"),
            "application": plan.name.removeprefix("apps/"),
            "consistency": str(options.get("write_consistency")).upper(),
            "replication_factor": str(options.get("replication")).removeprefix("simple:"),
            "node_down": "yes" if faults else "no",
        }
        effects = {name: str(found[name]) for name in case.labels if name in found}
        assert effects.items() <= case.labels.items()
        assert len(effects) >= 2


def test_datasets_exceed_memory_at_any_number_of_nodes(study: MakeStudy) -> None:
    made = study(catalog.study_text("cassandra-initial"))
    bounded = [case for case in made.cases if case.labels["data"] == "exceeds"]
    assert {case.labels["nodes"] for case in bounded} == {"1", "2", "3"}
    for case in bounded:
        testbed, dataset = made.testbed(case), made.plan(case).dataset
        cache_bytes = read_size("memory", testbed.memory) - read_size("heap", testbed.heap)
        own_bytes = dataset.count * dataset.fields.length["size"] / (testbed.nodes or 1)
        # As good as nothing but the files' cache is beside the heap, and half must be read anew.
        assert own_bytes > 2 * cache_bytes, case.title
