"""Impossible runs are refused with the sentence that says why."""

import json
from typing import Any

import pytest

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import WorkloadSpec, parse_workload

SYSTEM = parse_system_url("null:")

TWO_GROUPS = """
name: two
groups:
  - {name: writers, mix: {update: 1}, rate: 100}
  - {name: readers, mix: {read: 1}, think_time: 1ms}
"""


def run(workload: WorkloadSpec | None = None, **changes: Any) -> RunSpec:
    return RunSpec(workload=workload or catalog.load("ycsb/a"), system=SYSTEM, **changes)


@pytest.mark.parametrize("changes", [{"clients": 2}, {"rate": 5.0}, {"rate": "ramp:1..5"}])
def test_several_groups_cannot_share_one_number(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="the groups writers and readers each have their own"):
        run(parse_workload(TWO_GROUPS, "w.yaml"), **changes)


def test_one_of_several_groups_can_be_chosen() -> None:
    spec = run(parse_workload(TWO_GROUPS, "w.yaml"), groups=("writers",), clients=2)
    assert [group.name for group in spec.active_groups] == ["writers"]


def test_a_think_time_and_a_rate_exclude_each_other() -> None:
    with pytest.raises(SpecError, match="two has a think time, which is for clients without"):
        run(parse_workload(TWO_GROUPS, "w.yaml"), groups=("readers",), rate=5.0)


def test_a_ramp_may_fall_and_end_after_its_operations() -> None:
    assert run(rate="ramp:50..1", operations=9, duration_ns=10**9).rate == "ramp:50..1"


def test_a_curve_with_a_time_of_its_own_may_be_warmed_up() -> None:
    assert run(rate="ramp:1..5/1s", warmup_ns=9, duration_ns=10**9).warmup_ns == 9


def test_an_arrival_law_can_be_chosen_for_a_rate_in_the_file() -> None:
    workload = parse_workload(TWO_GROUPS, "w.yaml")
    assert run(workload, groups=("writers",), arrival="poisson").arrival == "poisson"


def test_what_takes_each_record_once_cannot_be_warmed_up() -> None:
    with pytest.raises(SpecError, match="ycsb/delete takes each record once"):
        run(catalog.load("ycsb/delete"), warmup_ns=1)


def test_the_load_cannot_be_loaded_first() -> None:
    with pytest.raises(SpecError, match="ycsb/load inserts the records itself"):
        run(catalog.load("ycsb/load"), load="always")


def test_a_spec_is_plain_json() -> None:
    spec = run(rate=5.0, pin=(0, 1), groups=("clients",))
    plain = json.loads(json.dumps(spec.as_json()))
    assert plain["system"] == "null:"
    assert plain["workload"]["name"] == "ycsb/a"
    assert plain["pin"] == [0, 1]
