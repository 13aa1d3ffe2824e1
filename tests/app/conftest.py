"""Helpers of this folder: the command line as a user has it, and applications from words."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from command_line import Kvmark

from kvmark.testbed import redis
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed
from programs import needs


@pytest.fixture
def kvmark(tmp_path: Path) -> Kvmark:
    """The program, in an empty folder."""
    return Kvmark(tmp_path, tmp_path / "runs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A Redis server, which all tests of a file use."""
    needs("redis-server")
    root = tmp_path_factory.mktemp("testbeds")
    yield redis.up(redis.RedisOptions(), root)
    take_down(root)
