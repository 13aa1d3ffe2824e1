"""Property tests draw the same examples on every machine and are not timed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from kvmark.spec.stress import StressSpec, read_stress

settings.register_profile("kvmark", derandomize=True, deadline=None)
settings.load_profile("kvmark")


@pytest.fixture(scope="session")
def data() -> Path:
    """Published logs and profiles."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def line() -> Callable[[str], StressSpec]:
    """Reads a command line as a shell would hand it on."""
    return lambda text: read_stress(text.split())
