"""Cases that ran too seldom and runs that measured nothing are in no effect, headline or fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import usable, why_excluded
from kvmark.analysis.path_costs import path_costs
from kvmark.analysis.scaling import scaling_laws
from kvmark.analysis.study import CaseRuns, EffectAsked, effect
from kvmark.analysis.verdict.cases import aggregate
from kvmark.analysis.verdict.judge import judge
from kvmark.errors import UsageError
from kvmark.records import Judgement, Records, Run
from kvmark.report.views.comparison import history_text
from kvmark.spec.metric import THROUGHPUT

Make = Callable[[], Any]

DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "study": {"id": "2026-once"}, "sequence": {"records": 1000}, "ab": {"name": "ab:one"},
}  # fmt: skip


def repeated(
    made: Make, times: int, design: str = "study", change: Make = lambda _: None, **place: Any
) -> list[Run]:
    """Repetitions of a case, each healthy."""
    places = [{**DESIGNS[design], "repetition": number, **place} for number in range(times)]
    return [made(change, lambda draft, at=at: draft.spec.update({design: at})) for at in places]


def case(made: Make, label: str, times: int) -> CaseRuns:
    runs = dict(enumerate(repeated(made, times)))
    return CaseRuns({"nodes": label}, runs, frozenset(runs))


@pytest.mark.parametrize(
    ("design", "place", "least"),
    [*((design, {}, 3) for design in DESIGNS), ("study", {"least_repetitions": 5}, 5),
     ("study", {"least_repetitions": 1}, 3)],
)  # fmt: skip
def test_a_case_needs_its_design_s_repetitions(
    made: Make, design: str, place: dict[str, int], least: int
) -> None:
    runs = repeated(made, least, design, **place)
    for times in range(1, least):
        verdict = aggregate(runs[:times]).verdict
        assert {reason.code for reason in verdict.reasons} == {"unrepeated"}
        assert verdict.judgement is Judgement.SUSPECT
    assert aggregate(runs).verdict.judgement is Judgement.VALID


def test_a_run_of_no_design_keeps_its_own_verdict(made: Make) -> None:
    run = made()
    assert aggregate([run]).verdict.judgement is judge(run).judgement is Judgement.VALID


def test_an_unrepeated_case_is_in_no_effect_and_has_no_cost(made: Make) -> None:
    asked, one = EffectAsked("nodes", {"nodes": "1"}, {"nodes": "2"}), case(made, "1", 3)
    for times, pairs, blocks in ((2, 0, 0), (3, 1, 3)):
        cases = [one, case(made, "2", times)]
        found = effect(asked, cases, {})
        assert (len(found.by_case), found.unrepeated) == (pairs, 1 - pairs)
        assert (found.change is None) == (pairs == 0)
        (cost,) = path_costs(cases, "nodes", "1")
        assert cost.blocks == blocks


def test_a_comparison_has_no_effect_of_an_unrepeated_side(made: Make) -> None:
    def effects(times: int) -> set[bool]:
        sides = repeated(made, 3), repeated(made, times)
        (found,) = compare(*sides, allow=("plan",)).cases
        return {row.effect is None for row in found.rows if row.baseline and row.candidate}

    assert effects(2) == {True}
    assert effects(3) == {False}


def test_an_unrepeated_level_is_in_no_fit_and_is_named(made: Make) -> None:
    def level(clients: int, times: int) -> list[Run]:
        return repeated(
            made, times, change=lambda draft: draft.plan["groups"][0].update(clients=clients)
        )

    once = level(32, 1)
    whole = [run for clients in (1, 2, 4, 8, 16) for run in level(clients, 3)]
    (law,) = scaling_laws([*whole, *once])
    assert [point.level for point in law.points] == [1, 2, 4, 8, 16]
    (caveat,) = (one for one in law.caveats if one.code == "unrepeated")
    assert once[0].id in caveat.sentence


def test_it_is_invalid_and_its_verdict_names_the_phase(ended_in_its_load: Run) -> None:
    verdict = judge(ended_in_its_load)
    assert verdict.judgement is Judgement.INVALID
    (reason,) = (one for one in verdict.reasons if one.code == "nothing_measured")
    assert reason.sentence == "The run ended in its load phase and measured nothing."


@pytest.mark.parametrize("allow", [(), ("invalid", "plan")])
def test_a_comparison_refuses_it_by_name(
    made: Make, ended_in_its_load: Run, allow: tuple[str, ...]
) -> None:
    for sides in ([made()], [ended_in_its_load]), ([ended_in_its_load], [made()]):
        with pytest.raises(UsageError, match=f"run {ended_in_its_load.id} ended in its load phase"):
            compare(*sides, allow=allow)


@pytest.mark.parametrize("invalid", [True, False])
def test_a_history_excludes_it_by_name(
    made: Make, ended_in_its_load: Run, *, invalid: bool
) -> None:
    whole = made()
    records = Records(whole.path.parent)
    assert why_excluded(records, whole, None, invalid=invalid) is None
    excluded = why_excluded(records, ended_in_its_load, None, invalid=invalid)
    told = history_text(histories([whole], THROUGHPUT), 200, 30, [excluded]).plain
    assert f"Excluded: run {ended_in_its_load.id} ended in its load phase" in told
    assert usable(records, [whole, ended_in_its_load]) == [whole]


def test_a_fit_leaves_it_out_by_name(made: Make, ended_in_its_load: Run) -> None:
    (law,) = scaling_laws([made(), ended_in_its_load])
    assert [len(point.runs) for point in law.points] == [1]
    (caveat,) = (one for one in law.caveats if one.code == "left_out")
    assert ended_in_its_load.id in caveat.sentence
