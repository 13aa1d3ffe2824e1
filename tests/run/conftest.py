"""Real servers in a test's folder; all are stopped when the test ends."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import waiting
from kvmark.errors import UsageError
from kvmark.records import RunFolder, read_events
from kvmark.testbed import redis
from kvmark.testbed.control import take_down
from kvmark.testbed.process import lives
from kvmark.testbed.state import Testbed


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Testbed]]:
    """Starts Redis testbeds with these options."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")
    root = tmp_path / "testbeds"
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    yield lambda **options: redis.up(redis.RedisOptions(**options), root)
    take_down(root)


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
            *({"at_ns": self.measure_ns + 1, **event} for event in more),
        )

    def faults(self) -> list[dict[str, Any]]:
        """The events of faults so far."""
        events = read_events(self.folder.events)
        return [event for event in events if event["kind"] == "fault"]

    def states(self) -> list[str]:
        """The states of faults so far."""
        return [event["state"] for event in self.faults()]

    def write(self, *events: dict[str, Any]) -> None:
        """Appends events, all at once."""
        with self.folder.events.open("a") as log:
            log.write("".join(json.dumps(event) + "\n" for event in events))


@pytest.fixture
def running(tmp_path: Path) -> RunningRun:
    """A run in progress."""
    return RunningRun(tmp_path / "run")


@pytest.fixture
def pair(up: Callable[..., Testbed]) -> Testbed:
    """A primary and its replica, each with its own link."""
    try:
        return up(replicas=1, network=True)
    except UsageError as refused:
        pytest.skip(str(refused))


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object], str], None]:
    """Waits for a condition, with a long deadline."""
    return waiting.wait_until


@pytest.fixture
def state_of() -> Callable[[Testbed], str | None]:
    """The state of a server's process as the kernel has it: T for stopped, None when gone."""

    def state(testbed: Testbed) -> str | None:
        process = Testbed.read(testbed.folder).node("primary-1").process
        if process is None or not lives(process):
            return None
        line = Path(f"/proc/{process.pid}/stat").read_text()
        return line.rpartition(")")[2].split()[0]

    return state
