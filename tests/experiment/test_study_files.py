"""Study files: their keys, and errors with lines."""

from functools import partial
from pathlib import Path

import pytest
from studies import MakeStudy

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.spec.study import changed, multiplied, parse_study, split
from kvmark.spec.url import SystemName

HEAD = """
name: mine
question: What is it?
system: "null:"
workload: ycsb/a
"""


def refusal(text: str, study: MakeStudy | None = None) -> str:
    """The sentence with which a study is refused."""
    read = partial(parse_study, text, "study.yaml") if study is None else study(text).check
    with pytest.raises(SpecError) as problem:
        read()
    return str(problem.value)


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
    ],
)
def test_errors_in_the_file_have_their_line(text: str, sentence: str) -> None:
    assert sentence in refusal(f"{HEAD}{text}\n".lstrip("\n"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
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
def test_an_impossible_level_is_reported_with_its_line(
    study: MakeStudy, text: str, sentence: str
) -> None:
    assert sentence in refusal(f"{HEAD}{text}\n".lstrip("\n"), study)


def test_levels_change_words_of_the_run_the_workload_and_the_systems_options(
    study: MakeStudy,
) -> None:
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
    text = f"{HEAD}{levels}".lstrip("\n")
    study(text).check()
    sentence = "cores one: a level has its own pin, which --pin would undo; leave it out"
    with pytest.raises(SpecError, match=sentence):
        study(text, pin=(1,)).check()


def test_a_workload_may_be_in_the_study_or_in_a_file_beside_it(
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


def test_a_file_without_credentials_is_stored_unchanged() -> None:
    for name in catalog.study_names():
        text = catalog.study_text(name)
        assert parse_study(text, f"{name}.yaml").text == text
