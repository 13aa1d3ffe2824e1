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


WHOLE = ["load", "settle", "warm_up", "measure"]


@pytest.mark.parametrize(
    ("workload", "changes", "names"),
    [
        ("ycsb/a", {}, WHOLE),
        ("ycsb/a", {"load": "never"}, ["warm_up", "measure"]),
        ("ycsb/a", {"settle": False}, ["load", "warm_up", "measure"]),
        ("ycsb/a", {"duration_ns": 9}, ["load", "settle", "measure"]),
        ("ycsb/a", {"operations": 9}, ["load", "settle", "measure"]),
        ("ycsb/a", {"until_stderr": 0.1}, ["load", "settle", "measure"]),
        ("ycsb/a", {"precision": 0.1}, ["load", "settle", "measure"]),
        ("ycsb/a", {"warmup_ns": 0}, ["load", "settle", "measure"]),
        ("ycsb/a", {"warmup_until": "stationary", "operations": 9}, WHOLE),
        ("ycsb/load", {}, ["measure"]),
    ],
)
def test_a_run_loads_what_is_missing_settles_warms_up_and_measures(
    workload: str, changes: dict[str, Any], names: list[str]
) -> None:
    assert [phase.name for phase in compiled(workload, **changes).phases] == names


def test_the_load_inserts_all_records_if_they_are_missing_or_always() -> None:
    plan = compiled(clients=9)
    load = plan.phases[0]
    assert load.only_if_missing
    assert load.groups[0].operations == 1000
    loader = plan.groups[load.groups[0].group]
    assert (loader.name, loader.clients) == ("load", 9)
    assert not compiled(load="always").phases[0].only_if_missing
    assert [group.name for group in compiled(load="never").groups] == ["clients"]
    empty = compiled("ycsb/load", records=77).dataset
    assert (empty.start, empty.count) == (0, 0)


@pytest.mark.parametrize(
    ("workload", "changes", "duration_ns", "operations", "until"),
    [
        ("ycsb/a", {}, 60 * 10**9, None, ("precision", 0.03, 50, None)),
        ("ycsb/a", {"precision": 0.01}, 600 * 10**9, None, ("precision", 0.01, 30, None)),
        ("ycsb/a", {"precision": 0.01, "duration_ns": 20 * 10**9}, 20 * 10**9, None,
         ("precision", 0.01, 100, None)),
        ("ycsb/a", {"until_stderr": 0.02}, None, None, ("cassandra-stress", 0.02, 30, 200)),
        ("ycsb/a", {"operations": 5}, None, 5, None),
        ("ycsb/a", {"operations": 5, "duration_ns": 7}, 7, 5, None),
        ("ycsb/a", {"rate": "ramp:10..500"}, DEFAULT_DURATION_NS, None, None),
        ("ycsb/a", {"faults": (parse_fault("5s kill server for 1s"),)}, DEFAULT_DURATION_NS, None,
         None),
        ("ycsb/load", {"records": 77}, None, 77, None),
        ("ycsb/delete", {"records": 77}, None, 77, None),
    ],
)  # fmt: skip
def test_a_measurement_ends_by_what_is_asked_for(
    workload: str, changes: dict[str, Any], duration_ns: int | None, operations: int | None,
    until: tuple[object, ...] | None,
) -> None:  # fmt: skip
    measure = compiled(workload, **changes).phases[-1]
    assert (measure.duration_ns, measure.groups[0].operations) == (duration_ns, operations)
    assert until == (None if measure.until is None else tuple(measure.until.model_dump().values()))


@pytest.mark.parametrize("changes", [{}, {"warmup_until": "stationary", "operations": 9}])
def test_a_warm_up_until_it_is_steady_takes_thirty_seconds_at_most(changes: dict[str, Any]) -> None:
    warm_up = compiled(**changes).phases[-2]
    assert (warm_up.name, warm_up.duration_ns) == ("warm_up", 30 * 10**9)
    assert warm_up.until is not None
    assert warm_up.until.rule == "stationary"


@pytest.mark.parametrize(
    ("asked", "interval_ns"),
    [
        ({}, 200_000_000),
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


def test_a_rate_makes_an_open_model_with_a_limit_in_flight() -> None:
    group = compiled(rate=500.0).groups[0]
    assert group.arrival.model_dump() == {
        "process": "constant", "rates": ({"at_ns": 0, "rate": 500.0},),
    }  # fmt: skip
    assert group.clients == OPEN_CLIENTS
    assert compiled(rate=500.0, clients=3).groups[0].clients == 3
    assert compiled(rate=500.0, arrival="poisson").groups[0].arrival.process == "poisson"
    closed = compiled().groups[0]
    assert closed.clients == 1
    assert closed.arrival.model_dump() == {"process": "closed", "think_time_ns": 0}


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


def test_keys_are_chosen_among_all_records_or_a_part_of_them() -> None:
    text = "groups: [{mix: {read: 1}, keys: {distribution: zipfian, theta: 1.2}}]"
    keys = compiled(parse_workload(text, "w.yaml")).groups[0].keys
    law = {"law": "zipfian", "theta": 1.2, "scrambled": True}
    assert keys.model_dump() == {"start": 0, "count": 1000, "distribution": law}
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


def test_a_text_that_is_no_plan_is_refused() -> None:
    unknown = compiled().to_json().replace('"format":1', '"format":1,"extra":2')
    for text, sentence in (
        ("{", "plan: invalid json"),
        ("{}", "format: field required"),
        (unknown, "extra: extra inputs are not permitted"),
    ):
        with pytest.raises(PlanError, match=sentence):
            Plan.from_json(text)
