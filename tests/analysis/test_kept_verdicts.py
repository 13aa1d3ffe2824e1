"""A verdict that is kept is read instead of made anew, as long as it would be the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.analysis.compare.selection import usable
from kvmark.analysis.verdict.judge import (
    Verdict,
    judge,
    known_line,
    known_verdict,
    save_verdict,
)
from kvmark.experiment import judging
from kvmark.experiment.judging import Usability
from kvmark.records import Records, Run, store
from kvmark.records.store import Judgement, kept_verdict
from kvmark.report.views.gather import run_answer
from kvmark.serve.library import Library

Make = Callable[[], Any]


@pytest.fixture
def doubtful(made: Make) -> Run:
    run: Run = made(lambda draft: draft.turn(1000, "READ", "miss"))
    return run


@pytest.fixture
def kept(doubtful: Run, records: Records) -> Verdict:
    verdict = judge(doubtful)
    assert verdict.reasons
    save_verdict(records, doubtful, verdict)
    return verdict


def test_each_file_of_the_rules_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "__file__", str(tmp_path / "records" / "store.py"))
    found = set()
    for name in ("analysis/judge.py", "analysis/verdict/rules.toml", "stats/level.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("bound = 0.2\n")
        found.add(store._rules.__wrapped__())
    assert len(found) == 3


def cut(run: Run, name: str) -> None:
    path = run.path / name
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])


@pytest.mark.parametrize(
    "change",
    [
        lambda run: cut(run, "manifest.json"),
        lambda run: cut(run, "intervals.parquet"),
        lambda run: run.path.rename(run.path.with_name("elsewhere")),
    ],
)
def test_a_verdict_on_a_run_that_was_damaged_or_is_gone_is_none(
    doubtful: Run, records: Records, kept: Verdict, change: Callable[[Run], None]
) -> None:
    change(doubtful)
    assert kept_verdict(records, doubtful.id) is None


def test_a_study_judges_nothing_anew_that_is_kept(
    doubtful: Run, records: Records, kept: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(judging, "judge")
    assert judging.usability(records, doubtful.id) is Usability.USABLE


def test_a_run_that_was_cut_short_stands_for_no_case(made: Make, records: Records) -> None:
    run = made(lambda draft: draft.engine.update(interrupted=True))
    before = judging.usability(records, run.id)
    assert before is judging.usability(records, run.id) is Usability.AGAIN
    assert kept_verdict(records, run.id) is not None


@pytest.fixture
def short_repetitions(healthy: Make) -> list[Run]:
    """Five repetitions of a sequence's case, each too short for an error of its own."""

    def made(repetition: int) -> Run:
        draft = healthy()
        draft.spec = {"sequence": {"records": 1000, "repetition": repetition, "stage": 1}}
        draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] == 0]
        return draft.run()

    return [made(repetition) for repetition in range(5)]


def shown_by_every_door(records: Records, run: Run) -> set[Judgement | None]:
    """What lists, `show`, reports, comparisons and the server show of a run."""
    return {
        known_line(records, records.line(run.id), keep=False).judgement,
        known_verdict(records, run).judgement,
        run_answer(run).verdict.judgement,
        Library(records).answers([run.id])[0].verdict.judgement,
    }


def test_a_run_has_a_verdict_beside_others(records: Records, short_repetitions: list[Run]) -> None:
    for run in short_repetitions:
        assert shown_by_every_door(records, run) == {Judgement.SUSPECT}
        save_verdict(records, run, judge(run))
        assert shown_by_every_door(records, run) == {Judgement.SUSPECT}


def test_no_door_shows_a_verdict_of_stale_rules(
    doubtful: Run, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_rules", lambda: "an older digest")
    save_verdict(records, doubtful, Verdict(Judgement.INVALID, ()))
    assert records.line(doubtful.id).judgement is Judgement.INVALID
    assert usable(records, [doubtful]) == []
    monkeypatch.setattr(store, "_rules", lambda: "a newer digest")
    assert (records.line(doubtful.id).judgement, kept_verdict(records, doubtful.id)) == (None, None)
    assert usable(records, [doubtful]) == [doubtful]
    assert shown_by_every_door(records, doubtful) == {judge(doubtful).judgement}
