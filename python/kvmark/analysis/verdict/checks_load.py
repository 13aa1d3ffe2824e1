"""Checks of how the load was offered: rate, schedule, the generator's limits, a fleet's clocks."""

from __future__ import annotations

from collections.abc import Iterator

from kvmark.analysis.verdict.evidence import JudgedPhase, percent, real_clock, reason
from kvmark.analysis.verdict.rules import LAG_FLOORS, Reason
from kvmark.records import GroupRecord, Run
from kvmark.stats import least_observations

_LEAST_BUSY_WALL_NS = 10_000_000
"""Of a shorter phase most processor time is what its begin and end took."""


def check_rate(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Arrivals due against operations completed, and against operations issued."""
    for group in phase.record.groups:
        if not group.due:
            continue
        completed = _completed_in_window(phase, group)
        in_flight = _usually_in_flight(phase, group)
        missing = max(0, group.due - completed - in_flight) / group.due
        evidence: dict[str, float | int | str] = {
            "group": group.group,
            "due": group.due,
            "issued": group.issued,
            "completed_in_window": completed,
            "usually_in_flight": in_flight,
        }
        yield reason(
            "offered_rate_not_reached",
            missing,
            f"{percent(missing)} of the {group.due} arrivals due for group {group.group} were not"
            " completed in time",
            evidence,
            phase=phase.name,
        )
        dropped = group.dropped / group.due
        yield reason(
            "dropped",
            dropped,
            f"{group.dropped} of the {group.due} arrivals due for group {group.group} were never"
            f" issued, {percent(dropped)}",
            {"group": group.group, "due": group.due, "dropped": group.dropped},
            phase=phase.name,
        )


def _completed_in_window(phase: JudgedPhase, group: GroupRecord) -> int:
    mine = (total for total in phase.whole() if total.group == group.group)
    return sum(total.in_window for total in mine)


def _usually_in_flight(phase: JudgedPhase, group: GroupRecord) -> int:
    """The least number in flight at the end of an interval, less the number at its begin.

    A system that keeps up always has some operations in flight when the window ends; one that does
    not has ever more of them, of which only the first few are excused. A phase that goes on from a
    warm-up ends what that one left behind, so that as much may be left at its own end.
    """
    in_flight = phase.group_totals(group.group)["in_flight"].drop_nulls().to_list()
    return max(0, min(in_flight) - _left_behind(phase, group)) if in_flight else 0


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
            yield reason(
                code,
                share,
                f"{percent(share)} of the operations of group {group.group} were issued more than"
                f" 1 ms late {cause}",
                {"group": group.group, "late": late, "issued": group.issued},
                phase=phase.name,
            )


def check_generator(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Processor time of the workers. An embedded system shares their threads: nothing to see."""
    capabilities = phase.run.manifest.engine.capabilities
    if capabilities is None or capabilities.embedded or not real_clock(phase.run):
        return
    shares = {
        worker.worker: (worker.cpu_ns - worker.idle_spin_ns) / worker.wall_ns
        for worker in phase.record.workers
        if worker.cpu_ns is not None and worker.wall_ns >= _LEAST_BUSY_WALL_NS
    }
    if not shares:
        return
    busiest = max(shares, key=lambda worker: shares[worker])
    yield reason(
        "generator_saturated",
        shares[busiest],
        f"worker {busiest} of the engine was busy {percent(shares[busiest])} of the time",
        {"worker": busiest, "busy_share": shares[busiest], "workers": len(shares)},
        phase=phase.name,
    )


def check_lag(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How much of the service time passed between the arrival of an answer and its stamp."""
    lag = phase.record.generator_lag
    if lag is None:
        return
    service = phase.service_times()
    shares: list[tuple[float, str, int, int]] = []
    for name, q, floor_ns in LAG_FLOORS:
        lag_ns, service_ns = getattr(lag, name), service.quantile(q)
        if service_ns and service.shows(q) and lag.count >= least_observations(q):
            share = lag_ns / service_ns if lag_ns > floor_ns else 0.0
            shares.append((share, name, lag_ns, service_ns))
    for share, name, lag_ns, service_ns in sorted(shares)[-1:]:
        yield reason(
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
            phase=phase.name,
        )


def check_read_late(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Answers that the engine came to after the limit on their time. They are no failures."""
    for group in phase.record.groups:
        if not group.read_late or not group.completed:
            continue
        share = group.read_late / group.completed
        yield reason(
            "read_late",
            share,
            f"{group.read_late} answers to group {group.group} were read after the limit on their"
            f" time because the generator was away, {percent(share)} of the operations",
            {"group": group.group, "read_late": group.read_late, "completed": group.completed},
            phase=phase.name,
        )


def check_waiting(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Time the workers were ready to run and had no core."""
    known = [
        worker
        for worker in phase.record.workers
        if worker.waiting_for_core_ns is not None and worker.wall_ns > 0
    ]
    if not known or not real_clock(phase.run):
        return
    waiting_ns = sum(worker.waiting_for_core_ns or 0 for worker in known)
    share = waiting_ns / sum(worker.wall_ns for worker in known)
    yield reason(
        "waiting_for_core",
        share,
        f"the workers were ready to run and had no core {percent(share)} of the time",
        {"waiting_for_core_ns": waiting_ns, "workers": len(known)},
        phase=phase.name,
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
