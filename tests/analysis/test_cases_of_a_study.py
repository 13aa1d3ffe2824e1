"""The figures of a study's cases: of which runs they are, and what they count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvmark.analysis.study import CaseRuns, EffectAsked, effect, study_rows
from kvmark.experiment.designs.matrix import app_tables
from kvmark.records import Run

Make = Callable[[], Any]


def test_a_run_that_failed_in_its_load_gives_a_reason_and_no_figure(
    healthy: Make, ended_in_its_load: Run
) -> None:
    whole = CaseRuns({}, {0: healthy().run(), 1: healthy().run()}, frozenset({0, 1}))
    (wanted,) = study_rows([whole])
    (row,) = study_rows([replace(whole, runs={**whole.runs, 2: ended_in_its_load})])
    assert (row.throughput, row.completed) == (wanted.throughput, wanted.completed)
    assert row.figures is not None
    assert wanted.figures is not None
    codes, known = (
        {reason.code for reason in one.verdict.reasons} for one in (row.figures, wanted.figures)
    )
    assert "interrupted" in codes - known


def test_a_case_of_which_no_run_came_beyond_its_load_has_no_figures(
    ended_in_its_load: Run,
) -> None:
    (row,) = study_rows([CaseRuns({}, {0: ended_in_its_load}, failures=("it took too long",))])
    assert row.figures is None
    assert row.throughput is None


def test_an_effect_counts_commands_as_the_table_does(healthy: Make) -> None:
    def case(batch: str, commands: int) -> CaseRuns:
        runs = {number: healthy().run() for number in range(2)}
        counted = {"clients": commands}
        return CaseRuns({"batch": batch}, runs, frozenset(runs), commands=counted)

    cases = [case("1", 1), case("10", 10)]
    before, after = study_rows(cases)
    assert before.throughput is not None
    assert after.throughput is not None
    found = effect(EffectAsked("batch", {"batch": "1"}, {"batch": "10"}), cases, {})
    assert found.change is not None
    told = (after.throughput.value / before.throughput.value - 1) * 100
    assert found.change.value == pytest.approx(told, rel=0.01)
    assert told == pytest.approx(900, rel=0.01)


def test_the_first_usable_run_stands_for_a_case_s_table(
    healthy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of YCSB's operations, beside those that were published."""

    def lasting(times: int) -> Run:
        draft = healthy()
        draft.phase["end_ns"] = draft.phase["end_ns"] * times
        run: Run = draft.run()
        return run

    runs = {number: lasting(times) for number, times in enumerate((5, 1, 1))}
    rows = study_rows([CaseRuns({"workload": "a"}, runs, frozenset({1, 2}))])
    theirs = SimpleNamespace(
        published=(), figures={}, operations={"READ": {"mean_us": 1.0}}, spreads={}
    )
    monkeypatch.setattr(app_tables, "published_for", lambda levels, published: theirs)

    def shown(*usable: Run) -> float:
        ids = {run.id for run in usable}
        found, *_ = app_tables.operations(cast("Any", theirs), rows, list(runs.values()), ids)
        return found.throughput

    assert shown(runs[1], runs[2]) == pytest.approx(5 * shown(runs[0]), rel=0.01)
    assert shown() == shown(runs[0])
