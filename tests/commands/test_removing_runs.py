"""`kvmark runs rm` and `kvmark runs prune`: removed runs, runs that stay, confirmation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.cli.commands import runs as removing
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


def left(records: Records) -> list[str]:
    return sorted(records.ids(), reverse=True)


def answer(capsys: pytest.CaptureFixture[str], *words: str, exits: int = 0) -> Any:
    assert main(["runs", *words, "--json"]) == exits
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *words: str, exits: int = 2) -> str:
    assert main(["runs", *words]) == exits
    out, err = capsys.readouterr()
    assert out == ""
    return err


Capsys = pytest.CaptureFixture[str]


def test_a_run_is_removed_with_its_stored_verdict(
    records: Records, ids: list[str], capsys: Capsys
) -> None:
    assert main(["runs", "-q"]) == 0
    capsys.readouterr()
    told = answer(capsys, "rm", ids[1], "--yes")
    assert (told["runs"], told["dry_run"]) == ([ids[1]], False)
    assert told["bytes"] > 0
    assert left(records) == [ids[0], *ids[2:]]
    assert not [path for path in records.root.iterdir() if ids[1] in path.name]


def test_runs_are_removed_by_the_names_of_other_commands(
    records: Records, ids: list[str], capsys: Capsys
) -> None:
    words = ("last", f"last~2,{ids[0]}")
    assert answer(capsys, "rm", *words, "--yes")["runs"] == [ids[0], ids[2]]
    assert answer(capsys, "rm", "tag:nightly", "--yes")["runs"] == [ids[1], ids[3]]
    assert left(records) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("rm", "nightly", "--yes"), "'nightly'"),
        (("rm", "last", "nosuch", "--yes"), "'nosuch'"),
        (("rm", "last"), "--yes"),
        (("prune", "--keep", "1"), "--yes"),
        (("prune", "--yes"), "--older-than"),
        (("--limit", "3", "rm", "last"), "'rm' is one word too many"),
    ],
)
def test_unclear_or_unconfirmed_removals_remove_nothing(
    records: Records, ids: list[str], capsys: Capsys, words: tuple[str, ...], problem: str
) -> None:
    assert problem in refusal(capsys, *words)
    assert left(records) == ids


@pytest.mark.parametrize("words", [("rm", "tag:nightly"), ("prune", "--tag", "nightly")])
def test_a_dry_run_removes_nothing_and_lists_the_runs(
    records: Records, ids: list[str], capsys: Capsys, words: tuple[str, ...]
) -> None:
    told = answer(capsys, *words, "--dry-run")
    assert (told["runs"], told["dry_run"]) == ([ids[1], ids[3]], True)
    assert left(records) == ids


@pytest.mark.parametrize(
    ("typed", "code", "removed"), [(True, 0, 1), (False, 1, 0), (None, 130, 0)]
)
def test_a_removal_is_confirmed_on_a_terminal(
    records: Records,
    ids: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    typed: bool | None,
    code: int,
    removed: int,
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None:
            pass

    def confirm(question: str, *, err: bool) -> bool:
        assert "1 run" in question
        if typed is None:
            raise removing.typer.Abort
        return typed

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(removing.typer, "confirm", confirm)
    assert main(["runs", "rm", ids[0]]) == code
    assert len(left(records)) == len(ids) - removed


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
    records: Records, ids: list[str], capsys: Capsys, words: tuple[str, ...], gone: list[int]
) -> None:
    told = answer(capsys, "prune", *words, "--yes")
    assert told["runs"] == [ids[index] for index in gone]
    assert left(records) == [run for index, run in enumerate(ids) if index not in gone]


def test_a_run_in_progress_is_not_removed(
    records: Records, ids: list[str], make_going: MakeRun, capsys: Capsys
) -> None:
    going = make_going(0, "nightly")
    assert "still going" in refusal(capsys, "rm", going, "--yes", "--force")
    assert "still going" in refusal(capsys, "rm", "tag:nightly", "--yes")
    told = answer(capsys, "prune", "--keep", "0", "--yes", "--force")
    assert told["kept"] == [{"run": going, "because": "still going"}]
    assert left(records) == [going]


def test_a_run_that_is_being_closed_is_not_removed(
    records: Records, make_going: MakeRun, measured: Path, capsys: Capsys
) -> None:
    going = make_going()
    text = (measured / "manifest.json").read_text()
    (records.root / going / "ended.manifest.json").write_text(text)
    assert "still going" in refusal(capsys, "rm", going, "--yes")
    assert left(records) == [going]


def test_a_broken_run_can_be_removed(records: Records, make_run: MakeRun, capsys: Capsys) -> None:
    run = make_run()
    (records.root / run / "manifest.json").unlink()
    assert answer(capsys, "rm", run, "--yes")["runs"] == [run]
    assert left(records) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_run_with_a_file_that_kvmark_did_not_write_is_not_removed(
    records: Records, ids: list[str], capsys: Capsys, *, force: bool
) -> None:
    notes = records.root / ids[0] / "notes.txt"
    notes.write_text("mine")
    word = ["--force"] if force else []
    said = refusal(capsys, "rm", ids[0], ids[1], "--yes", *word)
    assert f"{ids[0]} holds notes.txt, which kvmark didn't write" in said
    assert left(records) == ids
    told = answer(capsys, "prune", "--keep", "0", "--yes", *word)
    because = "with files that kvmark didn't write"
    assert told["kept"] == [{"run": ids[0], "because": because}]
    assert notes.read_text() == "mine"


def test_a_folder_that_is_only_named_like_a_run_is_not_pruned(
    records: Records, ids: list[str], capsys: Capsys
) -> None:
    thesis = records.root / "20200101-000000-mine-abcd" / "part" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    answer(capsys, "prune", "--keep", "0", "--yes", "--force")
    assert left(records) == [thesis.parents[1].name]
    assert thesis.read_text() == "mine"


def test_a_study_with_a_file_that_kvmark_did_not_write_stays(
    records: Records, of_study: str, capsys: Capsys
) -> None:
    notes = records.root / journal.FOLDER / STUDY / "notes.txt"
    notes.write_text("mine")
    said = refusal(capsys, "rm", of_study, "--force", "--yes")
    assert "notes.txt was not made by kvmark" in said
    assert notes.read_text() == "mine"


def test_a_run_of_a_study_stays_unless_it_is_forced(
    records: Records, of_study: str, make_run: MakeRun, capsys: Capsys
) -> None:
    assert STUDY in refusal(capsys, "rm", of_study, "--yes")
    told = answer(capsys, "prune", "--older-than", "1h", "--yes")
    assert told["kept"] == [{"run": of_study, "because": f"part of study {STUDY}"}]
    assert left(records) == [of_study]


def test_a_study_is_removed_with_the_last_of_its_runs(
    records: Records, of_study: str, make_run: MakeRun, capsys: Capsys
) -> None:
    other = make_run(31, f"study:{STUDY}")
    folder = records.root / journal.FOLDER / STUDY
    assert answer(capsys, "rm", of_study, "--force", "--yes")["studies"] == []
    assert folder.exists()
    assert answer(capsys, "rm", other, "--force", "--yes")["studies"] == [STUDY]
    assert not folder.exists()


def test_a_going_study_keeps_its_runs(records: Records, of_study: str, capsys: Capsys) -> None:
    with journal.Journal(records.root / journal.FOLDER / STUDY, records).alone():
        said = refusal(capsys, "rm", of_study, "--force", "--yes")
    assert "another process" in said
    assert left(records) == [of_study]


def test_a_run_with_a_study_s_tag_whose_folder_is_gone_is_a_run_like_any_other(
    records: Records, make_run: MakeRun, capsys: Capsys
) -> None:
    run = make_run(0, "study:../..", f"study:{STUDY}")
    assert answer(capsys, "rm", run, "--yes")["runs"] == [run]


def test_an_interrupt_leaves_every_run_whole_or_gone(
    records: Records, ids: list[str], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as during:
        during.setattr(store, "remove_folder", failing(KeyboardInterrupt()))
        assert main(["runs", "rm", ids[0], ids[1], "--yes"]) == 130
    assert "1 of 2" in capsys.readouterr().err
    assert left(records) == ids[1:]
    assert all(line.entry.state == "closed" for line in records.lines())
    answer(capsys, "rm", ids[1], "--yes")
    assert not [path for path in records.root.iterdir() if path.name.startswith(".")]


def test_a_run_that_cannot_be_removed_is_one_sentence(
    records: Records, ids: list[str], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "remove_folder", failing(PermissionError(13, "denied", ids[0])))
    said = refusal(capsys, "rm", ids[0], "--yes", exits=3)
    assert said.startswith(f"kvmark: run {ids[0]} can't be removed")


def test_a_link_to_a_run_is_removed_and_the_run_stays(
    records: Records, measured: Path, capsys: Capsys
) -> None:
    records.root.mkdir()
    link = records.root / measured.name
    link.symlink_to(measured)
    answer(capsys, "rm", "last", "--yes")
    assert not link.is_symlink()
    assert (measured / "manifest.json").exists()
