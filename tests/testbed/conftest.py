"""Testbeds of real servers in a folder of the test's own; all are down when it ends."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.testbed import redis
from kvmark.testbed.cassandra.artifacts import find_java
from kvmark.testbed.console import connect
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
PATIENCE_S = 300.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of testbeds, which commands use too."""
    root = tmp_path / "testbeds"
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    yield root
    take_down(root)


@pytest.fixture
def with_redis() -> None:
    """Skips the test where there is no server to test with."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")


@pytest.fixture
def up(root: Path, with_redis: None) -> Up:
    """Starts a Redis testbed with the given wishes."""

    def start(**wishes: Any) -> Testbed:
        return redis.up(redis.Wanted(**wishes), root)

    return start


@pytest.fixture
def ask() -> Callable[..., Any]:
    """Asks one server of a testbed one thing."""

    def ask(testbed: Testbed, node: str, *words: str | int) -> Any:
        return connect(testbed, testbed.node(node), PATIENCE_S).ask(*words)

    return ask


@pytest.fixture(scope="session")
def with_cassandra() -> None:
    """Skips the test where Cassandra can't be fetched or run."""
    try:
        find_java()
    except UsageError as missing:
        pytest.skip(str(missing))
    if shutil.which("mvn") is None:
        pytest.skip("Maven, which fetches Cassandra, isn't installed: apt-get install maven")
