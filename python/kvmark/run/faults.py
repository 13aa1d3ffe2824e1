"""The servers of a plan's system, and the faults that are planned for them.

A thread begins and ends faults while a run goes. The engine's log has the start of the measurement.
Each fault is an event of the run: when it began, when it ended, or why it failed. When the context
ends, all servers are restored; if this process is killed before, a `FaultGuard` restores them.
Writes are verified only when all servers work together again, or when the time for it is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.records.files import Tail
from kvmark.spec.faults import FaultSpec
from kvmark.testbed import control
from kvmark.testbed.control import FaultGuard
from kvmark.testbed.state import Testbed, owner_of
from kvmark.testbed.system import system_of

State = Literal["begun", "ended", "failed", "not_reached"]

_START_POLL_S: Final = 0.01
_END_POLL_S: Final = 0.1
_HEALTH_POLL_S: Final = 1.0


class Faults:
    """Breaks servers of a testbed as planned, while its context lasts."""

    def __init__(
        self,
        faults: Sequence[FaultSpec],
        testbed: Testbed | None,
        folder: RunFolder,
        limit_ns: int | None,
    ) -> None:
        self._faults = faults
        self._testbed = testbed
        self._folder = folder
        self._limit_ns = limit_ns
        self._origin_wall_ns = 0
        self._measure_wall_ns = 0
        self._acting: dict[str, FaultSpec] = {}
        self._last: FaultSpec | None = None
        self._log = Tail(folder.events)
        self._has_ended = False
        self._guard = FaultGuard(None if testbed is None else testbed.folder)
        self._over = threading.Event()
        self._settled = threading.Event()
        # Not a daemon: the servers are restored even after a second interrupt.
        self._thread = threading.Thread(target=self._run, name="kvmark-faults")

    def __enter__(self) -> Self:
        """Starts the guard and the thread.

        Raises:
            SystemUnderTestError: the guard doesn't start.
        """
        self._guard.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns when all servers are restored."""
        self._over.set()
        self._thread.join()
        self._guard.__exit__()

    def acts(self) -> bool:
        """Whether a server is broken, or being broken or restored."""
        return bool(self._acting)

    def may_begin(self, phase: str) -> bool:
        """Whether the servers are ready for this phase."""
        return phase != "verify" or self._settled.is_set()

    def _run(self) -> None:
        todo = sorted(self._steps(), key=lambda step: (*step[:2], _is_promotion(step[2])))
        try:
            if self._wait_for_measurement():
                while todo and self._wait_until(todo[0][0]):
                    _, begins, fault = todo.pop(0)
                    (self._begin if begins else self._end)(fault)
        finally:
            for fault in sorted(self._acting.values(), key=_is_promotion):
                self._end(fault)
            for _, begins, fault in todo:
                if begins:
                    self._write(fault, "not_reached", "the run was over before")
            try:
                if self._last is not None:
                    self._wait_until_healthy(self._last)
            finally:
                self._settled.set()

    def _steps(self) -> Iterator[tuple[int, bool, FaultSpec]]:
        """Instants of faults, and whether each begins or ends then."""
        for fault in self._faults:
            yield fault.at_ns, True, fault
            end_ns = self._limit_ns if fault.end_ns is None else fault.end_ns
            if end_ns is not None and end_ns > fault.at_ns:
                yield end_ns, False, fault

    def _measurement_is_over(self) -> bool:
        """Reads the run's instants from new lines of its log, and the end of its measurement."""
        for event in self._log.objects():
            match event:
                case {"kind": "opened"}:
                    self._origin_wall_ns = int(event["started_wall_ns"])
                case {"kind": "phase_started", "name": "measure"}:
                    self._measure_wall_ns = self._origin_wall_ns + int(event["at_ns"])
                case {"kind": "phase_ended", "name": "measure"} | {"kind": "interrupted"}:
                    self._has_ended = True
        return self._has_ended

    def _wait_for_measurement(self) -> bool:
        """Waits until the run measures; False if it ended before."""
        self._measurement_is_over()
        while not self._measure_wall_ns and not self._over.wait(_START_POLL_S):
            self._measurement_is_over()
        return self._measure_wall_ns > 0

    def _wait_until(self, at_ns: int) -> bool:
        """Waits for an instant of the measurement; False as soon as the measurement is over.

        An interrupted engine waits for operations in flight, so its servers must be restored.
        """
        while (left_s := (self._measure_wall_ns + at_ns - time.time_ns()) / 1e9) > 0:
            if self._over.wait(min(left_s, _END_POLL_S)) or self._measurement_is_over():
                return False
        return not (self._over.is_set() or self._measurement_is_over())

    def _begin(self, fault: FaultSpec) -> None:
        self._guard.note(fault, acts=True)
        self._acting[fault.target] = fault
        at_wall_ns, output = time.time_ns(), ""
        try:
            if fault.command is not None:
                output = control.carry_out(fault.command)
            elif self._testbed is None or not control.begin_fault(self._testbed, fault):
                raise SystemUnderTestError("the server had ended by itself")
        except (KvmarkError, OSError) as failed:
            self._write(fault, "failed", str(failed))
            if fault.undo is None:
                self._forget(fault)
            else:
                # It may have done a part of its work.
                self._end(fault)
            return
        self._write(fault, "begun", at_wall_ns=at_wall_ns, output=output)
        if fault.end_ns == fault.at_ns:
            self._end(fault)

    def _end(self, fault: FaultSpec) -> None:
        """Restores a server if it is broken."""
        if fault.target not in self._acting:
            return
        output = ""
        try:
            if fault.undo is not None:
                output = control.carry_out(fault.undo)
            elif fault.command is None and self._testbed is not None:
                self._last = fault
                restored = control.end_fault(self._testbed, fault)
                if restored is None:
                    raise SystemUnderTestError("it ended while it was paused")
                self._testbed = restored
        except (KvmarkError, OSError) as problem:
            what = "the server isn't back" if fault.command is None else "its undo failed"
            self._write(fault, "failed", f"{what}: {problem}")
            return
        finally:
            self._forget(fault)
        self._write(fault, "ended", output=output)

    def _forget(self, fault: FaultSpec) -> None:
        """A fault that doesn't act any more."""
        del self._acting[fault.target]
        self._guard.note(fault, acts=False)

    def _wait_until_healthy(self, fault: FaultSpec) -> None:
        """Waits up to the system's start time, but not after the end of the run."""
        testbed = self._testbed
        if testbed is None:
            return
        deadline_s = time.monotonic() + system_of(testbed).healthy_within_s
        while not self._over.is_set():
            try:
                control.wait_until_healthy(testbed, _HEALTH_POLL_S)
            except (KvmarkError, OSError) as problem:
                if testbed.lives and time.monotonic() < deadline_s:
                    continue
                self._write(fault, "failed", f"the servers don't work together again: {problem}")
            return

    def _write(
        self,
        fault: FaultSpec,
        state: State,
        problem: str = "",
        at_wall_ns: int | None = None,
        output: str = "",
    ) -> None:
        """Writes an event, if the measurement has begun."""
        if not self._measure_wall_ns:
            return
        at_wall_ns = at_wall_ns or time.time_ns()
        event: dict[str, Any] = {
            "at_ns": at_wall_ns - self._origin_wall_ns,
            "kind": "fault",
            "fault": fault.text,
            "state": state,
            "do": fault.do,
            "node": fault.target,
            "at_wall_ns": at_wall_ns,
            **({"problem": problem} if problem else {}),
            **({"output": output} if output else {}),
        }
        # A disk error also stops the engine, which reports it.
        with suppress(KvmarkError):
            self._folder.append_event(event)


def _is_promotion(fault: FaultSpec) -> bool:
    """Promotions end after other faults that end at the same time, with all servers restored."""
    return fault.do == "promote"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The servers of a plan, for the manifest, the sampler and the faults."""

    testbed: Testbed | None
    description: Mapping[str, Any] | None
    """None for an embedded system, which has no server."""
    behind: Testbed | None = None
    """The system behind a proxy, if kvmark started it too."""

    @property
    def testbeds(self) -> tuple[Testbed, ...]:
        """All testbeds whose servers are part of the measurement."""
        return tuple(one for one in (self.testbed, self.behind) if one is not None)

    def check_names(self, observed: Sequence[str]) -> None:
        """Refuses observed servers with the name of a testbed's server.

        Raises:
            UsageError: names one.
        """
        own = {node.name for testbed in self.testbeds for node in testbed.nodes}
        for name in own.intersection(observed):
            raise UsageError(f"observe: the testbed has a server {name}; give another NAME=SOURCE")

    def check_faults(self, faults: Sequence[FaultSpec]) -> None:
        """Refuses faults that aren't possible here, before anything begins.

        Raises:
            UsageError: names the fault and the reason.
        """
        for fault in faults:
            try:
                control.check_fault(self.testbed, fault)
            except UsageError as problem:
                raise UsageError(f"fault '{fault.text}': {problem}") from None


def find_servers(plan: Plan) -> ServerInfo:
    """Finds the testbed that a plan's address belongs to.

    Raises:
        SystemUnderTestError: its servers don't return their settings.
    """
    address = plan.system.options.get("address")
    if not isinstance(address, str):
        return ServerInfo(None, None)
    try:
        testbed = owner_of(address)
        reason = f"no testbed in use here has a server at {address}"
    except SystemUnderTestError as problem:
        # Damage of another testbed doesn't prevent the measurement.
        testbed, reason = None, str(problem)
    if testbed is None:
        return ServerInfo(None, {"observed": False, "reason": reason})
    description = {"observed": True, **control.describe(testbed)}
    if "behind" not in testbed.facts:
        return ServerInfo(testbed, description)
    behind = owner_of(testbed.facts["behind"])
    observed = (
        {"observed": False} if behind is None else {"observed": True, **control.describe(behind)}
    )
    return ServerInfo(testbed, {**description, "behind": observed}, behind)
