"""`kvmark runs rm` and `kvmark runs prune`: removed runs, runs that stay, confirmation."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from kvmark.cli import main
from kvmark.experiment import journal
from kvmark.records import Records, store

MakeRun = Callable[..., str]
STUDY = "20261101-101010-mine-1a2b"


@pytest.fixture
def ids(make_run: MakeRun) -> list[str]:
    """Runs of 1, 2, 3 and 4 days, the newest first; those of 2 and 4 with a tag."""
    return [make_run(24 * day, *(["nightly"] if day % 2 == 0 else [])) for day in range(1, 5)]


@pytest.fixture
def of_study(make_run: MakeRun, records: Records) -> str:
    """A run of a study."""
    folder = records.root / journal.FOLDER / STUDY
    folder.mkdir(parents=True)
    (folder / "study.json").write_text('{"format": 1, "design": "matrix"}')
    return make_run(30, f"study:{STUDY}")


def failing(problem: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise problem

    return fail


class Runs:
    """The runs, and the commands about them."""

    def __init__(self, records: Records, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._records, self._capsys = records.root, records, capsys

    def left(self) -> list[str]:
        return sorted(self._records.ids(), reverse=True)

    def answer(self, *words: str) -> Any:
        """The document of a command."""
        self._capsys.readouterr()
        assert main(["runs", *words, "--json"]) == 0
        return json.loads(self._capsys.readouterr().out)

    def refusal(self, *words: str, exits: int = 2) -> str:
        """The message of a command that fails."""
        assert main(["runs", *words]) == exits
        out, err = self._capsys.readouterr()
        assert out == ""
        return err


@pytest.fixture
def runs(records: Records, capsys: pytest.CaptureFixture[str]) -> Runs:
    return Runs(records, capsys)


def test_a_run_is_removed_with_its_stored_verdict(runs: Runs, ids: list[str]) -> None:
    assert main(["runs", "-q"]) == 0
    told = runs.answer("rm", ids[1], "--yes")
    assert (told["runs"], told["dry_run"]) == ([ids[1]], False)
    assert told["bytes"] > 0
    assert runs.left() == [ids[0], *ids[2:]]
    assert not [path for path in runs.root.iterdir() if ids[1] in path.name]


def test_runs_are_removed_by_the_names_of_other_commands(runs: Runs, ids: list[str]) -> None:
    words = ("last", f"last~2,{ids[0]}")
    assert runs.answer("rm", *words, "--yes")["runs"] == [ids[0], ids[2]]
    assert runs.answer("rm", "tag:nightly", "--yes")["runs"] == [ids[1], ids[3]]
    assert runs.left() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("rm", "nightly", "--yes"), "'nightly'"),
        (("rm", "last", "nosuch", "--yes"), "'nosuch'"),
        (("rm", "last"), "--yes"),
        (("prune", "--keep", "1"), "--yes"),
        (("prune", "--yes"), "--older-than"),
    ],
)
def test_unclear_or_unconfirmed_removals_remove_nothing(
    runs: Runs, ids: list[str], words: tuple[str, ...], problem: str
) -> None:
    assert problem in runs.refusal(*words)
    assert runs.left() == ids


@pytest.mark.parametrize("words", [("rm", "tag:nightly"), ("prune", "--tag", "nightly")])
def test_a_dry_run_removes_nothing_and_lists_the_runs(
    runs: Runs, ids: list[str], words: tuple[str, ...]
) -> None:
    told = runs.answer(*words, "--dry-run")
    assert (told["runs"], told["dry_run"]) == ([ids[1], ids[3]], True)
    assert runs.left() == ids


@pytest.mark.parametrize(
    ("typed", "code", "removed"), [(True, 0, 1), (False, 1, 0), (None, 130, 0)]
)
def test_a_removal_is_confirmed_on_a_terminal(
    runs: Runs,
    ids: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    typed: Any,
    code: int,
    removed: int,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def confirm(question: str, *, err: bool) -> bool:
        assert "1 run" in question
        if typed is None:
            raise typer.Abort
        return typed

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(typer, "confirm", confirm)
    assert main(["runs", "rm", ids[0]]) == code
    assert len(runs.left()) == len(ids) - removed


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (("--older-than", "60h"), [2, 3]),
        (("--older-than", "60h", "--tag", "nightly"), [3]),
        (("--tag", "nightly", "--keep", "1"), [3]),
        (("--keep", "3"), [3]),
        (("--keep", "1", "--older-than", "60h"), [2, 3]),
        (("--keep", "0"), [0, 1, 2, 3]),
        (("--keep", "9"), []),
        (("--older-than", "30d"), []),
        (("--tag", "none-has-it"), []),
    ],
)
def test_a_pruned_run_meets_all_given_conditions(
    runs: Runs, ids: list[str], words: tuple[str, ...], gone: list[int]
) -> None:
    told = runs.answer("prune", *words, "--yes")
    assert told["runs"] == [ids[index] for index in gone]
    assert runs.left() == [run for index, run in enumerate(ids) if index not in gone]


def test_a_run_in_progress_is_not_removed(runs: Runs, ids: list[str], make_going: MakeRun) -> None:
    going = make_going(0, "nightly")
    assert "still going" in runs.refusal("rm", going, "--yes", "--force")
    assert "still going" in runs.refusal("rm", "tag:nightly", "--yes")
    told = runs.answer("prune", "--keep", "0", "--yes", "--force")
    assert told["kept"] == [{"run": going, "because": "still going"}]
    assert runs.left() == [going]


def test_a_run_that_is_being_closed_is_not_removed(
    runs: Runs, make_going: MakeRun, measured: Path
) -> None:
    going = make_going()
    text = (measured / "manifest.json").read_text()
    (runs.root / going / "ended.manifest.json").write_text(text)
    assert "still going" in runs.refusal("rm", going, "--yes")
    assert runs.left() == [going]


def test_a_broken_run_can_be_removed(runs: Runs, make_run: MakeRun) -> None:
    run = make_run()
    (runs.root / run / "manifest.json").unlink()
    assert runs.answer("rm", run, "--yes")["runs"] == [run]
    assert runs.left() == []


@pytest.mark.parametrize("word", [[], ["--force"]])
def test_a_run_with_a_file_that_kvmark_did_not_write_is_not_removed(
    runs: Runs, ids: list[str], word: list[str]
) -> None:
    notes = runs.root / ids[0] / "notes.txt"
    notes.write_text("mine")
    said = runs.refusal("rm", ids[0], ids[1], "--yes", *word)
    assert f"{ids[0]} holds notes.txt, which kvmark didn't write" in said
    assert runs.left() == ids
    told = runs.answer("prune", "--keep", "0", "--yes", *word)
    because = "with files that kvmark didn't write"
    assert told["kept"] == [{"run": ids[0], "because": because}]
    assert notes.read_text() == "mine"


def test_a_folder_that_is_only_named_like_a_run_is_not_pruned(runs: Runs, ids: list[str]) -> None:
    thesis = runs.root / "20200101-000000-mine-abcd" / "part" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    runs.answer("prune", "--keep", "0", "--yes", "--force")
    assert runs.left() == [thesis.parents[1].name]
    assert thesis.read_text() == "mine"


def test_a_study_with_a_file_that_kvmark_did_not_write_stays(runs: Runs, of_study: str) -> None:
    notes = runs.root / journal.FOLDER / STUDY / "notes.txt"
    notes.write_text("mine")
    said = runs.refusal("rm", of_study, "--force", "--yes")
    assert "notes.txt was not made by kvmark" in said
    assert notes.read_text() == "mine"


def test_a_run_of_a_study_stays_unless_it_is_forced(
    runs: Runs, of_study: str, make_run: MakeRun
) -> None:
    assert STUDY in runs.refusal("rm", of_study, "--yes")
    told = runs.answer("prune", "--older-than", "1h", "--yes")
    assert told["kept"] == [{"run": of_study, "because": f"part of study {STUDY}"}]
    assert runs.left() == [of_study]


def test_a_study_is_removed_with_the_last_of_its_runs(
    runs: Runs, of_study: str, make_run: MakeRun
) -> None:
    other = make_run(31, f"study:{STUDY}")
    folder = runs.root / journal.FOLDER / STUDY
    assert runs.answer("rm", of_study, "--force", "--yes")["studies"] == []
    assert folder.exists()
    assert runs.answer("rm", other, "--force", "--yes")["studies"] == [STUDY]
    assert not folder.exists()


def test_a_going_study_keeps_its_runs(runs: Runs, records: Records, of_study: str) -> None:
    with journal.Journal(records.root / journal.FOLDER / STUDY, records).alone():
        said = runs.refusal("rm", of_study, "--force", "--yes")
    assert "another process" in said
    assert runs.left() == [of_study]


def test_a_run_with_a_study_s_tag_whose_folder_is_gone_is_a_run_like_any_other(
    runs: Runs, make_run: MakeRun
) -> None:
    run = make_run(0, "study:../..", f"study:{STUDY}")
    assert runs.answer("rm", run, "--yes")["runs"] == [run]


def test_an_interrupt_leaves_every_run_whole_or_gone(
    runs: Runs, records: Records, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as during:
        during.setattr(store, "remove_folder", failing(KeyboardInterrupt()))
        assert "1 of 2" in runs.refusal("rm", ids[0], ids[1], "--yes", exits=130)
    assert runs.left() == ids[1:]
    assert all(line.entry.state == "closed" for line in records.lines())
    runs.answer("rm", ids[1], "--yes")
    assert not [path for path in runs.root.iterdir() if path.name.startswith(".")]


def test_a_run_that_cannot_be_removed_is_one_sentence(
    runs: Runs, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "remove_folder", failing(PermissionError(13, "denied", ids[0])))
    said = runs.refusal("rm", ids[0], "--yes", exits=3)
    assert said.startswith(f"kvmark: run {ids[0]} can't be removed")


def test_a_link_to_a_run_is_removed_and_the_run_stays(runs: Runs, measured: Path) -> None:
    runs.root.mkdir()
    link = runs.root / measured.name
    link.symlink_to(measured)
    runs.answer("rm", "last", "--yes")
    assert not link.is_symlink()
    assert (measured / "manifest.json").exists()
