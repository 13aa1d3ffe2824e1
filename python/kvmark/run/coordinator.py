"""Leads a run on several machines: who begins when, who is still there, and when all must end.

It knows nothing of Ray: a crew is agents that can be asked for reports and told what to do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from kvmark import errors
from kvmark.errors import FleetError, GeneratorDied, KvmarkError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.run.agent import Report
from kvmark.run.gathering import Gathering, Machine
from kvmark.run.generator import Caller
from kvmark.run.shares import divided

LEAD_NS: Final = 250_000_000
"""From agreeing on an instant to the instant: engines look every 50 ms and ask the system for its
counters before it, and messages take a few milliseconds."""
SILENCE_S: Final = 10.0
"""An agent that said nothing for so long is lost; it has something to say every second."""
_RENEW_S: Final = 1.0
_LOOK_S: Final = 0.05

ASKED: Final = 20
"""How often a clock is asked: of so many round trips one is nearly undisturbed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An agent that won't say anything any more, and why."""

    reason: str


class Crew(Protocol):
    """The agents, by share."""

    @property
    def machines(self) -> Sequence[Machine]:
        """One for each share."""

    def start(self, share: int, plan: Plan) -> None:
        """Lets an agent carry out its share."""

    def reports(self, timeout_s: float) -> Sequence[tuple[int, Report | Lost]]:
        """What agents have to tell, in each one's order; waits for it so long at most."""

    def begin(self, share: int, phase: int, wall_ns: int) -> None:
        """Tells an agent when a phase begins, in its own wall time."""

    def end_phase(self, share: int, phase: int) -> None:
        """Ends a phase of an agent's run."""

    def renew(self, share: int) -> None:
        """Lets an agent go on."""

    def stop(self, share: int) -> None:
        """Ends an agent's run; the second time at once."""

    def disturb(self, share: int, *, acts: bool) -> None:
        """Tells an agent whether a planned fault acts."""

    def dismiss(self, share: int) -> None:
        """Ends an agent that is taken for lost, whatever it does."""

    def stops_asked(self) -> int:
        """How often the user has asked to stop."""


def conduct(plan: Plan, crew: Crew, folder: RunFolder, caller: Caller) -> dict[str, Any]:
    """Carries out a run on all machines of a crew.

    Returns what an engine returns, `record` and `failure`; the record has `agents` too.

    Raises:
        KvmarkError: the run couldn't begin, or its records can't be written.
    """
    plans = divided(plan, len(crew.machines))
    with tempfile.TemporaryDirectory(prefix="kvmark-fleet-") as logs:
        gathering = Gathering(plan, plans, crew.machines, folder, Path(logs))
        return _Coordinator(plan, crew, gathering, caller).conduct()


class _Coordinator:
    """One run, from its first agent to its record."""

    def __init__(self, plan: Plan, crew: Crew, gathering: Gathering, caller: Caller) -> None:
        self._plan, self._crew, self._gathering = plan, crew, gathering
        self._shares = gathering.shares
        self._caller = caller
        self._begun = -1
        self._stops_passed_on = 0
        self._goes_on = True
        self._disturbed = False

    def conduct(self) -> dict[str, Any]:
        """Leads until each share is over."""
        self._start(0)
        renewed_s = time.monotonic()
        while not all(share.is_over for share in self._shares):
            for index, told in self._crew.reports(_LOOK_S):
                self._take(index, told)
            now_s = time.monotonic()
            self._miss_silent(now_s)
            if now_s - renewed_s >= _RENEW_S:
                renewed_s = now_s
                self._each_that_goes(self._crew.renew)
            self._pass_on_stops()
            self._pass_on_faults()
            self._gathering.merge()
            self._end_by_rule()
            self._let_begin()
        return self._answer()

    def _take(self, index: int, told: Report | Lost) -> None:
        share = self._shares[index]
        if share.is_over:
            return
        if isinstance(told, Lost):
            self._lose(index, told.reason)
            return
        if told.problem is not None and told.problem[0] == GeneratorDied.__name__:
            self._lose(index, told.problem[1])
            return
        self._gathering.take(index, told)
        if told.progress is not None:
            shown = self._gathering.progress()
            if shown is not None:
                self._caller.progress(shown)
        if told.waits_for is not None and self._goes_on:
            # The first has made what was missing of the system's tables: others may open it now.
            for other, waiting in enumerate(self._shares):
                if waiting.heard_s is None:
                    self._start(other)
        if share.failure is not None:
            self._end_all()
        elif share.result is not None and share.result["record"]["interrupted"] and self._goes_on:
            self._lose(index, "it gave up, having heard nothing for long")

    def _start(self, index: int) -> None:
        self._shares[index].heard_s = time.monotonic()
        self._crew.start(index, self._shares[index].plan)

    def _miss_silent(self, now_s: float) -> None:
        for index, share in enumerate(self._shares):
            silent_s = now_s - (share.heard_s or now_s)
            if share.goes and silent_s > SILENCE_S:
                self._crew.dismiss(index)
                self._lose(index, f"it said nothing for {silent_s:.0f} s")

    def _lose(self, index: int, reason: str) -> None:
        self._gathering.lose(index, reason, self._begun)
        if self._begun < 0:
            # Nothing is measured yet, and what began without a share would measure something else.
            self._end_all()

    def _pass_on_stops(self) -> None:
        """Lets the agents know how often the user, or once the caller, asked to stop."""
        asked = self._crew.stops_asked()
        may_go_on = self._caller.may_go_on
        # What the user wants goes before what the caller wants.
        if asked == self._stops_passed_on == 0 and may_go_on is not None and not may_go_on():
            asked = 1
        while self._stops_passed_on < asked:
            if self._stops_passed_on == 0:
                self._gathering.write_event("interrupted")
            self._stops_passed_on += 1
            self._end_all()

    def _pass_on_faults(self) -> None:
        """Lets the agents know whether a planned fault acts."""
        is_disturbed = self._caller.is_disturbed
        acts = is_disturbed is not None and is_disturbed()
        if acts != self._disturbed:
            self._disturbed = acts
            self._each_that_goes(lambda share: self._crew.disturb(share, acts=acts))

    def _end_all(self) -> None:
        self._goes_on = False
        self._each_that_goes(self._crew.stop)
        for index, share in enumerate(self._shares):
            if share.heard_s is None and not share.is_over:
                self._gathering.leave_out(index)

    def _end_by_rule(self) -> None:
        """Ends a phase whose rule is met by the throughput of all machines together."""
        phase = self._gathering.phase_to_end()
        if phase is not None:
            self._each_that_goes(lambda index: self._crew.end_phase(index, phase))

    def _let_begin(self) -> None:
        """Agrees on the instant of the next phase when all that are left wait for it."""
        phase = self._begun + 1
        living = [share for share in self._shares if not share.is_over]
        if not self._goes_on or not living or any(share.waits_for != phase for share in living):
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
                self._crew.begin(index, phase, wall_ns + share.machine.clock_offset_ns)

    def _answer(self) -> dict[str, Any]:
        self._raise_if_not_begun()
        self._gathering.end_phases(self._begun)
        record = self._gathering.record(interrupted=self._stops_passed_on > 0)
        return {"record": record, "failure": self._failure()}

    def _raise_if_not_begun(self) -> None:
        """Raises what kept the first phase from beginning."""
        if self._begun >= 0:
            return
        for share in self._shares:
            if share.failure is not None and share.heard_s is not None:
                kind, text = share.failure
                raise _error(kind, f"{share.machine.name}: {text}")
        for share in self._shares:
            if share.lost is not None:
                raise FleetError(
                    f"the machine {share.machine.name} was lost before the run began"
                    f" ({share.lost[0]}); bring it back, or go on with those that are left"
                )

    def _failure(self) -> dict[str, str] | None:
        for share in self._shares:
            if share.failure is not None and share.heard_s is not None:
                kind, text = share.failure
                return {"kind": kind, "message": f"{share.machine.name}: {text}"}
        if all(share.lost is not None for share in self._shares):
            return {"kind": "FleetError", "message": "every machine of the fleet was lost"}
        return None

    def _each_that_goes(self, tell: Callable[[int], None]) -> None:
        for index, share in enumerate(self._shares):
            if share.goes:
                tell(index)


def _error(kind: str, text: str) -> KvmarkError:
    found: type[KvmarkError] = getattr(errors, kind)
    return found(text)


@dataclass(frozen=True, slots=True)
class Offset:
    """The other clock minus this one, and the round trip by which that is known.

    The other clock was read at some instant of the round trip. Taken as its middle, the offset is
    off by half the round trip at most.
    """

    offset_ns: int
    round_trip_ns: int


def clock_offset(
    ask: Callable[[], int], asked: int = ASKED, now_ns: Callable[[], int] = time.time_ns
) -> Offset:
    """The offset by the quickest of several round trips (Cristian 1989); `ask` reads the clock."""
    return min((_once(ask, now_ns) for _ in range(asked)), key=lambda one: one.round_trip_ns)


def _once(ask: Callable[[], int], now_ns: Callable[[], int]) -> Offset:
    before_ns = now_ns()
    theirs_ns = ask()
    after_ns = now_ns()
    return Offset(theirs_ns - (before_ns + after_ns) // 2, after_ns - before_ns)
