"""A verdict that is kept is read instead of made anew, as long as it would be the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis import Judgement, Verdict, judge, known_verdict, save_verdict
from kvmark.analysis.selection import usable
from kvmark.records import Records, Run, verdicts
from kvmark.records.verdicts import kept_verdict
from kvmark.study import judging

Make = Callable[[], Any]


@pytest.fixture
def doubtful(healthy: Make) -> Run:
    draft = healthy()
    draft.turn(1000, "READ", "miss")
    run: Run = draft.run()
    return run


@pytest.fixture
def kept(doubtful: Run, records: Records) -> Verdict:
    verdict = judge(doubtful)
    assert verdict.reasons
    save_verdict(records, doubtful, verdict)
    return verdict


def test_a_kept_verdict_is_that_which_was_saved(
    doubtful: Run, records: Records, kept: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("kvmark.analysis.kept.judge")
    assert known_verdict(records, doubtful) == kept


def test_a_run_without_a_kept_verdict_is_judged(doubtful: Run, records: Records) -> None:
    assert kept_verdict(records, doubtful.id, 1) is None
    assert known_verdict(records, doubtful) == judge(doubtful)


def test_a_verdict_on_a_single_run_is_not_that_on_a_repetition(
    doubtful: Run, records: Records, kept: Verdict
) -> None:
    assert kept_verdict(records, doubtful.id, 1) is not None
    assert kept_verdict(records, doubtful.id, 3) is None


def test_a_verdict_of_other_rules_is_none(
    doubtful: Run, records: Records, kept: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "_rules", lambda: "another digest")
    assert kept_verdict(records, doubtful.id, 1) is None


@pytest.mark.parametrize("name", ["manifest.json", "intervals.parquet"])
def test_a_verdict_on_a_run_that_was_damaged_since_is_none(
    doubtful: Run, records: Records, kept: Verdict, name: str
) -> None:
    path = doubtful.path / name
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])
    assert kept_verdict(records, doubtful.id, 1) is None


def test_a_verdict_on_a_run_that_is_gone_is_none(
    doubtful: Run, records: Records, kept: Verdict
) -> None:
    doubtful.path.rename(doubtful.path.with_name("elsewhere"))
    assert kept_verdict(records, doubtful.id, 1) is None


def test_a_verdict_that_was_written_over_is_none(
    doubtful: Run, records: Records, kept: Verdict
) -> None:
    path = records.verdict_path(doubtful.id)
    told = json.loads(path.read_text())
    for changed in ({**told, "judgement": "VALID"}, {**told, "reasons": []}, {}, []):
        path.write_text(json.dumps(changed))
        assert kept_verdict(records, doubtful.id, 1) is None


def test_a_study_starts_no_process_for_what_is_kept(
    doubtful: Run, records: Records, kept: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(judging, "ProcessPoolExecutor")
    assert judging.usable_apart(records, [doubtful.id], 1) == {doubtful.id: True}


def test_a_run_that_was_cut_short_stands_for_no_case_whatever_is_kept(
    healthy: Make, records: Records
) -> None:
    draft = healthy()
    draft.engine["interrupted"] = True
    run: Run = draft.run()
    before = judging.usable(records, [run.id], 1)
    assert before == judging.usable_apart(records, [run.id], 1) == {run.id: False}
    assert kept_verdict(records, run.id, 1) is not None


def test_what_is_usable_is_asked_again_when_the_rules_have_changed(
    doubtful: Run, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_verdict(records, doubtful, Verdict(Judgement.INVALID, ()))
    assert usable(records, [doubtful]) == []
    monkeypatch.setattr(verdicts, "_rules", lambda: "another digest")
    assert usable(records, [doubtful]) == [doubtful]
