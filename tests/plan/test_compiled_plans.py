"""What the user left open is decided, and by rules that are written down."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark import catalog
from kvmark.errors import PlanError
from kvmark.plan.compile import OPEN_CLIENTS, compile_run, derive_seed, derive_seeds
from kvmark.plan.model import Plan
from kvmark.spec.faults import parse_fault
from kvmark.spec.run import DEFAULT_DURATION_NS, RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import WorkloadSpec, parse_workload

SYSTEM = parse_system_url("sim:?servers=1&seed=1")


def compiled(workload: WorkloadSpec | str = "ycsb/a", **changes: Any) -> Plan:
    known = catalog.load(workload) if isinstance(workload, str) else workload
    return compile_run(RunSpec(workload=known, system=SYSTEM, **changes), cores=2)


def phase_names(plan: Plan) -> list[str]:
    return [phase.name for phase in plan.phases]


def test_a_run_loads_what_is_missing_settles_and_measures() -> None:
    plan = compiled()
    assert phase_names(plan) == ["load", "settle", "warm_up", "measure"]
    load = plan.phases[0]
    assert load.only_if_missing
    assert load.groups[0].operations == 1000
    assert plan.groups[load.groups[0].group].name == "load"


def test_load_always_does_not_ask_whether_records_are_missing() -> None:
    assert not compiled(load="always").phases[0].only_if_missing


def test_load_never_leaves_the_load_out() -> None:
    plan = compiled(load="never")
    assert phase_names(plan) == ["warm_up", "measure"]
    assert [group.name for group in plan.groups] == ["clients"]


def test_settling_can_be_left_out() -> None:
    assert phase_names(compiled(settle=False)) == ["load", "warm_up", "measure"]


@pytest.mark.parametrize(
    ("asked", "interval_ns"),
    [
        ({"duration_ns": 30 * 10**9}, 500_000_000),
        ({"duration_ns": 60 * 10**9}, 10**9),
        ({"duration_ns": 59 * 10**9}, 500_000_000),
        ({"duration_ns": 12 * 10**9}, 200_000_000),
        ({"duration_ns": 10**9}, 100_000_000),
        ({"operations": 1000}, 10**9),
        ({"until_stderr": 0.02}, 10**9),
        ({"duration_ns": 10**9, "interval_ns": 7 * 10**6}, 7 * 10**6),
    ],
)
def test_a_measured_phase_has_sixty_intervals_where_it_lasts_long_enough(
    asked: dict[str, Any], interval_ns: int
) -> None:
    assert compiled(**asked).interval_ns == interval_ns


def test_the_warm_up_is_the_same_group_at_the_same_rate() -> None:
    plan = compiled(warmup_ns=5, load="never", rate=100.0)
    warm_up, measure = plan.phases
    assert warm_up.name == "warm_up"
    assert warm_up.duration_ns == 5
    assert [one.group for one in warm_up.groups] == [one.group for one in measure.groups]


def test_a_run_without_a_length_warms_up_and_measures_until_its_throughput_is_known() -> None:
    plan = compiled()
    warm_up, measure = plan.phases[-2:]
    assert (warm_up.name, warm_up.duration_ns) == ("warm_up", 30 * 10**9)
    assert warm_up.until is not None
    assert warm_up.until.rule == "stationary"
    assert measure.duration_ns == 60 * 10**9
    assert measure.groups[0].operations is None
    assert measure.until is not None
    assert measure.until.model_dump() == {
        "rule": "precision", "bound": 0.03, "min_intervals": 50, "max_intervals": None,
    }  # fmt: skip
    assert plan.interval_ns == 200_000_000


@pytest.mark.parametrize(
    "length", [{"duration_ns": 9}, {"operations": 9}, {"until_stderr": 0.1}, {"precision": 0.1}]
)
def test_a_run_with_a_length_is_not_warmed_up_by_itself(length: dict[str, Any]) -> None:
    assert "warm_up" not in phase_names(compiled(**length))


def test_a_warm_up_of_no_length_is_none() -> None:
    plan = compiled(warmup_ns=0)
    assert "warm_up" not in phase_names(plan)
    assert plan.phases[-1].until is not None


def test_a_warm_up_until_it_is_steady_takes_thirty_seconds_at_most() -> None:
    warm_up = compiled(warmup_until="stationary", operations=9).phases[-2]
    assert (warm_up.name, warm_up.duration_ns) == ("warm_up", 30 * 10**9)


@pytest.mark.parametrize(
    "changes", [{"rate": "ramp:10..500"}, {"faults": (parse_fault("5s kill server for 1s"),)}]
)
def test_a_curve_and_a_fault_without_a_length_take_thirty_seconds(changes: dict[str, Any]) -> None:
    measure = compiled(**changes).phases[-1]
    assert (measure.duration_ns, measure.until) == (DEFAULT_DURATION_NS, None)


def test_a_precision_is_looked_for_over_ten_minutes_or_the_duration() -> None:
    for timed, longest_ns in (({}, 600 * 10**9), ({"duration_ns": 20 * 10**9}, 20 * 10**9)):
        measure = compiled(precision=0.01, **timed).phases[-1]
        assert measure.duration_ns == longest_ns
        assert measure.until is not None
        assert (measure.until.rule, measure.until.bound) == ("precision", 0.01)


def test_a_count_ends_a_run_alone() -> None:
    measure = compiled(operations=5).phases[-1]
    assert (measure.duration_ns, measure.groups[0].operations) == (None, 5)


def test_a_count_and_a_duration_end_a_run_whichever_comes_first() -> None:
    measure = compiled(operations=5, duration_ns=7).phases[-1]
    assert (measure.duration_ns, measure.groups[0].operations) == (7, 5)


def test_an_error_bound_ends_a_run_by_cassandra_stresss_rule() -> None:
    measure = compiled(until_stderr=0.02).phases[-1]
    assert measure.duration_ns is None
    assert measure.until is not None
    assert measure.until.model_dump() == {
        "rule": "cassandra-stress", "bound": 0.02, "min_intervals": 30, "max_intervals": 200,
    }  # fmt: skip


@pytest.mark.parametrize("workload", ["ycsb/load", "ycsb/delete"])
def test_what_takes_each_record_once_ends_after_as_many_operations(workload: str) -> None:
    measure = compiled(workload, records=77).phases[-1]
    assert (measure.duration_ns, measure.groups[0].operations) == (None, 77)


def test_the_load_workload_begins_with_an_empty_dataset() -> None:
    plan = compiled("ycsb/load", records=77)
    assert (plan.dataset.start, plan.dataset.count) == (0, 0)
    assert phase_names(plan) == ["measure"]


def test_a_rate_makes_an_open_model_with_a_limit_in_flight() -> None:
    group = compiled(rate=500.0).groups[0]
    assert group.arrival.model_dump() == {
        "process": "constant", "rates": ({"at_ns": 0, "rate": 500.0},),
    }  # fmt: skip
    assert group.clients == OPEN_CLIENTS
    assert compiled(rate=500.0, clients=3).groups[0].clients == 3


def test_the_arrival_law_is_as_said() -> None:
    assert compiled(rate=500.0, arrival="poisson").groups[0].arrival.process == "poisson"


def test_a_ramp_rises_over_the_duration_that_is_said_or_usual() -> None:
    for said, until_ns in (({"duration_ns": 7}, 7), ({}, DEFAULT_DURATION_NS)):
        arrival = compiled(rate="ramp:10..500", **said).groups[0].arrival
        assert arrival.model_dump()["rates"] == (
            {"at_ns": 0, "rate": 10.0}, {"at_ns": until_ns, "rate": 500.0},
        )  # fmt: skip


def test_a_curve_is_compiled_for_the_longer_of_warm_up_and_measurement() -> None:
    said = {"rate": "steps:10/1s,20/1s", "duration_ns": 2 * 10**9, "warmup_ns": 4 * 10**9}
    rates = compiled(**said).groups[0].arrival.model_dump()["rates"]
    assert rates[-1]["at_ns"] >= 4 * 10**9


def test_the_seed_of_a_run_decides_its_bursts() -> None:
    said = {"rate": "onoff:10/1s,20/1s", "duration_ns": 20 * 10**9}
    one, same, other = (compiled(**said, seed=seed).groups[0].arrival for seed in (1, 1, 2))
    assert one == same != other


def test_without_a_rate_one_client_goes_as_fast_as_it_can() -> None:
    group = compiled().groups[0]
    assert group.clients == 1
    assert group.arrival.model_dump() == {"process": "closed", "think_time_ns": 0}


def test_a_file_s_groups_keep_their_own_clients_rates_and_pauses() -> None:
    text = """
    groups:
      - {name: w, clients: 5, mix: {update: 1}, rate: [{at: 0s, rate: 1}, {at: 1s, rate: 9}]}
      - {name: r, mix: {read: 1}, think_time: 1ms}
    """
    plan = compiled(parse_workload(text, "w.yaml"), load="never")
    writers, readers = plan.groups
    assert writers.clients == 5
    assert writers.arrival.model_dump()["rates"][1] == {"at_ns": 10**9, "rate": 9.0}
    assert readers.arrival.model_dump() == {"process": "closed", "think_time_ns": 10**6}
    assert [one.group for one in plan.phases[0].groups] == [0, 1]


def test_the_load_has_as_many_clients_as_the_largest_group() -> None:
    assert compiled(clients=9).groups[-1].clients == 9


@pytest.mark.parametrize(
    ("changes", "expected_new"),
    [
        ({"operations": 1000}, 100),
        ({"rate": 100.0, "duration_ns": 10 * 10**9}, 100),
        ({"rate": 100.0}, 600),
        ({"duration_ns": 10**9}, 0),
        ({"until_stderr": 0.1, "rate": 100.0}, 0),
    ],
)
def test_ycsbs_zipfian_makes_room_for_twice_the_inserts_that_can_be_foreseen(
    changes: dict[str, Any], expected_new: int
) -> None:
    keys = compiled("ycsb/e", **changes).groups[0].keys
    assert (keys.start, keys.count) == (0, 1000 + expected_new + 1)


def test_an_exact_zipfian_covers_the_records_and_no_more() -> None:
    text = "groups: [{mix: {read: 1}, keys: {distribution: zipfian, theta: 1.2}}]"
    keys = compiled(parse_workload(text, "w.yaml")).groups[0].keys
    assert keys.model_dump() == {
        "start": 0,
        "count": 1000,
        "distribution": {"law": "zipfian", "theta": 1.2, "scrambled": True},
    }


def test_a_group_may_keep_to_a_part_of_the_records() -> None:
    text = "groups: [{mix: {read: 1}, key_range: {start: 10, count: 5}}]"
    keys = compiled(parse_workload(text, "w.yaml")).groups[0].keys
    assert (keys.start, keys.count) == (10, 5)


def test_a_key_space_that_cannot_be_counted_is_refused() -> None:
    with pytest.raises(PlanError, match="reach beyond 2\\^63"):
        compiled("ycsb/e", records=2**63 - 1, operations=2**62)


def test_options_and_numbers_go_down_as_they_are() -> None:
    plan = compiled(interval_ns=10**6, timeout_ns=6, drain_limit_ns=7, pin=(1, 0), records=9)
    assert plan.system.model_dump() == {
        "driver": "sim", "options": {"servers": "1", "seed": "1"},
    }  # fmt: skip
    assert (plan.interval_ns, plan.timeout_ns, plan.drain_limit_ns) == (10**6, 6, 7)
    assert plan.pin == (1, 0)
    assert plan.dataset.count == 9
    assert plan.share.model_dump() == {"index": 0, "of": 1}


def test_workers_are_one_per_core_unless_said_or_pinned() -> None:
    assert compiled().workers == 2
    assert compiled(pin=(3,)).workers == 1
    assert compiled(workers=5, pin=(3,)).workers == 5


def test_a_seed_is_derived_by_sha_256_as_documented() -> None:
    expected = hashlib.sha256(b"1:keys").digest()[:8]
    assert derive_seed(1, "keys") == int.from_bytes(expected, "big") == 17125944070519524794


@given(st.integers(0, 2**64 - 1))
def test_the_four_sources_of_chance_differ(seed: int) -> None:
    assert len(set(derive_seeds(seed).model_dump().values())) == 4


def test_a_plan_is_read_again_as_it_was_written() -> None:
    plan = compiled(rate=0.1, warmup_ns=1)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "plan: invalid json"),
        ("{}", "format: field required"),
    ],
)
def test_a_text_that_is_no_plan_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        Plan.from_json(text)


def test_an_unknown_field_is_refused() -> None:
    text = compiled().to_json().replace('"format":1', '"format":1,"extra":2')
    with pytest.raises(PlanError, match="extra: extra inputs are not permitted"):
        Plan.from_json(text)
