"""The Dockerfile can be executed without Docker, and a check that can't run is reported."""

import os
from pathlib import Path

import fresh
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_steps_of_the_dockerfile_are_known() -> None:
    found = fresh.steps((ROOT / "Dockerfile").read_text())
    assert found[0] == ("FROM", "debian:12-slim")
    assert ("ENTRYPOINT", '["kvmark"]') in found


def test_continued_lines_are_one_step_and_an_unknown_step_is_named() -> None:
    text = "# a comment\nFROM debian:12-slim\n\nRUN one && \\\n    two\n"
    assert fresh.steps(text)[1][1].split() == ["one", "&&", "two"]
    with pytest.raises(ValueError, match="the Dockerfile's ADD can't be carried out here"):
        fresh.steps("ADD https://example.org/file /tmp/\n")


def test_files_are_copied_and_a_missing_wheel_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("target_folder.ROOT", tmp_path)
    with pytest.raises(fresh.StepFailed, match=r"there is no dist/\*\.whl: run `make wheel` first"):
        fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "kvmark.whl").write_text("a wheel")
    fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")
    assert (tmp_path / "root" / "tmp" / "kvmark.whl").read_text() == "a wheel"


def test_a_check_without_root_is_reported_as_not_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert fresh.main(["true"]) == fresh.CANNOT
    assert capsys.readouterr().err.startswith("NOT TRIED on a fresh machine: only root")
