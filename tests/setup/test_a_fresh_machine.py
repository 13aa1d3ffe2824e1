"""The Dockerfile is carried out without Docker, and a check that can't be made says so."""

import os
from pathlib import Path

import dockerfile
import fresh
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_dockerfile_can_be_carried_out_without_docker() -> None:
    found = dockerfile.steps((ROOT / "Dockerfile").read_text())
    assert found[0] == dockerfile.Step("FROM", "debian:12-slim")
    assert [step.words for step in found if step.instruction == "ENTRYPOINT"] == ['["kvmark"]']


def test_continued_lines_of_a_dockerfile_are_one_step() -> None:
    text = "# a comment\nFROM debian:12-slim\n\nRUN one && \\\n    two\n"
    assert dockerfile.steps(text)[1].words.split() == ["RUN", "one", "&&", "two"][1:]


def test_a_step_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the Dockerfile's ADD can't be carried out here"):
        dockerfile.steps("FROM debian:12-slim\nADD https://example.org/file /tmp/\n")


def test_a_wheel_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("target_folder.ROOT", tmp_path)
    with pytest.raises(fresh.StepFailed, match=r"there is no dist/\*\.whl: run `make wheel` first"):
        fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")


def test_files_are_copied_where_the_step_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "kvmark.whl").write_text("a wheel")
    monkeypatch.setattr("target_folder.ROOT", tmp_path)
    fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")
    assert (tmp_path / "root" / "tmp" / "kvmark.whl").read_text() == "a wheel"


def test_without_root_the_check_says_aloud_that_it_was_not_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert fresh.main(["true"]) == fresh.CANNOT
    assert capsys.readouterr().err.startswith("NOT TRIED on a fresh machine: only root")


def test_a_command_must_be_named() -> None:
    with pytest.raises(SystemExit) as ended:
        fresh.main([])
    assert ended.value.code == 2
