"""Which cases a reason holds for, in as few words as say it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import cast

import pytest

from kvmark.analysis import Judgement, Level, Reason, Verdict
from kvmark.analysis.study import StudyRow
from kvmark.report.model.answers import StudyAnswer, case_titles
from kvmark.report.views.doubts import group_words, of_cases, summed_up

CASES = [
    {"scenario": scenario, "operation": operation, "clients": clients}
    for scenario, operation, clients in product("12", ("read", "write"), ("10", "100", "800"))
]
Levels = dict[str, str]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (lambda _: True, "all 12 cases"),
        (lambda one: one["scenario"] == "2", "all 6 with scenario 2"),
        (
            lambda one: one["scenario"] == "2" and one["clients"] != "10",
            "all 4 with scenario 2, clients 100 and 800",
        ),
        (
            lambda one: (one["operation"], one["clients"]) != ("read", "10"),
            "all but the 2 with operation read, clients 10",
        ),
    ],
)
def test_cases_are_told_by_what_they_have_in_common(
    chosen: Callable[[Levels], bool], told: str
) -> None:
    found = [one for one in CASES if chosen(one)]
    assert group_words([str(one) for one in found], found, CASES, "cases") == told


def test_cases_with_nothing_in_common_are_named_as_far_as_there_is_room() -> None:
    found = [CASES[place] for place in (0, 1, 4, 5, 6, 10, 11)]
    names = [f"case {place}" for place in range(len(found))]
    told = group_words(names, found, CASES, "cases")
    assert told == "case 0; case 1; case 2; case 3; case 4 and 2 more"


def test_runs_without_levels_are_named() -> None:
    assert group_words(["a", "b"], [{}, {}], [{}, {}, {}], "runs") == "a; b"
    assert group_words(["a", "b", "c"], [{}, {}, {}], [{}, {}, {}], "runs") == "all 3 runs"


def test_verdicts_are_summed_up_with_their_reasons() -> None:
    short = Verdict.of([Reason("too_short", Level.SUSPECT, None, "", {}, None, "")])
    both = Verdict.of([*short.reasons, Reason("busy", Level.SUSPECT, None, "", {}, None, "")])
    named = [("a", short, {}), ("b", both, {}), ("c", Verdict.of(()), {})]
    found = summed_up(of_cases(named), {Judgement.SUSPECT: 2, Judgement.VALID: 1}, "cases")
    assert found == "2 of 3 cases are SUSPECT: too_short (2), busy (1); 1 is VALID"
    assert summed_up([], {Judgement.VALID: 4}, "cases") == "all 4 cases are VALID"
    assert summed_up([], {}, "cases") == ""


@pytest.mark.parametrize(("sentences", "told"), [
    ("aa", "all 2 cases"), ("ab", "all 2 cases (figures of the first)"),
])  # fmt: skip
def test_a_reason_that_is_told_once_says_whose_figures_it_has(sentences: str, told: str) -> None:
    reasons = [Reason("busy", Level.SUSPECT, None, one, {}, None, "") for one in sentences]
    named = [(str(at), Verdict.of([one]), {}) for at, one in enumerate(reasons)]
    [doubt] = of_cases(named)
    assert doubt.where == told


def test_a_case_is_called_by_what_tells_it_from_others() -> None:
    def called(*cases: Levels) -> list[str]:
        rows = [SimpleNamespace(levels=levels) for levels in cases]
        answer = SimpleNamespace(factors=tuple(CASES[0]), rows=rows)
        named = case_titles(cast(StudyAnswer, answer))
        return [named(cast(StudyRow, row)) for row in rows]

    assert called(*CASES[:2]) == ["clients 10", "clients 100"]
    assert called(CASES[0], CASES[-1])[0] == "scenario 1, operation read, clients 10"
    assert called(CASES[0]) == ["scenario 1, operation read, clients 10"]
