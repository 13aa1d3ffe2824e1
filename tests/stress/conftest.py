"""Published logs and profiles, and parsed command lines."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from kvmark.frontends.cassandra_stress.options import StressSpec, read_stress


@pytest.fixture(scope="session")
def data() -> Path:
    """Published logs and profiles."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def line() -> Callable[[str], StressSpec]:
    """Parses a command line."""
    return lambda text: read_stress(text.split())
