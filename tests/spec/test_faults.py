"""Faults are read from sentences and files, and impossible ones are refused with the reason."""

from pathlib import Path
from typing import Any

import pytest

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.spec.faults import load_faults, parse_fault
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
