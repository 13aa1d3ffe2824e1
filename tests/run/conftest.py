"""Redis testbeds, and a run's folder without an engine."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvmark.records import RunFolder, read_events
from redis_testbeds import pair, root, up, with_redis
from waiting import wait_until

__all__ = ["pair", "root", "up", "with_redis"]


class RunningRun:
    """A run's folder as the engine writes it, without an engine."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.folder = RunFolder(path, datetime.now(UTC))
        self.origin_wall_ns = time.time_ns() - 7_000_000_000
        self.measure_ns = 0

    def measure(self, *more: dict[str, Any]) -> None:
        """Writes that the run began seven seconds ago and measures from now on, and more."""
        self.measure_ns = time.time_ns() - self.origin_wall_ns
        self.write(
            {"at_ns": 0, "kind": "opened", "started_wall_ns": self.origin_wall_ns},
            {"at_ns": 1, "kind": "phase_started", "phase": 0, "name": "load"},
            {"at_ns": self.measure_ns, "kind": "phase_started", "phase": 1, "name": "measure"},
            *more,
        )

    def faults(self) -> list[dict[str, Any]]:
        """The events of faults so far."""
        events = read_events(self.folder.events)
        return [event for event in events if event["kind"] == "fault"]

    def states(self) -> list[str]:
        """The states of faults so far."""
        return [event["state"] for event in self.faults()]

    def wait_for(self, *states: str) -> None:
        """Waits until the faults have had these states."""
        wait_until(lambda: self.states() == [*states], f"faults have been {states}")

    def write(self, *events: dict[str, Any]) -> None:
        """Appends events, all at once, by default of an instant in the measurement."""
        after = {"at_ns": self.measure_ns + 1}
        with self.folder.events.open("a") as log:
            log.write("".join(json.dumps({**after, **event}) + "\n" for event in events))


@pytest.fixture
def running(tmp_path: Path) -> RunningRun:
    """A run in progress."""
    return RunningRun(tmp_path / "run")
