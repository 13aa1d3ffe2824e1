"""Gathers the agents' reports into one folder during a run, and into one record at its end.

Records are merged interval by interval, so that the folder has the same logs as with one engine.
Each share's own logs are kept until the end: a lost share is recovered from them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvmark._engine import StopRule
from kvmark.errors import FleetError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder, files
from kvmark.records.recovery import record_of_logs
from kvmark.run import merging
from kvmark.run.agent import Report
from kvmark.run.shares import clients_of, first_insert

_OVER = frozenset({"phase_ended", "phase_skipped"})
_ANSWERED = ("ok", "miss")
"""Outcomes other than failures."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a share, and its clock."""

    name: str
    host: Mapping[str, Any]
    clock_offset_ns: int
    """Its wall time minus this machine's."""
    clock_round_trip_ns: int
    """Half of it is the largest error of the offset."""


@dataclass(slots=True)
class Share:
    """The state of one share."""

    plan: Plan
    machine: Machine
    logs: Path
    heard_s: float | None = None
    """The monotonic time of its last report or its start; None before."""
    origin_wall_ns: int | None = None
    waits_for: int | None = None
    """The index of the phase for which its engine waits."""
    starts_ns: dict[int, int] = field(default_factory=dict)
    ended: dict[int, tuple[int, str]] = field(default_factory=dict)
    progress: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    problem: tuple[str, str] | None = None
    lost: tuple[str, str | None] | None = None
    """The reason of its loss, and the phase."""

    @property
    def is_over(self) -> bool:
        """Whether no report follows."""
        return self.result is not None or self.problem is not None or self.lost is not None

    @property
    def is_running(self) -> bool:
        """Whether its agent is running."""
        return self.heard_s is not None and not self.is_over

    @property
    def failure(self) -> tuple[str, str] | None:
        """The error that ended its engine early: its name and text."""
        failure = None if self.result is None else self.result["failure"]
        return self.problem if failure is None else (failure["kind"], failure["message"])


class Gathering:
    """The shares of a run and its folder."""

    def __init__(
        self, plan: Plan, plans: Sequence[Plan], machines: Sequence[Machine],
        folder: RunFolder, logs: Path,
    ) -> None:  # fmt: skip
        self._plan, self._folder = plan, folder
        pairs = enumerate(zip(plans, machines, strict=True))
        self.shares = [Share(own, where, logs / str(index)) for index, (own, where) in pairs]
        for share in self.shares:
            share.logs.mkdir()
        starts = {i: first_insert(plan, phase.name) for i, phase in enumerate(plan.phases)}
        several = len(plan.groups) > 1
        self._intervals = merging.Intervals(len(plans), plan.interval_ns, several, starts)
        self._origin_wall_ns: int | None = None
        self._newest_p99_ns: int | None = None
        self._ended = -1
        self._announced: set[int] = set()
        rules = ((index, phase.until) for index, phase in enumerate(plan.phases))
        self._rules = {index: StopRule(one.model_dump_json()) for index, one in rules if one}
        """The rules that end phases, by the index of the phase."""

    def take(self, index: int, report: Report) -> None:
        """Takes an agent's report.

        Raises:
            RunError: the run's folder can't be written.
        """
        share = self.shares[index]
        share.heard_s = time.monotonic()
        for name, text in report.logs.items():
            if text:
                with (share.logs / name).open("ab") as log:
                    log.write(text)
        events = [json.loads(line) for line in report.logs[files.EVENTS].splitlines()]
        for event in events:
            self._take_event(index, event)
        intervals, histograms = report.logs[files.INTERVAL_LOG], report.logs[files.HISTOGRAMS]
        for one in merging.slices(intervals, histograms):
            self._intervals.take(index, one)
        # After the intervals: the last ones of a phase come with the event of its end.
        for event in events:
            if event["kind"] in _OVER:
                self._intervals.end_phase(index, event["phase"])
        if report.resources is not None:
            at_wall_ns = int(report.resources["at_wall_ns"]) - share.machine.clock_offset_ns
            row = {**report.resources, "at_wall_ns": at_wall_ns, "node": f"generator-{index}"}
            self._folder.append_resources([row])
        share.progress = report.progress or share.progress
        if report.waits_for is not None:
            share.waits_for = report.waits_for
        if report.is_last:
            share.result, share.problem = report.result, report.problem
            self._intervals.end(index)

    def leave_out(self, index: int) -> None:
        """Records a share that never began, because the run ended before."""
        self.shares[index].problem = ("RunError", "the run ended before this machine took part")
        self._intervals.end(index)

    def lose(self, index: int, reason: str, phase: int) -> None:
        """Records a lost share, in this phase or before the first."""
        share = self.shares[index]
        share.lost = (reason, self._plan.phases[phase].name if phase >= 0 else None)
        self._intervals.end(index)
        machine = share.machine.name
        self.write_event("agent_lost", share=index, machine=machine, reason=reason)

    def begin(self, phase: int, wall_ns: int) -> None:
        """Records the start of a phase, in this machine's wall time.

        If a warm-up that continues into the phase hasn't begun yet, it is the warm-up's start.
        """
        start_ns = wall_ns - (self._origin_wall_ns or wall_ns)
        before = phase - 1
        if before >= 0 and before not in self._announced:
            self._intervals.starts_ns[before] = start_ns
            start_ns += self._plan.phases[before].duration_ns or 0
        self._intervals.starts_ns[phase] = start_ns

    def end_phases(self, through: int) -> None:
        """Merges the rest of phases that are over, and writes their ends."""
        self.merge()
        while self._ended < through and all(
            share.is_over or self._ended + 1 in share.ended for share in self.shares
        ):
            self._ended += 1
            phase = self._ended
            ends = [
                (at_ns + self._intervals.shifts_ns.get(index, 0), stopped_by)
                for index, share in enumerate(self.shares)
                if phase in share.ended
                for at_ns, stopped_by in [share.ended[phase]]
            ]
            if not ends:
                continue
            if phase not in self._announced:
                self._announce("phase_skipped", phase, max(ends)[0])
                continue
            name = self._plan.phases[phase].name
            cause = merging.main_cause(stopped_by for _, stopped_by in ends)
            self.write_event("phase_ended", max(ends)[0], phase=phase, name=name, stopped_by=cause)

    def merge(self) -> None:
        """Writes the intervals that are complete.

        Raises:
            RunError: the run's folder can't be written.
        """
        for rows, lines in self._intervals.ready():
            self._folder.append_rows(files.INTERVAL_LOG, rows)
            self._folder.append_text(files.HISTOGRAMS, "".join(f"{line}\n" for line in lines))
            rule = self._rules.get(rows[0]["phase"])
            if rule is not None and not rows[0]["drain"]:
                _push(rule, rows)
            totals = (row for row in rows if row["operation"] == "TOTAL")
            p99s_ns = [row["response_ns_p99"] for row in totals if row["response_ns_p99"]]
            self._newest_p99_ns = max(p99s_ns, default=self._newest_p99_ns)

    def phase_to_end(self) -> int | None:
        """The phase whose rule is met now; once for each phase."""
        for phase, rule in self._rules.items():
            if rule.satisfied():
                del self._rules[phase]
                return phase
        return None

    def progress(self) -> Mapping[str, Any] | None:
        """The progress in the newest phase: sums over the shares that are in it."""
        reported = [share.progress for share in self.shares if share.progress is not None]
        if not reported:
            return None
        newest = max(one["phase"] for one in reported)
        current = [one for one in reported if one["phase"] == newest]
        names = ("completed", "expected_operations", "rate_per_s", "failed", "missed", "backlog")
        silences_ns = [one["silent_ns"] for one in current]
        return {
            **current[0],
            **{name: merging.add_known(one[name] for one in current) for name in names},
            "elapsed_ns": max(one["elapsed_ns"] for one in current),
            # None if a share has no outstanding operation.
            "silent_ns": None if None in silences_ns else min(silences_ns),
            "response_ns_p99": self._newest_p99_ns,
        }

    def record(self, *, interrupted: bool) -> dict[str, Any]:
        """The record of the run.

        Raises:
            FleetError: all shares were lost before they measured anything.
        """
        parts = [part for index in range(len(self.shares)) if (part := self._part(index))]
        if not parts:
            raise FleetError(
                "every machine of the fleet was lost before it measured anything; look whether the"
                " fleet is up and run again"
            )
        of, origin_ns = len(self.shares), self._origin_wall_ns or 0
        record = merging.merge_records(parts, self._plan, of, origin_ns, interrupted=interrupted)
        record["agents"] = [self._agent(index, parts) for index in range(of)]
        return record

    def write_event(self, kind: str, at_ns: int | None = None, **fields: Any) -> None:
        """Writes an event at an instant since the run's origin, or now.

        Raises:
            RunError: the log can't be written.
        """
        now_ns = time.time_ns()
        at_ns = now_ns - (self._origin_wall_ns or now_ns) if at_ns is None else at_ns
        self._folder.append_event({"at_ns": at_ns, "kind": kind, **fields})

    def _take_event(self, index: int, event: Mapping[str, Any]) -> None:
        share, kind = self.shares[index], event["kind"]
        match kind:
            case "opened":
                self._open(index, event)
            case "phase_started":
                share.starts_ns[event["phase"]] = event["at_ns"]
                self._announce(kind, event["phase"], self._intervals.starts_ns[event["phase"]])
            case "phase_ended" | "phase_skipped":
                share.ended[event["phase"]] = (event["at_ns"], event.get("stopped_by", "skipped"))
            case "notice":
                at_ns = event["at_ns"] + self._intervals.shifts_ns[index]
                names = ("phase", "code", "message", "evidence", "advice")
                fields = {name: event.get(name) for name in names}
                self.write_event(kind, at_ns, machine=share.machine.name, **fields)

    def _announce(self, kind: str, phase: int, at_ns: int) -> None:
        """Writes the start of a phase, or that it is skipped, once."""
        if phase not in self._announced:
            self._announced.add(phase)
            self.write_event(kind, at_ns, phase=phase, name=self._plan.phases[phase].name)

    def _open(self, index: int, event: Mapping[str, Any]) -> None:
        """The first open engine sets the run's origin."""
        share = self.shares[index]
        share.origin_wall_ns = int(event["started_wall_ns"]) - share.machine.clock_offset_ns
        if self._origin_wall_ns is None:
            self._origin_wall_ns = share.origin_wall_ns
            fields = {name: event[name] for name in ("counting", "system", "capabilities", "clock")}
            self.write_event("opened", 0, started_wall_ns=share.origin_wall_ns, **fields)
            self._folder.append_text(files.HISTOGRAMS, _log_head(share.origin_wall_ns))
        self._intervals.shifts_ns[index] = share.origin_wall_ns - self._origin_wall_ns

    def _part(self, index: int) -> merging.Part | None:
        share = self.shares[index]
        if share.origin_wall_ns is None:
            return None
        if share.result is None:
            plan = share.plan.model_dump(mode="json")
            record = record_of_logs(share.logs, plan, self._folder.created.isoformat())
        else:
            record = share.result["record"]
        shift_ns = self._intervals.shifts_ns[index]
        return merging.Part(index, share.machine.name, shift_ns, record, share.lost is not None)

    def _agent(self, index: int, parts: Sequence[merging.Part]) -> dict[str, Any]:
        share, of = self.shares[index], len(self.shares)
        lost = None
        if share.lost is not None:
            reason, phase = share.lost
            missing = merging.missing_part(parts, index, of)
            lost = {"phase": phase, "reason": reason, "missing": missing}
        shift_ns = self._intervals.shifts_ns.get(index, 0)
        return {
            "share": index,
            "machine": share.machine.name,
            "host": dict(share.machine.host),
            "clients": {
                group.name: clients_of(group.clients, index, of) for group in share.plan.groups
            },
            "clock_offset_ns": share.machine.clock_offset_ns,
            "clock_round_trip_ns": share.machine.clock_round_trip_ns,
            "starts_ns": {str(phase): at_ns + shift_ns for phase, at_ns in share.starts_ns.items()},
            "lost": lost,
        }


def _push(rule: StopRule, interval: Sequence[Mapping[str, Any]]) -> None:
    """Adds the next interval of its phase's window to a rule."""
    first = interval[0]
    whole = [row for row in interval if row["operation"] != "TOTAL" and not row["part"]]
    done = [row for row in whole if row["outcome"] in _ANSWERED]
    rows = sum(max(row["rows"] or 0, row["count"]) for row in done)
    succeeded = sum(row["count"] for row in whole if row["outcome"] == "ok")
    largest_ns = max((row["service_ns_max"] or 0 for row in whole), default=0)
    rule.push(first["start_ns"], first["end_ns"], rows, succeeded, largest_ns)


def _log_head(origin_wall_ns: int) -> str:
    """The head of a log of histograms, as the engine writes it."""
    epoch = merging.seconds(origin_wall_ns)
    return (
        "#[Histogram log format version 1.3]\n"
        f"#[StartTime: {epoch} (seconds since epoch)]\n"
        f"#[BaseTime: {epoch} (seconds since epoch)]\n"
        "#[MaxValueDivisor: 1000000.0]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    )
