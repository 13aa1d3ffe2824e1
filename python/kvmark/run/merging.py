"""Merges intervals of several engines during a run, and their records at its end.

An interval is merged when each share has sent it, has ended the phase, or is lost. Counts and
histograms are added exactly, and quantiles are those of the sums.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

from kvmark.drivers import drivers
from kvmark.plan.model import Plan
from kvmark.records.histograms import TIME_TAGS, decode, encode, series_tag, time_record
from kvmark.run.shares import acknowledged, first_insert
from kvmark.stats import Counts

_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_SUMS: Final = ("due", "issued", "read_late", "backlog", "in_flight")
_COUNTS: Final = ("count", "carried", "rows", "late", "late_busy")
_TOTAL: Final = "TOTAL"
_Series = tuple[str, str, bool, str]
"""Group, operation, whether it is a part of a read-modify-write, outcome."""
_Place = tuple[int, int, int]
"""Phase, stage, number of the interval in the stage: the order in which an engine writes."""
_WINDOW: Final = 0
_DRAIN: Final = 1
_ENDED: Final = 2
_BEFORE_ALL: Final = (-1, 0, 0)
_AFTER_ALL: Final = (2**32, 0, 0)

_RECORD_SUMS: Final = ("issued", "completed", "ok", "dropped", "late", "late_busy", "abandoned")
_PROCESS: Final = (
    *("cpu_user_ns", "cpu_system_ns", "max_resident_bytes"),
    *("voluntary_switches", "involuntary_switches"),
)
# Causes of the end of a phase, the most important first.
_CAUSES: Final = ("failed", "cancelled", "until", "duration", "operations", "skipped", "killed")
_SERIES: Final = ("phase", "group", "operation", "part", "outcome")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """One interval of one share, in the share's own time."""

    rows: tuple[Mapping[str, Any], ...]
    lines: Mapping[str, tuple[float, str]]
    """By tag with the time: the largest value in milliseconds, and the histogram."""

    phase: int
    """Index of the phase."""
    drain: bool
    """Whether the phase's window had ended."""
    start_ns: int
    length_ns: int


def slices(intervals: bytes, histograms: bytes) -> Iterator[Slice]:
    """The intervals in whole lines of both logs."""
    rows = [json.loads(line) for line in intervals.splitlines()]
    found: dict[tuple[str, str], dict[str, tuple[float, str]]] = {}
    for line in histograms.decode().splitlines():
        if line.startswith("Tag="):
            tag, start, length, largest, encoded = line.split(",")
            lines = found.setdefault((start, length), {})
            lines[tag.removeprefix("Tag=")] = (float(largest), encoded)
    place = itemgetter("phase", "drain", "start_ns")
    for (phase, drain, start_ns), of_interval in groupby(rows, place):
        own = tuple(of_interval)
        length_ns = own[0]["end_ns"] - start_ns
        span = (seconds(start_ns), seconds(length_ns))
        lines = found.get(span, {}) if any(row["count"] for row in own) else {}
        yield Slice(own, lines, phase, drain, start_ns, length_ns)


@dataclass
class Intervals:
    """Intervals of the shares that aren't merged yet."""

    shares: int
    interval_ns: int
    several_groups: bool
    inserts_start: Mapping[int, int]
    """By phase: the ordinal of its first insert."""
    starts_ns: dict[int, int] = field(default_factory=dict)
    """By phase: its common start, in the time of the run."""
    shifts_ns: dict[int, int] = field(default_factory=dict)
    """By share: the offset from its time to the time of the run."""
    _reached: dict[int, _Place] = field(default_factory=dict)
    _open: dict[_Place, dict[int, Slice]] = field(default_factory=dict)
    _accounts: dict[tuple[int, int, str], Mapping[str, Any]] = field(default_factory=dict)

    def take(self, share: int, one: Slice) -> None:
        """Takes the next interval of a share."""
        stage = _DRAIN if one.drain else _WINDOW
        before = self._reached.get(share, _BEFORE_ALL)
        number = before[2] + 1 if before[:2] == (one.phase, stage) else 0
        place = (one.phase, stage, number)
        # Operations from the warm-up that ended in the measurement come last.
        self._reached[share] = max(before, place)
        self._open.setdefault(place, {})[share] = one

    def end_phase(self, share: int, phase: int) -> None:
        """A share has sent all intervals of a phase."""
        self._reached[share] = max(self._reached.get(share, _BEFORE_ALL), (phase, _ENDED, 0))

    def end(self, share: int) -> None:
        """A share has sent all intervals."""
        self._reached[share] = _AFTER_ALL

    def ready(self) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
        """The rows of each complete interval, and its lines of the log of histograms, in order."""
        reached = min(self._reached.get(share, _BEFORE_ALL) for share in range(self.shares))
        for place in sorted(place for place in self._open if place <= reached):
            yield self._merged(place, self._open.pop(place))

    def _merged(
        self, place: _Place, parts: Mapping[int, Slice]
    ) -> tuple[list[dict[str, Any]], list[str]]:
        start_ns, end_ns = self._span(place, parts)
        logged: dict[str, list[tuple[float, str]]] = {}
        for tag, line in chain.from_iterable(part.lines.items() for part in parts.values()):
            logged.setdefault(tag, []).append(line)
        counts = {
            tag: Counts.merge(decode(encoded) for _, encoded in same)
            for tag, same in logged.items()
        }
        rows = self._rows(list(chain.from_iterable(part.rows for part in parts.values())), counts)
        for row in rows:
            row.update(start_ns=start_ns, end_ns=end_ns)
            if row["operation"] == _TOTAL:
                row.update(self._account(place[0], row["group"], parts))
        # Lines of the log of histograms, as the engine writes them.
        span = f"{seconds(start_ns)},{seconds(end_ns - start_ns)}"
        lines = []
        for tag, same in logged.items():
            encoded = same[0][1] if len(same) == 1 else encode(counts[tag])
            lines.append(f"Tag={tag},{span},{max(same)[0]:.6f},{encoded}")
        return rows, lines

    def _rows(
        self, parts: Sequence[Mapping[str, Any]], counts: Mapping[str, Counts]
    ) -> list[dict[str, Any]]:
        """The rows of one interval of all shares; `counts` are the sums of the histograms by tag.

        Instants and accounts of arrivals are those of the first share: the caller replaces them.
        """
        together: dict[_Series, list[Mapping[str, Any]]] = {}
        for row in parts:
            key = (row["group"], row["operation"], row["part"], row["outcome"])
            together.setdefault(key, []).append(row)

        def tags(key: _Series) -> Iterator[str]:
            """The tags of a series, or of those that a total includes."""
            for series, (first, *_) in together.items():
                group, operation, part, outcome = series
                if key[1] == _TOTAL:
                    is_included = group == key[0] and operation != _TOTAL and not part
                else:
                    is_included = series == key
                if is_included:
                    names = (first["phase_name"], group, operation, outcome)
                    yield series_tag(*names, part=part, several_groups=self.several_groups)

        def times(key: _Series) -> dict[str, Counts]:
            return {
                time: Counts.merge(
                    found for tag in tags(key) if (found := counts.get(f"{tag}-{end}"))
                )
                for time, end in TIME_TAGS.items()
            }

        # By group in order of appearance; a group's total before its operations.
        groups = list(dict.fromkeys(key[0] for key in together))
        keys = sorted(together, key=lambda key: (groups.index(key[0]), key[1] != _TOTAL))
        return [_row(together[key], times(key)) for key in keys]

    def _span(self, place: _Place, parts: Mapping[int, Slice]) -> tuple[int, int]:
        phase, stage, number = place
        if stage == _WINDOW:
            start_ns = self.starts_ns[phase] + number * self.interval_ns
            return start_ns, start_ns + max(one.length_ns for one in parts.values())
        # The common drain begins at the end of the last window.
        spans = [(one.start_ns + self.shifts_ns[share], one) for share, one in parts.items()]
        start_ns = max(begin_ns for begin_ns, _ in spans)
        return start_ns, max(start_ns, *(begin_ns + one.length_ns for begin_ns, one in spans))

    def _account(self, phase: int, group: str, parts: Mapping[int, Slice]) -> dict[str, Any]:
        """The account of a group; shares that have ended keep their last account."""
        start = self.inserts_start[phase]
        accounts = []
        for share in range(self.shares):
            place = (phase, share, group)
            rows = parts[share].rows if share in parts else ()
            totals = (row for row in rows if (row["group"], row["operation"]) == (group, _TOTAL))
            known = self._accounts.get(place, {"frontier": start})
            ended = {**known, "in_flight": 0} if "in_flight" in known else known
            self._accounts[place] = next(totals, ended)
            accounts.append(self._accounts[place])
        sums = {name: add_known(account.get(name) for account in accounts) for name in _SUMS}
        frontiers = [int(account["frontier"]) for account in accounts]
        return {**sums, "frontier": acknowledged(frontiers, start)}


def _row(parts: Sequence[Mapping[str, Any]], times: Mapping[str, Counts]) -> dict[str, Any]:
    row = dict(parts[0])
    row.update({name: add_known(part.get(name) for part in parts) for name in _COUNTS})
    for time, counts in times.items():
        known = [part for part in parts if part[f"{time}_ns_max"] is not None]
        if not known:
            continue
        least = min(part[f"{time}_ns_min"] for part in known)
        largest = max(part[f"{time}_ns_max"] for part in known)
        total = sum(map(_timed, known))
        mean = sum(part[f"{time}_ns_mean"] * _timed(part) for part in known) / total
        row.update({f"{time}_ns_min": least, f"{time}_ns_mean": mean, f"{time}_ns_max": largest})
        for name, q in _QUANTILES.items():
            row[f"{time}_ns_{name}"] = min(max(counts.quantile(q) or 0, least), largest)
    return row


def _timed(row: Mapping[str, Any]) -> int:
    """The number of operations whose times the row has."""
    return int(row["count"]) - int(row.get("carried") or 0)


def add_known(values: Iterable[int | None]) -> int | None:
    """The sum of the known values; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def seconds(ns: int) -> str:
    """An instant or a duration in seconds, as the engine writes it."""
    return f"{ns // 10**9}.{ns % 10**9:09}"


@dataclass(frozen=True, slots=True)
class Part:
    """The record of one share, recovered from its logs if the share was lost."""

    share: int
    machine: str
    shift_ns: int
    """The offset from its time to the time of the run."""
    record: Record
    lost: bool


def merge_records(
    parts: Sequence[Part], plan: Plan, of: int, origin_wall_ns: int, *, interrupted: bool
) -> dict[str, Any]:
    """One record: counts and histograms added exactly, instants in the time of the run.

    `of` is the number of shares; shares that were lost early have no part.
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
        "notices": [
            {**one, "evidence": {**one.get("evidence", {}), **place}}
            for part in parts
            for place in [{"machine": part.machine, "share": part.share}]
            for one in part.record["notices"]
        ],
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
            **{
                time: _together([one[time] for one in same], [one["count"] for one in same])
                for time in TIME_TAGS
            },
        }
        for key, same in together.items()
    ]
    return sorted(merged, key=lambda total: int(total["phase"]))


def merge_lags(lags: Iterable[Record | None]) -> dict[str, Any] | None:
    """One phase's generator lag over all machines; None if no machine sampled a read."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return None
    sums = {name: sum(lag.get(name, 0) for lag in known) for name in ("count", "discarded")}
    return {**_together(known, [lag["count"] for lag in known]), **sums}


def main_cause(stopped_by: Iterable[str]) -> str:
    """The most important cause of the end of a phase."""
    return min(stopped_by, key=_CAUSES.index)


def missing_part(parts: Sequence[Part], share: int, of: int) -> float:
    """The share of the counted phases that wasn't measured because of a loss, in [0, 1]."""
    everyone = [(part.share, phase) for part in parts for phase in part.record["phases"]]
    names = {phase["name"] for _, phase in everyone}
    counted = "measure" if "measure" in names else "load"
    windows: dict[int, dict[int, int]] = {}
    for number, phase in everyone:
        if phase["name"] == counted:
            length_ns = phase["end_ns"] - phase["start_ns"]
            windows.setdefault(phase["index"], {})[number] = length_ns
    covered_ns = sum(lengths_ns.get(share, 0) for lengths_ns in windows.values())
    whole_ns = sum(max(lengths_ns.values()) for lengths_ns in windows.values())
    return (1 - covered_ns / whole_ns if whole_ns else 1.0) / of


def _phase(index: int, parts: Sequence[Part], plan: Plan, of: int) -> dict[str, Any]:
    found = [
        (part, phase)
        for part in parts
        for phase in part.record["phases"]
        if phase["index"] == index
    ]
    phases = [phase for _, phase in found]
    # The end of a lost share's phase doesn't count.
    ended = [phase["stopped_by"] for part, phase in found if not part.lost] or ["killed"]

    def at(name: str, which: Callable[[Iterable[int]], int]) -> int:
        return which([part.shift_ns + int(phase[name]) for part, phase in found])

    return {
        "index": index,
        "name": phases[0]["name"],
        "start_ns": at("start_ns", min),
        "end_ns": at("end_ns", max),
        "drained_ns": at("drained_ns", max),
        "stopped_by": main_cause(ended),
        "relative_stderr": None,
        "groups": list(_groups(found, plan, of)),
        "workers": [
            {**worker, "worker": number}
            for number, worker in enumerate(
                one for each in phases for one in each.get("workers", ())
            )
        ],
        "process": {
            name: add_known(phase.get("process", {}).get(name) for phase in phases)
            for name in _PROCESS
        },
        "statistics": _statistics(phases, plan.system.driver),
        "generator_lag": merge_lags(phase.get("generator_lag") for phase in phases),
        "records_found": add_known(phase.get("records_found") for phase in phases),
    }


def _groups(found: Sequence[tuple[Part, Record]], plan: Plan, of: int) -> Iterator[dict[str, Any]]:
    start = first_insert(plan, found[0][1]["name"])
    together: dict[str, dict[int, Record]] = {}
    for part, phase in found:
        for group in phase["groups"]:
            together.setdefault(group["group"], {})[part.share] = group
    for name, of_share in together.items():
        groups = of_share.values()
        known = [of_share[share]["frontier"] if share in of_share else None for share in range(of)]
        yield {
            "group": name,
            **{field: add_known(one.get(field) for one in groups) or 0 for field in _RECORD_SUMS},
            "due": add_known(one["due"] for one in groups),
            "read_late": add_known(one.get("read_late") for one in groups),
            "frontier": acknowledged([start if one is None else one for one in known], start),
        }


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


def _together(same: Sequence[Record], numbers: Sequence[int]) -> dict[str, Any]:
    """One time of several, with their numbers of observations."""
    if len(same) == 1:
        return dict(same[0])
    counts = Counts.merge(decode(one["histogram"]) for one in same)
    pairs = zip(same, numbers, strict=True)
    mean = sum(one["mean"] * number for one, number in pairs) / sum(numbers)
    least, largest = min(one["min"] for one in same), max(one["max"] for one in same)
    return time_record(counts, least, largest, mean)
