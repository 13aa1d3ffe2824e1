"""The command line as a user has it; the helpers are modules of this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from command_line import Kvmark
from real_servers import PATIENT, cassandra_up

from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed


@pytest.fixture
def kvmark(tmp_path: Path) -> Iterator[Kvmark]:
    """The program in an empty folder."""
    kvmark = Kvmark(tmp_path, tmp_path / "runs")
    yield kvmark
    kvmark.close()


@pytest.fixture
def user(kvmark: Kvmark, tmp_path: Path) -> Iterator[Kvmark]:
    """The program with a folder for testbeds, which are down at the end."""
    kvmark.variables["KVMARK_TESTBEDS"] = str(tmp_path / "testbeds")
    yield kvmark
    take_down(tmp_path / "testbeds")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node of Cassandra for all tests of a file."""
    with cassandra_up(tmp_path_factory.mktemp("testbeds"), settings=PATIENT) as node:
        yield node
