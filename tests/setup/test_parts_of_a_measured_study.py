"""Where a study that is measured in parts is stored."""

from dataclasses import replace
from pathlib import Path

import measure
import pytest

from kvmark.experiment.journal import Attempt, begin
from kvmark.records.store import Records

NAME = "unheard-of"
FILE, CHOICE = "file", "clients=1"
ENDED = Attempt(case="a case", repetition=0, run="20261127-000000-ended", took_s=1.0)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The records' folder, of a clone whose program only writes archives."""
    monkeypatch.setattr(measure, "STUDIES", {NAME: (FILE, CHOICE)})
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(measure, "RECORDS", str(tmp_path))
    monkeypatch.setattr(measure, "pages", lambda: list(tmp_path.rglob("*.md")))
    monkeypatch.setattr(measure, "LONGEST_RUN_S", 0)
    monkeypatch.setattr(measure, "head", lambda: "0" * 40)
    monkeypatch.setattr(measure, "PROGRAM", tmp_path / "program")
    # What is stored here is no archive.
    monkeypatch.setattr(measure, "bring_back", lambda *_: None)
    asked_for(CHOICE, ENDED)
    return tmp_path


def asked_for(choice: str, *attempts: Attempt) -> str:
    """Begins a study with a choice of the file's cases, of which these were tried; gives its id."""
    journal = begin(Records.at(None), FILE, {"asked": {"only": [choice]}})
    for attempt in attempts:
        journal.append(attempt)
    return journal.id


def measured(records: Path, study: str, minutes: float | None = None) -> set[str]:
    """The archives there are after a study for which the program does this."""
    archive = f'echo new > "$5"; echo "$3" > {records}/archived'
    program = records / "program"
    program.write_text(f'#!/bin/sh\ncase "$1" in study) {study};; runs) {archive};; esac\n')
    program.chmod(0o755)
    measure.study(NAME, minutes)
    return {path.name for path in records.glob("*.tar.xz") if path.read_text() == "new\n"}


def test_pages_are_the_documents_with_marks_that_are_no_example() -> None:
    pages = {page.name for page in measure.pages()}
    assert {"README.md", "benchmarks.md", "hcassandra.md"} <= pages
    assert "ci.md" not in pages


@pytest.mark.parametrize("study", ["exit 0", "exit 1"])
def test_a_study_that_came_to_its_end_is_whole_and_its_part_is_gone(
    records: Path, study: str
) -> None:
    for stored in (f"{NAME}.tar.xz", f"{NAME}.begun.tar.xz"):
        (records / stored).write_text("old\n")
    assert measured(records, study) == {f"{NAME}.tar.xz"}
    assert not (records / f"{NAME}.begun.tar.xz").exists()


def test_pages_that_showed_the_part_of_a_study_show_the_whole_when_it_is_there(
    records: Path,
) -> None:
    (records / f"{NAME}.begun.tar.xz").write_text("old\n")
    page = records / "pages/results/page.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"from={NAME}.begun.tar.xz\n")
    measured(records, "exit 130")
    assert page.read_text() == f"from={NAME}.begun.tar.xz\n"
    measured(records, "exit 0")
    assert page.read_text() == f"from={NAME}.tar.xz\n"


@pytest.mark.parametrize(("study", "minutes"), [("exec sleep 600", 0.0), ("exit 130", None)])
def test_a_study_that_was_stopped_is_a_part_and_the_whole_before_it_stays(
    records: Path, study: str, minutes: float | None
) -> None:
    (records / f"{NAME}.tar.xz").write_text("whole\n")
    assert measured(records, study, minutes) == {f"{NAME}.begun.tar.xz"}
    assert (records / f"{NAME}.tar.xz").read_text() == "whole\n"


def test_a_newer_study_of_other_cases_of_the_same_file_is_not_stored_for_it(
    records: Path,
) -> None:
    own = asked_for(CHOICE, ENDED)
    asked_for("clients=2", ENDED)
    measured(records, "exit 0")
    assert (records / "archived").read_text() == f"study:{own}\n"


@pytest.mark.parametrize("attempts", [(), (replace(ENDED, failure="it is gone"),)])
def test_a_study_of_which_no_run_ended_stores_nothing_and_says_so(
    records: Path, attempts: tuple[Attempt, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "STUDIES", {NAME: (FILE, "clients=3")})
    asked_for("clients=3", *attempts)
    with pytest.raises(SystemExit, match="no run of the study file came to its end"):
        measured(records, "exit 130")
    assert not list(records.glob("*.tar.xz"))
