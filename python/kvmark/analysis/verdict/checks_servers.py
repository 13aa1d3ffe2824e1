"""Checks of the servers: what they used, how the load lay on them, what they threw away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvmark.analysis.summary.faults import RECOVERED, fault_effects, fault_spans, problems
from kvmark.analysis.summary.sums import counter_deltas, statistic_delta, within
from kvmark.analysis.verdict.rules import JudgedPhase, Reason, percent, reason
from kvmark.drivers import drivers
from kvmark.records import Run
from kvmark.records.files import COORDINATOR
from kvmark.stats.distributions import zipf_top_share

#: Counters of evicted records.
_EVICTED = ("evicted_keys", "evictions")
#: Kinds of warnings that drivers count, and what they speak of.
_WARNINGS = {"tombstone": "tombstones", "batch": "batches"}
#: Roles of servers that share the load.
_SHARING = ("primary", "peer")
#: YCSB's zipfian constant, and the items its scrambled zipfian always draws from.
_YCSB_THETA = 0.99
_YCSB_ITEMS = 10_000_000_000
#: Seconds of CPU time that an unobserved system counts itself.
_OWN_CPU = ("used_cpu_user", "used_cpu_sys")
_THE_SYSTEM = "of the system"

_Deltas = Mapping[str, Mapping[str, Any]]
"""The rows of :func:`counter_deltas` by server."""


def check_faults(run: Run) -> Iterator[Reason | None]:
    """Planned faults must have been carried out, and the service be as before after the last."""
    found = problems(run)
    named = "; ".join(f"'{fault}' because {why}" for fault, why in found.items())
    yield reason(
        "fault_not_carried_out",
        len(found),
        f"{len(found)} of the planned faults failed or did not begin: {named}",
        {"faults": len(found)},
    )
    for effect in fault_effects(run)[-1:]:
        low = effect.ended_ns is not None and effect.recovery_ns is None
        yield reason(
            "not_recovered",
            int(low and effect.rate_before is not None),
            f"after '{effect.text}' the rate stayed below {percent(RECOVERED)} of that before until"
            " the measurement ended",
            {"rate_before": effect.rate_before or 0.0},
        )


def check_servers(phase: JudgedPhase) -> Iterator[Reason | None]:
    """What the servers used, carried, collected, warned of and evicted in a counted phase."""
    rows = counter_deltas(phase.run, phase.record).to_dicts()
    deltas = {str(row["node"]): row for row in rows}
    yield from _check_processors(phase, deltas)
    yield from _check_shares(phase, deltas)
    yield from _check_popularity(phase)
    yield from _check_garbage(phase, deltas)
    yield from _check_own_garbage(phase)
    yield from _check_warnings(phase)
    yield from _check_samples(phase)
    counted = sum(statistic_delta(phase.record, name) or 0.0 for name in _EVICTED)
    # The driver and an observed server may count the same records.
    evicted = max(counted, sum(row["evicted_keys"] or 0.0 for row in rows))
    yield phase.reason(
        "evictions",
        evicted,
        f"the system evicted {evicted:.0f} records in the {phase.name} phase",
        {"evicted": evicted},
    )


def _check_processors(phase: JudgedPhase, deltas: _Deltas) -> Iterator[Reason | None]:
    """Whether a server, or several that share their cores, used all that there was to use."""
    used = _used_cores(phase, deltas)
    alone = {
        (name,): share
        for name, cores in used.items()
        if (share := _busy_share(phase.run, name, cores, deltas.get(name, {}))) is not None
    }
    shares = alone | _shares_together(phase.run, used)
    if not shares:
        return
    busiest = max(shares, key=lambda names: shares[names])
    share, node = shares[busiest], ", ".join(busiest)
    several = len(busiest) > 1
    they = "they" if several else "it"
    who = f"servers {node}, on the same cores," if several else f"server {node}"
    yield phase.reason(
        "server_saturated",
        share,
        f"{who} used {percent(share)} of the processor time that {they} can use",
        {"node": node, "busy_share": share, "servers": len(used)},
    )


def _busy_share(run: Run, name: str, used: float, row: Mapping[str, Any]) -> float | None:
    """The share that a server used of the cores it can use; None if their number is unknown.

    Where the system has one thread, that of the busiest core of an observed machine.
    """
    if name == _THE_SYSTEM:
        # A system's own count is that of one core.
        return used
    if name not in _observed(run):
        return used / _usable_cores(run, name)
    driver = drivers().get(str(run.manifest.plan.get("system", {}).get("driver")))
    has_one_thread = driver is not None and driver.one_thread_unless is not None
    shares = [used / row["cores"]] if row["cores"] else []
    if has_one_thread and row["busiest_core"] is not None:
        shares.append(row["busiest_core"])
    return max(shares, default=None)


def _check_samples(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Whether observed servers gave their samples, as the command's own process did."""
    names = _observed(phase.run)
    if not names or phase.run.resources.is_empty():
        return
    inside = phase.run.resources.filter(within(phase.run, phase.record))
    counts = dict(inside.group_by("node").len().iter_rows())
    # A sample at the begin or the end may lie outside.
    due = counts.get(COORDINATOR, 0) - 1
    missing = {name: (due - counts.get(name, 0)) / due for name in names if due > 0}
    node = max(missing, key=lambda name: missing[name], default="")
    yield phase.reason(
        "server_unobserved",
        missing.get(node, 0.0),
        f"observed server {node} didn't answer {percent(missing.get(node, 0.0))} of the time",
        {"node": node, "servers": len(names)},
    )


def _check_shares(phase: JudgedPhase, deltas: _Deltas) -> Iterator[Reason | None]:
    """Whether one of several servers carried more of the traffic than its part.

    What a server missed while it was broken on purpose says nothing about the keys.
    """
    sharing = _sharing(phase.run)
    traffic = {name: row["bytes"] for name, row in deltas.items() if row["bytes"] is not None}
    equal = sum(traffic.get(node, 0.0) for node in sharing) / max(len(sharing), 1)
    start_ns, end_ns = phase.record.start_ns, phase.record.drained_ns or phase.record.end_ns
    # A fault, or the recovery from it, kept these from their part in the phase.
    broken = {
        span.node
        for span in fault_spans(phase.run)
        if span.begun_ns < end_ns and start_ns < span.over_ns
        if traffic.get(span.node, 0.0) <= equal
    }
    judged = [node for node in sharing if node not in broken]
    spent = {node: change for node, change in traffic.items() if node in judged}
    total = sum(spent.values())
    if len(spent) < 2 or len(spent) < len(judged) or total <= 0:
        return
    node = max(spent, key=lambda name: spent[name])
    share, fair = spent[node] / total, 1 / len(spent)
    whole = " without a fault" if broken else ""
    yield phase.reason(
        "uneven_servers",
        share - fair,
        f"server {node} carried {percent(share)} of the traffic of {len(spent)} servers{whole},"
        f" where an equal part is {percent(fair)}",
        {"node": node, "share": share, "equal_share": fair, "servers": len(spent)},
    )


def _check_popularity(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Whether the most popular record alone needs much of one server's capacity."""
    servers = len(_sharing(phase.run))
    all_ended = phase.count()
    if servers < 2 or not all_ended:
        return
    records = int(phase.run.manifest.plan.get("dataset", {}).get("count", 0))
    top_shares = {
        group.group: _top_share_of(phase.planned(group.group), records)
        for group in phase.record.groups
    }
    popular = sum(top_shares.get(total.group, 0.0) * total.count for total in phase.whole)
    share = popular / all_ended
    yield phase.reason(
        "hot_partition",
        share * servers,
        f"the most popular record gets {percent(share)} of the operations, where an equal part of"
        f" {servers} servers is {percent(1 / servers)}",
        {"share": share, "equal_share": 1 / servers, "records": records},
    )


def _top_share_of(group: Mapping[str, Any], records: int) -> float:
    """The expected share of the most popular record among a group's operations.

    Of the keys that it may choose, those that no record has yet don't count.
    """
    keys: Mapping[str, Any] = group.get("keys") or {}
    return _top_share(keys["distribution"], min(records, int(keys["count"]))) if keys else 0.0


def _top_share(law: Mapping[str, Any], records: int) -> float:
    """The expected share of the most popular record; 0 if the distribution gives none."""
    match law["law"]:
        case "zipfian":
            return zipf_top_share(records, float(law["theta"]))
        case "latest":
            return zipf_top_share(records, _YCSB_THETA)
        case "ycsb_zipfian":
            return zipf_top_share(_YCSB_ITEMS, _YCSB_THETA)
        case "hotspot" if records:
            hot = max(1, int(records * float(law["data_fraction"])))
            return float(law["operation_fraction"]) / hot
        case "uniform" if records:
            return 1 / records
        case "head":
            return _top_share_of_head([float(share) for share in law["shares"]], law, records)
        case "again":
            # Whose key is asked for again was itself drawn by the law, so that the shares stay.
            return _top_share(law["of"], records)
    return 0.0


def _top_share_of_head(shares: Sequence[float], law: Mapping[str, Any], records: int) -> float:
    """That of the first ranks, or of the one behind them where it has more."""
    theta, first = float(law["theta"]), len(shares)
    if records <= first:
        return max(shares, default=0.0)
    weights: float = 1 / zipf_top_share(records, theta)
    weights -= 1 / zipf_top_share(first, theta) if first else 0.0
    behind: float = (1 - sum(shares)) * (first + 1) ** -theta / weights
    return max([*shares, behind])


def _check_garbage(phase: JudgedPhase, deltas: _Deltas) -> Iterator[Reason | None]:
    """How long servers on a Java virtual machine collected garbage."""
    shares = {
        name: row["gc_s"] / row["wall_s"] for name, row in deltas.items() if row["gc_s"] is not None
    }
    if not shares:
        return
    node = max(shares, key=lambda name: shares[name])
    yield phase.reason(
        "garbage_collection",
        shares[node],
        f"server {node} collected garbage {percent(shares[node])} of the time",
        {"node": node, "share": shares[node], "servers": len(shares)},
    )


def _check_own_garbage(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How long the generator's own Java virtual machine collected garbage."""
    paused_ms = statistic_delta(phase.record, "jvm_gc_ms")
    window_ns = (phase.record.drained_ns or phase.record.end_ns) - phase.record.start_ns
    if paused_ms is None or window_ns <= 0:
        return
    share = paused_ms * 1e6 / window_ns
    yield phase.reason(
        "generator_garbage",
        share,
        f"the generator's Java collected garbage {percent(share)} of the time",
        {"share": share, "paused_ms": paused_ms},
    )


def _check_warnings(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Warnings that came with answers, by their subjects."""
    warnings, ended = statistic_delta(phase.record, "warnings"), phase.count()
    if not warnings or not ended:
        return
    known = {
        name: int(statistic_delta(phase.record, f"warnings_{kind}") or 0)
        for kind, name in _WARNINGS.items()
    }
    rest = max(0, int(warnings) - sum(known.values()))
    named = {name: count for name, count in (known | {"other matters": rest}).items() if count}
    subjects = ", ".join(f"{count} of {name}" for name, count in named.items())
    yield phase.reason(
        "server_warnings",
        warnings / ended,
        f"answers to {ended} operations came with {warnings:.0f} warnings, {subjects}",
        {"warnings": int(warnings), "operations": ended, **named},
    )


def _used_cores(phase: JudgedPhase, deltas: _Deltas) -> dict[str, float]:
    """Seconds of processor time that each server used in a second."""
    watched = {
        name: row["cpu_s"] / row["wall_s"]
        for name, row in deltas.items()
        if row["cpu_s"] is not None
    }
    if watched.keys() - _observed(phase.run):
        return watched
    own = [statistic_delta(phase.record, name) for name in _OWN_CPU]
    window_ns = (phase.record.drained_ns or phase.record.end_ns) - phase.record.start_ns
    if window_ns <= 0 or any(part is None for part in own):
        return watched
    return watched | {_THE_SYSTEM: sum(part or 0.0 for part in own) * 1e9 / window_ns}


def _shares_together(run: Run, used: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    """What servers used together of the cores that several are bound to, however each is busy."""
    bound = {name: frozenset(_node(run, name).get("cores") or ()) for name in used}
    found = {}
    for cores in {one for one in bound.values() if one}:
        names = tuple(sorted(name for name, own in bound.items() if own and own <= cores))
        if len(names) > 1:
            found[names] = sum(used[name] for name in names) / len(cores)
    return found


def _usable_cores(run: Run, name: str) -> float:
    """Cores that a server can keep busy: its threads' where they are few, or those it is bound to.

    A system of one thread may use a little more than a core, for background work.
    """
    testbed = _testbed_of(run, name)
    bound = len(_node(run, name).get("cores") or ()) or run.manifest.host.get("cores") or 1
    if testbed.get("system") == "proxy":
        return float(min(int(testbed.get("threads") or bound), bound))
    driver = drivers().get(str(run.manifest.plan.get("system", {}).get("driver")))
    # A system with unknown settings may have any number of threads.
    if "system" not in testbed or driver is None or driver.one_thread_unless is None:
        return float(bound)
    threads = str(testbed.get("settings", {}).get(driver.one_thread_unless, "1"))
    return float(min(int(threads) if threads.isdecimal() else 1, bound))


def _observed(run: Run) -> frozenset[str]:
    """The names of observed servers that belong to no testbed."""
    return frozenset(one.name for one in run.manifest.observed)


def _node(run: Run, name: str) -> Mapping[str, Any]:
    """A testbed's description of one of its servers."""
    nodes: list[Mapping[str, Any]] = list(_testbed_of(run, name).get("nodes", ()))
    return next((one for one in nodes if one.get("name") == name), {})


def _sharing(run: Run) -> list[str]:
    """The servers that share the load, by name."""
    nodes = (run.manifest.testbed or {}).get("nodes", ())
    return [str(node["name"]) for node in nodes if node.get("role") in _SHARING]


def _testbed_of(run: Run, node: str) -> Mapping[str, Any]:
    """The testbed that a server belongs to: a proxy's own, or that of the system behind it."""
    testbed: Mapping[str, Any] = run.manifest.testbed or {}
    behind: Mapping[str, Any] = testbed.get("behind") or {}
    is_behind = any(one.get("name") == node for one in behind.get("nodes", ()))
    return behind if is_behind else testbed
