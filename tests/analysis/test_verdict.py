"""Each reason is given when exactly its fault is planted, and a healthy run is VALID."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.cases import case_verdict
from kvmark.analysis.verdict.judge import Verdict, judge
from kvmark.analysis.verdict.rules import RULES, Level, Reason, Rule
from kvmark.plan.model import KeyChoice
from kvmark.records import Judgement
from kvmark.records.histograms import decode, encode
from kvmark.stats import Counts

DOCUMENT = Path(__file__).parents[2] / "docs" / "method" / "verdict.md"

S = 1_000_000_000

Draft = Any
Make = Callable[[], Draft]
Plant = Callable[[Draft], None]


NOTE, SUSPECT, INVALID = Level


def put(part: str, **values: Any) -> Plant:
    """Changes values of the phase, its group or worker, the host, the engine or its clock."""

    def plant(draft: Draft) -> None:
        (draft.engine["clock"] if part == "clock" else getattr(draft, part)).update(values)

    return plant


def planted(change: Callable[..., None]) -> Callable[..., Plant]:
    """Makes plants of a change that takes arguments."""
    return lambda *args, **named: lambda draft: change(draft, *args, **named)


def all_of(*plants: Plant) -> Plant:
    def plant(draft: Draft) -> None:
        for one in plants:
            one(draft)

    return plant


def turned(outcome: str, count: int, operation: str = "READ") -> Plant:
    """Lets so many operations end otherwise."""
    return lambda draft: draft.turn(count, operation, outcome)


@planted
def ended(draft: Draft, *totals: tuple[str, int, str], kind: str | None = None) -> None:
    """Lets these operations have ended, of a mix of one kind or unknown."""
    draft.plan["groups"][0]["mix"] = [] if kind is None else [{"kind": kind, "weight": 1.0}]
    draft.complete(*totals)


@planted
def filling(draft: Draft, misses: int) -> None:
    """A cache that misses so many reads in its first half second, and ever fewer."""
    draft.plan["groups"][0]["on_miss"] = {"statement": None}
    draft.turn(20_000, "READ", "miss")
    reads = [row for row in draft.intervals if row["operation"] == "READ"]
    for number, row in enumerate(reads):
        count = misses - misses * number // len(reads)
        draft.intervals.append({**row, "outcome": "miss", "count": count})


def failed_fills(draft: Draft) -> None:
    filling(0)(draft)
    failed = {"operation": "SET", "part": True, "outcome": "storage", "count": 20}
    draft.engine["totals"].append({**draft.total("READ"), **failed})


def lost_writes(draft: Draft) -> None:
    verify = {**draft.phase, "index": 1, "name": "verify", "groups": [], "workers": []}
    draft.engine["phases"].append(verify)
    lost = {**draft.total("READ"), "phase": 1, "outcome": "miss", "count": 3, "in_window": 3}
    draft.engine["totals"].append(lost)


def cold(draft: Draft) -> None:
    draft.plan["phases"].append({"name": "warm_up", "until": {"rule": "stationary"}})
    warm_up = {**draft.phase, "index": 1, "name": "warm_up", "groups": [], "workers": []}
    draft.engine["phases"].append({**warm_up, "stopped_by": "duration"})


def of_study(**place: Any) -> Plant:
    return lambda draft: draft.spec.update(study=place)


def servers_rose(by: float | None, place: int = 1) -> Plant:
    rounds = [1.0] if by is None else [1.0, 1.0, 1.0 + by, 1.0 + by]
    return of_study(after_start=place, server_warmup={"took_s": 600.0, "rounds": rounds})


def wrong_mix(draft: Draft) -> None:
    weights = {"read": 0.53, "update": 0.47}
    mix = [{"kind": kind, "weight": weight} for kind, weight in weights.items()]
    draft.plan["groups"][0]["mix"] = mix


@planted
def fewer_completed(draft: Draft, share: float) -> None:
    draft.group["due"] = round(draft.group["completed"] / (1 - share))
    draft.group["issued"] = draft.group["due"]


@planted
def in_flight(draft: Draft, count: Callable[[int], int]) -> None:
    """Fewer completed, with so many in flight at the end of each interval."""
    fewer_completed(0.02)(draft)
    for number, row in enumerate(draft.total_rows()):
        row["in_flight"] = count(number)
    draft.plan["groups"][0]["clients"] = 10_000


def rising_rate(draft: Draft) -> None:
    draft.plan["groups"][0]["arrival"]["rates"].append({"at_ns": 20 * S, "rate": 1e5})


@planted
def late(draft: Draft, share: float, busy: float = 0.0) -> None:
    count = int(draft.group["issued"] * share)
    draft.group.update(late=count, late_busy=int(count * busy))


@planted
def busy_worker(draft: Draft, share: float) -> None:
    draft.worker["idle_spin_ns"] = draft.worker["wall_ns"] // 100
    draft.worker["cpu_ns"] = int(draft.worker["wall_ns"] * (share + 0.01))


@planted
def lag(draft: Draft, p50_us: int, p99_us: int, reads: int = 5000) -> None:
    """Stamps that are late by so much, where operations take 50 µs and 159 µs."""
    service = draft.total("READ")["service"]
    quantiles = {"p50": p50_us * 1000, "p99": p99_us * 1000}
    draft.phase["generator_lag"] = {**service, **quantiles, "count": reads}


@planted
def read_late(draft: Draft, share: float) -> None:
    """Answers that the engine came to after the limit on their time."""
    draft.group["read_late"] = round(draft.group["completed"] * share)


def slower(draft: Draft) -> None:
    """Operations that take a hundred times as long."""
    for total in draft.engine["totals"]:
        counts = decode(total["service"]["histogram"])
        low = counts.low * 100
        total["service"]["histogram"] = encode(Counts(low, low, counts.count))


disturbed_calibration = put(
    "host",
    engine_overhead_ns_per_operation=None,
    engine_overhead_ns_least=150.0,
    engine_overhead_ns_median=105_108.0,
)


FAULT = ("3s pause primary-1 for 2s", "primary-1")


def fault(begun_s: float, ended_s: float | None = None) -> Plant:
    """Writes that a server was paused, and whether and when it was back."""
    return lambda draft: draft.fault(*FAULT, begun_s, ended_s)


def no_fault(state: str) -> Plant:
    """Writes that a fault wasn't carried out."""
    event = {"kind": "fault", "fault": FAULT[0], "state": state, "at_ns": 3 * S}
    return lambda draft: draft.events.append({**event, "problem": "it had ended"})


@planted
def failures_at(draft: Draft, second: int, count: int = 100) -> None:
    """Lets reads of one interval fail."""
    draft.turn(count, "READ", "connection")
    row = {**draft.intervals[second * 6 + 1], "outcome": "connection", "count": count}
    draft.intervals.append(row)


def never_as_before(draft: Draft) -> None:
    fault(3.2, 5.1)(draft)
    for row in draft.intervals:
        if row["start_ns"] >= 4 * 10**9 and row["operation"] != "TOTAL":
            row["count"] //= 2


@planted
def servers(draft: Draft, cores: float, *shares: float, role: str = "primary") -> None:
    """Puts a testbed of servers behind the run, with their use of cores and their traffic."""
    names = [f"primary-{number}" for number in range(1, len(shares) + 1)]
    nodes = [{"name": name, "role": role, "cores": []} for name in names]
    draft.plan["system"]["driver"] = "redis"
    draft.testbed = {"system": "redis", "nodes": nodes, "settings": {"io-threads": "1"}}
    for name, share in zip(names, shares, strict=True):
        draft.watch(
            name,
            cpu_user_s=(5, cores),
            cpu_system_s=1.0,
            network_sent_bytes=(0, int(1e6 * share)),
            network_received_bytes=100,
        )


@planted
def threads(draft: Draft, count: int, *cores: int) -> None:
    """A server that uses 1.9 cores with so many threads for connections."""
    servers(1.9, 1.0)(draft)
    draft.testbed["settings"]["io-threads"] = str(count)
    draft.testbed["nodes"][0]["cores"] = list(cores)


@planted
def on_cores(draft: Draft, *uses: tuple[float, list[int]]) -> None:
    """Servers with their use of processor time, each bound to its cores."""
    servers(0.0, *[1.0] * len(uses))(draft)
    draft.plan["system"]["driver"] = "cql"
    draft.testbed["system"] = "cassandra"
    samples = len(draft.resources) // len(uses)
    for number, (used, cores) in enumerate(uses):
        draft.testbed["nodes"][number]["cores"] = cores
        for second, row in enumerate(draft.resources[number * samples :][:samples]):
            row["cpu_user_s"] = 5 + used * second


@planted
def observed(draft: Draft, driver: str = "cql", seconds: int = 21, **values: Any) -> None:
    """A server that kvmark only observes, at first for so many seconds."""
    draft.plan["system"]["driver"] = driver
    draft.observed.append("db")
    draft.watch("coordinator", cpu_user_s=0.0, cpu_system_s=0.0, network_sent_bytes=None)
    no_network = {"network_sent_bytes": None, "network_received_bytes": None}
    usage = {"cpu_user_s": (5, 1.0), "cpu_system_s": 0.0, "cores": 8, **no_network, **values}
    draft.watch("db", range(seconds), **usage)


peers = partial(servers, 0.3, role="peer")
"""The same with nodes of a cluster that has no primaries."""


def broken(begun_s: float, ended_s: float | None, *shares: float) -> Plant:
    """The same with the first of them paused on purpose."""
    return all_of(servers(0.3, *shares), fault(begun_s, ended_s))


@planted
def popular(draft: Draft, law: str, count: int = 1000, **numbers: Any) -> None:
    """Lets some of so many of the 1,000 records be asked for more often, on three servers."""
    peers(0.34, 0.33, 0.33)(draft)
    content = {"start": 0, "count": count, "distribution": {"law": law, **numbers}}
    keys = KeyChoice.model_validate_json(json.dumps(content))
    draft.plan["groups"][0]["keys"] = keys.model_dump(mode="json")


def zipfian(theta: float) -> Plant:
    return popular("zipfian", theta=theta, scrambled=True)


def again(of: dict[str, Any]) -> Plant:
    return popular("again", share=0.9, gaps=[0, 1], of=of)


@planted
def garbage(draft: Draft, share: float) -> None:
    """Lets a server collect garbage for a part of the time."""
    servers(0.5, 1.0)(draft)
    for second, row in enumerate(draft.resources):
        row["gc_time_s"] = 3.0 + share * second


@planted
def statistic(draft: Draft, name: str, before: float, after: float) -> None:
    draft.phase.setdefault("statistics", {})[name] = {"before": before, "after": after}


def used_cpu(user_s: float, system_s: float) -> Plant:
    """What a system counted itself."""
    return all_of(
        statistic("used_cpu_user", 100.0, 100.0 + user_s),
        statistic("used_cpu_sys", 50.0, 50.0 + system_s),
    )


def slower_and_slower(draft: Draft) -> None:
    for row in draft.intervals:
        if row["operation"] != "TOTAL":
            row["service_ns_mean"] *= 1 + row["start_ns"] / 60e9


def three_intervals(draft: Draft) -> None:
    draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] < 3 * S]


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
    draft.plan["groups"][0]["clients"] = 10_000_000


def few_operations(draft: Draft) -> None:
    for operation in ("READ", "UPDATE"):
        draft.total(operation).update(count=150, in_window=150)


def rare_operation(draft: Draft) -> None:
    draft.plan["groups"][0]["mix"].append({"kind": "insert", "weight": 0.0005})
    draft.engine["totals"].append({**draft.total("READ"), "operation": "INSERT", "count": 150})


def silent_system(draft: Draft) -> None:
    """The engine gave the system up in the phase that measures."""
    draft.phase["stopped_by"] = "failed"
    evidence = {"system": "the server at 127.0.0.1:6379", "stall_limit_s": 30.0}
    message = "the server at 127.0.0.1:6379 answered nothing for 30 s"
    index = next(one["index"] for one in draft.engine["phases"] if one["name"] == "measure")
    notice = {"code": "no_answer", "phase": index, "message": message, "evidence": evidence}
    draft.engine["notices"] = [notice]


def noticed(draft: Draft) -> None:
    notice = {"code": "retries", "phase": 0, "message": "The driver retried.", "advice": "Look."}
    draft.engine["notices"] = [notice]


@planted
def machines(draft: Draft, number: int, wanted: int, missing: float | None = None) -> None:
    """Load from so many machines of a fleet, the last one lost where a part is missing."""
    clock = {"clock_offset_ns": 0, "clock_round_trip_ns": 0, "host": draft.host}
    agents = [{"share": i, "machine": f"10.0.0.{i}", **clock} for i in range(number)]
    if missing is not None:
        agents[-1]["lost"] = {"phase": "measure", "reason": "it died", "missing": missing}
    draft.engine.update(agents=agents, machines_wanted=wanted)


CLOSED: list[tuple[str, Plant, Level]] = [
    ("nothing_measured", lambda draft: draft.engine["totals"].clear(), INVALID),
    ("phase_failed", put("phase", stopped_by="failed"), INVALID),
    ("no_answer", silent_system, INVALID),
    ("errors", turned("connection", 100), SUSPECT),
    ("errors", turned("storage", 2500), INVALID),
    ("timeouts", turned("timeout", 100), SUSPECT),
    ("timeouts", turned("timeout", 2500), INVALID),
    ("overloaded", turned("overloaded", 100), SUSPECT),
    ("unavailable", turned("unavailable", 100), SUSPECT),
    ("errors", all_of(fault(3.2, 5.1), failures_at(12)), SUSPECT),
    (
        "errors_during_faults",
        all_of(fault(3.2, 5.1), *(failures_at(second, 1000) for second in (3, 5, 9))),
        NOTE,
    ),
    # A server that is never back explains failures to the end.
    ("errors_during_faults", all_of(fault(3.2), failures_at(18)), NOTE),
    ("fault_not_carried_out", no_fault("failed"), SUSPECT),
    ("not_recovered", never_as_before, SUSPECT),
    ("fault_not_carried_out", no_fault("not_reached"), SUSPECT),
    ("mismatches", turned("mismatch", 1), INVALID),
    # No fault excuses a wrong value.
    ("mismatches", all_of(fault(0.0, 20.0), turned("mismatch", 1)), INVALID),
    ("misses", turned("miss", 1000), SUSPECT),
    ("misses", turned("miss", 20_000, "UPDATE"), INVALID),
    # Operations of the user's own can miss.
    ("misses", ended(("GET", 5000, "ok"), ("GET", 5000, "miss")), INVALID),
    ("unsteady_hit_ratio", filling(100), NOTE),
    ("unsteady_hit_ratio", filling(1000), SUSPECT),
    ("errors", failed_fills, SUSPECT),
    ("lost_writes", lost_writes, INVALID),
    ("wrong_mix", wrong_mix, SUSPECT),
    ("generator_saturated", busy_worker(0.95), SUSPECT),
    ("generator_saturated", busy_worker(0.985), INVALID),
    ("generator_lag", lag(51, 90), SUSPECT),
    ("generator_lag", lag(20, 101), SUSPECT),
    ("read_late", read_late(0.0005), NOTE),
    ("read_late", read_late(0.002), SUSPECT),
    ("server_saturated", servers(0.97, 1.0), NOTE),
    ("server_saturated", used_cpu(12.0, 7.5), NOTE),
    ("server_saturated", on_cores((1.95, [0, 1])), NOTE),
    ("server_saturated", observed(cpu_user_s=(5, 7.8)), NOTE),
    ("server_saturated", observed("redis", busiest_core=0.97), NOTE),
    # Nobody knows how many cores it has, and the system counts itself.
    ("server_saturated", all_of(observed("redis", cores=None), used_cpu(12.0, 7.5)), NOTE),
    ("server_unobserved", observed(seconds=11), NOTE),
    ("uneven_servers", servers(0.5, 0.5, 0.25, 0.25), NOTE),
    ("uneven_servers", servers(0.5, 0.98, 0.01, 0.01), SUSPECT),
    ("uneven_servers", peers(0.9, 0.05, 0.05), SUSPECT),
    ("uneven_servers", broken(3.0, 5.0, 0.1, 0.7, 0.2), SUSPECT),
    ("uneven_servers", broken(3.0, 5.0, 0.98, 0.01, 0.01), SUSPECT),
    ("uneven_servers", broken(-9.0, -6.0, 0.1, 0.45, 0.45), NOTE),
    ("hot_partition", zipfian(1.2), NOTE),
    ("hot_partition", zipfian(1.5), SUSPECT),
    ("hot_partition", again({"law": "zipfian", "theta": 1.5, "scrambled": True}), SUSPECT),
    ("hot_partition", popular("head", shares=[0.2, 0.1], theta=0.5), NOTE),
    ("hot_partition", popular("head", shares=[0.1, 0.4], theta=0.5), SUSPECT),
    ("hot_partition", popular("head", shares=[0.1], theta=2.0), SUSPECT),
    ("hot_partition", popular("head", shares=[], theta=1.5), SUSPECT),
    ("hot_partition", popular("uniform", count=4), NOTE),
    ("hot_partition", popular("uniform", count=2), SUSPECT),
    ("hot_partition", popular("hotspot", data_fraction=0.001, operation_fraction=0.8), SUSPECT),
    ("garbage_collection", garbage(0.02), NOTE),
    ("garbage_collection", garbage(0.2), SUSPECT),
    ("garbage_collection", observed(gc_time_s=(1.0, 0.2)), SUSPECT),
    ("generator_garbage", statistic("jvm_gc_ms", 100, 600), NOTE),
    ("generator_garbage", statistic("jvm_gc_ms", 0, 4000), SUSPECT),
    ("server_warnings", statistic("warnings", 5, 6), NOTE),
    ("server_warnings", statistic("warnings", 0, 20_000), SUSPECT),
    ("evictions", statistic("evicted_keys", 10, 11), SUSPECT),
    ("evictions", observed(evicted_keys=(7, 2)), SUSPECT),
    ("waiting_for_core", put("worker", waiting_for_core_ns=2 * S), SUSPECT),
    ("engine_overhead", put("host", engine_overhead_ns_per_operation=8000.0), SUSPECT),
    ("calibration_disturbed", disturbed_calibration, NOTE),
    ("coarse_clock", put("clock", resolution_ns=10_000), SUSPECT),
    ("busy_machine", put("host", other_busy_cores_before=1.5), SUSPECT),
    ("not_stationary", slower_and_slower, SUSPECT),
    ("not_warmed_up", cold, NOTE),
    ("servers_not_warm", servers_rose(0.04), NOTE),
    ("servers_not_warm", servers_rose(0.2), SUSPECT),
    ("servers_not_warm", servers_rose(None), SUSPECT),
    ("servers_not_warm", servers_rose(0.2, 6), NOTE),
    ("servers_not_warm", of_study(after_start=1, server_warmup=None), NOTE),
    ("too_short", three_intervals, SUSPECT),
    ("imprecise", swinging, SUSPECT),
    ("imprecise", all_at_once, INVALID),
    ("unserved_clients", many_clients, INVALID),
    ("too_few_samples", few_operations, SUSPECT),
    ("too_few_samples", rare_operation, NOTE),
    ("abandoned", put("group", abandoned=2), SUSPECT),
    ("interrupted", put("engine", interrupted=True), SUSPECT),
    ("lost_share", machines(3, 3, 0.04), SUSPECT),
    ("lost_share", machines(3, 3, 0.17), INVALID),
    ("fewer_machines", machines(2, 3), SUSPECT),
    ("unpinned", put("worker", cores=[]), NOTE),
    ("engine_notice", noticed, NOTE),
]

OPEN: list[tuple[str, Plant, Level]] = [
    ("offered_rate_not_reached", fewer_completed(0.02), SUSPECT),
    ("offered_rate_not_reached", fewer_completed(0.10), INVALID),
    # A growing number in flight is no excuse.
    ("offered_rate_not_reached", in_flight(lambda number: 200 * (number + 1)), SUSPECT),
    ("dropped", lambda draft: draft.group.update(dropped=1000, due=201_000), SUSPECT),
    ("schedule_late", late(0.05), SUSPECT),
    ("schedule_late", late(0.20), INVALID),
    ("concurrency_limit", late(0.2, busy=1.0), NOTE),
]

# Closed from the logs of a killed process: end_to_end/test_interrupts. Imported: tests/imports. Of
# several runs: test_run_conditions, test_precision. Of audits: test_audits.
ELSEWHERE = {
    "recovered", "imported", "cold_servers", "machine_speed", "server_gone", "unrepeated",
    "coordinated_omission", "generator_pause", "wrong_pace", "one_hot_key", "fewer_keys",
    "unused_connections", "command_failed",
}  # fmt: skip

#: Servers with room and equal parts, and other plants that give no reason.
HARMLESS: list[Plant] = [
    all_of(),
    servers(0.9, 0.34, 0.33, 0.33),
    filling(0),
    peers(0.4, 0.3, 0.3),
    zipfian(0.99),
    again({"law": "zipfian", "theta": 0.99, "scrambled": True}),
    popular("head", shares=[0.15, 0.1], theta=0.99),
    popular("latest"),
    popular("ycsb_zipfian", count=1001),
    popular("uniform"),
    garbage(0.005),
    observed(evicted_keys=7, gc_time_s=1.0, seconds=19),
    # A core of a system with many threads may be busy, and cores nobody counted.
    observed(busiest_core=1.0),
    observed(cpu_user_s=(5, 50.0), cores=None),
    statistic("warnings", 7, 7),
    statistic("jvm_gc_ms", 100, 200),
    statistic("evicted_keys", 10, 10),
    statistic("used_cpu_user", 1.0, 10.0),
    fault(3.2, 5.1),
    broken(3.0, 5.0, 0.1, 0.45, 0.45),
    broken(3.0, None, 0.1, 0.45, 0.45),
    broken(-9.0, -4.0, 0.1, 0.45, 0.45),
    broken(3.0, 5.0, 0.1, 0.9),
    # Waking a thread takes this, and a lag of too few reads isn't judged.
    lag(50, 100),
    lag(20, 5000, reads=999),
    # More threads give a server more room, bound to cores or not.
    threads(4),
    threads(4, 0, 1),
    on_cores((0.31, [1]), (0.31, [1]), (0.31, [1])),
    # What a server with another core used may have been there.
    on_cores((0.3, [1]), (0.3, [1]), (0.6, [0, 1])),
    # A server whose settings nobody knows may use all cores.
    all_of(servers(1.02, 1.0), lambda draft: draft.testbed.pop("system")),
    # A phase that was over at once doesn't show how busy the generator is.
    put("worker", wall_ns=1_000_000, cpu_ns=1_560_000, idle_spin_ns=0, waiting_for_core_ns=0),
    # An embedded system may use all of the workers' time.
    all_of(
        busy_worker(0.99),
        lambda draft: draft.engine["capabilities"].update(embedded=True, execution="blocking"),
    ),
    # On a virtual clock the machine doesn't matter.
    all_of(
        put("worker", cores=[], waiting_for_core_ns=2 * S),
        put("host", other_busy_cores_before=1.5, engine_overhead_ns_per_operation=8000.0),
        put("clock", resolution_ns=10_000, source="virtual"),
        busy_worker(1.0),
    ),
    # Deletes that find nothing are no misses.
    ended(("DELETE", 5000, "ok"), ("DELETE", 5000, "miss"), kind="delete"),
]

HARMLESS_OPEN: list[Plant] = [
    all_of(),
    all_of(slower_and_slower, rising_rate),
    # Operations normally in flight at the end aren't missing.
    in_flight(lambda _: 4100),
    # The clients of the open model are a limit.
    many_clients,
]


def judged(make: Make, *plants: Plant) -> Verdict:
    draft = make()
    all_of(*plants)(draft)
    return judge(draft.run())


def reasons(make: Make, *plants: Plant) -> tuple[Reason, ...]:
    return judged(make, *plants).reasons


PLANTED = [
    *(("healthy", plant, code, level) for code, plant, level in CLOSED),
    *(("healthy_open", plant, code, level) for code, plant, level in OPEN),
    *(("healthy", plant, None, NOTE) for plant in HARMLESS),
    *(("healthy_open", plant, None, NOTE) for plant in HARMLESS_OPEN),
]


@pytest.mark.parametrize(("run", "plant", "code", "level"), PLANTED)
def test_a_fault_gives_its_reason_and_no_other_and_what_is_harmless_none(
    request: pytest.FixtureRequest, run: str, plant: Plant, code: str | None, level: Level
) -> None:
    verdict = judged(request.getfixturevalue(run), plant)
    expected = [(code, level)] if code else []
    assert [(reason.code, reason.level) for reason in verdict.reasons] == expected
    assert verdict.judgement.value == ("VALID" if level is NOTE else level.value)


def test_no_bound_stands_beside_what_nobody_knows(healthy: Make) -> None:
    for plant in (servers_rose(None), of_study(after_start=1, server_warmup=None)):
        [reason] = reasons(healthy, plant)
        assert "more than" not in reason.sentence


def test_each_rule_has_a_test_that_plants_its_fault() -> None:
    planted = {code for code, _, _ in (*CLOSED, *OPEN)}
    assert planted | ELSEWHERE == set(RULES)


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


@pytest.mark.parametrize(
    ("p50_us", "p99_us", "quantiles"), [(490, 1500, []), (520, 1500, ["p50"]), (490, 1700, ["p99"])]
)
def test_a_lag_counts_from_a_tenth_on(
    healthy: Make, p50_us: int, p99_us: int, quantiles: list[str]
) -> None:
    """Of a median of 5 ms and a p99 of 15.9 ms."""
    found = reasons(healthy, slower, lag(p50_us, p99_us))
    told = [(reason.code, reason.evidence["quantile"]) for reason in found]
    assert told == [("generator_lag", quantile) for quantile in quantiles]


def test_a_lag_is_told_with_the_quantile_at_which_it_is_worst(healthy: Make) -> None:
    (reason,) = reasons(healthy, lag(60, 120))
    service_ns = reason.evidence["service_ns"]
    assert service_ns == pytest.approx(50_000, rel=0.05)
    share = f"{60_000 / float(service_ns) * 100:.3g} %"
    assert reason.sentence == (
        "An answer had been in the machine for 60 µs when it was stamped (p50 of 5000 reads),"
        f" {share} of the service time's p50 (more than 10 %)."
    )


def test_failures_of_several_classes_are_judged_together_and_told_apart(healthy: Make) -> None:
    classes = ("timeout", "unavailable", "connection")
    found = reasons(healthy, *(turned(outcome, 900) for outcome in classes))
    assert [reason.code for reason in found] == ["errors", "timeouts", "unavailable"]
    assert {reason.level for reason in found} == {INVALID}
    assert "(900 timeout), 0.451 %; with other classes 1.35 %" in found[1].sentence


def test_lost_writes_are_counted_by_what_was_found(healthy: Make) -> None:
    draft = healthy()
    lost_writes(draft)
    wrong = {**draft.total("READ"), "phase": 1, "outcome": "mismatch", "count": 10, "in_window": 10}
    draft.engine["totals"].append(wrong)
    counts = {"incomplete": 4, "torn": 3, "resurrected": 1}
    sizes = {"records": 100, "written": 400, "unacknowledged": 0}
    draft.engine["phases"][1]["sweep"] = {**sizes, **counts}
    run = draft.run()
    reason = next(one for one in judge(run).reasons if one.code == "lost_writes")
    assert dict(reason.evidence).items() >= {"missing": 3, "stale": 2, **counts}.items()
    assert "3 were missing, 4 lacked a field, 3 held a torn value, 2 held" in reason.sentence
    sweep = summarize(run).sweep
    assert (sweep.lost, sweep.records, sweep.written) == (13, 100, 400)


def test_warnings_say_what_they_speak_of(healthy: Make) -> None:
    counts = {"warnings": 9, "warnings_tombstone": 5, "warnings_batch": 3}
    (found,) = reasons(healthy, *(statistic(name, 0, count) for name, count in counts.items()))
    assert "9 warnings, 5 of tombstones, 3 of batches, 1 of other matters" in found.sentence


@pytest.mark.parametrize(
    ("plant", "share"),
    [
        (on_cores((0.32, [1]), (0.32, [1]), (0.32, [1])), 0.96),
        # Servers on some of the cores count among those on all.
        (on_cores((0.2, [1]), (0.2, [1]), (1.55, [0, 1])), 1.95 / 2),
    ],
)
def test_servers_on_shared_cores_count_together(healthy: Make, plant: Plant, share: float) -> None:
    (found,) = reasons(healthy, plant)
    assert found.code == "server_saturated"
    assert found.evidence["busy_share"] == pytest.approx(share)
    beginning = "Servers primary-1, primary-2, primary-3, on the same cores, used 9"
    assert found.sentence.startswith(beginning)


def test_the_counters_of_a_server_that_was_started_again_begin_anew(healthy: Make) -> None:
    draft = healthy()
    servers(1.02, 1.0)(draft)
    for row in draft.resources[10:]:
        row["cpu_user_s"] -= 12
    (reason,) = judge(draft.run()).reasons
    assert reason.code == "server_saturated"
    # What it used in the second in which it was started again isn't known.
    assert reason.evidence["busy_share"] == pytest.approx(1.02 * 19 / 20)


def test_five_runs_of_a_case_make_up_for_their_shortness(
    healthy: Make,
) -> None:
    verdict = judged(healthy, three_intervals)
    assert verdict.judgement is Judgement.SUSPECT
    assert case_verdict([verdict] * 4).judgement is Judgement.SUSPECT
    case = case_verdict([verdict] * 5)
    assert case.judgement is Judgement.VALID
    assert case.reasons == ()


def test_collections_of_all_runs_of_a_case_count_together(healthy: Make) -> None:
    often, rarely = judged(healthy, garbage(0.3)), judged(healthy)
    assert case_verdict([often, rarely, rarely, rarely]).judgement is Judgement.SUSPECT
    (reason,) = case_verdict([often, *[rarely] * 4]).reasons
    # What gave no reason may have been 1 %.
    assert (reason.level, reason.evidence["share_at_most"]) == (NOTE, pytest.approx(0.34 / 5))
    assert "at most 6.8 % of the time of 5 runs, and 30 % of that of one" in reason.sentence
    (reason,) = case_verdict([*[often] * 3, rarely, rarely]).reasons
    assert (reason.level, reason.evidence["runs_with_this"]) == (SUSPECT, 3)
    assert case_verdict([judged(healthy, garbage(0.015)), *[rarely] * 4]).reasons == ()


def test_operations_of_all_runs_of_a_case_count_together(healthy: Make) -> None:
    verdict = judged(healthy, few_operations)
    assert verdict.judgement is Judgement.SUSPECT
    # 150 of each kind in a run, and 1000 are needed for p99.
    (reason,) = case_verdict([verdict] * 3).reasons
    assert (reason.level, reason.evidence["count"]) == (NOTE, 450)
    assert "together clients.READ succeeded 450 times" in reason.sentence
    assert case_verdict([verdict] * 7).reasons == ()
    assert case_verdict([verdict, judged(healthy)]).reasons == ()


def test_several_reasons_are_told_gravest_first(healthy: Make) -> None:
    several = put("worker", cores=[]), put("engine", interrupted=True), turned("mismatch", 1)
    verdict = judged(healthy, *several)
    assert [reason.code for reason in verdict.reasons] == ["mismatches", "interrupted", "unpinned"]
    assert verdict.judgement is Judgement.INVALID


def test_a_reason_is_one_sentence_with_evidence_threshold_and_advice(healthy: Make) -> None:
    (reason,) = reasons(healthy, turned("storage", 2500))
    assert reason.sentence.startswith("2500 of ")
    assert reason.sentence.endswith("operations failed (2500 storage), 1.25 % (more than 1 %).")
    assert reason.evidence["storage"] == 2500
    assert (reason.threshold, reason.phase) == (0.01, "measure")
    assert "why they failed" in reason.advice


def test_advice_is_not_what_the_run_does_already_or_can_not_do(healthy_open: Make) -> None:
    draft = healthy_open()
    late(0.05)(draft)
    for spec, advice in (
        ({"pin": [0]}, "stop other programs"),
        ({"replay": {"speed": 1}}, "--speed"),
    ):
        draft.spec.update(spec)
        (reason,) = judge(draft.run()).reasons
        assert advice in reason.advice


def test_a_case_is_judged_by_its_worst_run_and_says_how_many(healthy: Make) -> None:
    bad, good = judged(healthy, turned("timeout", 100)), judged(healthy)
    combined = case_verdict([bad, good, good])
    assert combined.judgement is Judgement.SUSPECT
    (reason,) = combined.reasons
    assert reason.sentence.startswith("In 1 of 3 runs: 100 of ")
    assert (reason.evidence["runs_with_this"], reason.evidence["runs"]) == (1, 3)


def table_row(code: str, rule: Rule) -> str:
    """A rule as a row of the document's table."""
    written = {
        level: f"{value:.4g}" if rule.unit == "count" else f"{value * 100:.4g} %"
        for level, value in rule.thresholds.items()
    }
    bounds = (written.get(level, "") for level in Level)
    cells = (f"`{code}`", rule.measured, *bounds, rule.applies, rule.source)
    return "| " + " | ".join(cells) + " |"


def test_the_document_has_the_table_of_all_reasons() -> None:
    heading = "| Reason | Value | NOTE above | SUSPECT above | INVALID above | Applies to | Basis |"
    rows = [table_row(code, rule) for code, rule in RULES.items()]
    table = "\n".join([heading, "|---|---|---|---|---|---|---|", *rows])
    assert f"{table}\n" in DOCUMENT.read_text(encoding="utf-8")


def test_a_run_in_which_not_each_client_ended_an_operation_is_invalid(healthy: Make) -> None:
    found = [
        reason.evidence
        for count in (7, 8)
        for reason in reasons(healthy, lambda draft, count=count: draft.complete(("READ", count)))
        if reason.level is INVALID
    ]
    assert found == [{"clients": 8, "ended": 7}]
