"""Workload files are read strictly: every mistake is one sentence with file, line and column."""

import re
from pathlib import Path

import pytest

from kvmark.errors import SpecError
from kvmark.spec.workload import load_workload, parse_workload

GOOD = (Path(__file__).parent / "workload.yaml").read_text()


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
    ("text", "sentence"),
    [
        ("a0: &a0 [x, x]\n"
         + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
         "too many values; are aliases nested?"),
        ("[" * 1200, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_beyond_all_range_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=rf"^w\.yaml:.*{re.escape(sentence)}"):
        parse_workload(text, "w.yaml")


def test_aliases_share_a_part() -> None:
    text = "groups:\n- {name: a, mix: &m {read: 1}}\n- {name: b, mix: *m}\n"
    assert parse_workload(text, "w.yaml").groups[1].mix.read == 1.0


def test_a_ramp_may_begin_at_zero() -> None:
    text = GOOD.replace("5k/s", "[{at: 0s, rate: 0}, {at: 10s, rate: 5k}]")
    rates = parse_workload(text, "w.yaml").groups[0].rates
    assert rates is not None
    assert [(point.at_ns, point.rate) for point in rates] == [(0, 0.0), (10**10, 5000.0)]


def test_a_file_gives_its_name_to_its_workload_and_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text("groups: [{mix: {read: 1}}]")
    assert load_workload(file).name == "sessions"
    file.write_text("groups: [{mxi: {read: 1}}]")
    with pytest.raises(SpecError) as refusal:
        load_workload(file)
    assert str(refusal.value) == f"{file}:1:11: unknown key 'mxi' — did you mean 'mix'?"
    assert (refusal.value.line, refusal.value.column) == (1, 11)


def test_a_file_that_is_no_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(b"name: x\n\xff\xfe")
    with pytest.raises(SpecError, match=r"w\.yaml:2: is not UTF-8 text"):
        load_workload(file)
