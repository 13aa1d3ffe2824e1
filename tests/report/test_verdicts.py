"""The scope of verdict reasons, and the titles of a study's cases."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace
from typing import cast

import pytest

from kvmark.analysis.study import StudyResults, StudyRow
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records.store import Judgement
from kvmark.report.model.page import verdict_summary
from kvmark.report.views.screen import reason_lines
from kvmark.report.views.study import case_titles
from kvmark.report.views.verdicts import caveats, counts_sentence, scope_text

CASES = [
    {"scenario": scenario, "operation": operation, "clients": clients}
    for scenario, operation, clients in product("12", ("read", "write"), ("10", "100", "800"))
]
Levels = dict[str, str]


def reason(code: str, sentence: str = "") -> Reason:
    return Reason(code, Level.SUSPECT, None, sentence, {}, None, "")


def test_a_screen_shows_the_only_reason_of_a_verdict() -> None:
    found = caveats([("run", Verdict.of([reason("too_few_samples", "Few.")]), {})], "runs")
    assert [one.plain for one in reason_lines(found, 80, "more")] == [
        "SUSPECT too_few_samples: Few."
    ]


@pytest.mark.parametrize(("width", "lines"), [
    (82, ["SUSPECT busy (case 0; case 2): Threads waited for 5 % of the time (more than 2 %)."]),
    (70, ["SUSPECT busy (case 0; case 2): Threads waited for 5 % of the time."]),
    (64, ["SUSPECT busy (2 of 3 cases): Threads waited for 5 % of the time."]),
    (63, ["SUSPECT busy (case 0; case 2): Threads waited for 5 % of the t…",
          "reasons in full: more"]),
])  # fmt: skip
def test_a_reason_that_does_not_fit_has_the_number_of_its_cases(
    width: int, lines: list[str]
) -> None:
    verdict = Verdict.of([reason("busy", "Threads waited for 5 % of the time (more than 2 %).")])
    named = [("case 0", verdict, {}), ("case 1", Verdict.of(()), {}), ("case 2", verdict, {})]
    found = reason_lines(caveats(named, "cases"), width, "more")
    assert [one.plain for one in found] == lines
    of_long_names = [(f"{name} on a store", *others) for name, *others in named]
    (line, *_) = reason_lines(caveats(of_long_names, "cases"), 63, "more")
    assert line.plain.startswith("SUSPECT busy (2 of 3 cases): Threads")


@pytest.mark.parametrize(
    ("chosen", "scope"),
    [
        (range(12), "all 12 cases"),
        (range(6, 12), "all 6 with scenario 2"),
        ((0, 3), "both with scenario 1, clients 10"),
        ((7, 8, 10, 11), "all 4 with scenario 2, clients 100 and 800"),
        ((*range(1, 6), *range(7, 12)), "all but the 2 with operation read, clients 10"),
        ((0, 1, 4, 5, 6, 10, 11), "case 0; case 1; case 4; case 5; case 6 and 2 more"),
    ],
)
def test_the_scope_of_cases_is_their_levels_or_names(chosen: Iterable[int], scope: str) -> None:
    cases = {f"case {place}": case for place, case in enumerate(CASES)}
    assert scope_text([f"case {place}" for place in chosen], cases, "cases") == scope


@pytest.mark.parametrize(("chosen", "scope"), [("ab", "a; b"), ("abc", "all 3 runs")])
def test_runs_without_levels_are_named(chosen: str, scope: str) -> None:
    assert scope_text(list(chosen), {"a": {}, "b": {}, "c": {}}, "runs") == scope


def test_verdicts_are_summed_up_with_their_reasons() -> None:
    short = Verdict.of([reason("too_short")])
    both = Verdict.of([reason("too_short"), reason("busy")])
    named = caveats([("a", short, {}), ("b", both, {}), ("c", Verdict.of(()), {})], "cases")
    counts = {Judgement.SUSPECT: 2, Judgement.VALID: 1}
    assert verdict_summary(named, counts, "cases") == (
        "2 of 3 cases are SUSPECT: too_short (2), busy (1); 1 is VALID"
    )
    assert verdict_summary((), {Judgement.VALID: 4}, "cases") == "all 4 cases are VALID"
    assert verdict_summary((), {Judgement.VALID: 2}, "runs") == "both runs are VALID"
    assert counts_sentence({Judgement.VALID: 2}, "run") == "Both runs are VALID."
    assert counts_sentence({Judgement.VALID: 1}, "case") == "The one case is VALID."
    assert verdict_summary((), {}, "cases") == ""


@pytest.mark.parametrize(("sentences", "scope"), [
    ("aaa", "all 3 cases"), ("aa", "both cases"), ("ab", "both cases (figures of the first)"),
])  # fmt: skip
def test_a_reason_of_several_cases_has_the_figures_of_the_first(sentences: str, scope: str) -> None:
    named = [(str(at), Verdict.of([reason("busy", one)]), {}) for at, one in enumerate(sentences)]
    [caveat] = caveats(named, "cases")
    assert caveat.where == scope


@pytest.mark.parametrize(
    ("cases", "title"),
    [
        (CASES[:2], "clients 10"),
        ([CASES[0], CASES[-1]], "scenario 1, operation read, clients 10"),
        (CASES[:1], "scenario 1, operation read, clients 10"),
    ],
)
def test_the_title_of_a_case_has_the_levels_that_differ(cases: list[Levels], title: str) -> None:
    rows = [SimpleNamespace(levels=levels) for levels in cases]
    results = SimpleNamespace(factors=tuple(CASES[0]), rows=rows)
    assert case_titles(cast(StudyResults, results))(cast(StudyRow, rows[0])) == title
