"""Fixtures for real Redis servers in a test's folder; all are stopped when the test ends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import redis
from kvmark.testbed.console import connect
from kvmark.testbed.control import take_down
from kvmark.testbed.process import lives
from kvmark.testbed.state import Testbed
from programs import needs

Up = Callable[..., Testbed]
Ask = Callable[..., Any]
Run = Callable[..., tuple[int, str, str]]
FIRST = "primary-1"
PATIENCE_S = 1200.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of testbeds, also for commands."""
    root = tmp_path / "testbeds"
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    yield root
    take_down(root)


@pytest.fixture
def with_redis() -> None:
    """Skips the test without a Redis server."""
    needs("redis-server")


@pytest.fixture
def up(root: Path, with_redis: None) -> Up:
    """Starts a Redis testbed with these options."""
    return lambda **options: redis.up(redis.RedisOptions(**options), root)


@pytest.fixture
def pair(up: Up) -> Testbed:
    """A primary and its replica, each with its own link."""
    try:
        return up(replicas=1, network=True)
    except UsageError as refused:
        pytest.skip(str(refused))


def answers(testbed: Testbed, node: str = FIRST, within_s: float = PATIENCE_S) -> bool:
    """Whether a server of a testbed, as it is now, answers in time."""
    now = Testbed.read(testbed.folder)
    try:
        return connect(now, now.node(node), within_s).ask("PING") == "PONG"
    except SystemUnderTestError:
        return False


def state_of(testbed: Testbed) -> str | None:
    """The state of the first server's process for the kernel: T for stopped, None when gone."""
    process = Testbed.read(testbed.folder).node(FIRST).process
    if process is None or not lives(process):
        return None
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
