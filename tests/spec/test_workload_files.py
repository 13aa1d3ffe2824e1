"""Workload files are read strictly: every mistake is one sentence with file, line and column."""

import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.spec.workload import WorkloadSpec, load_workload, parse_workload

GOOD = textwrap.dedent("""\
    name: mine
    dataset:
      records: 10k
      fields: {count: 3, length: {distribution: uniform, min: 1, max: 1KiB}}
    groups:
      - name: writers
        clients: 4
        mix: {update: 1}
        rate: 5k/s
        arrival: poisson
      - name: readers
        mix: {read: 95, scan: 5}
        keys: {distribution: hotspot, data_fraction: 0.1}
        think_time: 5ms
    """)


def refusal_of(text: str) -> str:
    with pytest.raises(SpecError) as refusal:
        parse_workload(text, "w.yaml")
    return str(refusal.value)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_file_becomes_a_workload() -> None:
    workload = parse_workload(GOOD, "w.yaml")
    writers, readers = workload.groups
    assert workload.dataset.records == 10_000
    assert workload.dataset.fields.length.model_dump() == {
        "distribution": "uniform", "min": 1, "max": 1024,
    }  # fmt: skip
    assert writers.rates is not None
    assert writers.rates[0].rate == 5000.0
    assert readers.think_time_ns == 5_000_000
    assert readers.mix.weights() == {"read": 95.0, "scan": 5.0}


def test_what_is_left_out_is_as_in_ycsb() -> None:
    workload = parse_workload("groups: [{mix: {read: 1}}]", "w.yaml")
    dataset = workload.dataset
    assert (dataset.table, dataset.records, dataset.fields.count) == ("usertable", 1000, 10)
    assert dataset.key.model_dump() == {"prefix": "user", "order": "hashed", "zero_padding": 1}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("records: 10k", "recrods: 10k",
         "w.yaml:3:3: unknown key 'recrods' — did you mean 'records'?"),
        ("name: mine", "nmae: mine", "w.yaml:1:1: unknown key 'nmae' — did you mean 'name'?"),
        ("{read: 95, scan: 5}", "{raed: 95}",
         "w.yaml:12:11: unknown key 'raed' — did you mean 'read'?"),
        ("10k", "-3", "w.yaml:3:12: records: '-3' is not a count; "
         "write it like 1000, 10k, 1M or 1e6"),
        ("10k", "[1]", "w.yaml:3:12: records: '[1]' is not a count"),
        ("10k", "0", "w.yaml:3:12: records must be greater than or equal to 1, not '0'"),
        ("min: 1,", "min: 2KiB,", "w.yaml:4:54: min (2048) must not be above max (1024)"),
        ("distribution: hotspot", "distribution: hotpsot",
         "w.yaml:13:11: keys: unknown distribution 'hotpsot' — did you mean 'hotspot'?"),
        ("data_fraction: 0.1", "data_fraction: 2",
         "w.yaml:13:50: data_fraction must be less than or equal to 1, not '2'"),
        ("arrival: poisson", "arrival: posson",
         "w.yaml:10:14: arrival: unknown value 'posson' — did you mean 'poisson'?"),
        ("    rate: 5k/s\n", "", "w.yaml:9:5: arrival 'poisson' needs a rate; add the key 'rate'"),
        ("5k/s", "0", "w.yaml:9:11: rate: a rate must be above 0, not '0'; "
         "write max for no limit"),
        ("5k/s", "[{at: 1s, rate: 5}]", "w.yaml:9:5: the first rate must be at 0s"),
        ("5k/s", "[{at: 0s, rate: 5}, {at: 0s, rate: 6}]",
         "w.yaml:9:5: the times of the rates must rise"),
        ("5k/s", "[{at: 0s, rate: 5}, {at: 1s, rate: 0}]",
         "w.yaml:9:5: the last rate must be above 0"),
        ("arrival: poisson", "think_time: 1s",
         "w.yaml:10:5: think_time is for clients without a rate; remove one"),
        ("think_time: 5ms", "think_time: 5", "w.yaml:14:17: think_time: '5' is not a duration; "
         "write it like 30s, 500ms or 1h30m"),
        ("think_time: 5ms", "think_time_ns: 5",
         "w.yaml:14:5: unknown key 'think_time_ns' — did you mean 'think_time'?"),
        ("mix: {update: 1}", "mix: {}", "w.yaml:8:10: mix: one of the weights must be above 0"),
        ("mix: {update: 1}", "mix: {update: true}",
         "w.yaml:8:19: update must be a valid number, not true"),
        ("mix: {update: 1}", "mix: 3",
         "w.yaml:8:10: mix must be a mapping of keys to values, not '3'"),
        ("    mix: {update: 1}\n", "", "w.yaml:6:5: the key 'mix' is missing"),
        ("name: writers", "name: readers",
         "w.yaml:5:1: two groups are named 'readers'; names must differ"),
        ("name: writers", "name: load",
         "w.yaml:6:5: the name 'load' is kept for loading the records"),
        ("name: writers", "name: a b", "w.yaml:6:11: name must be letters, digits, - and _, "
         "a letter first, not 'a b'"),
        ("    clients: 4\n", "    clients: 4\n    clients: 5\n",
         "w.yaml:8:5: key 'clients' is given twice"),
        ("    think_time: 5ms", "    check_values: full",
         "w.yaml:5:1: check_values: full needs 'values: integrity' in the dataset"),
        ("  records: 10k", "  values: integrity",
         "w.yaml:3:3: integrity values need a constant field length"),
        ("  records: 10k", "  loaded: false",
         "w.yaml:2:1: 'loaded: false' starts without records, so one of the groups must insert"),
        ("name: mine", "name: [mine", "w.yaml:2:8: not YAML: expected ',' or ']', but got ':'"),
        ("name: mine", "name: !!python/name:os.system x",
         "w.yaml:1:7: the tag 'tag:yaml.org,2002:python/name:os.system' is not used here"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_place(old: str, new: str, sentence: str) -> None:
    assert refusal_of(changed(old, new)) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "w.yaml: is empty"),
        ("# nothing", "w.yaml: is empty"),
        ("3", "w.yaml:1:1: the file must be a mapping of keys to values, not '3'"),
        ("name: x", "w.yaml:1:1: the key 'groups' is missing"),
        ("groups: 3", "w.yaml:1:9: groups must be a list, not '3'"),
        ("groups: []", "w.yaml:1:9: groups must not be empty"),
        ("? [a]\n: b", "w.yaml:1:3: a key must be a word"),
        ("&a [*a]", "w.yaml: nested too deeply, or an alias within itself"),
        ('name: "\\ud800"', "w.yaml:1:7: an escape is half of a surrogate pair"),
        ('"\\ud800": x', "w.yaml:1:1: an escape is half of a surrogate pair"),
    ],
)
def test_a_file_that_is_no_workload_says_why(text: str, sentence: str) -> None:
    assert refusal_of(text) == sentence


@pytest.mark.parametrize(
    "text",
    [
        "groups: [{mix: {read: 1e308, update: 1e308}}]",
        "groups: [{mix: {read: 1}}]\ndataset: {fields: {count: 1000000000}}",
    ],
)
def test_a_number_out_of_all_range_is_refused(text: str) -> None:
    assert re.search(r"w\.yaml:\d:\d+: .*(less than or equal to|at most)", refusal_of(text))


def test_nested_aliases_do_not_fill_the_memory() -> None:
    doubled = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert "too many values; are aliases nested?" in refusal_of("a0: &a0 [x, x]\n" + doubled)


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in refusal_of("[" * 1200)


def test_aliases_share_a_part() -> None:
    text = "groups:\n- {name: a, mix: &m {read: 1}}\n- {name: b, mix: *m}\n"
    assert parse_workload(text, "w.yaml").groups[1].mix.read == 1.0


def test_a_ramp_may_begin_at_zero() -> None:
    text = changed("5k/s", "[{at: 0s, rate: 0}, {at: 10s, rate: 5k}]")
    rates = parse_workload(text, "w.yaml").groups[0].rates
    assert rates is not None
    assert [(point.at_ns, point.rate) for point in rates] == [(0, 0.0), (10**10, 5000.0)]


def test_a_file_without_a_name_gives_its_own(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text("groups: [{mix: {read: 1}}]")
    assert load_workload(file).name == "sessions"


def test_an_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text("groups: [{mxi: {read: 1}}]")
    with pytest.raises(SpecError) as refusal:
        load_workload(file)
    assert str(refusal.value) == f"{file}:1:11: unknown key 'mxi' — did you mean 'mix'?"
    assert (refusal.value.line, refusal.value.column) == (1, 11)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no\.yaml: cannot be read: no such file or directory"):
        load_workload(tmp_path / "no.yaml")
    with pytest.raises(SpecError, match="cannot be read: is a directory"):
        load_workload(tmp_path)


def test_a_file_that_is_not_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(b"name: x\n\xff\xfe")
    with pytest.raises(SpecError, match=r"w\.yaml:2: is not UTF-8 text"):
        load_workload(file)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_spec_error(tmp_path_factory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_bytes(content)
    try:
        load_workload(file)
    except SpecError as refusal:
        assert "\n" not in str(refusal)


WORDS = st.sampled_from(
    ["name", "dataset", "groups", "mix", "keys", "read", "rate", "records", "fields", "length"]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(WORDS, TREES, max_size=6))
def test_no_document_raises_anything_but_a_spec_error(content: dict[str, object]) -> None:
    import yaml

    try:
        workload = parse_workload(yaml.safe_dump(content, allow_unicode=True), "w.yaml")
    except SpecError as refusal:
        assert "\n" not in str(refusal)
    else:
        assert isinstance(workload, WorkloadSpec)
