"""Faults are read from sentences and files, and impossible ones are refused with the reason."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.spec.faults import FaultSpec, load_faults, parse_fault
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

S = 10**9


def run(*faults: str, **changes: Any) -> RunSpec:
    given = {"faults": tuple(map(parse_fault, faults)), **changes}
    return RunSpec(workload=catalog.load("ycsb/a"), system=parse_system_url("null:"), **given)


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.yaml"
    path.write_text(text)
    return path


def test_a_sentence_and_a_mapping_say_the_same(tmp_path: Path) -> None:
    text = """
faults:
  - {at: 10s, do: pause, node: primary-1, for: 2s}
  - {at: 20s, do: kill, node: replica-1}
  - {at: 1500ms, do: restart, node: n2}
  - {at: 1s, do: delay, node: n3, by: 20ms, from: n1, for: 5s}
  - {at: 9s, do: loss, node: n3, by: 2.5%}
  - {at: 3s, do: partition, node: n1, from: [n2, n4]}
"""
    sentences = (
        "10s pause primary-1 for 2s",
        "20s kill replica-1",
        "1500ms restart n2",
        "1s delay n3 by 20ms from n1 for 5s",
        "9s loss n3 by 2.5%",
        "3s partition n1 from n2,n4",
    )
    faults = load_faults(written(tmp_path, text))
    assert faults == tuple(map(parse_fault, sentences))
    assert tuple(fault.text for fault in faults) == sentences


def test_a_link_is_disturbed_by_as_much_as_is_said() -> None:
    assert parse_fault("0s delay n by 2ms for 1s").delay_ns == 2_000_000
    assert parse_fault("0s loss n by 2.5% for 1s").loss == 0.025
    cut = parse_fault("0s partition n from m for 1s")
    assert (cut.delay_ns, cut.loss, cut.others, cut.is_of_link) == (0, 0.0, ("m",), True)
    assert not parse_fault("0s pause n for 1s").is_of_link


def test_a_fault_ends_when_it_says_or_with_the_measurement() -> None:
    ends = ("1s pause n for 2s", "1s kill n", "1s restart n", "1s restart n for 4s")
    assert [parse_fault(text).end_ns for text in ends] == [3 * S, None, S, 5 * S]


@given(
    st.integers(0, 10**12),
    st.sampled_from(["pause", "kill", "restart", "promote", "partition"]),
    st.none() | st.integers(1, 10**12),
)
def test_a_fault_is_written_as_it_is_read(at_ns: int, do: str, for_ns: int | None) -> None:
    lasting = None if for_ns is None else f"{for_ns}ns"
    words = {"at": f"{at_ns}ns", "do": do, "node": "node-1", "for": lasting}
    fault = FaultSpec.model_validate(words)
    assert parse_fault(fault.text) == fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "fault: '' is not a fault; write it like '10s pause primary-1 for 2s'"),
        ("10s pause", "fault: '10s pause' is not a fault; write it like '10s pause primary-1"),
        ("10s paus n1", "fault: unknown action 'paus' — did you mean 'pause'?"),
        ("10 pause n1", "fault: '10' is not a duration; write it like 30s, 500ms or 1h30m"),
        ("1s pause n1 for x", "fault: 'x' is not a duration"),
        ("1s pause n1 for 0s", "fault: '1s pause n1 for 0s' lasts no time"),
        ("1s pause ../n1", "fault: '../n1' is not the name of a server"),
        ("1s delay n1 for 1s", "fault: '1s delay n1 for 1s': delay needs a duration such as 20ms"),
        ("1s delay n1 by 5%", "fault: '1s delay n1 by 5%': delay needs a duration such as 20ms"),
        ("1s loss n1 by 5ms", "fault: '1s loss n1 by 5ms': loss needs a share such as 5% in 'by'"),
        ("1s loss n1 by 101%", "fault: '1s loss n1 by 101%': '101%' is neither a duration such"),
        ("1s delay n1 by 0ms", "fault: '1s delay n1 by 0ms': '0ms' is neither a duration such"),
        ("1s kill n1 by 5%", "fault: '1s kill n1 by 5%': kill has no amount; leave 'by' out"),
        ("1s kill n1 from n2", "fault: '1s kill n1 from n2': kill concerns the server alone"),
        ("1s partition n1 from n1", "fault: '1s partition n1 from n1': n1 has no link to itself"),
        ("1s partition n1 from n2,", "fault: '1s partition n1 from n2,': '' is not the name of a"),
    ],
)
def test_a_sentence_that_is_no_fault_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse_fault(text)
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "faults:\n  - {at: 1s, do: paus, node: n1}",
            ":2:18: do: unknown value 'paus' — did you mean 'pause'?",
        ),
        (
            "faults:\n  - at: 1s\n    do: loss\n    node: n1\n    by: 5ms",
            ":5:5: loss needs a share such as 5% in 'by'",
        ),
        (
            "faults:\n  - {at: 1s, do: delay, node: n1, by: [1]}",
            ":2:39: by: '[1]' is neither a duration such as 20ms nor a share such as 5%",
        ),
        (
            "faults:\n  - at: 1\n    do: pause\n    node: n1",
            ":2:9: at: '1' is not a duration; write it like 30s, 500ms or 1h30m",
        ),
        (
            "faults:\n  - {at: 1s, do: pause, nod: n1}",
            ":2:25: unknown key 'nod' — did you mean 'node'?",
        ),
        (
            "faults:\n  - {at: 1s, do: pause, node: n1}\n  - {at: 2s, do: kill, node: n1}",
            ":2:3: fault '2s kill n1': n1 isn't back yet from '1s pause n1'; let the first one"
            " end before",
        ),
        ("fault: []", ":1:1: unknown key 'fault' — did you mean 'faults'?"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as refusal:
        load_faults(path)
    assert str(refusal.value) == f"{path}{sentence}"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "fault '40s kill n': the measurement is over after 30s; let it begin earlier"),
        ({"duration_ns": 5 * S}, "fault '40s kill n': the measurement is over after 5s"),
    ],
)
def test_a_fault_after_the_measurement_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        run("40s kill n", **changes)
    assert str(refusal.value).startswith(sentence)


def test_a_fault_is_not_refused_where_the_end_is_not_known() -> None:
    for changes in ({"operations": 10}, {"until_stderr": 0.1}, {"duration_ns": 41 * S}):
        assert len(run("40s kill n for 2s", **changes).faults) == 1


def test_a_server_is_not_gone_until_an_end_that_would_wait_for_it() -> None:
    for changes in ({"operations": 10}, {"until_stderr": 0.1}):
        with pytest.raises(SpecError, match="wait for the server forever; say for how long"):
            run("1s pause n", **changes)
        run("1s restart n", **changes)
    run("1s pause n", operations=10, duration_ns=2 * S)


def test_faults_of_one_server_come_one_after_the_other() -> None:
    for second in ("3s kill n", "1s restart n", "2s pause n for 1s"):
        with pytest.raises(SpecError, match="n isn't back yet from '1s pause n for 2s'"):
            run(second.replace("1s restart", "2s restart"), "1s pause n for 2s")
    run("1s pause n for 2s", "4s kill n", "2s kill other")


def test_faults_are_kept_with_the_spec() -> None:
    kept = run("1s pause n for 2s").as_json()["faults"]
    said = {"at_ns": S, "do": "pause", "node": "n", "for_ns": 2 * S}
    assert kept == [{**said, "by": None, "others": []}]
