"""The command line as a user has it; the helpers are modules of this folder."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import with_cassandra

sys.path.insert(0, str(Path(__file__).parent))

from command_line import Kvmark

from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed
from programs import needs


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


@pytest.fixture(scope="session")
def node() -> Iterator[Testbed]:
    """A node of Cassandra that no test stops: that of the tests in Rust, or another one."""
    needs("java", "mvn")
    with with_cassandra.node(os.environ) as variables:
        yield Testbed.read(Path(variables[with_cassandra.FOLDER]))
