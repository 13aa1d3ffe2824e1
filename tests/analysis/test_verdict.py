"""Each reason is given when exactly its fault is planted, and a healthy run is VALID."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.cases import case_verdict
from kvmark.analysis.verdict.judge import judge, save_verdict
from kvmark.analysis.verdict.rules import RULES, Level, reasons_markdown
from kvmark.plan.model import KeyChoice
from kvmark.records import Judgement, Records
from kvmark.records.histograms import decode, encode
from kvmark.stats import Counts

DOCUMENT = Path(__file__).parents[2] / "docs" / "method" / "verdict.md"

Draft = Any
Make = Callable[[], Draft]
Plant = Callable[[Draft], None]


def no_success(draft: Draft) -> None:
    draft.engine["totals"].clear()


def failed_phase(draft: Draft) -> None:
    draft.phase["stopped_by"] = "failed"


def failures(outcome: str, count: int) -> Plant:
    return lambda draft: draft.turn(count, "READ", outcome)


def wrong_values(draft: Draft) -> None:
    draft.turn(1, "READ", "mismatch")


def few_misses(draft: Draft) -> None:
    draft.turn(1000, "READ", "miss")


def many_misses(draft: Draft) -> None:
    draft.turn(20_000, "UPDATE", "miss")


def lost_writes(draft: Draft) -> None:
    verify = {**draft.phase, "index": 1, "name": "verify", "groups": [], "workers": []}
    draft.engine["phases"].append(verify)
    lost = {**draft.total("READ"), "phase": 1, "outcome": "miss", "count": 3, "in_window": 3}
    draft.engine["totals"].append(lost)


def cold(draft: Draft) -> None:
    draft.plan["phases"].append({"name": "warm_up", "until": {"rule": "stationary"}})
    warm_up = {**draft.phase, "index": 1, "name": "warm_up", "groups": [], "workers": []}
    draft.engine["phases"].append({**warm_up, "stopped_by": "duration"})


def servers_rose(by: float | None, place: int = 1) -> Plant:
    def plant(draft: Draft) -> None:
        rounds = [1.0] if by is None else [1.0, 1.0, 1.0 + by, 1.0 + by]
        warmup = {"took_s": 600.0, "rounds": rounds}
        draft.spec["study"] = {"after_start": place, "server_warmup": warmup}

    return plant


def servers_without_a_load(draft: Draft) -> None:
    draft.spec["study"] = {"after_start": 1, "server_warmup": None}


def wrong_mix(draft: Draft) -> None:
    draft.plan["groups"][0]["mix"] = [
        {"kind": "read", "weight": 0.53},
        {"kind": "update", "weight": 0.47},
    ]


def fewer_completed(share: float) -> Plant:
    def plant(draft: Draft) -> None:
        draft.group["due"] = round(draft.group["completed"] / (1 - share))
        draft.group["issued"] = draft.group["due"]

    return plant


def dropped(draft: Draft) -> None:
    draft.group["dropped"] = draft.group["due"] // 200
    draft.group["due"] += draft.group["dropped"]


def late(share: float) -> Plant:
    def plant(draft: Draft) -> None:
        draft.group.update(late=int(draft.group["issued"] * share), late_busy=0)

    return plant


def late_with_busy_clients(draft: Draft) -> None:
    late(0.2)(draft)
    draft.group["late_busy"] = draft.group["late"]


def busy_worker(share: float) -> Plant:
    def plant(draft: Draft) -> None:
        draft.worker["idle_spin_ns"] = draft.worker["wall_ns"] // 100
        draft.worker["cpu_ns"] = int(draft.worker["wall_ns"] * (share + 0.01))

    return plant


def lag(p50_us: int, p99_us: int, reads: int = 5000) -> Plant:
    """Stamps that are late by so much, where operations take 50 µs and 159 µs."""

    def plant(draft: Draft) -> None:
        service = draft.total("READ")["service"]
        quantiles = {"p50": p50_us * 1000, "p99": p99_us * 1000}
        draft.phase["generator_lag"] = {**service, **quantiles, "count": reads}

    return plant


def read_late(share: float) -> Plant:
    """Answers that the engine came to after the limit on their time."""

    def plant(draft: Draft) -> None:
        draft.group["read_late"] = round(draft.group["completed"] * share)

    return plant


def slower(times: float) -> Plant:
    """Operations that take longer."""

    def plant(draft: Draft) -> None:
        for total in draft.engine["totals"]:
            counts = decode(total["service"]["histogram"])
            low = (counts.low * times).astype(np.int64)
            total["service"]["histogram"] = encode(Counts(low, low, counts.count))

    return plant


def waiting(draft: Draft) -> None:
    draft.worker["waiting_for_core_ns"] = draft.worker["wall_ns"] // 10


def costly_engine(draft: Draft) -> None:
    draft.host["engine_overhead_ns_per_operation"] = 8000.0


def disturbed_calibration(draft: Draft) -> None:
    draft.host |= {
        "engine_overhead_ns_per_operation": None,
        "engine_overhead_ns_least": 150.0,
        "engine_overhead_ns_median": 105_108.0,
    }


def coarse_clock(draft: Draft) -> None:
    draft.engine["clock"]["resolution_ns"] = 10_000


def fault(state: str, begun_s: float, ended_s: float | None = None) -> Plant:
    """Writes that a server was paused, and whether and when it was back."""

    def event(name: str, at_s: float) -> dict[str, Any]:
        common = {"kind": "fault", "fault": "3s pause primary-1 for 2s", "node": "primary-1"}
        return {"at_ns": int(at_s * 1e9), **common, "state": name, "problem": "it had ended"}

    def plant(draft: Draft) -> None:
        draft.events.append(event(state, begun_s))
        if ended_s is not None:
            draft.events.append(event("ended", ended_s))

    return plant


def failures_at(second: int, count: int = 100) -> Plant:
    """Lets reads of one interval fail."""

    def plant(draft: Draft) -> None:
        draft.turn(count, "READ", "connection")
        row = {**draft.intervals[second * 6 + 1], "outcome": "connection", "count": count}
        draft.intervals.append(row)

    return plant


def failures_in_a_fault(draft: Draft) -> None:
    fault("begun", 3.2, 5.1)(draft)
    for second in (3, 5, 9):
        failures_at(second, 1000)(draft)


def never_as_before(draft: Draft) -> None:
    fault("begun", 3.2, 5.1)(draft)
    for row in draft.intervals:
        if row["start_ns"] >= 4 * 10**9 and row["operation"] != "TOTAL":
            row["count"] //= 2


def failures_after_a_fault(draft: Draft) -> None:
    fault("begun", 3.2, 5.1)(draft)
    failures_at(12)(draft)


def servers(cores: float, *shares: float) -> Plant:
    """Puts a testbed of primaries behind the run, with their use of cores and their traffic."""

    def plant(draft: Draft) -> None:
        names = [f"primary-{number}" for number in range(1, len(shares) + 1)]
        nodes = [{"name": name, "role": "primary", "cores": []} for name in names]
        draft.plan["system"]["driver"] = "redis"
        draft.testbed = {"system": "redis", "nodes": nodes, "settings": {"io-threads": "1"}}
        origin_ns = draft.engine["started_wall_ns"]
        draft.resources = [
            {
                "at_wall_ns": origin_ns + second * 1_000_000_000,
                "node": name,
                "cpu_user_s": 5 + cores * second,
                "cpu_system_s": 1.0,
                "network_sent_bytes": int(1e6 * share * second),
                "network_received_bytes": 100,
            }
            for second in range(21)
            for name, share in zip(names, shares, strict=True)
        ]

    return plant


def on_cores(*uses: tuple[float, list[int]]) -> Plant:
    """Servers with their use of processor time, each bound to its cores."""

    def plant(draft: Draft) -> None:
        servers(0.0, *[1.0] * len(uses))(draft)
        draft.plan["system"]["driver"] = "cql"
        draft.testbed["system"] = "cassandra"
        for number, (used, cores) in enumerate(uses):
            node = draft.testbed["nodes"][number]
            node["cores"] = cores
            for second, row in enumerate(
                row for row in draft.resources if row["node"] == node["name"]
            ):
                row["cpu_user_s"] = 5 + used * second

    return plant


def peers(*shares: float) -> Plant:
    """The same with nodes of a cluster that has no primaries."""

    def plant(draft: Draft) -> None:
        servers(0.3, *shares)(draft)
        for node in draft.testbed["nodes"]:
            node["role"] = "peer"

    return plant


def broken(begun_s: float, ended_s: float | None, *shares: float) -> Plant:
    """The same with the first of them paused on purpose."""

    def plant(draft: Draft) -> None:
        servers(0.3, *shares)(draft)
        fault("begun", begun_s, ended_s)(draft)

    return plant


def popular(law: str, count: int = 1000, **numbers: Any) -> Plant:
    """Lets some of so many of the 1,000 records be asked for more often, on three servers."""

    def plant(draft: Draft) -> None:
        peers(0.34, 0.33, 0.33)(draft)
        content = {"start": 0, "count": count, "distribution": {"law": law, **numbers}}
        keys = KeyChoice.model_validate_json(json.dumps(content))
        draft.plan["groups"][0]["keys"] = keys.model_dump(mode="json")

    return plant


def zipfian(theta: float) -> Plant:
    return popular("zipfian", theta=theta, scrambled=True)


def again(of: dict[str, Any]) -> Plant:
    return popular("again", share=0.9, gaps=[0, 1], of=of)


def garbage(share: float) -> Plant:
    """Lets a server collect garbage for a part of the time."""

    def plant(draft: Draft) -> None:
        servers(0.5, 1.0)(draft)
        for second, row in enumerate(draft.resources):
            row["gc_time_s"] = 3.0 + share * second

    return plant


def statistic(name: str, before: float, after: float) -> Plant:
    def plant(draft: Draft) -> None:
        draft.phase.setdefault("statistics", {})[name] = {"before": before, "after": after}

    return plant


def busy_elsewhere(draft: Draft) -> None:
    statistic("used_cpu_user", 100.0, 112.0)(draft)
    statistic("used_cpu_sys", 50.0, 57.5)(draft)


def busy_machine(draft: Draft) -> None:
    draft.host["other_busy_cores_before"] = 1.5


def slower_and_slower(draft: Draft) -> None:
    for row in draft.intervals:
        if row["operation"] != "TOTAL":
            row["service_ns_mean"] *= 1 + row["start_ns"] / 60e9


def three_intervals(draft: Draft) -> None:
    draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] < 3_000_000_000]


def swinging(draft: Draft) -> None:
    """Lets slow and fast seconds follow each other by chance."""
    swings = np.random.default_rng(3).choice([0.2, 1.8], 20)
    for row in draft.intervals:
        row["count"] = int(row["count"] * swings[row["start_ns"] // 1_000_000_000])


def all_at_once(draft: Draft) -> None:
    """Lets everything end in one of the seconds."""
    for row in draft.intervals:
        row["count"] *= 20 * int(row["start_ns"] == 9_000_000_000)


def many_clients(draft: Draft) -> None:
    """More clients than operations ended."""
    draft.plan["groups"][0]["clients"] = 10_000_000


def few_operations(draft: Draft) -> None:
    for operation in ("READ", "UPDATE"):
        draft.total(operation).update(count=150, in_window=150)


def rare_operation(draft: Draft) -> None:
    draft.plan["groups"][0]["mix"].append({"kind": "insert", "weight": 0.0005})
    draft.engine["totals"].append({**draft.total("READ"), "operation": "INSERT", "count": 150})


def abandoned(draft: Draft) -> None:
    draft.group["abandoned"] = 2


def silent_system(draft: Draft) -> None:
    """The engine gave the system up in the phase that measures."""
    failed_phase(draft)
    evidence = {"system": "the server at 127.0.0.1:6379", "stall_limit_s": 30.0}
    message = "the server at 127.0.0.1:6379 answered nothing for 30 s"
    index = next(one["index"] for one in draft.engine["phases"] if one["name"] == "measure")
    notice = {"code": "no_answer", "phase": index, "message": message, "evidence": evidence}
    draft.engine["notices"] = [notice]


def interrupted(draft: Draft) -> None:
    draft.engine["interrupted"] = True


def unpinned(draft: Draft) -> None:
    draft.worker["cores"] = []


def noticed(draft: Draft) -> None:
    notice = {"code": "retries", "phase": 0, "message": "The driver retried.", "advice": "Look."}
    draft.engine["notices"] = [notice]


def machines(number: int, wanted: int, missing: float | None = None) -> Plant:
    """Load from so many machines of a fleet, the last one lost where a part is missing."""

    def plant(draft: Draft) -> None:
        clock = {"clock_offset_ns": 0, "clock_round_trip_ns": 0, "host": draft.host}
        agents = [{"share": i, "machine": f"10.0.0.{i}", **clock} for i in range(number)]
        if missing is not None:
            agents[-1]["lost"] = {"phase": "measure", "reason": "it died", "missing": missing}
        draft.engine.update(agents=agents, machines_wanted=wanted)

    return plant


CLOSED: list[tuple[str, Plant, Level]] = [
    ("nothing_measured", no_success, Level.INVALID),
    ("phase_failed", failed_phase, Level.INVALID),
    ("no_answer", silent_system, Level.INVALID),
    ("errors", failures("connection", 100), Level.SUSPECT),
    ("errors", failures("storage", 2500), Level.INVALID),
    ("timeouts", failures("timeout", 100), Level.SUSPECT),
    ("timeouts", failures("timeout", 2500), Level.INVALID),
    ("overloaded", failures("overloaded", 100), Level.SUSPECT),
    ("unavailable", failures("unavailable", 100), Level.SUSPECT),
    ("errors", failures_after_a_fault, Level.SUSPECT),
    ("errors_during_faults", failures_in_a_fault, Level.NOTE),
    ("fault_not_carried_out", fault("failed", 3.0), Level.SUSPECT),
    ("not_recovered", never_as_before, Level.SUSPECT),
    ("fault_not_carried_out", fault("not_reached", 20.0), Level.SUSPECT),
    ("mismatches", wrong_values, Level.INVALID),
    ("misses", few_misses, Level.SUSPECT),
    ("misses", many_misses, Level.INVALID),
    ("lost_writes", lost_writes, Level.INVALID),
    ("wrong_mix", wrong_mix, Level.SUSPECT),
    ("generator_saturated", busy_worker(0.95), Level.SUSPECT),
    ("generator_saturated", busy_worker(0.985), Level.INVALID),
    ("generator_lag", lag(51, 90), Level.SUSPECT),
    ("generator_lag", lag(20, 101), Level.SUSPECT),
    ("read_late", read_late(0.0005), Level.NOTE),
    ("read_late", read_late(0.002), Level.SUSPECT),
    ("server_saturated", servers(0.97, 1.0), Level.NOTE),
    ("server_saturated", busy_elsewhere, Level.NOTE),
    ("uneven_servers", servers(0.5, 0.5, 0.25, 0.25), Level.NOTE),
    ("uneven_servers", servers(0.5, 0.98, 0.01, 0.01), Level.SUSPECT),
    ("uneven_servers", peers(0.9, 0.05, 0.05), Level.SUSPECT),
    ("uneven_servers", broken(3.0, 5.0, 0.1, 0.7, 0.2), Level.SUSPECT),
    ("uneven_servers", broken(3.0, 5.0, 0.98, 0.01, 0.01), Level.SUSPECT),
    ("uneven_servers", broken(-9.0, -6.0, 0.1, 0.45, 0.45), Level.NOTE),
    ("hot_partition", zipfian(1.2), Level.NOTE),
    ("hot_partition", zipfian(1.5), Level.SUSPECT),
    ("hot_partition", again({"law": "zipfian", "theta": 1.5, "scrambled": True}), Level.SUSPECT),
    ("hot_partition", popular("head", shares=[0.2, 0.1], theta=0.5), Level.NOTE),
    ("hot_partition", popular("head", shares=[0.1, 0.4], theta=0.5), Level.SUSPECT),
    ("hot_partition", popular("head", shares=[0.1], theta=2.0), Level.SUSPECT),
    ("hot_partition", popular("head", shares=[], theta=1.5), Level.SUSPECT),
    ("hot_partition", popular("uniform", count=4), Level.NOTE),
    ("hot_partition", popular("uniform", count=2), Level.SUSPECT),
    (
        "hot_partition",
        popular("hotspot", data_fraction=0.001, operation_fraction=0.8),
        Level.SUSPECT,
    ),
    ("garbage_collection", garbage(0.02), Level.NOTE),
    ("garbage_collection", garbage(0.2), Level.SUSPECT),
    ("server_warnings", statistic("warnings", 5, 6), Level.NOTE),
    ("server_warnings", statistic("warnings", 0, 20_000), Level.SUSPECT),
    ("evictions", statistic("evicted_keys", 10, 11), Level.SUSPECT),
    ("waiting_for_core", waiting, Level.SUSPECT),
    ("engine_overhead", costly_engine, Level.SUSPECT),
    ("calibration_disturbed", disturbed_calibration, Level.NOTE),
    ("coarse_clock", coarse_clock, Level.SUSPECT),
    ("busy_machine", busy_machine, Level.SUSPECT),
    ("not_stationary", slower_and_slower, Level.SUSPECT),
    ("not_warmed_up", cold, Level.NOTE),
    ("servers_not_warm", servers_rose(0.04), Level.NOTE),
    ("servers_not_warm", servers_rose(0.2), Level.SUSPECT),
    ("servers_not_warm", servers_rose(None), Level.SUSPECT),
    ("servers_not_warm", servers_rose(0.2, 6), Level.NOTE),
    ("servers_not_warm", servers_without_a_load, Level.NOTE),
    ("too_short", three_intervals, Level.SUSPECT),
    ("imprecise", swinging, Level.SUSPECT),
    ("imprecise", all_at_once, Level.INVALID),
    ("unserved_clients", many_clients, Level.INVALID),
    ("too_few_samples", few_operations, Level.SUSPECT),
    ("too_few_samples", rare_operation, Level.NOTE),
    ("abandoned", abandoned, Level.SUSPECT),
    ("interrupted", interrupted, Level.SUSPECT),
    ("lost_share", machines(3, 3, 0.04), Level.SUSPECT),
    ("lost_share", machines(3, 3, 0.17), Level.INVALID),
    ("fewer_machines", machines(2, 3), Level.SUSPECT),
    ("unpinned", unpinned, Level.NOTE),
    ("engine_notice", noticed, Level.NOTE),
]

OPEN: list[tuple[str, Plant, Level]] = [
    ("offered_rate_not_reached", fewer_completed(0.02), Level.SUSPECT),
    ("offered_rate_not_reached", fewer_completed(0.10), Level.INVALID),
    ("dropped", dropped, Level.SUSPECT),
    ("schedule_late", late(0.05), Level.SUSPECT),
    ("schedule_late", late(0.20), Level.INVALID),
    ("concurrency_limit", late_with_busy_clients, Level.NOTE),
]

# Closed from the logs of a killed process: tests/records kills one. Imported: tests/imports. Of
# several runs: test_cold_servers, test_repetitions.
ELSEWHERE = {"recovered", "imported", "cold_servers", "machine_speed", "unrepeated"}

JUDGEMENTS = {
    Level.NOTE: Judgement.VALID,
    Level.SUSPECT: Judgement.SUSPECT,
    Level.INVALID: Judgement.INVALID,
}


def claim(code: str, plant: Plant, level: Level, draft: Draft) -> None:
    plant(draft)
    verdict = judge(draft.run())
    assert [(reason.code, reason.level) for reason in verdict.reasons] == [(code, level)]
    assert verdict.judgement is JUDGEMENTS[level]


@pytest.mark.parametrize(("code", "plant", "level"), CLOSED)
def test_a_fault_gives_its_reason_and_no_other(
    healthy: Make, code: str, plant: Plant, level: Level
) -> None:
    claim(code, plant, level, healthy())


@pytest.mark.parametrize(("code", "plant", "level"), OPEN)
def test_a_fault_of_the_open_model_gives_its_reason_and_no_other(
    healthy_open: Make, code: str, plant: Plant, level: Level
) -> None:
    claim(code, plant, level, healthy_open())


def test_no_bound_stands_beside_what_nobody_knows(healthy: Make) -> None:
    drafts = healthy(), healthy()
    servers_rose(None)(drafts[0])
    servers_without_a_load(drafts[1])
    for draft in drafts:
        [reason] = judge(draft.run()).reasons
        assert "more than" not in reason.sentence


def test_each_rule_has_a_test_that_plants_its_fault() -> None:
    planted = {code for code, _, _ in (*CLOSED, *OPEN)}
    assert planted | ELSEWHERE == set(RULES)


def test_a_healthy_run_is_valid_without_a_reason(healthy: Make, healthy_open: Make) -> None:
    for draft in (healthy(), healthy_open()):
        verdict = judge(draft.run())
        assert verdict.reasons == ()
        assert verdict.judgement is Judgement.VALID


def test_what_updates_once_all_is_there_stands_for_what_inserted(healthy: Make) -> None:
    """A full dataset turns the writers to another statement: the mix is still the plan's."""
    draft = healthy()
    names = ("READ", "INSERT", "UPDATE")
    draft.plan["statements"] = [{"name": name, "when_full": None} for name in names]
    draft.plan["groups"][0]["mix"] = [
        {"kind": "read", "statement": 0, "weight": 0.5},
        {"kind": "insert", "statement": 1, "weight": 0.5},
    ]
    assert [reason.code for reason in judge(draft.run()).reasons] == ["wrong_mix"]
    draft.plan["statements"][1]["when_full"] = 2
    assert judge(draft.run()).reasons == ()


def test_servers_with_room_and_equal_parts_are_no_reason(healthy: Make) -> None:
    for plant in (
        servers(0.9, 0.34, 0.33, 0.33),
        peers(0.4, 0.3, 0.3),
        zipfian(0.99),
        again({"law": "zipfian", "theta": 0.99, "scrambled": True}),
        popular("head", shares=[0.15, 0.1], theta=0.99),
        popular("latest"),
        popular("ycsb_zipfian", count=1001),
        popular("uniform"),
        garbage(0.005),
        statistic("warnings", 7, 7),
        statistic("evicted_keys", 10, 10),
        statistic("used_cpu_user", 1.0, 10.0),
        fault("begun", 3.2, 5.1),
        broken(3.0, 5.0, 0.1, 0.45, 0.45),
        broken(3.0, None, 0.1, 0.45, 0.45),
        broken(-9.0, -4.0, 0.1, 0.45, 0.45),
        broken(3.0, 5.0, 0.1, 0.9),
    ):
        draft = healthy()
        plant(draft)
        assert judge(draft.run()).reasons == ()


def test_what_waking_a_thread_takes_is_no_lag_of_the_generator(healthy: Make) -> None:
    draft = healthy()
    lag(50, 100)(draft)
    assert judge(draft.run()).reasons == ()


@pytest.mark.parametrize(
    ("p50_us", "p99_us", "told"),
    [(490, 1500, {}), (520, 1500, {"quantile": "p50"}), (490, 1700, {"quantile": "p99"})],
)
def test_a_lag_counts_from_a_tenth_of_the_service_time_on(
    healthy: Make, p50_us: int, p99_us: int, told: dict[str, str]
) -> None:
    """Of a median of 5 ms and a p99 of 15.9 ms."""
    draft = healthy()
    slower(100)(draft)
    lag(p50_us, p99_us)(draft)
    reasons = judge(draft.run()).reasons
    assert [reason.code for reason in reasons] == ["generator_lag"] * len(told)
    assert all(told.items() <= reason.evidence.items() for reason in reasons)


def test_a_lag_is_told_with_the_quantile_at_which_it_is_worst(healthy: Make) -> None:
    draft = healthy()
    lag(60, 120)(draft)
    (reason,) = judge(draft.run()).reasons
    service_ns = reason.evidence["service_ns"]
    assert service_ns == pytest.approx(50_000, rel=0.05)
    share = f"{60_000 / float(service_ns) * 100:.3g} %"
    assert reason.sentence == (
        "An answer had been in the machine for 60 µs when it was stamped (p50 of 5000 reads),"
        f" {share} of the service time's p50 (more than 10 %)."
    )


def test_a_lag_of_too_few_reads_is_not_judged(healthy: Make) -> None:
    draft = healthy()
    lag(20, 5000, reads=999)(draft)
    assert judge(draft.run()).reasons == ()


def test_failures_of_several_classes_are_judged_together_and_told_apart(healthy: Make) -> None:
    draft = healthy()
    for outcome in ("timeout", "unavailable", "connection"):
        failures(outcome, 900)(draft)
    reasons = judge(draft.run()).reasons
    assert [reason.code for reason in reasons] == ["errors", "timeouts", "unavailable"]
    assert {reason.level for reason in reasons} == {Level.INVALID}
    assert "(900 timeout), 0.451 %; with other classes 1.35 %" in reasons[1].sentence


def test_lost_writes_are_counted_by_what_was_found(healthy: Make) -> None:
    draft = healthy()
    lost_writes(draft)
    wrong = {**draft.total("READ"), "phase": 1, "outcome": "mismatch", "count": 10, "in_window": 10}
    draft.engine["totals"].append(wrong)
    counts = {"incomplete": 4, "torn": 3, "resurrected": 1}
    draft.engine["phases"][1]["sweep"] = {
        "records": 100, "written": 400, "unacknowledged": 0, **counts,
    }  # fmt: skip
    run = draft.run()
    reason = next(one for one in judge(run).reasons if one.code == "lost_writes")
    assert dict(reason.evidence).items() >= {"missing": 3, "stale": 2, **counts}.items()
    assert (
        "3 were missing, 4 lacked a field, 3 held a torn value, 2 held another" in reason.sentence
    )
    sweep = summarize(run).sweep
    assert sweep is not None
    assert (sweep.missing, sweep.incomplete, sweep.torn, sweep.stale) == (3, 4, 3, 2)
    assert (sweep.resurrected, sweep.records, sweep.written) == (1, 100, 400)


def test_warnings_say_what_they_speak_of(healthy: Make) -> None:
    draft = healthy()
    for name, count in (("warnings", 9), ("warnings_tombstone", 5), ("warnings_batch", 3)):
        statistic(name, 0, count)(draft)
    (found,) = judge(draft.run()).reasons
    assert "9 warnings, 5 of tombstones, 3 of batches, 1 of other matters" in found.sentence


def test_more_threads_and_cores_give_a_server_more_room(healthy: Make) -> None:
    draft = healthy()
    servers(1.9, 1.0)(draft)
    draft.testbed["settings"]["io-threads"] = "4"
    assert judge(draft.run()).reasons == ()
    bound = healthy()
    servers(1.9, 1.0)(bound)
    bound.testbed["settings"]["io-threads"] = "4"
    bound.testbed["nodes"][0]["cores"] = [0, 1]
    assert [reason.code for reason in judge(bound.run()).reasons] == []
    bound = healthy()
    servers(1.95, 1.0)(bound)
    bound.plan["system"]["driver"] = "cql"
    bound.testbed.update(system="cassandra")
    bound.testbed["nodes"][0]["cores"] = [0, 1]
    assert [reason.code for reason in judge(bound.run()).reasons] == ["server_saturated"]


def test_servers_on_the_same_cores_are_judged_together(healthy: Make) -> None:
    busy = healthy()
    on_cores((0.32, [1]), (0.32, [1]), (0.32, [1]))(busy)
    (found,) = judge(busy.run()).reasons
    assert found.code == "server_saturated"
    assert found.evidence["busy_share"] == pytest.approx(0.96)
    assert "Servers primary-1, primary-2, primary-3, on the same cores, used 96" in found.sentence
    idle = healthy()
    on_cores((0.31, [1]), (0.31, [1]), (0.31, [1]))(idle)
    assert judge(idle.run()).reasons == ()


def test_servers_on_some_of_the_cores_count_among_those_on_all(healthy: Make) -> None:
    draft = healthy()
    on_cores((0.2, [1]), (0.2, [1]), (1.55, [0, 1]))(draft)
    (found,) = judge(draft.run()).reasons
    assert found.evidence["busy_share"] == pytest.approx(1.95 / 2)
    # What a server with another core used may have been there.
    apart = healthy()
    on_cores((0.3, [1]), (0.3, [1]), (0.6, [0, 1]))(apart)
    assert judge(apart.run()).reasons == ()


def test_a_server_whose_settings_nobody_knows_may_use_all_cores(healthy: Make) -> None:
    draft = healthy()
    servers(1.02, 1.0)(draft)
    del draft.testbed["system"]
    assert judge(draft.run()).reasons == ()


def test_the_counters_of_a_server_that_was_started_again_begin_anew(healthy: Make) -> None:
    draft = healthy()
    servers(1.02, 1.0)(draft)
    for row in draft.resources[10:]:
        row["cpu_user_s"] -= 12
    (reason,) = judge(draft.run()).reasons
    assert reason.code == "server_saturated"
    # What it used in the second in which it was started again isn't known.
    assert reason.evidence["busy_share"] == pytest.approx(1.02 * 19 / 20)


def test_no_fault_excuses_a_wrong_value(healthy: Make) -> None:
    draft = healthy()
    fault("begun", 0.0, 20.0)(draft)
    wrong_values(draft)
    assert [reason.code for reason in judge(draft.run()).reasons] == ["mismatches"]


def test_a_server_that_is_never_back_explains_failures_to_the_end(healthy: Make) -> None:
    draft = healthy()
    fault("begun", 3.2)(draft)
    failures_at(18)(draft)
    assert [reason.code for reason in judge(draft.run()).reasons] == ["errors_during_faults"]


def test_operations_of_the_users_own_can_miss(
    healthy: Make, sized_total: Callable[..., dict[str, Any]]
) -> None:
    draft = healthy()
    draft.plan["groups"][0]["mix"] = []
    draft.engine["totals"] = [sized_total("GET", 5000), sized_total("GET", 5000, "miss")]
    assert [reason.code for reason in judge(draft.run()).reasons] == ["misses"]


def test_a_recovered_run_is_suspect(healthy: Make) -> None:
    run = healthy().run()
    manifest = run.manifest.model_copy(update={"closed_by": "recovered"})
    verdict = judge(type(run)(run.path, manifest))
    assert [reason.code for reason in verdict.reasons] == ["recovered"]
    assert verdict.judgement is Judgement.SUSPECT


def test_five_runs_of_a_case_make_up_for_their_shortness_and_no_run_for_itself(
    healthy: Make,
) -> None:
    draft = healthy()
    three_intervals(draft)
    verdict = judge(draft.run())
    assert verdict.judgement is Judgement.SUSPECT
    assert case_verdict([verdict] * 4).judgement is Judgement.SUSPECT
    case = case_verdict([verdict] * 5)
    assert case.judgement is Judgement.VALID
    assert [(reason.code, reason.level) for reason in case.reasons] == [("too_short", Level.NOTE)]


def test_operations_of_all_runs_of_a_case_count_together(healthy: Make) -> None:
    few, healthy_one = healthy(), healthy()
    few_operations(few)
    verdict = judge(few.run())
    assert verdict.judgement is Judgement.SUSPECT
    # 150 of each kind in a run, and 1000 are needed for p99.
    (reason,) = case_verdict([verdict] * 3).reasons
    assert (reason.level, reason.evidence["count"]) == (Level.NOTE, 450)
    assert "together clients.READ succeeded 450 times" in reason.sentence
    assert case_verdict([verdict] * 7).reasons == ()
    assert case_verdict([verdict, judge(healthy_one.run())]).reasons == ()


def test_a_phase_that_was_over_at_once_does_not_show_how_busy_the_generator_is(
    healthy: Make,
) -> None:
    draft = healthy()
    draft.worker.update(wall_ns=1_000_000, cpu_ns=1_560_000, idle_spin_ns=0)
    assert "generator_saturated" not in [reason.code for reason in judge(draft.run()).reasons]


def test_an_embedded_system_may_use_all_of_the_workers_time(healthy: Make) -> None:
    draft = healthy()
    busy_worker(0.99)(draft)
    draft.engine["capabilities"].update(embedded=True, execution="blocking")
    assert judge(draft.run()).reasons == ()


def test_the_machine_does_not_matter_on_a_virtual_clock(healthy: Make) -> None:
    draft = healthy()
    for plant in (unpinned, busy_machine, waiting, costly_engine, coarse_clock, busy_worker(1.0)):
        plant(draft)
    draft.engine["clock"]["source"] = "virtual"
    assert judge(draft.run()).reasons == ()


def test_a_rate_that_is_meant_to_rise_is_not_a_drift(healthy_open: Make) -> None:
    draft = healthy_open()
    slower_and_slower(draft)
    draft.plan["groups"][0]["arrival"]["rates"].append({"at_ns": 20_000_000_000, "rate": 1e5})
    assert judge(draft.run()).reasons == ()


def test_operations_normally_in_flight_at_the_end_are_not_missing(healthy_open: Make) -> None:
    draft = healthy_open()
    fewer_completed(0.02)(draft)
    for row in draft.total_rows():
        row["in_flight"] = 4100
    draft.plan["groups"][0]["clients"] = 10_000
    assert judge(draft.run()).reasons == ()


def test_a_growing_number_in_flight_is_no_excuse(healthy_open: Make) -> None:
    draft = healthy_open()
    fewer_completed(0.02)(draft)
    for number, row in enumerate(draft.total_rows()):
        row["in_flight"] = 200 * (number + 1)
    draft.plan["groups"][0]["clients"] = 10_000
    assert [reason.code for reason in judge(draft.run()).reasons] == ["offered_rate_not_reached"]


def test_deletes_that_find_nothing_are_not_misses(
    healthy: Make, sized_total: Callable[..., dict[str, Any]]
) -> None:
    draft = healthy()
    draft.plan["groups"][0]["mix"] = [{"kind": "delete", "weight": 1.0}]
    draft.engine["totals"] = [sized_total("DELETE", 5000), sized_total("DELETE", 5000, "miss")]
    assert judge(draft.run()).reasons == ()


def test_several_reasons_are_told_gravest_first(healthy: Make) -> None:
    draft = healthy()
    for plant in (unpinned, interrupted, wrong_values):
        plant(draft)
    verdict = judge(draft.run())
    assert [reason.code for reason in verdict.reasons] == ["mismatches", "interrupted", "unpinned"]
    assert verdict.judgement is Judgement.INVALID


def test_a_reason_is_one_sentence_with_evidence_threshold_and_advice(healthy: Make) -> None:
    draft = healthy()
    failures("storage", 2500)(draft)
    (reason,) = judge(draft.run()).reasons
    assert reason.sentence.startswith("2500 of ")
    assert reason.sentence.endswith("operations failed (2500 storage), 1.25 % (more than 1 %).")
    assert reason.evidence["storage"] == 2500
    assert (reason.threshold, reason.phase) == (0.01, "measure")
    assert "why they failed" in reason.advice


def test_a_case_is_judged_by_its_worst_run_and_says_how_many(healthy: Make) -> None:
    bad, good = healthy(), healthy()
    failures("timeout", 100)(bad)
    combined = case_verdict([judge(bad.run()), judge(good.run()), judge(good.run())])
    assert combined.judgement is Judgement.SUSPECT
    (reason,) = combined.reasons
    assert reason.sentence.startswith("In 1 of 3 runs: 100 of ")
    assert (reason.evidence["runs_with_this"], reason.evidence["runs"]) == (1, 3)


def test_a_verdict_is_kept_beside_the_run_and_can_be_replaced(
    healthy: Make, records: Records
) -> None:
    run = healthy().run()
    before = sorted(path.name for path in run.path.iterdir())
    for _ in range(2):
        save_verdict(records, run, judge(run))
    assert records.line(run.id).judgement is Judgement.VALID
    saved = json.loads(records.verdict_path(run.id).read_text())
    assert (saved["run"], saved["judgement"], saved["reasons"]) == (run.id, "VALID", [])
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_a_damaged_verdict_is_as_good_as_none(healthy: Make, records: Records) -> None:
    run = healthy().run()
    assert records.line(run.id).judgement is None
    for text in ("", "[]", "{}", '{"judgement": "FINE"}', "[" * 100_000):
        records.verdict_path(run.id).write_text(text)
        assert records.line(run.id).judgement is None


def test_the_document_has_the_table_of_all_reasons() -> None:
    assert reasons_markdown() in DOCUMENT.read_text(encoding="utf-8")


def test_a_run_in_which_not_each_client_ended_an_operation_is_invalid(
    healthy: Make, sized_total: Callable[..., dict[str, Any]]
) -> None:
    evidence = []
    for ended in (7, 8):
        draft = healthy()
        draft.engine["totals"] = [sized_total("READ", ended)]
        reasons = judge(draft.run()).reasons
        evidence += [one.evidence for one in reasons if one.level is Level.INVALID]
    assert evidence == [{"clients": 8, "ended": 7}]


def test_the_clients_of_the_open_model_are_a_limit(healthy_open: Make) -> None:
    draft = healthy_open()
    draft.plan["groups"][0]["clients"] = 10_000_000
    assert judge(draft.run()).reasons == ()
