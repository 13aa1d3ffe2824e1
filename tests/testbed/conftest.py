"""Testbeds of real servers in a test's folder; all are stopped when the test ends."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.errors import UsageError
from kvmark.testbed import redis
from kvmark.testbed.cassandra.artifacts import find_java
from kvmark.testbed.console import connect
from kvmark.testbed.control import take_down
from kvmark.testbed.proxy import find_program
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
PATIENCE_S = 300.0


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
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")


@pytest.fixture
def with_haproxy() -> None:
    """Skips the test without HAProxy."""
    try:
        find_program("haproxy", "release", lambda _: None)
    except UsageError as missing:
        pytest.skip(str(missing))


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


@pytest.fixture
def ask() -> Callable[..., Any]:
    """Sends a command to one server of a testbed."""

    def ask(testbed: Testbed, node: str, *command: str | int) -> Any:
        return connect(testbed, testbed.node(node), PATIENCE_S).ask(*command)

    return ask


@pytest.fixture
def kvmark(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; its exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def with_cassandra() -> None:
    """Skips the test where Cassandra can't be fetched or run."""
    try:
        find_java()
    except UsageError as missing:
        pytest.skip(str(missing))
    if shutil.which("mvn") is None:
        pytest.skip("Maven, which fetches Cassandra, isn't installed: apt-get install maven")
