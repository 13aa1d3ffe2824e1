"""How much of what measures has changed since a record was made."""

import json
import subprocess
from pathlib import Path

import measured
import pytest

AS_A_USER = ("-c", "user.name=a", "-c", "user.email=a@localhost")


def git(folder: Path, *words: str) -> str:
    ran = ["git", *AS_A_USER, *words]
    return subprocess.run(ran, cwd=folder, capture_output=True, text=True, check=True).stdout[:-1]


def committed(folder: Path, *files: str) -> str:
    """Adds a line to each of these files; gives the commit."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write("a line\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=change")
    return git(folder, "rev-parse", "HEAD")


def lines_of(folder: Path, commit: str | None) -> str:
    """The listing's one line of a record of this commit."""
    record = folder / "docs/records/bench.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"commit": commit, "created": "2026-11-27T00:00:00+00:00"}))
    return measured.measured("docs/records").splitlines()[1]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which all kinds of files are committed."""
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    return tmp_path


def test_only_what_measures_counts_as_changed(clone: Path) -> None:
    first = committed(clone, "crates/engine/src/lib.rs", "python/kvmark/run/sampler.py")
    assert measured.head() == first
    committed(clone, "docs/page.md", "crates/engine/tests/replay.rs", "python/kvmark/report/a.py")
    assert measured.head() == first
    assert lines_of(clone, first).endswith(f"{first[:12]}  0, 0")
    last = committed(clone, "crates/engine/src/lib.rs", "python/kvmark/run/sampler.py")
    assert measured.head() == last
    assert lines_of(clone, first).endswith("1, 1")
    assert lines_of(clone, last).endswith("0, 0")


def test_a_record_of_no_known_commit_is_told(clone: Path) -> None:
    committed(clone, "crates/engine/src/lib.rs")
    for commit in ("0" * 40, None):
        assert lines_of(clone, commit).endswith("not known: this clone has no such commit")
