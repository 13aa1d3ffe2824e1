"""One generator on one machine of a fleet, and what it tells the coordinator while it goes.

It writes its records to a folder of its own; each time it says how it goes, and each time it waits
for a phase to begin, the lines that are new there are reported. It is written for Ray, and knows
nothing of it.

An agent goes on only while its lease is renewed: when the coordinator is gone, the load stops.

Tapes are sent to its machine once, by who made them, and kept in the cache.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import psutil

import kvmark
from kvmark import _engine
from kvmark.errors import KvmarkError
from kvmark.plan.model import OnTape, Plan
from kvmark.records import files
from kvmark.records.files import Tail
from kvmark.removal import remove_file
from kvmark.run.generator import Caller, LocalGenerator
from kvmark.run.sampler import sample
from kvmark.run.setting import engine_overhead
from kvmark.secret import Secret
from kvmark.testbed.host import describe_host
from kvmark.trace import tapes_folder

LEASE_S: Final = 10.0
"""How long an agent goes on after it last heard of the coordinator: a hung host isn't told from a
slow one sooner."""
BEAT_S: Final = 1.0
"""An agent reports at least so often."""

_PIECE_BYTES: Final = 8 << 20


def version() -> str:
    """What must be the same on all machines."""
    return f"{kvmark.__version__} with engine {_engine.version} ({_engine.build_profile})"


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent has to tell; the last one has a result or a problem."""

    #: Whole lines since the last report, as the engine wrote them.
    intervals: bytes = b""
    histograms: bytes = b""
    events: bytes = b""
    #: The engine's progress, when it told of it.
    progress: Mapping[str, Any] | None = None
    #: Index of the phase before which the engine waits.
    waits_for: int | None = None
    #: A sample of what the process uses.
    resources: Mapping[str, Any] | None = None
    #: What the engine returned.
    result: Mapping[str, Any] | None = None
    #: Why the engine couldn't begin: the name of an error and its sentence.
    problem: tuple[str, str] | None = None

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.result is not None or self.problem is not None


class Agent:
    """Carries out one run after the other. Everything but `run` may be called while it goes."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self.generator = LocalGenerator()
        self._lease_s = lease_s
        self._renewed_s = time.monotonic()
        self._instants: dict[int, int] = {}
        self._stops = 0
        self._ended_phase: int | None = None
        self._disturbed = False

    def describe(self, calibration: str) -> dict[str, Any]:
        """The machine, what the engine costs there with this plan, and kvmark's version."""
        # Before the calibration, which another agent on this machine would take for other programs.
        host = describe_host()
        plan = _with_own_tapes(Plan.from_json(calibration))
        overhead = engine_overhead(plan, self.generator)
        return {"host": {**host, **overhead}, "version": version()}

    def lacks_tape(self, name: str, size_bytes: int) -> bool:
        """Whether a tape has to be sent to this machine."""
        return _lacks(name, size_bytes)

    def take_piece(self, piece: Piece) -> None:
        """Keeps the next piece of a tape.

        Raises:
            OSError: it can't be written.
        """
        _take(piece)

    def wall_ns(self) -> int:
        """The machine's wall time since the Unix epoch."""
        return time.time_ns()

    def renew(self) -> None:
        """Lets the agent go on for as long as a lease lasts."""
        self._renewed_s = time.monotonic()

    def begin(self, phase: int, wall_ns: int) -> None:
        """Lets a phase begin at an instant of this machine's wall time."""
        self._instants[phase] = wall_ns

    def end_phase(self, phase: int) -> None:
        """Ends a phase; the plan goes on with the next."""
        self._ended_phase = phase

    def stop(self) -> None:
        """Ends the run as the user's interrupt would; the second time at once."""
        self._stops += 1

    def disturb(self, *, acts: bool) -> None:
        """Takes note of whether a planned fault acts, so that the system may be silent."""
        self._disturbed = acts

    def is_disturbed(self) -> bool:
        """Whether a planned fault acts."""
        return self._disturbed

    def run(self, plan: str, password: Secret | None, *, all_cores: bool) -> Iterator[Report]:
        """Carries out a share of a run; `all_cores` puts a worker on each core of this machine."""
        self._renewed_s = time.monotonic()
        self._instants, self._stops = {}, 0
        self._ended_phase, self._disturbed = None, False
        own = _with_own_tapes(Plan.from_json(plan))
        if all_cores:
            own = own.model_copy(update={"workers": len(os.sched_getaffinity(0))})
        with tempfile.TemporaryDirectory(prefix="kvmark-agent-") as folder:
            engine = _Engine(self, Path(folder))
            process = psutil.Process(self.generator.pid)
            thread = threading.Thread(
                target=engine.run, args=(own.to_json(), password), name="kvmark-agent", daemon=True
            )
            thread.start()
            yield from _with_samples(engine.reports, process)
            thread.join()

    def may_begin(self, phase: int) -> bool | int:
        """When a phase may begin; false while that isn't known."""
        return self._instants.get(phase, False)

    def ended_phase(self) -> int | None:
        """Index of the newest phase that was ended from outside."""
        return self._ended_phase

    def stops(self) -> int:
        """How often the run is to stop: when it was told so, or when nobody wants it any more."""
        if time.monotonic() - self._renewed_s > self._lease_s:
            self._stops = max(self._stops, 1)
        return self._stops


class _Engine:
    """One run of the generator, led by a thread of its own."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.reports: SimpleQueue[Report] = SimpleQueue()
        self._agent = agent
        self._folder = folder
        names = (files.INTERVAL_LOG, files.HISTOGRAMS, files.EVENTS)
        self._logs = tuple(Tail(folder / name) for name in names)
        self._begun = 0
        #: The phase that was asked for last, and its name.
        self._asked = (-1, "")

    def run(self, plan: str, password: Secret | None) -> None:
        """Carries out the plan; whatever comes of it is reported."""
        agent = self._agent
        try:
            answer = agent.generator.run(
                plan,
                self._folder,
                Caller(
                    self._told,
                    self._may_begin,
                    is_disturbed=agent.is_disturbed,
                    ended_phase=agent.ended_phase,
                ),
                agent.stops,
                password,
            )
            self._report(result=answer)
        except KvmarkError as problem:
            self._report(problem=(type(problem).__name__, str(problem)))
        except BaseException as problem:  # noqa: BLE001 - the coordinator must hear of it
            self._report(problem=("RunError", f"the engine stopped: {problem!r}"))

    def _told(self, progress: Mapping[str, Any]) -> None:
        # Whole lines are there when progress is told of them.
        self._report(progress=progress)

    def _may_begin(self, name: str) -> bool | int:
        if self._logs[-1].has_new:
            self._report()
        # Leave to measure is asked for before the warm-up that goes over into it has begun.
        if self._asked[0] < self._begun or self._asked[1] != name:
            self._asked = (max(self._begun, self._asked[0] + 1), name)
            self._report(waits_for=self._asked[0])
        return self._agent.may_begin(self._asked[0])

    def _report(self, **told: Any) -> None:
        intervals, histograms, events = (log.whole() for log in self._logs)
        self._begun += sum(map(_begins_phase, events.splitlines()))
        self.reports.put(Report(intervals, histograms, events, **told))


def _begins_phase(line: bytes) -> bool:
    return json.loads(line).get("kind") in {"phase_started", "phase_skipped"}


def _with_samples(reports: SimpleQueue[Report], process: psutil.Process) -> Iterator[Report]:
    """The reports up to the last one, and once a second what a process uses."""
    next_s = time.monotonic()
    while True:
        if time.monotonic() >= next_s:
            next_s += BEAT_S
            with suppress(psutil.NoSuchProcess):
                yield Report(resources=sample(process))
        try:
            report = reports.get(timeout=max(next_s - time.monotonic(), 0.001))
        except Empty:
            continue
        with suppress(Empty):
            while not report.is_last:
                report = _together(report, reports.get_nowait())
        yield report
        if report.is_last:
            return


def _together(one: Report, next_one: Report) -> Report:
    """Two reports as one: what was waiting needs one message."""
    return Report(
        intervals=one.intervals + next_one.intervals,
        histograms=one.histograms + next_one.histograms,
        events=one.events + next_one.events,
        progress=next_one.progress or one.progress,
        waits_for=one.waits_for if next_one.waits_for is None else next_one.waits_for,
        result=next_one.result,
        problem=next_one.problem,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a tape."""

    name: str
    """Of the tape's file."""
    offset: int
    data: bytes
    is_last: bool


def tapes_of(plan: Plan) -> tuple[Path, ...]:
    """The tapes that a plan needs."""
    arrivals = (group.arrival for group in plan.groups)
    return tuple(Path(one.path) for one in arrivals if isinstance(one, OnTape))


def pieces(tape: Path) -> Iterator[Piece]:
    """A tape in pieces, one at least."""
    with tape.open("rb") as file:
        size, offset = os.fstat(file.fileno()).st_size, 0
        while offset < size or not offset:
            data = file.read(_PIECE_BYTES)
            yield Piece(tape.name, offset, data, is_last=offset + len(data) >= size)
            offset += max(len(data), 1)


def _lacks(name: str, size_bytes: int) -> bool:
    """Whether this machine has no such tape."""
    try:
        return _own(name).stat().st_size != size_bytes
    except OSError:
        return True


def _take(piece: Piece) -> None:
    """Writes the next piece of a tape, which has its name once it is whole.

    Raises:
        OSError: it can't be written.
    """
    own = _own(piece.name)
    # Several agents of one machine may be sent the same.
    beside = own.with_suffix(f".{os.getpid()}")
    try:
        own.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("r+b" if piece.offset else "wb") as file:
            file.seek(piece.offset)
            file.write(piece.data)
        if piece.is_last:
            beside.rename(own)
    except OSError:
        with suppress(OSError):
            remove_file(beside)
        raise


def _with_own_tapes(plan: Plan) -> Plan:
    """The plan with the tapes of this machine in the place of those of who made it."""
    groups = tuple(
        group.model_copy(update={"arrival": _with_own(group.arrival)})
        if isinstance(group.arrival, OnTape)
        else group
        for group in plan.groups
    )
    return plan.model_copy(update={"groups": groups})


def _with_own(arrival: OnTape) -> OnTape:
    own = _own(Path(arrival.path).name)
    return arrival.model_copy(update={"path": str(own)}) if own.exists() else arrival


def _own(name: str) -> Path:
    return tapes_folder() / Path(name).name
