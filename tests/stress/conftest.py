"""Published logs and profiles."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))


@pytest.fixture(scope="session")
def data() -> Path:
    """Published logs and profiles."""
    return Path(__file__).parent / "data"
