"""Studies in a folder of the test's own; the helpers are a module of this folder."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from studies import MakeStudy, Program, make_study


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs commands in the test's folder, in processes that have everything loaded already."""
    return Program(tmp_path)


@pytest.fixture
def own_testbeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the testbeds that studies start; skips the test where there is no Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")
    root = tmp_path / "testbeds"
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    return root


@pytest.fixture
def study(tmp_path: Path) -> MakeStudy:
    """Makes a study of a text."""
    return lambda text, **asked: make_study(text, tmp_path, **asked)
