"""A run divided among agents that are coordinated as one generator: real engines, without Ray."""

import os
import signal
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from kvmark.analysis.compare.bounds import objective_figures
from kvmark.analysis.verdict.judge import judge
from kvmark.errors import FleetError, Interrupted, SystemUnderTestError, UsageError
from kvmark.records import Run, files
from kvmark.records.histograms import decode
from kvmark.run import agent, shares
from kvmark.run.coordinator import clock_offset
from kvmark.run.shares import acknowledged, check_reachable

# What one operation of the slow system takes: a run of a few hundred lasts for seconds.
SLOW = ("--system", "sim:?mean_us=2000&servers=1000")


def done(run: Run) -> Counter[tuple[Any, ...]]:
    """The numbers of operations by phase, group, kind and outcome."""
    totals = run.manifest.engine.totals
    return Counter(
        {(one.phase, one.group, one.operation, one.part, one.outcome): one.count for one in totals}
    )


@pytest.mark.parametrize("workload", ["ycsb/a", "ycsb/e", "ycsb/f"])
def test_three_machines_do_the_operations_of_one(fleet: Any, workload: str) -> None:
    words = ("--system", "null:", "--operations", "20001", "--load", "always")
    whole = fleet.plan(workload, *words, "--records", "1001")
    one = fleet.run(whole)
    three = fleet.run(whole, fleet.crew())
    assert sum(done(one).values()) >= 20_001
    assert done(three) == done(one)
    load, measured = (three.manifest.engine.phases[index] for index in (0, -1))
    assert load.groups[0].frontier == load.groups[0].ok == 1001
    assert measured.groups[0].issued == measured.groups[0].completed == 20_001
    workers = [worker.worker for worker in measured.workers]
    assert workers == list(range(len(one.manifest.engine.phases[-1].workers)))


@pytest.mark.parametrize(
    ("spec", "on_all_cores"), [({}, True), ({"workers": 1}, False), ({"stress": {}}, False)]
)
def test_each_core_has_a_worker(fleet: Any, spec: dict[str, Any], *, on_all_cores: bool) -> None:
    """cassandra-stress's connections are divided among the workers of its plan."""
    team = fleet.crew()
    fleet.execute(fleet.plan("ycsb/c", "--system", "null:", "--operations", "60"), team, spec=spec)
    assert team.asked_for_all_cores is on_all_cores


def test_calibration_is_no_load_of_the_host(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another agent on the machine would count its calibration as other load."""
    host, overhead = {"cores": 2}, {"engine_overhead_ns_per_operation": 300.0}
    steps = Mock(describe_host=Mock(return_value=host), engine_overhead=Mock(return_value=overhead))
    monkeypatch.setattr(agent, "describe_host", steps.describe_host)
    monkeypatch.setattr(agent, "engine_overhead", steps.engine_overhead)
    described = agent.Agent().describe(fleet.plan("ycsb/c", "--system", "null:").to_json())
    assert [step[0] for step in steps.mock_calls] == ["describe_host", "engine_overhead"]
    assert described["host"] == {**host, **overhead}


def test_intervals_and_totals_agree(fleet: Any) -> None:
    run = fleet.run(fleet.plan("ycsb/a", *SLOW, "--operations", "900"), fleet.crew())
    assert run.intervals["start_ns"].n_unique() > 1
    for total in run.manifest.engine.totals:
        rows = run.intervals.filter(
            (run.intervals["operation"] == total.operation)
            & (run.intervals["outcome"] == total.outcome)
        )
        assert rows["count"].sum() == total.count
        for time in (total.service, total.response, total.wait):
            assert decode(time.histogram).n == total.count
            assert time.min <= time.p50 <= time.p99 <= time.max


def test_objectives_are_judged_on_the_merged_result(fleet: Any) -> None:
    spec = {"workers": 1, "objectives": ["throughput>1", "p50<1h", "errors<1%"]}
    plan = fleet.plan("ycsb/c", *SLOW, "--operations", "300")
    run = fleet.run(plan, fleet.crew(), spec=spec)
    rate, median, errors = (one.value for one in objective_figures(run, judge(run)))
    (total,), phase = run.manifest.engine.totals, run.manifest.engine.phases[-1]
    assert total.count == 300
    assert rate == pytest.approx(300e9 / (phase.end_ns - phase.start_ns), rel=0.05)
    assert (median, errors) == (pytest.approx(total.response.p50, rel=1e-3), 0)


def test_all_begin_at_one_instant_despite_different_clocks(fleet: Any) -> None:
    team = fleet.crew()
    # As if the second machine's clock were ahead: it begins later by its own clock.
    ahead_ns = 150_000_000
    team.machines[1] = replace(team.machines[1], clock_offset_ns=ahead_ns)
    run = fleet.run(fleet.plan("ycsb/c", *SLOW, "--operations", "300"), team)
    first, second, third = (wall_ns for phase, wall_ns in team.begun() if phase == 1)
    assert (second - first, third - first) == (ahead_ns, 0)
    engine = run.manifest.engine
    assert [one.clock_offset_ns for one in engine.agents] == [0, ahead_ns, 0]
    assert all(one.starts_ns[1] >= engine.phases[-1].start_ns for one in engine.agents)


def test_a_warm_up_continues_into_the_measurement_on_all_machines(fleet: Any) -> None:
    team = fleet.crew()
    words = ("--warmup", "400ms", "--duration", "600ms", "--load", "never")
    run = fleet.run(fleet.plan("ycsb/c", *SLOW, *words), team)
    warm_up, measure = run.manifest.engine.phases
    assert (warm_up.name, measure.name) == ("warm_up", "measure")
    # Both phases get their starts before either begins.
    assert [phase for phase, _ in team.begun()] == [0, 0, 0, 1, 1, 1]
    kinds = [(event["kind"], event.get("phase")) for event in run.events]
    begun = [kind for kind in kinds if kind[0] in {"phase_started", "phase_ended"}]
    assert sorted(begun) == sorted(product(("phase_started", "phase_ended"), (0, 1)))
    totals = run.intervals.filter(run.intervals["operation"] == "TOTAL")
    window = totals.filter((totals["phase"] == measure.index) & ~totals["drain"])
    length_ns = run.manifest.plan["interval_ns"]
    assert window["start_ns"].to_list() == [
        warm_up.start_ns + 400_000_000 + number * length_ns for number in range(len(window))
    ]
    for phase in (warm_up, measure):
        mine = totals.filter(totals["phase"] == phase.index)
        counted = sum(one.count for one in run.totals(phase.index))
        assert int((mine["count"] - mine["carried"]).sum()) == counted


def test_the_throughput_of_all_machines_ends_the_warm_up_and_the_measurement(fleet: Any) -> None:
    team = fleet.crew()
    words = ("--load", "never", "--interval", "20ms", "--warmup-until", "stationary")
    limits = ("--warmup", "10m", "--precision", "0.2", "--duration", "10m")
    run = fleet.run(fleet.plan("ycsb/c", *SLOW, *words, *limits), team)
    warm_up, measure = run.manifest.engine.phases
    assert (warm_up.stopped_by, measure.stopped_by) == ("until", "until")
    ended = [(share, one["phase"]) for command, share, one in team.sent if command == "end_phase"]
    assert sorted(ended) == [(share, phase) for share in range(3) for phase in range(2)]
    assert measure.window_ns < 300 * 10**9


@pytest.mark.parametrize("cause", ["it was killed", "crashed with SIGSEGV"])
def test_the_others_records_are_kept_when_an_engine_or_agent_dies(fleet: Any, cause: str) -> None:
    team = fleet.crew()
    intervals: list[bytes] = []

    def die_in_the_middle(share: int, report: Any) -> None:
        before = len(intervals)
        if share == 1:
            intervals.extend(report.logs[files.INTERVAL_LOG].splitlines())
        if before < 2 <= len(intervals):
            if "SIGSEGV" in cause:
                os.kill(team.agents[1].generator.pid, signal.SIGSEGV)
            else:
                team.dismiss(1)

    team.watch = die_in_the_middle
    run = fleet.run(fleet.plan("ycsb/c", *SLOW, "--operations", "6000"), team)
    assert 4_000 < sum(done(run).values()) < 6_000
    (lost,) = [agent for agent in run.manifest.engine.agents if agent.lost]
    assert (lost.share, lost.machine) == (1, "machine-1")
    assert cause in lost.lost.reason
    assert 0 < lost.lost.missing < 1 / 3
    verdict = judge(run)
    (reason,) = [one for one in verdict.reasons if one.code == "lost_share"]
    assert reason.sentence.startswith("Share 2 of 3, generated by machine-1, was lost in the")
    assert verdict.judgement.value in {"SUSPECT", "INVALID"}
    assert "agent_lost" in {event["kind"] for event in run.events}


def test_agents_stop_without_a_renewal_of_their_lease(fleet: Any) -> None:
    team = fleet.crew(2, lease_s=3.0)

    def fall_silent(told: Any) -> None:
        if told["completed"] > 50:
            team.muted.add("renew")

    whole = fleet.plan("ycsb/c", *SLOW, "--duration", "1h")
    executed = fleet.execute(whole, team, progress=fall_silent)
    assert isinstance(executed.failure, FleetError)
    run = fleet.closed(executed)
    reasons = [agent.lost.reason for agent in run.manifest.engine.agents]
    assert reasons == ["it gave up, having heard nothing for long"] * 2
    assert sum(done(run).values()) > 0


def test_a_machine_that_is_lost_before_the_measurement_is_named(fleet: Any) -> None:
    with pytest.raises(SystemUnderTestError, match=r"^machine-0: .*127\.0\.0\.1:1"):
        fleet.execute(fleet.plan("ycsb/a", "--system", "redis://127.0.0.1:1"), fleet.crew())
    assert list(fleet.records.root.iterdir()) == []
    team = fleet.crew()
    team.watch = lambda share, report: (
        team.dismiss(2) if 2 in team.agents and not team.lost else None
    )
    with pytest.raises(FleetError, match="machine-2 was lost before the run began"):
        fleet.execute(fleet.plan("ycsb/c", *SLOW, "--duration", "1h"), team)
    assert list(fleet.records.root.iterdir()) == []


def test_agents_learn_when_a_planned_fault_acts_and_end_with_an_interrupt(fleet: Any) -> None:
    """A system that a fault silences may be silent: no agent ends its share at the stall limit."""
    team = fleet.crew()
    acts: list[bool] = [False]

    def toggle(_: Any) -> None:
        disturbed = {one.is_disturbed for one in team.agents.values()}
        if disturbed == {acts[-1]}:
            # The fault begins and ends once, then the run is stopped.
            team.stops = int(len(acts) >= 3)
            acts.append(len(acts) == 1)

    team.is_disturbed = lambda: acts[-1]
    executed = fleet.execute(fleet.plan("ycsb/c", *SLOW, "--duration", "1h"), team, progress=toggle)
    assert isinstance(executed.failure, Interrupted)
    engine = fleet.closed(executed).manifest.engine
    assert (engine.interrupted, engine.phases[-1].stopped_by) == (True, "cancelled")
    assert sum(total.count for total in engine.totals) > 0
    sent = [(share, one["acts"]) for command, share, one in team.sent if command == "disturb"]
    assert sent == [(share, acts) for acts in (True, False) for share in range(3)]


@pytest.mark.parametrize("clients", [3, 4, 10, 10_000, 10_001])
def test_the_clients_of_all_shares_are_those_of_the_whole(clients: int) -> None:
    parts = [shares.clients_of(clients, index, 3) for index in range(3)]
    assert sum(parts) == clients
    assert max(parts) - min(parts) <= 1


def test_a_run_uses_no_more_machines_than_its_smallest_group_has_clients(fleet: Any) -> None:
    whole = fleet.plan("ycsb/a", "--system", "null:")
    assert shares.machines_used(whole, 3) == 3
    assert shares.machines_used(whole, 40) == 6


@pytest.mark.parametrize("of", [1, 2, 3, 7])
@pytest.mark.parametrize("start", [0, 5, 1000])
def test_the_common_frontier_is_the_first_unacknowledged_ordinal(of: int, start: int) -> None:
    for uneven in range(20):
        # The number of acknowledged ordinals of each share.
        done = [(uneven * (index + 2)) % 11 for index in range(of)]
        there = {start + index + of * n for index in range(of) for n in range(done[index])}
        frontiers = [
            start + index + of * (done[index] - 1) + 1 if done[index] else start
            for index in range(of)
        ]
        missing = next(n for n in range(start, start + 1000) if n not in there)
        assert acknowledged(frontiers, start) == missing


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rocksdb:there"], "rocksdb is embedded"),
        (["sim:?clock=virtual"], "virtual clock of sim:"),
        (["null:", "--verify"], "--verify compares the records with the writes of one"),
    ],
)
def test_indivisible_plans_are_refused(fleet: Any, arguments: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        shares.check_divisible(fleet.plan("ycsb/a", "--system", *arguments))
    shares.check_divisible(fleet.plan("ycsb/a", "--system", "sim:"))


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_a_loopback_address_means_another_system_on_each_machine(fleet: Any, address: str) -> None:
    local = fleet.plan("ycsb/a", "--system", f"redis://{address}")
    check_reachable(local, ["10.0.0.1", "10.0.0.1"], "10.0.0.1")
    with pytest.raises(UsageError, match=r"10\.0\.0\.2 is another one"):
        check_reachable(local, ["10.0.0.1", "10.0.0.2"], "10.0.0.1")
    elsewhere = fleet.plan("ycsb/a", "--system", "redis://10.0.0.9:6379")
    check_reachable(elsewhere, ["10.0.0.1", "10.0.0.2"], "10.0.0.1")


def test_a_clocks_offset_is_that_of_the_quickest_round_trip() -> None:
    # Sent, read there, received: the second trip is the quickest, with its middle at 1050.
    instants = iter([0, 400, 1000, 1100, 2000, 2900])
    theirs = iter([7100, 8060, 9999])
    assert clock_offset(lambda: next(theirs), 3, lambda: next(instants)) == (7010, 100)
