"""What a plan asked for, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvmark.analysis import SequenceRow
from kvmark.report.format import units
from kvmark.report.model.answers import Fact


def of_plan(plan: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The workload, the load and the length of one run."""
    facts = [Fact("Workload", _workload(plan))]
    facts += [Fact(label, text) for label, text in _loads(plan)]
    facts.append(Fact("Phases", ", ".join(_phase(phase) for phase in plan.get("phases", ()))))
    if plan.get("timeout_ns"):
        facts.append(Fact("Timeout", units.with_unit(plan["timeout_ns"])))
    return tuple(facts)


def of_sequence(rows: Sequence[SequenceRow], plan: Mapping[str, Any]) -> str:
    """The cases of a sequence and how often each was repeated."""
    workloads = listed(dict.fromkeys(row.case.workload for row in rows))
    sizes = listed(units.whole(n) for n in sorted({row.case.records for row in rows}))
    counts = sorted({len(row.figures.runs) for row in rows})
    most = counts[-1] if counts else 0
    least = f"{counts[0]} to " if len(counts) > 1 else ""
    times = "once" if most == 1 else f"{least}{units.whole(most)} times"
    load = "; ".join(text for _, text in _loads(plan))
    return f"{workloads} with {sizes} records; {load}; each case {times}."


def listed(words: Iterable[str]) -> str:
    """Words with commas, the last with *and*."""
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _workload(plan: Mapping[str, Any]) -> str:
    dataset = plan.get("dataset", {})
    if dataset.get("values") == "sized":
        return f"{plan.get('name', '')}, keys and values as long as they were"
    records = f"{plan.get('name', '')}, {units.whole(dataset.get('count'))} records"
    count, length = _fields(plan)
    size = f" of {length} bytes" if length else ""
    return f"{records} of {count} {'field' if count == 1 else 'fields'}{size}" if count else records


def _fields(plan: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """How many fields a record has, and their length where all have the same."""
    rows = [one["rows"] for one in plan.get("statements", ()) if one.get("rows")]
    if not rows:
        fields = plan.get("dataset", {}).get("fields", {})
        return fields.get("count"), fields.get("length", {}).get("size")
    # Statements that make whole rows have columns of their own; those that read have no values.
    values = max((row["values"] for row in rows), key=len)
    lengths = {value["size"][edge] for value in values for edge in ("min", "max")}
    return len(values) or None, lengths.pop() if len(lengths) == 1 else None


def _loads(plan: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The label of each group that is measured, and what it offers."""
    groups = _measured_groups(plan)
    for group in groups:
        label = "Load" if len(groups) == 1 else f"Load of {group.get('name', '')}"
        yield label, _load(group)


def _measured_groups(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = list(plan.get("groups", ()))
    phases = [phase for phase in plan.get("phases", ()) if phase.get("name") == "measure"]
    active = {part["group"] for phase in phases for part in phase.get("groups", ())}
    return [group for index, group in enumerate(groups) if index in active] or groups


def _load(group: Mapping[str, Any]) -> str:
    clients, arrival = group.get("clients", 0), group.get("arrival", {})
    named = f"{units.whole(clients)} {'client' if clients == 1 else 'clients'}"
    if arrival.get("process") == "closed":
        think_ns = arrival.get("think_time_ns", 0)
        pause = f", think time {units.with_unit(think_ns)}" if think_ns else ""
        return f"closed model, {named}{pause}"
    if arrival.get("process") == "tape":
        speed = arrival.get("speed")
        pace = "as fast as clients go" if speed is None else f"at {speed:g} times its speed"
        order = {"none": "no order kept"}.get(str(arrival.get("order")), "")
        kept = order or f"order kept within each {arrival.get('order')}"
        told = "".join(f"; {one}" for one in arrival.get("told", ()))
        return f"{arrival.get('trace')} {pace}, {named} at most in flight, {kept}{told}"
    rate = _rate(arrival.get("rates") or [{}])
    law = {"constant": "evenly spaced", "poisson": "Poisson arrivals"}
    process = str(arrival.get("process", ""))
    return f"open model, {rate} ops/s, {law.get(process, process)}, at most {named} in flight"


def _rate(points: Sequence[Mapping[str, Any]]) -> str:
    """One rate, a ramp's two, or the bounds of a curve."""
    if len(points) <= 2:
        return " to ".join(dict.fromkeys(units.significant(one.get("rate")) for one in points))
    low, high = (units.significant(pick(one["rate"] for one in points)) for pick in (min, max))
    return f"a curve between {low} and {high}"


def _phase(phase: Mapping[str, Any]) -> str:
    name = str(phase.get("name", "")).replace("_", "-")
    operations = sum(active.get("operations") or 0 for active in phase.get("groups", ()))
    ends = []
    if operations:
        ends.append(f"{units.whole(operations)} operations")
    if phase.get("until"):
        ends.append(_rule(phase["until"]))
    if phase.get("duration_ns"):
        most = " at most" if ends else ""
        ends.append(f"{units.with_unit(phase['duration_ns'])}{most}")
    return f"{name} {' or '.join(ends)}".strip()


def _rule(until: Mapping[str, Any]) -> str:
    """What ends a phase besides time and operations."""
    if until.get("rule") == "stationary":
        return "until throughput is steady"
    bound = until.get("bound", 0)
    if until.get("rule") == "cassandra-stress":
        return f"until the relative standard error is {bound:g}"
    return f"until throughput is known to ± {100 * bound:g} %"
