"""Runs made without an engine: healthy ones, and what a test breaks in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kvmark.records import Header, ObservedServer, Records, Run
from kvmark.records.histograms import time_record
from kvmark.stats import Counts
from runs_on_disk import PLAN, SECOND, close, engine_record, total_record

GROUP = "clients"
CLIENTS = 8
SECONDS = 20
PER_SECOND = 10_000


def distribution(count: int, median_ns: int = 50_000, seed: int = 1) -> dict[str, Any]:
    """A lognormal time with exactly that many observations, as the engine writes it."""
    drawn = np.random.default_rng(seed).lognormal(np.log(median_ns), 0.5, min(count, 2000))
    values = np.sort(drawn.astype(np.int64))
    repeated = np.full(len(values), count // len(values))
    repeated[: count % len(values)] += 1
    return time_record(Counts(values, values, repeated), int(values[0]), int(values[-1]))


def total(operation: str, count: int, outcome: str = "ok", **changes: Any) -> dict[str, Any]:
    times = {time: distribution(count) for time in ("service", "response", "wait")}
    return {**total_record(operation, count, outcome), **times, **changes}


def rows(
    index: int, counts: dict[str, int], length_ns: int, mean_ns: float = 57_000.0
) -> list[dict[str, Any]]:
    """The rows of one interval: a total, and a row per operation."""
    common = {
        "phase": 0, "phase_name": "measure", "drain": False, "start_ns": index * length_ns,
        "end_ns": (index + 1) * length_ns, "group": GROUP, "part": False,
    }  # fmt: skip
    done = sum(counts.values())
    first = {"operation": "TOTAL", "outcome": "any", "count": done, "late": 0, "in_flight": 2}
    issued = {"issued": (index + 1) * PER_SECOND * length_ns // SECOND}
    each = [
        {"operation": name, "outcome": "ok", "count": count, "service_ns_mean": mean_ns}
        for name, count in counts.items()
    ]
    return [{**common, **first, **issued}, *({**common, **row} for row in each)]


@dataclass
class Draft:
    """A run that is not written yet: change it, then ask for the run."""

    records: Records
    plan: dict[str, Any]
    host: dict[str, Any]
    engine: dict[str, Any]
    intervals: list[dict[str, Any]]
    events: list[dict[str, Any]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    testbed: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    observed: list[str] = field(default_factory=list)

    @property
    def phase(self) -> Any:
        return self.engine["phases"][0]

    @property
    def group(self) -> Any:
        return self.phase["groups"][0]

    @property
    def worker(self) -> Any:
        return self.phase["workers"][0]

    def total(self, operation: str) -> dict[str, Any]:
        return next(row for row in self.engine["totals"] if row["operation"] == operation)

    def complete(self, *ended: tuple[str, int] | tuple[str, int, str], part: str = "") -> None:
        """Lets these operations be all that ended, with their outcomes; parts of the named one."""
        self.engine["totals"] = [total(*one, part=bool(part) and one[0] != part) for one in ended]

    def turn(self, count: int, operation: str, outcome: str) -> None:
        """Lets so many successful operations end otherwise."""
        kept = self.total(operation)["count"] - count
        self.total(operation).update(count=kept, in_window=kept)
        self.engine["totals"].append(total(operation, count, outcome))
        self.group["ok"] -= count

    def speed_up(self, speed: float) -> None:
        """Lets the clock go so much faster: the same operations in less time."""
        self.phase["end_ns"] = int(self.phase["end_ns"] / speed)
        for row in self.intervals:
            row |= {name: int(row[name] / speed) for name in ("start_ns", "end_ns")}

    def fault(self, text: str, node: str, begun_s: float, ended_s: float | None) -> None:
        """A server was gone, and whether and when it was back."""
        for state, at_s in (("begun", begun_s), ("ended", ended_s)):
            if at_s is not None:
                event = {"kind": "fault", "fault": text, "node": node, "state": state}
                self.events.append({**event, "at_ns": int(at_s * SECOND)})

    def watch(self, node: str, seconds: Iterable[int] = range(SECONDS + 1), **values: Any) -> None:
        """Samples of a node; a pair of values is what a counter begins with and adds a second."""
        origin_ns = self.engine["started_wall_ns"]
        for second in seconds:
            counters = {
                name: value[0] + value[1] * second if isinstance(value, tuple) else value
                for name, value in values.items()
            }
            at_ns = origin_ns + second * SECOND
            self.resources.append({"at_wall_ns": at_ns, "node": node, **counters})

    def total_rows(self) -> list[dict[str, Any]]:
        return [row for row in self.intervals if row["operation"] == "TOTAL"]

    def run(self) -> Run:
        folder = self.records.new("healthy")
        header = Header(
            command=("kvmark", "run"),
            spec=self.spec,
            plan=self.plan,
            host=self.host,
            versions={"kvmark": "0.1.0"},
            testbed=self.testbed or None,
            tags=self.tags,
            observed=tuple(ObservedServer(name=name, source="") for name in self.observed),
        )
        folder.begin(header)
        folder.append_resources(self.resources)
        for event in self.events:
            folder.append_event(event)
        lines = "".join(json.dumps(row) + "\n" for row in self.intervals)
        (folder.path / "intervals.jsonl").write_text(lines)
        return close(folder, self.engine)


def _plan() -> dict[str, Any]:
    mix = [{"kind": "read", "weight": 0.5}, {"kind": "update", "weight": 0.5}]
    return {
        "name": "ycsb/a",
        "system": {"driver": "rocksdb", "options": {}},
        "dataset": {"count": 1000},
        "groups": [{**deepcopy(PLAN["groups"][0]), "clients": CLIENTS, "mix": mix}],
        "phases": [{"name": "measure", "groups": [{"group": 0, "operations": None}]}],
    }


def _engine(counts: dict[str, int]) -> dict[str, Any]:
    done = sum(counts.values())
    group = {"group": GROUP, "issued": done, "completed": done, "ok": done, "frontier": 1000}
    worker = {
        "worker": 0, "cpu_ns": 8 * SECOND, "waiting_for_core_ns": SECOND // 10, "idle_spin_ns": 0,
        "wall_ns": SECONDS * SECOND, "cores": [1],
    }  # fmt: skip
    process = {
        "cpu_user_ns": 6 * SECOND, "cpu_system_ns": 2 * SECOND, "max_resident_bytes": 50_000_000,
    }  # fmt: skip
    record = engine_record(SECONDS)
    record["phases"][0].update(
        drained_ns=SECONDS * SECOND, groups=[group], workers=[worker], process=process
    )
    return {
        **record,
        "system": {"system": "RocksDB", "version": "10.4.2"},
        "capabilities": {"execution": "asynchronous", "embedded": False},
        "totals": [total(name, count) for name, count in counts.items()],
    }


def _healthy(records: Records, length_ns: int = SECOND // 2) -> Draft:
    random = np.random.default_rng(7)
    each = [
        {name: int(count) for name, count in zip(("READ", "UPDATE"), pair, strict=True)}
        for pair in random.normal(
            PER_SECOND * length_ns / SECOND / 2, 20, (SECONDS * SECOND // length_ns, 2)
        )
    ]
    counts = {name: sum(second[name] for second in each) for name in ("READ", "UPDATE")}
    host = {
        "cores": 4,
        "other_busy_cores_before": 0.2,
        "engine_overhead_ns_per_operation": 80.0,
    }
    intervals = [row for index, second in enumerate(each) for row in rows(index, second, length_ns)]
    return Draft(records, _plan(), host, _engine(counts), intervals)


@pytest.fixture
def healthy(records: Records) -> Callable[[], Draft]:
    """Makes a healthy run in the closed model: 20 seconds, half reads and half updates."""
    return lambda: _healthy(records)


@pytest.fixture
def made(healthy: Callable[[], Draft]) -> Callable[..., Run]:
    """Makes a healthy run with changes of its draft; a number makes its clock faster."""

    def make(*changes: float | Callable[[Draft], object]) -> Run:
        draft = healthy()
        for change in changes:
            if callable(change):
                change(draft)
            else:
                draft.speed_up(change)
        return draft.run()

    return make


@pytest.fixture
def by_seconds(records: Records) -> Callable[[], Draft]:
    """The same with an interval for each second: too few for an error of the throughput."""
    return lambda: _healthy(records, SECOND)


@pytest.fixture
def healthy_open(records: Records) -> Callable[[], Draft]:
    """Makes a healthy run in the open model: 10,000 arrivals per second, all completed."""

    def make() -> Draft:
        draft = _healthy(records)
        draft.plan["groups"][0]["arrival"] = {
            "process": "poisson",
            "rates": [{"at_ns": 0, "rate": float(PER_SECOND)}],
        }
        draft.group.update(due=draft.group["issued"], dropped=0, late=0)
        return draft

    return make


@pytest.fixture
def ended_in_its_load(healthy: Callable[[], Draft]) -> Run:
    """A run that was ended while it loaded, whose plan would have measured then."""
    draft = healthy()
    load = {**draft.phase, "name": "load", "stopped_by": "interrupted"}
    measure = {**draft.phase, "index": 1, "stopped_by": "skipped", "workers": [], "groups": []}
    draft.engine["phases"] = [load, measure]
    draft.complete(("INSERT", 20_000))
    draft.engine["interrupted"] = True
    for row in draft.intervals:
        row["phase_name"] = "load"
    return draft.run()
