"""Studies in a folder of the test's own; the helpers are a module of this folder."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from studies import Program, make_study

from kvmark.experiment.designs.matrix.definition import Study


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs commands in processes that have everything loaded already."""
    return Program()


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Study]:
    """Makes a study of a text."""
    return lambda text, **asked: make_study(text, tmp_path, **asked)
