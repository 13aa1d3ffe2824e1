"""One generator on one machine of a fleet, and its reports to the coordinator during a run.

Its records are in its own folder. Each time the engine reports progress or waits for a phase, the
new lines of the records are reported. It runs as an actor of Ray, but doesn't depend on Ray.

An agent continues only while its lease is renewed: without the coordinator, the load stops.

A tape is sent to a machine once, by the machine with the plan, and kept in the cache.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import psutil

import kvmark
from kvmark import _engine
from kvmark.cache import tapes_folder
from kvmark.errors import KvmarkError
from kvmark.plan.model import Lines, OnTape, Plan
from kvmark.records import files
from kvmark.records.files import Tail
from kvmark.removal import remove_file
from kvmark.run.context import engine_overhead
from kvmark.run.generator import Caller, LocalGenerator
from kvmark.run.sampler import sample
from kvmark.secret import Secret
from kvmark.testbed.host import describe_host

LEASE_S: Final = 10.0
"""How long an agent continues without a renewal: a shorter lease would end slow hosts too."""
_REPORT_S: Final = 1.0
"""The longest time between two reports."""

_PIECE_BYTES: Final = 8 << 20
_LOGS: Final = (files.INTERVAL_LOG, files.HISTOGRAMS, files.EVENTS)


def version() -> str:
    """The version, which must be the same on all machines."""
    return f"{kvmark.__version__} with engine {_engine.version} ({_engine.build_profile})"


@dataclass(frozen=True, slots=True)
class Report:
    """One message of an agent; the last one has a result or a problem."""

    logs: Mapping[str, bytes] = field(default_factory=lambda: dict.fromkeys(_LOGS, b""))
    """New whole lines of each log, by its name, as the engine wrote them."""
    progress: Mapping[str, Any] | None = None
    """The engine's progress, if it is new."""
    waits_for: int | None = None
    """The index of the phase for which the engine waits."""
    resources: Mapping[str, Any] | None = None
    """A sample of the process's resource usage."""
    result: Mapping[str, Any] | None = None
    """The engine's result."""
    problem: tuple[str, str] | None = None
    """Why the engine couldn't begin: the name and the text of an error."""

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.result is not None or self.problem is not None


class Agent:
    """Executes one run after the other. All methods except `run` may be called during a run."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self.generator = LocalGenerator()
        self._lease_s = lease_s
        self._reset()

    def _reset(self) -> None:
        self._renewed_s = time.monotonic()
        self.starts_ns: dict[int, int] = {}
        """By phase: its start, in this machine's wall time."""
        self._stops = 0
        self.ended_phase: int | None = None
        """The index of the last phase that was ended from outside."""
        self.is_disturbed = False
        self._reports: SimpleQueue[Report] = SimpleQueue()
        self._logs: dict[str, Tail] = {}
        self._begun = 0
        """The number of phases that have begun or were skipped."""
        self._waits_for = (-1, "")
        """The last phase that waited, and its name."""

    def describe(self, calibration: str) -> dict[str, Any]:
        """The machine, the engine's overhead there with this plan, and kvmark's version."""
        # Before the calibration, which another agent on this machine would count as other load.
        host = describe_host()
        plan = _with_local_tapes(Plan.from_json(calibration))
        overhead = engine_overhead(plan, self.generator)
        return {"host": {**host, **overhead}, "version": version()}

    def lacks_tape(self, name: str, size_bytes: int) -> bool:
        """Whether a tape has to be sent to this machine."""
        with suppress(OSError):
            return _local_tape(name).stat().st_size != size_bytes
        return True

    def take_piece(self, name: str, offset: int, data: bytes, size_bytes: int) -> None:
        """Writes the next piece of a tape, which gets its name when it has all its bytes.

        Raises:
            OSError: it can't be written.
        """
        tape = _local_tape(name)
        # Several agents on one machine may get the same tape.
        partial = tape.with_suffix(f".{os.getpid()}")
        try:
            tape.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(data)
            if offset + len(data) >= size_bytes:
                partial.rename(tape)
        except OSError:
            with suppress(OSError):
                remove_file(partial)
            raise

    def wall_ns(self) -> int:
        """The machine's wall time since the Unix epoch."""
        return time.time_ns()

    def renew(self) -> None:
        """Renews the lease."""
        self._renewed_s = time.monotonic()

    def begin(self, phase: int, wall_ns: int) -> None:
        """Sets the start of a phase, in this machine's wall time."""
        self.starts_ns[phase] = wall_ns

    def end_phase(self, phase: int) -> None:
        """Ends a phase; the plan continues with the next."""
        self.ended_phase = phase

    def stop(self) -> None:
        """Ends the run like the user's interrupt; the second call ends it at once."""
        self._stops += 1

    def disturb(self, *, acts: bool) -> None:
        """Sets whether a planned fault acts, so that the system may be silent."""
        self.is_disturbed = acts

    def run(self, plan: str, password: Secret | None, *, all_cores: bool) -> Iterator[Report]:
        """Executes a share of a run; `all_cores` puts a worker on each core of this machine."""
        self._reset()
        own = _with_local_tapes(Plan.from_json(plan))
        if all_cores:
            own = own.model_copy(update={"workers": len(os.sched_getaffinity(0))})
        with tempfile.TemporaryDirectory(prefix="kvmark-agent-") as folder:
            self._logs = {name: Tail(Path(folder) / name) for name in _LOGS}
            process = psutil.Process(self.generator.pid)
            words = (own.to_json(), Path(folder), password)
            thread = threading.Thread(
                target=self._execute, args=words, name="kvmark-agent", daemon=True
            )
            thread.start()
            yield from _with_samples(self._reports, process)
            thread.join()

    def stops(self) -> int:
        """The number of stop requests; without a lease, at least one."""
        if time.monotonic() - self._renewed_s > self._lease_s:
            self._stops = max(self._stops, 1)
        return self._stops

    def _execute(self, plan: str, folder: Path, password: Secret | None) -> None:
        """Executes the plan, and reports its result or problem."""
        caller = Caller(
            # The logs have whole lines when progress is reported.
            lambda progress: self._report(progress=progress),
            self._may_begin,
            is_disturbed=lambda: self.is_disturbed,
            ended_phase=lambda: self.ended_phase,
            password=password,
        )
        try:
            result = self.generator.run(plan, folder, caller, self.stops)
            self._report(result=result)
        except KvmarkError as problem:
            self._report(problem=(type(problem).__name__, str(problem)))
        except BaseException as problem:  # noqa: BLE001 - the coordinator needs the error
            self._report(problem=("RunError", f"the engine stopped: {problem!r}"))

    def _may_begin(self, name: str) -> bool | int:
        if self._logs[files.EVENTS].has_new:
            self._report()
        # The engine asks for the measurement before a warm-up that continues into it has begun.
        index, waiting = self._waits_for
        if index < self._begun or waiting != name:
            index = max(self._begun, index + 1)
            self._waits_for = (index, name)
            self._report(waits_for=index)
        return self.starts_ns.get(index, False)

    def _report(self, **news: Any) -> None:
        logs = {name: log.lines() for name, log in self._logs.items()}
        kinds = (json.loads(line).get("kind") for line in logs[files.EVENTS].splitlines())
        self._begun += sum(kind in {"phase_started", "phase_skipped"} for kind in kinds)
        self._reports.put(Report(logs, **news))


def _with_samples(reports: SimpleQueue[Report], process: psutil.Process) -> Iterator[Report]:
    """The reports up to the last one, with a sample of a process's resource usage each second."""
    next_s = time.monotonic()
    while True:
        if time.monotonic() >= next_s:
            next_s += _REPORT_S
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
    """Two reports as one message."""
    return replace(
        next_one,
        logs={name: one.logs[name] + text for name, text in next_one.logs.items()},
        progress=next_one.progress or one.progress,
        waits_for=one.waits_for if next_one.waits_for is None else next_one.waits_for,
    )


def tapes_of(plan: Plan) -> list[Path]:
    """The tapes and lines that a plan needs."""
    key, values = plan.dataset.key.order, plan.dataset.values
    lines = [one.lines.path for one in (key, values) if isinstance(one, Lines)]
    tapes = [one.arrival.path for one in plan.groups if isinstance(one.arrival, OnTape)]
    return [Path(one) for one in (*lines, *tapes)]


def pieces(tape: Path) -> Iterator[tuple[int, bytes]]:
    """A tape in pieces, at least one: offset and bytes."""
    with tape.open("rb") as file:
        for offset in range(0, max(tape.stat().st_size, 1), _PIECE_BYTES):
            yield offset, file.read(_PIECE_BYTES)


def _with_local_tapes(plan: Plan) -> Plan:
    """The plan with the paths of its tapes and lines on this machine."""
    text = plan.to_json()
    for tape in tapes_of(plan):
        if (local := _local_tape(tape.name)).exists():
            # Its name is a digest, so that nothing else in the plan is this text.
            old, new = (json.dumps(str(path), ensure_ascii=False) for path in (tape, local))
            text = text.replace(old, new)
    return Plan.from_json(text)


def _local_tape(name: str) -> Path:
    return tapes_folder() / Path(name).name
