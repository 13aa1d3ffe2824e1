"""The records of several engines as the record of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvmark.drivers import drivers
from kvmark.plan.model import Plan
from kvmark.records.histograms import TIME_TAGS, decode, time_record
from kvmark.run.shares import acknowledged
from kvmark.stats import Counts

__all__ = ["Part", "gravest", "merge_lags", "merge_records", "merge_totals", "missing_part"]

_SUMS: Final = ("issued", "completed", "ok", "dropped", "late", "late_busy", "abandoned")
_PROCESS: Final = (
    "cpu_user_ns",
    "cpu_system_ns",
    "max_resident_bytes",
    "voluntary_switches",
    "involuntary_switches",
)
# What ended a phase for one share says most about the whole in this order.
_GRAVEST: Final = ("failed", "cancelled", "until", "duration", "operations", "skipped", "killed")
_SERIES: Final = ("phase", "group", "operation", "part", "outcome")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """What one share's engine returned, or what the logs of a lost one still say."""

    share: int
    machine: str
    #: What is added to its time to make it that of the whole.
    shift_ns: int
    record: Record
    lost: bool


def merge_records(
    parts: Sequence[Part], plan: Plan, of: int, origin_wall_ns: int, *, interrupted: bool
) -> dict[str, Any]:
    """One record: counts and histograms added exactly, instants in the time of the whole.

    `of` is the number of shares, of which those lost early have no part.
    """
    first = parts[0].record
    numbers = sorted({phase["index"] for part in parts for phase in part.record["phases"]})
    return {
        "counting": first.get("counting"),
        "started_wall_ns": origin_wall_ns,
        "system": first["system"],
        "capabilities": first["capabilities"],
        "clock": first["clock"],
        "phases": [_phase(number, parts, plan, of) for number in numbers],
        "totals": merge_totals(total for part in parts for total in part.record["totals"]),
        "notices": [_notice(notice, part) for part in parts for notice in part.record["notices"]],
        "interrupted": interrupted,
    }


def merge_totals(totals: Iterable[Record]) -> list[dict[str, Any]]:
    """Totals of one phase, group, operation and outcome as one, in order of appearance."""
    together: dict[tuple[Any, ...], list[Record]] = {}
    for total in totals:
        together.setdefault(tuple(total[name] for name in _SERIES), []).append(total)
    merged = [
        {
            **dict(zip(_SERIES, key, strict=True)),
            **{name: sum(one[name] for one in same) for name in ("count", "in_window", "rows")},
            **{time: _time(same, time) for time in TIME_TAGS},
        }
        for key, same in together.items()
    ]
    return sorted(merged, key=lambda total: int(total["phase"]))


def merge_lags(lags: Iterable[Record | None]) -> dict[str, Any] | None:
    """One phase's generator lag over all machines; none where no machine sampled a read."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return None
    sums = {name: sum(lag.get(name, 0) for lag in known) for name in ("count", "discarded")}
    return {**_together(known, [lag["count"] for lag in known]), **sums}


def gravest(stopped_by: Iterable[str]) -> str:
    """What says most about a phase, of all that ended it for some share."""
    return min(stopped_by, key=_GRAVEST.index)


def missing_part(parts: Sequence[Part], share: int, of: int) -> float:
    """The part of the counted phases that was not measured because a share was lost, in [0, 1]."""
    everyone = [phase for part in parts for phase in part.record["phases"]]
    names = {phase["name"] for phase in everyone}
    counted = "measure" if "measure" in names else "load"
    windows: dict[int, int] = {}
    for phase in everyone:
        if phase["name"] == counted:
            length_ns = phase["end_ns"] - phase["start_ns"]
            windows[phase["index"]] = max(windows.get(phase["index"], 0), length_ns)
    own = [phase for part in parts if part.share == share for phase in part.record["phases"]]
    covered_ns = sum(
        phase["end_ns"] - phase["start_ns"] for phase in own if phase["index"] in windows
    )
    whole_ns = sum(windows.values())
    return (1 - covered_ns / whole_ns if whole_ns else 1.0) / of


def _phase(index: int, parts: Sequence[Part], plan: Plan, of: int) -> dict[str, Any]:
    found = [
        (part, phase)
        for part in parts
        for phase in part.record["phases"]
        if phase["index"] == index
    ]
    phases = [phase for _, phase in found]
    # How a lost share's phase ended says nothing of the others'.
    ended = [phase["stopped_by"] for part, phase in found if not part.lost] or ["killed"]

    def at(name: str, which: Callable[[Iterable[int]], int]) -> int:
        return which([part.shift_ns + int(phase[name]) for part, phase in found])

    return {
        "index": index,
        "name": phases[0]["name"],
        "start_ns": at("start_ns", min),
        "end_ns": at("end_ns", max),
        "drained_ns": at("drained_ns", max),
        "stopped_by": gravest(ended),
        "relative_stderr": None,
        "groups": list(_groups(found, plan, of)),
        "workers": _workers(phases),
        "process": {
            name: _sum(phase.get("process", {}).get(name) for phase in phases) for name in _PROCESS
        },
        "statistics": _statistics(phases, plan.system.driver),
        "generator_lag": merge_lags(phase.get("generator_lag") for phase in phases),
        "records_found": _sum(phase.get("records_found") for phase in phases),
    }


def _groups(found: Sequence[tuple[Part, Record]], plan: Plan, of: int) -> Iterator[dict[str, Any]]:
    start = plan.dataset.start
    if found[0][1]["name"] != "load":
        start += plan.dataset.count
    together: dict[str, dict[int, Record]] = {}
    for part, phase in found:
        for group in phase["groups"]:
            together.setdefault(group["group"], {})[part.share] = group
    for name, of_share in together.items():
        known = [of_share[share]["frontier"] if share in of_share else None for share in range(of)]
        yield {
            "group": name,
            **{
                field: _sum(group.get(field) for group in of_share.values()) or 0 for field in _SUMS
            },
            "due": _sum(group["due"] for group in of_share.values()),
            "read_late": _sum(group.get("read_late") for group in of_share.values()),
            "frontier": acknowledged([start if one is None else one for one in known], start),
        }


def _workers(phases: Sequence[Record]) -> list[dict[str, Any]]:
    """The workers of all machines, numbered through."""
    workers = [worker for phase in phases for worker in phase.get("workers", ())]
    return [{**worker, "worker": number} for number, worker in enumerate(workers)]


def _statistics(phases: Sequence[Record], driver: str) -> dict[str, dict[str, float]]:
    all_of = [phase["statistics"] for phase in phases if phase.get("statistics")]
    if not all_of or drivers()[driver].counts_whole_server:
        return dict(all_of[0]) if all_of else {}
    return {
        name: {
            end: sum(of_one[name][end] or 0.0 for of_one in all_of if name in of_one)
            for end in ("before", "after")
        }
        for name in all_of[0]
    }


def _notice(notice: Record, part: Part) -> dict[str, Any]:
    evidence = {**notice.get("evidence", {}), "machine": part.machine, "share": part.share}
    return {**notice, "evidence": evidence}


def _time(totals: Sequence[Record], time: str) -> dict[str, Any]:
    return _together([total[time] for total in totals], [total["count"] for total in totals])


def _together(same: Sequence[Record], numbers: Sequence[int]) -> dict[str, Any]:
    """One time of several, each of so many observations."""
    if len(same) == 1:
        return dict(same[0])
    counts = Counts.merge(decode(one["histogram"]) for one in same)
    pairs = zip(same, numbers, strict=True)
    mean = sum(one["mean"] * number for one, number in pairs) / sum(numbers)
    least, largest = min(one["min"] for one in same), max(one["max"] for one in same)
    return time_record(counts, least, largest, mean)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
