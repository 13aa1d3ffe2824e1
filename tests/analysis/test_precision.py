"""Cases that are imprecise, repeated too seldom or not measured are in no effect, headline or fit.

A leader leads by its interval.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import usable, why_excluded
from kvmark.analysis.path_costs import path_costs
from kvmark.analysis.scaling import scaling_laws
from kvmark.analysis.study import (
    CaseRuns,
    EffectAsked,
    PublishedFigures,
    StudyResults,
    effect,
    study_rows,
)
from kvmark.analysis.summary.metrics import figure
from kvmark.analysis.verdict.cases import Extremes, aggregate, extremes, is_precise, verdict_of
from kvmark.analysis.verdict.judge import Verdict, judge
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.errors import UsageError
from kvmark.records import Judgement, Records, Run
from kvmark.report.model.page import Page, Provenance
from kvmark.report.model.units import estimate
from kvmark.report.views.comparison import history_text
from kvmark.report.views.sequence import ends_sentence
from kvmark.report.views.study import effect_text, study_page
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Estimate, mean_interval

Make = Callable[[], Any]


def case(made: Make, levels: Mapping[str, str], *speeds: float) -> CaseRuns:
    runs = {number: made(speed) for number, speed in enumerate(speeds)}
    return CaseRuns(levels, runs, frozenset(runs))


def test_runs_that_lie_far_apart_are_an_imprecise_case(made: Make) -> None:
    figures = aggregate([made(1.0), made(1.1)])
    assert [reason.code for reason in figures.verdict.reasons] == ["imprecise"]
    assert figures.verdict.judgement is Judgement.SUSPECT
    wild = aggregate([made(1.0), made(3.0)])
    assert wild.verdict.judgement is Judgement.INVALID
    assert wild.throughput.low < 0
    # Five that lie so far apart are precise enough.
    runs = [made(speed) for speed in (1.0, 1.1, 1.05, 1.02, 1.08)]
    assert aggregate(runs).verdict.reasons == ()


def test_what_intervals_say_of_a_run_is_no_matter_where_runs_are_repeated(made: Make) -> None:
    def all_at_once(draft: Any) -> None:
        for row in draft.intervals:
            row["count"] *= 20 * int(row["start_ns"] == 9_000_000_000)

    uneven = made(all_at_once)
    assert aggregate([uneven]).verdict.judgement is Judgement.INVALID
    others = [made(speed) for speed in (1.0, 1.01)]
    assert aggregate([uneven, *others]).verdict.judgement is Judgement.VALID


def slower_by(share: float, noise: float = 0.0, seed: int = 1) -> Callable[[Any], None]:
    """Lets service times rise by this share over the run, with noise."""
    chance = random.Random(seed)

    def plant(draft: Any) -> None:
        for row in draft.intervals:
            if row["operation"] != "TOTAL":
                row["service_ns_mean"] *= 1 + share * row["start_ns"] / 20e9
                row["service_ns_mean"] *= chance.lognormvariate(0, noise)

    return plant


def not_stationary(runs: Sequence[Run]) -> list[str]:
    return [one.sentence for one in aggregate(runs).verdict.reasons if one.code == "not_stationary"]


def test_what_moves_in_single_runs_of_a_case_is_their_scatter(made: Make) -> None:
    apart = [made(slower_by(share)) for share in (0.3, -0.3, 0.3, -0.3, 0.0)]
    assert [reason.code for reason in judge(apart[0]).reasons] == ["not_stationary"]
    assert not_stationary(apart) == []
    # Four can't tell.
    (sentence,) = not_stationary(apart[:4])
    assert sentence.startswith("The mean service time rose by 25.5 % over 40 intervals (")


def test_runs_that_move_in_the_same_way_are_not_stationary(made: Make) -> None:
    noisy = [made(slower_by(0.15, 0.3, seed)) for seed in range(20)]
    assert sum(bool(judge(run).reasons) for run in noisy) <= 2
    (sentence,) = not_stationary(noisy)
    assert sentence.startswith("The mean service time rose by 1")
    assert "over 40 intervals of 20 runs together" in sentence


def test_means_of_runs_that_drift_are_not_stationary(made: Make) -> None:
    drifting = [made(1 + 0.02 * number) for number in range(12)]
    (sentence,) = not_stationary(drifting)
    assert sentence.startswith("The throughput rose by 19.8 % over 12 runs (")
    mixed = [drifting[number] for number in (5, 0, 11, 3, 8, 1, 10, 4, 7, 2, 9, 6)]
    assert not_stationary(mixed) == not_stationary(drifting)


def test_short_and_empty_runs_hide_no_common_drift(made: Make) -> None:
    def short(draft: Any) -> None:
        draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] < 2e9]

    def empty(draft: Any) -> None:
        for row in draft.intervals:
            row["count"] = 0

    moved = [made(slower_by(0.3)) for _ in range(5)]
    (sentence,) = not_stationary([*moved, made(short), made(empty)])
    assert "over 40 intervals of 5 runs together" in sentence
    # Of four that can be looked at, each has its own reason.
    (sentence,) = not_stationary([*moved[:4], made(short), made(empty)])
    assert sentence.startswith("In 4 of 6 runs: The mean service time")


def test_a_fault_leaves_each_run_of_a_case_to_itself(made: Make) -> None:
    def fault(draft: Any) -> None:
        draft.fault("kill", "node-1", 19.0, None)

    apart = [made(fault, slower_by(share)) for share in (0.3, -0.3, 0.3, -0.3, 0.3)]
    (sentence,) = not_stationary(apart)
    assert "over 38 intervals before the fault" in sentence


def test_no_number_of_runs_serves_a_client_that_none_served(made: Make) -> None:
    wide, unserved = (
        Reason(code, Level.INVALID, None, "It says little.", {}, None, "Look.")
        for code in ("imprecise", "unserved_clients")
    )
    both, one = Verdict.of([wide, unserved]), Verdict.of([wide])
    runs = [made(speed) for speed in (1.0, 1.01)]
    for verdicts in ([both, one], [one, both]):
        case = verdict_of(runs, verdicts)
        assert [reason.code for reason in case.reasons] == ["unserved_clients"]
        assert case.judgement is Judgement.INVALID
        assert not is_precise(case)


SPEEDS = {"a": (1.0, 1.01), "b": (1.2, 1.21)}
ASKED = EffectAsked("writes", {"mode": "a"}, {"mode": "b"})


def test_an_imprecise_case_enters_no_effect(made: Make) -> None:
    steady = [case(made, {"mode": label}, *speeds) for label, speeds in SPEEDS.items()]
    found = effect(ASKED, steady, {})
    assert found.change.value == pytest.approx(19.9, abs=0.5)
    assert found.imprecise == 0
    wild = [steady[0], case(made, {"mode": "b"}, 1.2, 1.8)]
    refused = effect(ASKED, wild, {})
    assert (refused.change, refused.by_case, refused.imprecise) == (None, (), 1)
    assert path_costs(steady, "mode", "a")[0].throughput_lost is not None
    assert path_costs(wild, "mode", "a")[0].throughput_lost is None


def test_runs_on_cold_servers_make_a_case_cold_and_not_imprecise(made: Make) -> None:
    before, after = (case(made, {"mode": label}, 1.0, 1.01, 0.2) for label in "ab")
    assert effect(ASKED, [before, after], {}).imprecise == 1
    slow = replace(after, cold=frozenset({2}))
    found = effect(ASKED, [replace(before, cold=frozenset({2})), slow], {})
    assert (found.change.n, found.imprecise, found.cold) == (2, 0, 0)
    cold = replace(after, cold=after.usable)
    found = effect(ASKED, [replace(before, cold=frozenset({2})), cold], {})
    assert (found.change, found.imprecise, found.cold) == (None, 0, 1)


def test_a_run_before_its_servers_were_warm_takes_nothing_from_the_others(made: Make) -> None:
    def sides(size: str, *gains: float) -> list[CaseRuns]:
        both = [case(made, {"mode": "a", "size": size}, 1.0, 1.01, 0.99)]
        return [*both, case(made, {"mode": "b", "size": size}, *gains)]

    small, large = sides("1", 1.20, 1.21, 1.19), sides("2", 1.22, 1.21, 1.20)
    assert effect(ASKED, [*small, *large], {}).change.value == pytest.approx(20.5, abs=0.3)
    # Each has another whole repetition: none is shared by both.
    cold = [replace(small[1], cold=frozenset({0})), replace(large[1], cold=frozenset({1, 2}))]
    found = effect(ASKED, [small[0], cold[0], large[0], cold[1]], {})
    assert found.change.value == pytest.approx(20.5, abs=1)
    assert (len(found.by_case), found.cold) == (2, 0)
    gone = [replace(small[1], cold=frozenset({0, 1, 2})), large[1]]
    found = effect(ASKED, [small[0], gone[0], large[0], gone[1]], {})
    assert (len(found.by_case), found.cold) == (1, 1)


def test_an_effect_that_differs_from_case_to_case_is_told_from_what_to_what(made: Make) -> None:
    def cases(*gains: float) -> list[CaseRuns]:
        sides = (("a", (1.0, 1.01, 0.99)), ("b", (0.99, 1.0, 1.02)))
        return [
            case(
                made,
                {"mode": mode, "size": str(size)},
                *(each * (gain if mode == "b" else 1.0) for each in noise),
            )
            for size, gain in enumerate(gains)
            for mode, noise in sides
        ]

    apart = effect(ASKED, cases(1.1, 3.0, 2.0), {})
    assert apart.extremes == (pytest.approx(10, abs=0.5), pytest.approx(200, abs=1))
    assert effect_text(apart) == "+10 to +201 %, case by case"
    for gains in ((1.5, 1.505), (1.5, 1.58)):
        assert effect(ASKED, cases(*gains), {}).extremes is None
    assert effect_text(effect(ASKED, cases(1.5, 1.505), {})).startswith("+51 % (+")


def test_an_effect_is_of_any_figure_that_has_a_ratio(made: Make) -> None:
    cases = [case(made, {"mode": label}, *speeds) for label, speeds in SPEEDS.items()]
    theirs = {(("mode", label),): PublishedFigures(p99_ms=ms) for label, ms in (("a", 2), ("b", 3))}
    found = {
        of: effect(replace(ASKED, of=of), cases, theirs)
        for of in ("throughput", "p99", "response_p99", "service.p999", "mean")
    }
    # The same operations in less time: more of them a second, and each as long as before.
    assert found["throughput"].change.value == pytest.approx(19.9, abs=0.5)
    assert [found[of].change.value for of in list(found)[1:]] == pytest.approx([0, 0, 0, 0])
    assert found["p99"].change == found["response_p99"].change
    assert found["p99"].published.value == pytest.approx(50)
    assert [of for of, one in found.items() if one.published] == ["p99", "response_p99"]


def test_a_study_s_headline_is_an_effect_beside_the_published_one(made: Make) -> None:
    theirs = {"a": PublishedFigures(throughput=1000.0), "b": PublishedFigures(throughput=1500.0)}
    cases = [
        replace(case(made, {"mode": label}, *speeds), published=theirs[label])
        for label, speeds in SPEEDS.items()
    ]
    spec: Any = SimpleNamespace(
        name="modes", question="?", measure="operations", published=(), figure=None, columns=(),
        disk_reads=False,
    )  # fmt: skip
    by_levels = {(("mode", label),): figures for label, figures in theirs.items()}

    def page(*cases: CaseRuns) -> Page:
        found = effect(ASKED, cases, by_levels)
        rows = study_rows(cases)
        results = StudyResults(spec, ("mode",), 2, rows, (found,), (), frozenset(), (), 0, None)
        return study_page(results, Provenance((), ()), ())

    known = page(*cases)
    assert re.fullmatch(
        r"writes: throughput \+20 % \(\+\d\d to \+\d\d\), published \+50 %.*\.", known.answer
    )
    assert [drawn.name for drawn in known.figures] == ["pairs"]
    [first, _] = known.parts[0].grids[0].rows
    mean = study_rows(cases)[0].throughput
    assert [cell.text for cell in first][:3] == ["a", "1,000", estimate(mean)]
    assert first[3].text == estimate(mean.put(lambda value: value / 1000, ""))
    # None of an imprecise case.
    unknown = page(cases[0], case(made, {"mode": "b"}, 1.2, 1.8)).answer
    assert unknown.startswith("writes: throughput isn't known, as no pair of cases is precise")
    assert unknown.endswith(", published +50 %.")


def test_equal_blocks_make_no_effect_certain(made: Make) -> None:
    """The same number of operations in the same time: rounding to one operation is left."""
    change = effect(
        ASKED, [case(made, {"mode": label}, 1.0, 1.0, 1.0) for label in "ab"], {}
    ).change
    assert change is not None
    assert (change.low or 0) < 0 < (change.high or 0)


def test_a_figure_is_the_same_wherever_it_is_made(made: Make) -> None:
    runs = [made(speed) for speed in (1.0, 1.01, 1.03)]
    assert figure(runs, THROUGHPUT) == aggregate(runs).throughput
    assert figure(runs[:1], THROUGHPUT) == aggregate(runs[:1]).throughput


VALID = Verdict.of(())


def said(found: Extremes[Estimate]) -> str:
    return ends_sentence(
        found, lambda one: f"case {one.value:g}", lambda one: f"{one.value:g} ops/s"
    )


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (
            [(99, 101), (199, 201), (299, 301)],
            "Fastest: case 300, 300 ops/s; slowest: case 100, 100 ops/s.",
        ),
        (
            [(99, 101), (290, 310), (285, 305)],
            "Fastest: case 300, 300 ops/s (overlaps 1 more); slowest: case 100, 100 ops/s.",
        ),
        (
            [(90, 110), (95, 115)],
            "No case is the fastest: the intervals of the highest throughput, case 105, 105"
            " ops/s, and of the lowest, case 100, 100 ops/s, overlap.",
        ),
    ],
)
def test_a_case_is_the_fastest_where_no_other_interval_reaches_into_its_own(
    bounds: list[tuple[float, float]], sentence: str
) -> None:
    cases = [mean_interval([low, high], "ops/s", confidence=0.5) for low, high in bounds]
    assert said(extremes(cases, lambda one: one, lambda _: VALID)) == sentence


def test_what_is_imprecise_or_has_no_interval_is_not_placed(made: Make) -> None:
    wide = aggregate([made(1.0), made(1.5)])
    alone = Estimate.alone(5000.0, "ops/s", "one count")
    steady = mean_interval([99, 101], "ops/s", confidence=0.5)
    cases = [(wide.throughput, wide.verdict), (alone, VALID), (steady, VALID)]
    found = extremes(cases, lambda one: one[0], lambda one: one[1])
    assert [one[0] for one in found.fastest] == [steady]
    assert [one[0] for one in found.left_out] == [wide.throughput, alone]


def test_the_only_case_is_named_whatever_is_known_of_it() -> None:
    alone = Estimate.alone(5000.0, "ops/s", "one count")
    found = extremes([alone], lambda one: one, lambda _: VALID)
    assert said(found) == "Throughput of case 5000 is 5000 ops/s."


@pytest.mark.parametrize("level", [Level.SUSPECT, Level.INVALID])
def test_only_valid_cases_are_the_fastest(level: Level) -> None:
    doubted = Verdict.of([Reason("rule", level, None, "", {}, None, "")])
    fast, slow, steady = (
        mean_interval([value - 1, value + 1], "ops/s", confidence=0.5) for value in (300, 200, 100)
    )
    found = extremes(
        [fast, slow, steady], lambda one: one, lambda one: doubted if one is fast else VALID
    )
    assert said(found) == (
        "Fastest VALID case: case 200, 200 ops/s; slowest: case 100, 100 ops/s."
        " One case isn't VALID and precise, and in no comparison."
    )
    assert said(extremes([fast, slow], lambda one: one, lambda _: doubted)) == (
        "No case is the fastest: none is VALID and known precisely enough to say so."
    )


DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "study": {"id": "2026-once"}, "sequence": {"records": 1000}, "ab": {"name": "ab:one"},
}  # fmt: skip


def repeated(
    made: Make, times: int, design: str = "study", change: Make = lambda _: None, **place: Any
) -> list[Run]:
    """Repetitions of a case, each healthy."""
    places = [{**DESIGNS[design], "repetition": number, **place} for number in range(times)]
    return [made(change, lambda draft, at=at: draft.spec.update({design: at})) for at in places]


def repeated_case(made: Make, label: str, times: int) -> CaseRuns:
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
    asked, one = EffectAsked("nodes", {"nodes": "1"}, {"nodes": "2"}), repeated_case(made, "1", 3)
    for times, pairs, blocks in ((2, 0, 0), (3, 1, 3)):
        cases = [one, repeated_case(made, "2", times)]
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
