"""Checks of operations: how the load was offered, the generator's limits, and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from kvmark.analysis.summary.faults import expected_errors
from kvmark.analysis.summary.run import by_outcome, looked_for, sweep_summary
from kvmark.analysis.summary.sums import (
    busy_shares,
    interval_sums,
    waiting_for_core,
    window_rows,
)
from kvmark.analysis.verdict.rules import (
    LAG_FLOORS,
    RULES,
    JudgedPhase,
    Reason,
    percent,
    real_clock,
    reason,
)
from kvmark.records import GroupRecord, Run
from kvmark.stats import Counts, least_observations, mix_test

_LEAST_BUSY_WALL_NS = 10_000_000
"""Of a shorter phase most processor time is what its begin and end took."""
# Chance gives a wrong mix once in a million runs.
_MIX_P_VALUE = 1e-6
_NOT_ERRORS = ("ok", "miss", "mismatch")
_LEAST_GONE_NS = 10**9
_SILENT_INTERVALS, _SILENT_NS = 3, 500_000_000
"""The least silence at the end of a phase: the longer of both."""
_AFTER_DELETES = (
    "records that the workload deletes are missed later: say `expect_misses: true` in the workload"
    " if that is meant, or insert them again"
)
_LOSSES = {
    "missing": "were missing",
    "incomplete": "lacked a field",
    "torn": "held a torn value",
    "stale": "held another value",
    "resurrected": "were back after their removal",
}
"""What the records of each number of lost writes were."""
#: Classes of failures with their own reason.
_OWN_REASONS = {"timeout": "timeouts", "overloaded": "overloaded", "unavailable": "unavailable"}


def check_rate(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Arrivals due against operations completed, and against operations issued."""
    for group in phase.record.groups:
        if not group.due:
            continue
        completed = sum(one.in_window for one in phase.whole if one.group == group.group)
        in_flight = _usually_in_flight(phase, group)
        missing = max(0, group.due - completed - in_flight) / group.due
        arrivals = f"of the {group.due} arrivals due for group {group.group} were"
        yield phase.reason(
            "offered_rate_not_reached",
            missing,
            f"{percent(missing)} {arrivals} not completed in time",
            {
                "group": group.group,
                "due": group.due,
                "issued": group.issued,
                "completed_in_window": completed,
                "usually_in_flight": in_flight,
            },
        )
        dropped = group.dropped / group.due
        yield phase.reason(
            "dropped",
            dropped,
            f"{group.dropped} {arrivals} never issued, {percent(dropped)}",
            {"group": group.group, "due": group.due, "dropped": group.dropped},
        )


def _usually_in_flight(phase: JudgedPhase, group: GroupRecord) -> int:
    """The least number in flight at the end of an interval, less the number at its begin.

    A system that keeps up always has some operations in flight when the window ends; one that does
    not has ever more of them, of which only the first few are excused. A phase that goes on from a
    warm-up ends what that one left behind, so that as much may be left at its own end.
    """
    own = (pl.col("group") == group.group) & (pl.col("operation") == "TOTAL")
    in_flight = window_rows(phase.run, phase.record).filter(own)["in_flight"].drop_nulls()
    least: Any = in_flight.min()
    return 0 if least is None else max(0, int(least) - _left_behind(phase, group))


def _left_behind(phase: JudgedPhase, group: GroupRecord) -> int:
    """Arrivals of the warm-up before, if there was no gap, that had not ended when it did."""
    phases = phase.run.manifest.engine.phases
    before = next((one for one in phases if one.index == phase.record.index - 1), None)
    if before is None or before.name != "warm_up" or before.end_ns != phase.record.start_ns:
        return 0
    due = sum(one.due or 0 for one in before.groups if one.group == group.group)
    totals = phase.run.totals(before.index)
    mine = (one for one in totals if one.group == group.group and not one.part)
    return max(0, due - sum(one.in_window for one in mine))


def check_lateness(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Late operations, told apart by whether their client was free to issue them."""
    for group in phase.record.groups:
        if group.due is None or not group.issued:
            continue
        busy = group.late_busy
        for code, late, cause in (
            ("schedule_late", group.late - busy, "while their clients were free"),
            ("concurrency_limit", busy, "because their clients were busy with those before"),
        ):
            share = late / group.issued
            yield phase.reason(
                code,
                share,
                f"{percent(share)} of the operations of group {group.group} were issued more than"
                f" 1 ms late {cause}",
                {"group": group.group, "late": late, "issued": group.issued},
            )


def check_generator(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Processor time of the workers."""
    shares = busy_shares(phase.run, phase.record, _LEAST_BUSY_WALL_NS)
    if not shares or not real_clock(phase.run):
        return
    busiest = max(shares, key=lambda worker: shares[worker])
    yield phase.reason(
        "generator_saturated",
        shares[busiest],
        f"worker {busiest} of the engine was busy {percent(shares[busiest])} of the time",
        {"worker": busiest, "busy_share": shares[busiest], "workers": len(shares)},
    )


def check_lag(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How much of the service time passed between the arrival of an answer and its stamp."""
    lag = phase.record.generator_lag
    if lag is None:
        return
    service = Counts.merge(phase.run.times(total, "service") for total in phase.succeeded)
    shares: list[tuple[float, str, int, int]] = []
    for name, q, floor_ns in LAG_FLOORS:
        lag_ns, service_ns = getattr(lag, name), service.quantile(q)
        if service_ns and service.shows(q) and lag.count >= least_observations(q):
            share = lag_ns / service_ns if lag_ns > floor_ns else 0.0
            shares.append((share, name, lag_ns, service_ns))
    for share, name, lag_ns, service_ns in sorted(shares)[-1:]:
        yield phase.reason(
            "generator_lag",
            share,
            f"an answer had been in the machine for {lag_ns / 1e3:.0f} µs when it was stamped"
            f" ({name} of {lag.count} reads), {percent(share)} of the service time's {name}",
            {
                "quantile": name,
                "generator_lag_ns": lag_ns,
                "service_ns": service_ns,
                "reads": lag.count,
            },
        )


def check_read_late(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Answers that the engine came to after the limit on their time. They are no failures."""
    for group in phase.record.groups:
        if not group.read_late or not group.completed:
            continue
        share = group.read_late / group.completed
        yield phase.reason(
            "read_late",
            share,
            f"{group.read_late} answers to group {group.group} were read after the limit on their"
            f" time because the generator was away, {percent(share)} of the operations",
            {"group": group.group, "read_late": group.read_late, "completed": group.completed},
        )


def check_waiting(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Time the workers were ready to run and had no core."""
    known = waiting_for_core(phase.record)
    if known is None or not real_clock(phase.run):
        return
    share = known[0] / known[1]
    yield phase.reason(
        "waiting_for_core",
        share,
        f"the workers were ready to run and had no core {percent(share)} of the time",
        {"waiting_for_core_ns": known[0], "workers": known[2]},
    )


def check_fleet(run: Run) -> Iterator[Reason | None]:
    """Machines that were lost while the run went, each with its share, or that were not there."""
    agents = run.manifest.engine.agents
    for agent in agents:
        lost = agent.lost
        if lost is None:
            continue
        when = "before the first phase" if lost.phase is None else f"in the {lost.phase} phase"
        yield reason(
            "lost_share",
            lost.missing,
            f"share {agent.share + 1} of {len(agents)}, generated by {agent.machine}, was lost"
            f" {when} because {lost.reason}: {percent(lost.missing)} of the run are missing",
            {"share": agent.share, "machine": agent.machine, "missing": lost.missing},
            phase=lost.phase,
        )
    wanted = run.manifest.engine.machines_wanted
    if agents and wanted is not None:
        yield reason(
            "fewer_machines",
            wanted - len(agents),
            f"{len(agents)} machines generated the load, and the fleet had {wanted} before",
            {"machines": len(agents), "machines_wanted": wanted},
        )


def check_success(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Something must have succeeded in the window."""
    ok = sum(total.in_window for total in phase.succeeded)
    yield phase.reason(
        "nothing_measured",
        0 if ok else 1,
        f"no operation succeeded in the {phase.name} phase",
        {"operations_ok": ok, "operations": phase.count()},
    )


def check_gone(phase: JudgedPhase) -> Iterator[Reason | None]:
    """A server that ended by itself answers nothing from then on."""
    run, start_ns = phase.run, phase.record.start_ns
    length_ns = phase.record.end_ns - start_ns
    if run.manifest.spec.get("faults") or length_ns < _LEAST_GONE_NS:
        return
    if not any(by_outcome(phase.whole, excluded=_NOT_ERRORS).values()):
        # The intervals of most runs needn't be read.
        return
    rows = interval_sums(phase.full_intervals)
    answered = rows.filter(pl.col("succeeded") > 0).sort("start_ns")
    if answered.is_empty():
        return
    begin_ns, end_ns = answered.row(-1, named=True)["start_ns"], answered["end_ns"][-1]
    if phase.record.end_ns - end_ns < max(_SILENT_INTERVALS * (end_ns - begin_ns), _SILENT_NS):
        return
    # Connections fail within the interval of the last success, or after it.
    failed = int(rows.filter(pl.col("start_ns") >= begin_ns)["failed"].sum())
    found = (one for one in run.manifest.engine.notices if one.code == "operations_failed")
    messages = (one.message for one in found if one.phase == phase.record.index)
    said = next(messages, f"{failed} operations failed")
    lasted_s, whole_s = (end_ns - start_ns) / 1e9, length_ns / 1e9
    yield phase.reason(
        "server_gone",
        1 - lasted_s / whole_s if failed else 0.0,
        f"nothing succeeded from {lasted_s:.3g} s to the end at {whole_s:.3g} s: {said}",
        {"last_success_s": lasted_s, "failed": failed},
    )


def check_errors(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Failures by class: those that planned faults explain, the others, and wrong values."""
    found = by_outcome(phase.alone, excluded=_NOT_ERRORS)
    planned = expected_errors(phase.run, phase.record)
    expected = {name: min(count, planned.get(name, 0)) for name, count in found.items() if count}
    yield _failures(
        "errors_during_faults",
        phase,
        expected,
        sum(expected.values()),
        " of all, while a server was broken on purpose, or soon after it",
    )
    others = {name: count - expected.get(name, 0) for name, count in found.items()}
    failed = sum(others.values())
    for code in ("errors", *_OWN_REASONS.values()):
        own = {name: n for name, n in others.items() if _OWN_REASONS.get(name, "errors") == code}
        together = f"; with other classes {percent(failed / phase.count())}" if failed else ""
        yield _failures(code, phase, own, failed, together if sum(own.values()) < failed else "")
    # A value that isn't the last one written is a lost write in the verify phase.
    wrong = 0 if phase.name == "verify" else phase.count("mismatch")
    yield phase.reason(
        "mismatches",
        wrong,
        f"{wrong} operations read a value that is not the one that was written",
        {"mismatches": wrong, "operations": phase.count()},
    )


def _failures(
    code: str, phase: JudgedPhase, classes: Mapping[str, int], judged: int, more: str
) -> Reason | None:
    """A reason for failures of these classes, with a level by their number."""
    classes = {name: count for name, count in sorted(classes.items()) if count}
    failed, all_ended = sum(classes.values()), phase.count()
    if not failed:
        return None
    named = ", ".join(f"{count} {name}" for name, count in classes.items())
    return phase.reason(
        code,
        judged / all_ended if RULES[code].unit == "share" else judged,
        f"{failed} of {all_ended} operations failed ({named}), {percent(failed / all_ended)}{more}",
        {"failed": failed, "operations": all_ended, **classes},
    )


def check_misses(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Records that were looked for and not there: the rest of the hit ratio."""
    if phase.run.manifest.spec.get("workload", {}).get("expect_misses"):
        return
    others = [total for total in phase.whole if not phase.planned(total.group).get("on_miss")]
    hits, misses = looked_for(phase.run, others)
    ended = hits + misses
    share = misses / max(ended, 1)
    found = phase.reason(
        "misses",
        share,
        f"{misses} of {ended} operations that look for a record found none, {percent(share)}",
        {"misses": misses, "operations": ended},
    )
    deletes = any(phase.run.kind(total) == "delete" for total in phase.whole if total.count)
    yield replace(found, advice=_AFTER_DELETES) if found and deletes else found


def check_lost_writes(phase: JudgedPhase) -> Iterator[Reason | None]:
    """In the verify phase each record must have the value written last."""
    sweep = sweep_summary(phase.run, phase.record)
    counts = {name: getattr(sweep, name) for name in _LOSSES}
    losses = ", ".join(f"{count} {_LOSSES[name]}" for name, count in counts.items() if count)
    yield phase.reason(
        "lost_writes",
        sweep.lost,
        f"{sweep.lost} of {phase.count()} records that were read back had lost an acknowledged"
        f" write: {losses}",
        {**counts, "records": phase.count()},
    )


def check_mix(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Each group's operations against the plan's mix."""
    for group in phase.record.groups:
        planned = phase.planned(group.group).get("mix", ())
        weights = {phase.run.operation(entry): float(entry["weight"]) for entry in planned}
        counts: dict[str, int] = dict.fromkeys(weights, 0)
        first = _before_all_is_there(phase, planned)
        for total in phase.whole:
            if total.group == group.group:
                name = first.get(total.operation, total.operation)
                counts[name] = counts.get(name, 0) + total.count
        if not weights or not sum(counts.values()):
            continue
        test = mix_test(list(counts.values()), [weights.get(kind, 0.0) for kind in counts])
        if test.p_value < _MIX_P_VALUE:
            yield phase.reason(
                "wrong_mix",
                test.deviation,
                f"the mix of group {group.group} is off by {percent(test.deviation)} of the"
                " operations",
                {"group": group.group, "p_value": test.p_value, **counts},
            )


def _before_all_is_there(
    phase: JudgedPhase, planned: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """The statement that writes once all records exist, and the one of the mix that it replaces."""
    statements = phase.run.manifest.plan.get("statements", ())
    mixed = {entry.get("statement") for entry in planned} - {None}
    becomes = {place: statements[place].get("when_full") for place in mixed}
    return {
        statements[then]["name"]: statements[place]["name"]
        for place, then in becomes.items()
        if then is not None and then not in mixed
    }
