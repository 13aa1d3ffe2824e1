"""What `kvmark ycsb` says of its time."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.frontends.ycsb.progress import announced, said
from kvmark.frontends.ycsb.rounds import CaseCourse, Course

PARTS = {
    "option": "pipeline_parts=true",
    "kinds": ("insert", "scan"),
    "meaning": "sends the commands together",
}


def case(workload: str, once_s: float, got: int = 5, *, wanted: int = 5, cut: bool = False) -> Any:
    return CaseCourse(workload, 10_000, None, got, wanted, once_s * got, once_s, cut)


def course(*cases: CaseCourse, budget_s: float | None = 600.0, **more: Any) -> Course:
    asked = {"first_stage": 5, "most": 20, "within": 0.05, "used_s": 590.0, "lacking_s": 300.0}
    return Course(budget_s=budget_s, cases=cases, **{**asked, **more})


def manifest(workload: str, kind: str, *speedups: dict[str, Any]) -> Any:
    """The parts of a manifest that are read."""
    phases = [{"name": "measure", "groups": [{"group": 0}]}]
    mix = [{"kind": kind, "weight": 0.95}, {"kind": "update", "weight": 0.05}]
    return SimpleNamespace(
        spec={"sequence": {"workload": workload}},
        plan={"phases": phases, "groups": [{"mix": mix}]},
        engine=SimpleNamespace(
            capabilities=SimpleNamespace(speedups=[SimpleNamespace(**one) for one in speedups])
        ),
    )


def test_what_will_be_done_and_how_long_it_takes_at_most_is_announced() -> None:
    study: Any = SimpleNamespace(more={})
    assert announced(study, course(case("a", 0), case("e", 0))) == (
        "2 cases, each 5 times, then as often as ± 5 % of its throughput needs, 20 times at most;"
        " 10 min at most for the whole (--budget)."
    )
    fixed = course(case("a", 0), first_stage=1, most=1, within=None, budget_s=None)
    assert announced(study, fixed) == "One case, once; no limit of time."


def test_a_duration_that_leaves_no_room_for_repetitions_is_told_before_it_begins() -> None:
    study: Any = SimpleNamespace(more={"duration_ns": 400 * 10**9})
    text = announced(study, course(case("a", 0), case("e", 0)))
    assert "--duration alone makes that 13 min 20 s: each case runs once" in text


def test_nothing_is_said_of_a_sequence_that_had_time_for_everything() -> None:
    assert said(course(case("a", 5), case("e", 5), lacking_s=0.0), []) == ()


def test_cases_that_the_budget_cut_are_named_with_the_time_that_would_do() -> None:
    (text,) = said(course(case("a", 5), case("d", 5, got=1), case("e", 5, got=2)), [])
    assert text == (
        "The budget of 10 min was too short: D with 10,000 records and E with 10,000 records ran"
        " 1 to 2 times instead of 5, so that the ± is wide or is that of a single run;"
        " --budget 17m would do."
    )


def test_cases_that_need_more_than_the_budget_let_them_are_counted() -> None:
    (text,) = said(course(case("a", 5, wanted=20), case("e", 5)), [])
    assert text == (
        "The budget of 10 min was too short: one of 2 cases needs more repetitions for ± 5 %;"
        " --budget 17m would do."
    )


def test_a_case_that_was_ended_is_named() -> None:
    text = said(course(case("a", 5), case("e", 5, got=1, cut=True)), [])[0]
    assert text.startswith("The budget ended E with 10,000 records before all operations were done")


def test_what_took_most_of_the_time_is_said_with_the_option_that_helps() -> None:
    long = course(case("a", 10), case("e", 90), lacking_s=0.0)
    told = [manifest("a", "read", PARTS), manifest("e", "scan", PARTS)]
    assert said(long, told) == (
        "E takes 90 % of the time of a repetition. pipeline_parts=true in the URL of the system"
        " sends the commands together.",
    )


@pytest.mark.parametrize(
    ("kind", "speedups"), [("read", (PARTS,)), ("scan", ())], ids=["another kind", "no option"]
)
def test_no_option_is_named_that_would_not_help(kind: str, speedups: Any) -> None:
    long = course(case("a", 10), case("e", 90), lacking_s=0.0)
    assert said(long, [manifest("e", kind, *speedups)]) == (
        "E takes 90 % of the time of a repetition.",
    )


def test_a_case_that_is_run_less_often_because_it_is_slow_is_named_all_the_same() -> None:
    slow = course(case("a", 18), case("e", 60, got=1), lacking_s=0.0, budget_s=None)
    assert said(slow, []) == ("E takes 77 % of the time of a repetition.",)


def test_a_sequence_of_one_workload_is_not_told_that_it_took_the_time() -> None:
    assert said(course(case("e", 90), lacking_s=0.0), []) == ()


def test_without_a_budget_nothing_was_left_out() -> None:
    assert said(course(case("a", 5), case("e", 5, got=1), budget_s=None), []) == ()
    assert math.isfinite(course(case("a", 5)).used_s)
