"""Helpers of this folder: the command line as a user has it, and applications from words."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from command_line import Kvmark


@pytest.fixture
def kvmark(tmp_path: Path) -> Kvmark:
    """The program, in an empty folder."""
    return Kvmark(tmp_path, tmp_path / "runs")
