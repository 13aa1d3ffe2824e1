"""Runs in a folder, copies of one that was measured once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kvmark.records import Records

RUN = ("run", "ycsb/c", "--system", "null:", "--operations", "1000", "-q")

MakeRun = Callable[..., str]


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a closed run."""
    place = tmp_path_factory.mktemp("measured")
    program = "import sys; from kvmark.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", program, *RUN, "--runs", "kept"],
        cwd=place,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode in (0, 1), ended
    [folder] = (path for path in (place / "kept").iterdir() if path.is_dir())
    return folder


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    """An empty folder for runs, where commands look for them."""
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return Records(tmp_path / "runs")


@pytest.fixture
def make_run(records: Records, measured: Path) -> MakeRun:
    """Makes a closed run of a certain age in hours, with tags, and gives its id."""
    suffix = measured.name[len("20261121-074812") :]
    now = records.now()

    def make(age_hours: float = 0, *tags: str, **changes: Any) -> str:
        created = now - timedelta(hours=age_hours)
        path = records.root / f"{created:%Y%m%d-%H%M%S}{suffix}"
        shutil.copytree(measured, path)
        change(path / "manifest.json", id=path.name, created=created.isoformat(), tags=tags)
        if changes:
            change(path / "manifest.json", **changes)
        return path.name

    return make


@pytest.fixture
def make_going(make_run: MakeRun, records: Records) -> MakeRun:
    """Makes a run that this very process still writes."""

    def make(age_hours: float = 0, *tags: str) -> str:
        from kvmark.records.writer import Writer

        path = records.root / make_run(age_hours, *tags)
        document = json.loads((path / "manifest.json").read_text())
        running = {**document, "writer": Writer.this().model_dump()}
        (path / "running.json").write_text(json.dumps(running))
        (path / "manifest.json").unlink()
        return path.name

    return make


Fresh = Callable[..., tuple[str, set[str]]]


@pytest.fixture
def fresh(records: Records) -> Fresh:
    """Runs Python in a new process; gives its output and the libraries that it loaded."""

    def run(program: str, **variables: str) -> tuple[str, set[str]]:
        tell = "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
        command = [sys.executable, "-c", f"import sys\n{program}\n{tell}"]
        ended = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=True,
            timeout=300,
        )  # fmt: skip
        return ended.stdout, {*ended.stderr.split()}

    return run


def change(path: Path, **values: Any) -> None:
    """Writes other values into a document."""
    document = json.loads(path.read_text())
    path.unlink()
    path.write_text(json.dumps({**document, **values}))
