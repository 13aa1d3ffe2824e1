"""Coordinates a run on several machines: starts of phases, lost machines, and the end.

It doesn't depend on Ray: a crew delivers the agents' reports and sends commands to them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from kvmark import errors
from kvmark.errors import FleetError, GeneratorDied, KvmarkError
from kvmark.plan.model import Plan, Share
from kvmark.records import RunFolder
from kvmark.run.agent import Report
from kvmark.run.gathering import Gathering, Machine
from kvmark.run.generator import Caller

LEAD_NS: Final = 250_000_000
"""From the decision to the start of a phase: engines check every 50 ms and read the system's
counters before it, and messages take a few milliseconds."""
SILENCE_S: Final = 10.0
"""An agent without a report for this time is lost; agents report every second."""
_RENEW_S: Final = 1.0
_POLL_S: Final = 0.05

_ROUND_TRIPS: Final = 20
"""Of this number, one is nearly undisturbed."""


Command = Literal["begin", "end_phase", "renew", "stop", "disturb"]
"""A method of `Agent`."""


class Crew(Protocol):
    """The agents, by share."""

    @property
    def machines(self) -> Sequence[Machine]:
        """One for each share."""

    def start(self, share: int, plan: Plan) -> None:
        """Starts an agent's share."""

    def reports(self, timeout_s: float) -> Sequence[tuple[int, Report]]:
        """New reports, in each agent's order; waits for them up to the timeout.

        A lost agent's last one has a `GeneratorDied`.
        """

    def send(self, share: int, command: Command, **arguments: int) -> None:
        """Calls a method of an agent."""

    def dismiss(self, share: int) -> None:
        """Ends a lost agent."""

    def stops_asked(self) -> int:
        """The number of stop requests by the user."""


def conduct(plan: Plan, crew: Crew, folder: RunFolder, caller: Caller) -> dict[str, Any]:
    """Executes a run on all machines of a crew.

    Returns an engine's result, `record` and `failure`; the record also has `agents`.

    Raises:
        KvmarkError: the run couldn't begin, or its records can't be written.
    """
    of = len(crew.machines)
    shares = (Share(index=index, of=of) for index in range(of))
    plans = [plan.model_copy(update={"share": share}) for share in shares]
    with tempfile.TemporaryDirectory(prefix="kvmark-fleet-") as logs:
        gathering = Gathering(plan, plans, crew.machines, folder, Path(logs))
        return _Coordinator(plan, crew, gathering, caller).conduct()


class _Coordinator:
    """One run."""

    def __init__(self, plan: Plan, crew: Crew, gathering: Gathering, caller: Caller) -> None:
        self._plan, self._crew, self._gathering = plan, crew, gathering
        self._shares = gathering.shares
        self._caller = caller
        self._begun = -1
        self._stops_sent = 0
        self._continues = True
        self._disturbed = False

    def conduct(self) -> dict[str, Any]:
        """Coordinates until each share is over."""
        self._start(0)
        renewed_s = time.monotonic()
        while not all(share.is_over for share in self._shares):
            for index, report in self._crew.reports(_POLL_S):
                self._take(index, report)
            now_s = time.monotonic()
            for index, share in enumerate(self._shares):
                silent_s = now_s - (share.heard_s or now_s)
                if share.is_running and silent_s > SILENCE_S:
                    self._crew.dismiss(index)
                    self._lose(index, f"it said nothing for {silent_s:.0f} s")
            if now_s - renewed_s >= _RENEW_S:
                renewed_s = now_s
                self._send_all("renew")
            self._send_stops()
            acts = self._caller.is_disturbed()
            if acts != self._disturbed:
                self._disturbed = acts
                self._send_all("disturb", acts=acts)
            self._gathering.merge()
            phase = self._gathering.phase_to_end()
            if phase is not None:
                self._send_all("end_phase", phase=phase)
            self._begin_phase()
        if self._begun < 0:
            self._raise_problem()
        self._gathering.end_phases(self._begun)
        record = self._gathering.record(interrupted=self._stops_sent > 0)
        return {"record": record, "failure": self._failure()}

    def _take(self, index: int, report: Report) -> None:
        share = self._shares[index]
        if share.is_over:
            return
        if report.problem is not None and report.problem[0] == GeneratorDied.__name__:
            self._lose(index, report.problem[1])
            return
        self._gathering.take(index, report)
        if report.progress is not None:
            progress = self._gathering.progress()
            if progress is not None:
                self._caller.progress(progress)
        if report.waits_for is not None and self._continues:
            # The first agent has created the system's missing tables: others may open it now.
            for other, waiting in enumerate(self._shares):
                if waiting.heard_s is None:
                    self._start(other)
        if share.failure is not None:
            self._end_all()
        elif share.result is not None and share.result["record"]["interrupted"] and self._continues:
            self._lose(index, "it gave up, having heard nothing for long")

    def _start(self, index: int) -> None:
        self._shares[index].heard_s = time.monotonic()
        self._crew.start(index, self._shares[index].plan)

    def _lose(self, index: int, reason: str) -> None:
        self._gathering.lose(index, reason, self._begun)
        if self._begun < 0:
            # Without one of its shares, the run would measure something else.
            self._end_all()

    def _send_stops(self) -> None:
        """Sends new stop requests of the user, or the first one of the caller."""
        requests = self._crew.stops_asked()
        if requests == self._stops_sent == 0 and not self._caller.may_go_on():
            requests = 1
        while self._stops_sent < requests:
            if self._stops_sent == 0:
                self._gathering.write_event("interrupted")
            self._stops_sent += 1
            self._end_all()

    def _end_all(self) -> None:
        self._continues = False
        self._send_all("stop")
        for index, share in enumerate(self._shares):
            if share.heard_s is None and not share.is_over:
                self._gathering.leave_out(index)

    def _begin_phase(self) -> None:
        """Sets the start of the next phase when all remaining agents wait for it."""
        phase = self._begun + 1
        living = [share for share in self._shares if not share.is_over]
        if not self._continues or not living or any(share.waits_for != phase for share in living):
            return
        self._gathering.end_phases(self._begun)
        name = self._plan.phases[phase].name
        may_begin = self._caller.may_begin
        if may_begin is not None and not may_begin(name):
            return
        wall_ns = time.time_ns() + LEAD_NS
        self._begun = phase
        self._gathering.begin(phase, wall_ns)
        for index, share in enumerate(self._shares):
            if not share.is_over:
                own_ns = wall_ns + share.machine.clock_offset_ns
                self._crew.send(index, "begin", phase=phase, wall_ns=own_ns)

    def _raise_problem(self) -> None:
        """Raises the reason why the first phase didn't begin."""
        failure = self._failure()
        if failure is not None and failure["kind"] != FleetError.__name__:
            error: type[KvmarkError] = getattr(errors, failure["kind"])
            raise error(failure["message"])
        for share in self._shares:
            if share.lost is not None:
                raise FleetError(
                    f"the machine {share.machine.name} was lost before the run began"
                    f" ({share.lost[0]}); bring it back, or continue with the others"
                )

    def _failure(self) -> dict[str, str] | None:
        for share in self._shares:
            if share.failure is not None and share.heard_s is not None:
                kind, text = share.failure
                return {"kind": kind, "message": f"{share.machine.name}: {text}"}
        if all(share.lost is not None for share in self._shares):
            return {"kind": "FleetError", "message": "every machine of the fleet was lost"}
        return None

    def _send_all(self, command: Command, **arguments: int) -> None:
        for index, share in enumerate(self._shares):
            if share.is_running:
                self._crew.send(index, command, **arguments)


def clock_offset(
    read_ns: Callable[[], int],
    round_trips: int = _ROUND_TRIPS,
    now_ns: Callable[[], int] = time.time_ns,
) -> tuple[int, int]:
    """The other clock minus this one by the quickest of several round trips, and its duration.

    The clock is taken to be read in the middle of the round trip, so the error is at most half of
    it (Cristian 1989).
    """
    readings = ((now_ns(), read_ns(), now_ns()) for _ in range(round_trips))
    before_ns, theirs_ns, after_ns = min(readings, key=lambda one: one[2] - one[0])
    return theirs_ns - (before_ns + after_ns) // 2, after_ns - before_ns
