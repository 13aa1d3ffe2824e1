"""Where a study that is measured in parts is stored."""

from pathlib import Path

import measure
import pytest

NAME = "unheard-of"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The records' folder, of a clone whose program only writes archives."""
    monkeypatch.setattr(measure, "STUDIES", {NAME: ()})
    monkeypatch.setattr(measure, "RECORDS", str(tmp_path))
    monkeypatch.setattr(measure, "LONGEST_RUN_S", 0)
    monkeypatch.setattr(measure, "head", lambda: "0" * 40)
    monkeypatch.setattr(measure, "PROGRAM", tmp_path / "program")
    # What is stored here is no archive.
    monkeypatch.setattr(measure, "bring_back", lambda *_: None)
    return tmp_path


def measured(records: Path, study: str, minutes: float | None = None) -> set[str]:
    """The archives there are after a study for which the program does this."""
    program = records / "program"
    program.write_text(f'#!/bin/sh\ncase "$1" in study) {study};; runs) echo new > "$5";; esac\n')
    program.chmod(0o755)
    measure.study(NAME, minutes)
    return {path.name for path in records.glob("*.tar.xz") if path.read_text() == "new\n"}


@pytest.mark.parametrize("study", ["exit 0", "exit 1"])
def test_a_study_that_came_to_its_end_is_whole_and_its_part_is_gone(
    records: Path, study: str
) -> None:
    for stored in (f"{NAME}.tar.xz", f"{NAME}.begun.tar.xz"):
        (records / stored).write_text("old\n")
    assert measured(records, study) == {f"{NAME}.tar.xz"}
    assert not (records / f"{NAME}.begun.tar.xz").exists()


@pytest.mark.parametrize(("study", "minutes"), [("exec sleep 600", 0.0), ("exit 130", None)])
def test_a_study_that_was_stopped_is_a_part_and_the_whole_before_it_stays(
    records: Path, study: str, minutes: float | None
) -> None:
    (records / f"{NAME}.tar.xz").write_text("whole\n")
    assert measured(records, study, minutes) == {f"{NAME}.begun.tar.xz"}
    assert (records / f"{NAME}.tar.xz").read_text() == "whole\n"
