"""Published logs and profiles, and command lines as a shell would hand them on."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from kvmark.frontends.cassandra_stress.command_line import StressSpec, read_stress


@pytest.fixture(scope="session")
def data() -> Path:
    """Published logs and profiles."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def line() -> Callable[[str], StressSpec]:
    """Reads a command line as a shell would hand it on."""
    return lambda text: read_stress(text.split())
