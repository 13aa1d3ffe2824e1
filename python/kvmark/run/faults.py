"""Who serves a plan's system, and the faults that are planned for it.

Faults are carried out while a run goes, on a thread of its own. The engine's own log says when the
phase that measures began. Each fault is written down as events of the run: when it really began,
when it was over, or why it wasn't carried out. Whatever ends the run, each server is back when the
context is left, and if this process is killed before, another one brings them back. What was
written is read back only when all of them work together again, or didn't within the time that their
system is given for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder, read_events
from kvmark.spec.faults import FaultSpec
from kvmark.testbed import control
from kvmark.testbed.control import check_disturbance, describe, promotion_of
from kvmark.testbed.network import Disturbance
from kvmark.testbed.rescue import Broken, Rescue
from kvmark.testbed.state import Testbed, owner_of
from kvmark.testbed.systems import system_of

State = Literal["begun", "ended", "failed", "not_reached"]

_LOOK_S: Final = 0.01
_LOOK_MEANWHILE_S: Final = 0.1
_LOOK_HEALTHY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Origin:
    """The wall time at which a run's instants count from, and where its measurement begins."""

    wall_ns: int
    measure_ns: int

    def until_s(self, at_ns: int) -> float:
        """Seconds from now to an instant of the measurement."""
        return (self.wall_ns + self.measure_ns + at_ns - time.time_ns()) / 1e9


@dataclass(frozen=True, slots=True)
class _Step:
    at_ns: int
    fault: FaultSpec
    #: Whether the server is broken or brought back.
    breaks: bool


class Faults:
    """Breaks servers of a testbed as planned, in a context in which the run goes."""

    def __init__(
        self,
        faults: Sequence[FaultSpec],
        testbed: Testbed,
        folder: RunFolder,
        limit_ns: int | None,
    ) -> None:
        self._faults = faults
        self._testbed = testbed
        self._folder = folder
        self._limit_ns = limit_ns
        self._origin: _Origin | None = None
        self._broken: dict[str, FaultSpec] = {}
        self._acting = False
        self._last: FaultSpec | None = None
        self._log_bytes = 0
        self._rescue = Rescue(testbed.folder)
        self._over = threading.Event()
        self._settled = threading.Event()
        # Not a daemon: even when the user is impatient, the servers are brought back first.
        self._thread = threading.Thread(target=self._carry_out, name="kvmark-faults")

    def __enter__(self) -> Self:
        """Begins to wait for the measurement.

        Raises:
            SystemUnderTestError: nobody would bring the servers back if this process were killed.
        """
        self._rescue.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns when all servers are back."""
        self._over.set()
        self._thread.join()
        self._rescue.__exit__()

    def acts(self) -> bool:
        """Whether a server is broken, or being broken or brought back."""
        return self._acting

    def may_begin(self, phase: str) -> bool:
        """Whether the servers are as that phase of the run needs them."""
        return phase != "verify" or self._settled.is_set()

    def _carry_out(self) -> None:
        todo = sorted(self._steps(), key=_turn)
        try:
            self._origin = self._wait_for_measurement()
            while todo and self._origin is not None:
                if not self._wait_until(self._origin, todo[0].at_ns):
                    break
                step = todo.pop(0)
                (self._break if step.breaks else self._mend)(step.fault)
        finally:
            for fault in sorted(self._broken.values(), key=_is_promotion):
                self._mend(fault)
            for step in todo:
                if step.breaks:
                    self._write(step.fault, "not_reached", "the run was over before")
            self._settle()

    def _steps(self) -> Iterator[_Step]:
        for fault in self._faults:
            yield _Step(fault.at_ns, fault, breaks=True)
            end_ns = self._limit_ns if fault.end_ns is None else fault.end_ns
            if end_ns is not None and end_ns > fault.at_ns:
                yield _Step(end_ns, fault, breaks=False)

    def _wait_for_measurement(self) -> _Origin | None:
        """The origin as the engine wrote it; None when the run ended before it measured."""
        while True:
            events = read_events(self._folder.events)
            opened = next((each for each in events if each.get("kind") == "opened"), None)
            begun = next((each for each in events if _begins_measurement(each)), None)
            if opened is not None and begun is not None:
                return _Origin(int(opened["started_wall_ns"]), int(begun["at_ns"]))
            if self._over.wait(_LOOK_S):
                return None

    def _wait_until(self, origin: _Origin, at_ns: int) -> bool:
        """Waits for an instant of the measurement; False as soon as that is over before.

        An interrupted engine waits for what is in flight: its servers must be back for that.
        """
        while (left_s := origin.until_s(at_ns)) > 0:
            if self._over.wait(min(left_s, _LOOK_MEANWHILE_S)) or self._measurement_is_over():
                return False
        return not (self._over.is_set() or self._measurement_is_over())

    def _measurement_is_over(self) -> bool:
        """Whether the engine wrote so since the last look."""
        log_bytes = self._folder.events.stat().st_size
        if log_bytes == self._log_bytes:
            return False
        self._log_bytes = log_bytes
        return any(map(_ends_measurement, read_events(self._folder.events)))

    def _break(self, fault: FaultSpec) -> None:
        self._rescue.breaks(_broken_by(fault))
        self._acting = True
        at_wall_ns = time.time_ns()
        try:
            problem = "" if self._hit(fault) else "the server had ended by itself"
        except (KvmarkError, OSError) as failed:
            problem = str(failed)
        if problem:
            self._rescue.is_back(_broken_by(fault))
            self._acting = bool(self._broken)
            self._write(fault, "failed", problem)
            return
        self._broken[fault.node] = fault
        self._write(fault, "begun", at_wall_ns=at_wall_ns)
        if fault.end_ns == fault.at_ns:
            self._mend(fault)

    def _hit(self, fault: FaultSpec) -> bool:
        match fault.do:
            case "pause":
                return control.pause_node(self._testbed, fault.node)
            case "kill":
                return control.kill_node(self._testbed, fault.node)
            case "restart":
                return control.stop_node(self._testbed, fault.node)
            case "promote":
                control.promotion_of(self._testbed).begin(self._testbed, fault.node)
                return True
            case "delay" | "loss" | "partition":
                return control.disturb_link(self._testbed, fault.node, _disturbance_of(fault))

    def _mend(self, fault: FaultSpec) -> None:
        """Brings a server back; one that wasn't broken is left as it is."""
        if self._broken.pop(fault.node, None) is None:
            return
        self._last = fault
        try:
            if fault.is_of_link:
                control.heal_link(self._testbed, fault.node, _disturbance_of(fault))
            elif fault.do == "promote":
                control.promotion_of(self._testbed).end(self._testbed, fault.node)
            elif fault.do != "pause":
                self._testbed = control.restart_node(self._testbed, fault.node)
            elif not control.resume_node(self._testbed, fault.node):
                self._write(fault, "failed", "the server ended while it was paused")
                return
        except (KvmarkError, OSError) as problem:
            self._write(fault, "failed", f"the server isn't back: {problem}")
            return
        finally:
            self._rescue.is_back(_broken_by(fault))
            self._acting = bool(self._broken)
        self._write(fault, "ended")

    def _settle(self) -> None:
        """Waits until all servers work together again, and lets their records be read back."""
        try:
            if self._last is not None:
                self._wait_until_healthy(self._last)
        finally:
            self._settled.set()

    def _wait_until_healthy(self, fault: FaultSpec) -> None:
        """Waits as long as the system is given to start, but not when the run is over."""
        deadline_s = time.monotonic() + system_of(self._testbed).healthy_within_s
        while not self._over.is_set():
            try:
                control.wait_until_healthy(self._testbed, _LOOK_HEALTHY_S)
            except (KvmarkError, OSError) as problem:
                if self._testbed.lives and time.monotonic() < deadline_s:
                    continue
                self._write(fault, "failed", f"the servers don't work together again: {problem}")
            return

    def _write(
        self, fault: FaultSpec, state: State, problem: str = "", at_wall_ns: int | None = None
    ) -> None:
        """Writes an event. A disk that takes none stops the engine too, which says so."""
        if self._origin is None:
            return
        at_wall_ns = at_wall_ns or time.time_ns()
        event: dict[str, Any] = {
            "at_ns": at_wall_ns - self._origin.wall_ns,
            "kind": "fault",
            "fault": fault.text,
            "state": state,
            "do": fault.do,
            "node": fault.node,
            "at_wall_ns": at_wall_ns,
        }
        try:
            self._folder.append_event({**event, "problem": problem} if problem else event)
        except KvmarkError:
            return


def _turn(step: _Step) -> tuple[int, bool, bool]:
    return step.at_ns, step.breaks, _is_promotion(step.fault)


def _broken_by(fault: FaultSpec) -> Broken:
    """What has to be undone after a fault."""
    match fault.do:
        case "pause":
            return Broken(fault.node, "paused")
        case "kill" | "restart":
            return Broken(fault.node, "down")
        case "promote":
            return Broken(fault.node, "promoted")
        case "delay" | "loss" | "partition":
            return Broken(fault.node, "disturbed", _disturbance_of(fault))


def _is_promotion(fault: FaultSpec) -> bool:
    """Whether it ends last among those that end together: the place goes to who is there again."""
    return fault.do == "promote"


def _begins_measurement(event: dict[str, Any]) -> bool:
    return event.get("kind") == "phase_started" and event.get("name") == "measure"


def _ends_measurement(event: dict[str, Any]) -> bool:
    ended = event.get("kind") == "phase_ended" and event.get("name") == "measure"
    return ended or event.get("kind") == "interrupted"


@dataclass(frozen=True, slots=True)
class Served:
    """What is known of the servers, for the manifest, the sampler and the faults."""

    testbed: Testbed | None
    description: Mapping[str, Any] | None
    """None where the system lives in this process, so that there is no server."""
    behind: Testbed | None = None
    """The system, where the testbed is a proxy before it and it is one of ours too."""

    @property
    def testbeds(self) -> tuple[Testbed, ...]:
        """All whose servers have a part in what is measured."""
        return tuple(one for one in (self.testbed, self.behind) if one is not None)

    def check_faults(self, faults: Sequence[FaultSpec]) -> None:
        """Refuses faults that can't be carried out here, before anything begins.

        Raises:
            UsageError: no testbed serves the system, it has no server of that name, or links can't
                be disturbed here.
        """
        for fault in faults:
            if self.testbed is None:
                raise UsageError(
                    f"fault '{fault.text}': only servers that kvmark started can be broken on"
                    " purpose; start one with kvmark up and name its URL in --system"
                )
            try:
                self.testbed.node(fault.node)
                if fault.do == "promote":
                    promotion_of(self.testbed).check(self.testbed, fault.node)
                if fault.is_of_link:
                    check_disturbance(self.testbed, _disturbance_of(fault))
            except UsageError as problem:
                raise UsageError(f"fault '{fault.text}': {problem}") from None


def _disturbance_of(fault: FaultSpec) -> Disturbance:
    """What a fault of a link does to it."""
    if fault.do not in ("delay", "loss", "partition"):
        raise ValueError(f"{fault.do} is done to a process")
    return Disturbance(fault.do, fault.delay_ns, fault.loss, fault.others)


def served_by(plan: Plan) -> Served:
    """Looks for the testbed that a plan's address belongs to.

    Raises:
        SystemUnderTestError: it is there, and its servers don't say how they are set.
    """
    address = plan.system.options.get("address")
    if not isinstance(address, str):
        return Served(None, None)
    try:
        testbed = owner_of(address)
        reason = f"no testbed in use here has a server at {address}"
    except SystemUnderTestError as problem:
        # Another testbed's damage is no reason not to measure this server.
        testbed, reason = None, str(problem)
    if testbed is None:
        return Served(None, {"observed": False, "reason": reason})
    described = {"observed": True, **describe(testbed)}
    if "behind" not in testbed.facts:
        return Served(testbed, described)
    behind = owner_of(testbed.facts["behind"])
    known = {"observed": False} if behind is None else {"observed": True, **describe(behind)}
    return Served(testbed, {**described, "behind": known}, behind)
