"""Testbeds of real servers in a test's folder; all are stopped when the test ends."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.errors import UsageError
from kvmark.testbed.cassandra.artifacts import find_java
from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed
from programs import needs
from redis_testbeds import PATIENCE_S, Ask, Run, pair, root, up, with_redis

__all__ = ["pair", "root", "up", "with_redis"]


@pytest.fixture
def server_log(tmp_path: Path) -> Path:
    """The path of a server's log."""
    return tmp_path / "server.log"


@pytest.fixture
def with_haproxy() -> None:
    """Skips the test without HAProxy."""
    needs("haproxy")


@pytest.fixture
def ask() -> Ask:
    """Sends a command to one server of a testbed."""

    def ask(testbed: Testbed, node: str, *command: str | int) -> Any:
        return connect(testbed, testbed.node(node), PATIENCE_S).ask(*command)

    return ask


@pytest.fixture
def kvmark(root: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in the folder of testbeds; its exit code, output and errors."""

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
    needs("mvn")
