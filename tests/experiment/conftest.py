"""Studies in a folder of the test's own; the helpers are a module of this folder."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from studies import Program, make_study

from kvmark.experiment.study.definition import Study


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs commands in processes that have everything loaded already."""
    return Program()


@pytest.fixture
def own_testbeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the testbeds that studies start; skips the test where there is no Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")
    root = tmp_path / "testbeds"
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    return root


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Study]:
    """Makes a study of a text."""
    return lambda text, **asked: make_study(text, tmp_path, **asked)
