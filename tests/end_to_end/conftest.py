"""The command line as a user has it; the helpers are a module of this folder."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from command_line import Going, Kvmark, run_folders

from kvmark.testbed.control import take_down
from waiting import wait_until


@pytest.fixture
def kvmark(tmp_path: Path) -> Kvmark:
    """The program, in an empty folder."""
    return Kvmark(tmp_path, tmp_path / "runs")


@pytest.fixture
def user(kvmark: Kvmark, tmp_path: Path) -> Iterator[Kvmark]:
    """Someone with a place for Redis testbeds of their own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")
    kvmark.more["KVMARK_TESTBEDS"] = str(tmp_path / "testbeds")
    yield kvmark
    take_down(tmp_path / "testbeds")


@pytest.fixture
def going(kvmark: Kvmark) -> Iterator[Callable[..., Going]]:
    """Begins runs and ends those that a failed test left."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*words: object) -> Going:
        before = set(run_folders(kvmark.runs))
        process = kvmark.start("run", *words)
        begun.append(process)

        def new() -> set[Path]:
            assert process.poll() is None, process.communicate()
            return {path for path in run_folders(kvmark.runs) if path not in before}

        wait_until(new, "a run has its folder")
        return Going(kvmark, process, new().pop())

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()
