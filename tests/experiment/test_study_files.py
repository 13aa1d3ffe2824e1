"""Study files: their keys, errors with lines, and the cases with their order; ready studies."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from studies import MakeStudy

from kvmark import catalog
from kvmark.errors import SpecError, UsageError
from kvmark.experiment.study.definition import Study
from kvmark.spec.study import changed, multiplied, parse_study, split
from kvmark.spec.url import SystemName, parse_system_url
from kvmark.testbed.system import read_size

HEAD = """name: mine
question: What is it?
system: "null:"
workload: ycsb/a
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("factors: {clients: []}", "study.yaml:5:20: clients must not be empty"),
        ("factors: {clients: [1, 1]}", "study.yaml:5:11: the level '1' is given twice"),
        ("factors: {size: [[1, 2]]}", "study.yaml:5:18: a level that is no plain value needs a"),
        ("exclude: [{clints: 1}]\nfactors: {clients: [1]}", "there is no factor 'clints' — did"),
        (
            "factors: {clients: [1, 2]}\nexclude:\n  - {clients: 3}",
            "study.yaml:7:6: clients has no level '3'; known are 1, 2",
        ),
        (
            "factors: {clients: [1]}\neffects: [{title: x, from: {clients: 1}, to: {clients: 1}}]",
            "from and to are the same levels",
        ),
        (
            "factors: {clients: [1, 2]}\n"
            "effects: [{title: x, from: {clients: 1}, to: {clients: 2}, of: p98x}]",
            "study.yaml:6:64: of: there is no figure 'p98x'",
        ),
        (
            "factors: {clients: [1, 2]}\n"
            "effects: [{title: x, from: {clients: 1}, to: {clients: 2}, of: max}]",
            "study.yaml:6:64: of: 'max' can't be compared: a maximum is one operation",
        ),
        ("testbed: {system: redis}", "a study has either a system or a testbed"),
        ("run: {duration: 5}", "study.yaml:5:17: duration: '5' is not a duration; write it like"),
        (
            "run: {faults: [{at: 25%, do: delay, node: n1}]}",
            "study.yaml:5:16: delay needs a duration such as 20ms in 'by'",
        ),
        ("server_warmup: soon", "study.yaml:5:16: server_warmup: 'soon' is not a"),
        ("repetitons: 3", "study.yaml:5:1: unknown key 'repetitons' — did you mean"),
        ("factors: {clients: [1, many]}", "study.yaml:5:24: clients: 'many' is not a count"),
        ("factors: {clents: [1]}", "study.yaml:5:20: unknown key 'clents' — did you mean"),
        (
            "factors:\n  x: {path: workload.groups.clientz.mix, levels: [1]}",
            "study.yaml:6:51: workload.groups.clientz.mix: there is no 'clientz' — did you mean",
        ),
        (
            "factors:\n  x: {path: workload.dataset.feilds.length, levels: [1]}",
            "study.yaml:6:54: unknown key 'feilds' — did you mean 'fields'?",
        ),
        (
            "factors: {workload: [ycsb/a, ycsb/z]}",
            "study.yaml:5:30: there is no workload 'ycsb/z'",
        ),
        ("run: {arrival: poisson}", "study.yaml:5:1: the only case: arrival: poisson is for the"),
        (
            "factors: {clients: [1]}\nscale: {default: 2, of: [workload.name]}",
            "study.yaml:6:26: workload.name: 'ycsb/a' is neither a count nor a duration",
        ),
    ],
)
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


def test_a_workload_is_in_the_study_or_in_a_file_beside_it(
    study: MakeStudy, tmp_path: Path
) -> None:
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
    with pytest.raises(SpecError, match="clients has no level '4'; known are 1, 2, 3"):
        titles(study(TEXT, only=("clients=4",)))
    with pytest.raises(SpecError, match="there is no factor 'client' — did you mean"):
        titles(study(TEXT, only=("client=1",)))
    with pytest.raises(UsageError, match="no case is left"):
        titles(study(TEXT, only=("clients=2", "keys=sequential")))


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


def test_the_scale_test_has_no_combination_that_means_nothing(study: MakeStudy) -> None:
    made = study(catalog.study_text("hcassandra"))
    cases = [case.labels for case in made.cases]
    assert len({case["clients"] for case in cases}) == 13
    assert {case["consistency"] for case in cases if case["operation"] == "read"} == {
        "ONE", "LOCAL_ONE", "TWO", "QUORUM",
    }  # fmt: skip
    single = {case["consistency"] for case in cases if case["replication_factor"] == "1"}
    assert single == {"ANY", "ONE", "LOCAL_ONE"}
    # With the only copy gone, others can at most keep a write for it.
    gone = {(case["operation"], case["consistency"]) for case in cases
            if case["replication_factor"] == "1" and case["node_down"] == "yes"}  # fmt: skip
    assert gone == {("write", "ANY")}
    published = study(catalog.study_text("hcassandra"), only=("published",))
    assert len(published.cases) == len(published.published) == 124
    # Factors that another system doesn't know are left out.
    made = study(catalog.study_text("hcassandra"), system="null:")
    assert made.factors == ("scenario", "operation", "clients")
    assert made.without_effect == ("replication_factor", "consistency", "node_down")


# Ready studies.


@pytest.mark.parametrize(
    ("name", "asked", "cases"),
    [
        ("smoke", {"system": "null:", "only": ("clients=1,4",)}, 4),
        (
            "yugabyte-1.0.7",
            {
                "system": "redis://h",
                "only": ("application=RedisKeyValue,RedisHashPipelined", "writers=10,192"),
            },
            2,
        ),
        (
            "hcassandra",
            {
                "only": ("scenario=2", "operation=write", "clients=10", "replication_factor=2",
                         "consistency=ONE,TWO"),
            },
            4,
        ),
    ],
)  # fmt: skip
def test_each_factor_of_a_ready_study_has_its_effect_on_the_plan(
    study: MakeStudy, name: str, asked: dict[str, Any], cases: int
) -> None:
    made = study(catalog.study_text(name), **asked)
    assert len(made.cases) == cases
    for case in made.cases:
        plan, labels = made.plan(case), case.labels
        clients = {group.name: group.clients for group in plan.groups}
        options = plan.system.options
        found = {
            "clients": clients.get("clients"),
            "writers": clients.get("writers"),
            "readers": clients.get("readers"),
            "value_size": plan.dataset.fields.length.get("size"),
            "application": plan.name.removeprefix("apps/"),
            "consistency": str(options.get("write_consistency")).upper(),
            "replication_factor": str(options.get("replication")).removeprefix("simple:"),
            "node_down": "yes"
            if made.run_spec(case, parse_system_url("cql://h"), 0).faults
            else "no",
        }
        shown = {name: str(found[name]) for name in labels if name in found}
        assert shown == {name: labels[name] for name in shown}
        assert len(shown) >= 2


def test_datasets_exceed_memory_at_any_number_of_nodes(study: MakeStudy) -> None:
    made = study(catalog.study_text("cassandra-initial"))
    bounded = [case for case in made.cases if case.labels["data"] == "exceeds"]
    assert {case.labels["nodes"] for case in bounded} == {"1", "2", "3"}
    for case in bounded:
        testbed, dataset = made.testbed(case), made.plan(case).dataset
        memory_bytes, heap_bytes = map(
            read_size, ("memory", "heap"), (testbed.memory, testbed.heap)
        )
        own_bytes = dataset.count * dataset.fields.length["size"] / (testbed.nodes or 1)
        # As good as nothing but the files' cache is beside the heap, and half must be read anew.
        assert own_bytes > 2 * (memory_bytes - heap_bytes), case.title
