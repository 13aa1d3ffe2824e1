"""A case of a design that ran too seldom is in no effect, headline or fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.path_costs import path_costs
from kvmark.analysis.scaling import scaling_laws
from kvmark.analysis.study import CaseRuns, EffectAsked, StudyRow, effect, study_rows
from kvmark.analysis.verdict.cases import CaseVerdict, aggregate, extremes
from kvmark.analysis.verdict.judge import judge
from kvmark.records import Judgement, Run

Make = Callable[[], Any]

DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "study": {"id": "2026-once"}, "sequence": {"records": 1000}, "ab": {"name": "ab:one"},
}  # fmt: skip


def repeated(make: Make, times: int, design: str = "study", **place: Any) -> list[Run]:
    """Repetitions of a case, each healthy."""
    runs = []
    for repetition in range(times):
        draft = make()
        draft.spec[design] = {**DESIGNS[design], "repetition": repetition, **place}
        runs.append(draft.run())
    return runs


def case(make: Make, label: str, times: int, **place: Any) -> CaseRuns:
    runs = dict(enumerate(repeated(make, times, **place)))
    return CaseRuns({"nodes": label}, runs, frozenset(runs))


def codes(runs: list[Run]) -> set[str]:
    return {reason.code for reason in aggregate(runs).verdict.reasons}


@pytest.mark.parametrize("design", DESIGNS)
def test_a_case_of_a_design_needs_three_repetitions(healthy: Make, design: str) -> None:
    for times in (1, 2):
        runs = repeated(healthy, times, design)
        assert codes(runs) == {"unrepeated"}
        assert aggregate(runs).verdict.judgement is Judgement.SUSPECT
    assert aggregate(repeated(healthy, 3, design)).verdict.judgement is Judgement.VALID


@pytest.mark.parametrize(("times", "least", "few"), [(4, 5, True), (5, 5, False), (1, 1, True)])
def test_a_case_needs_as_many_repetitions_as_its_design_asks_for_and_three(
    healthy: Make, times: int, least: int, *, few: bool
) -> None:
    assert ("unrepeated" in codes(repeated(healthy, times, least_repetitions=least))) is few


def test_a_run_of_no_design_keeps_its_own_verdict(healthy: Make) -> None:
    run = healthy().run()
    assert aggregate([run]).verdict.judgement is judge(run).judgement is Judgement.VALID


def test_an_unrepeated_case_is_in_no_effect_and_has_no_cost(healthy: Make) -> None:
    asked, one = EffectAsked("nodes", {"nodes": "1"}, {"nodes": "2"}), case(healthy, "1", 3)
    for times, pairs, blocks in ((2, 0, 0), (3, 1, 3)):
        cases = [one, case(healthy, "2", times)]
        found = effect(asked, cases, {})
        assert (len(found.by_case), found.unrepeated) == (pairs, 1 - pairs)
        assert (found.change is None) == (pairs == 0)
        (cost,) = path_costs(cases, "nodes", "1")
        assert cost.blocks == blocks


def test_one_run_is_not_called_the_fastest_of_a_study(healthy: Make) -> None:
    def verdict_on(row: StudyRow) -> CaseVerdict:
        assert row.figures is not None
        return row.figures.verdict

    rows = study_rows([case(healthy, "1", 3), case(healthy, "2", 1)])
    found = extremes(rows, lambda row: row.throughput, verdict_on)
    assert [row.levels["nodes"] for row in found.fastest] == ["1"]
    assert [row.levels["nodes"] for row in found.left_out] == ["2"]


def test_a_comparison_has_no_effect_of_an_unrepeated_side(healthy: Make) -> None:
    def effects(times: int) -> set[bool]:
        sides = repeated(healthy, 3), repeated(healthy, times)
        (found,) = compare(*sides, allow=("plan",)).cases
        return {row.effect is None for row in found.rows if row.baseline and row.candidate}

    assert effects(2) == {True}
    assert effects(3) == {False}


def test_an_unrepeated_level_is_in_no_fit_and_is_named(healthy: Make) -> None:
    def level(clients: int, times: int) -> list[Run]:
        def sized() -> Any:
            draft = healthy()
            draft.plan["groups"][0]["clients"] = clients
            return draft

        return repeated(sized, times)

    once = level(32, 1)
    whole = [run for clients in (1, 2, 4, 8, 16) for run in level(clients, 3)]
    (law,) = scaling_laws([*whole, *once])
    assert [point.level for point in law.points] == [1, 2, 4, 8, 16]
    (caveat,) = (one for one in law.caveats if one.code == "unrepeated")
    assert once[0].id in caveat.sentence
