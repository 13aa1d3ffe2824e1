"""Messages of `kvmark ycsb` on its duration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.frontends.ycsb.execution import announcement, closing_notes
from kvmark.frontends.ycsb.scheduling import CaseRepetitions, SequenceRepetitions

PARTS = {
    "option": "pipeline_parts=true",
    "kinds": ("insert", "scan"),
    "meaning": "sends the commands together",
}


def case(workload: str, once_s: float, got: int = 5, *, wanted: int = 5, cut: bool = False) -> Any:
    return CaseRepetitions(workload, "", 10_000, None, got, wanted, once_s * got, once_s, cut)


def summary(
    *cases: CaseRepetitions, budget_s: float | None = 600.0, **more: Any
) -> SequenceRepetitions:
    asked = {"first_stage": 5, "most": 20, "within": 0.05, "used_s": 590.0, "lacking_s": 300.0}
    return SequenceRepetitions(budget_s=budget_s, cases=cases, **{**asked, **more})


def manifest(workload: str, kind: str, *speedups: dict[str, Any]) -> Any:
    """The parts of a manifest that are read."""
    phases = [{"name": "measure", "groups": [{"group": 0}]}]
    known = [SimpleNamespace(**one) for one in speedups]
    mix = [{"kind": kind, "weight": 0.95}, {"kind": "update", "weight": 0.05}]
    return SimpleNamespace(
        spec={"sequence": {"workload": workload}},
        plan={"phases": phases, "groups": [{"mix": mix}]},
        engine=SimpleNamespace(capabilities=SimpleNamespace(speedups=known)),
    )


def test_cases_repetitions_and_time_limit_are_announced() -> None:
    # A duration may leave no time for repetitions.
    study: Any = SimpleNamespace(overrides={"duration_ns": 400 * 10**9})
    assert announcement(study, summary(case("a", 0), case("e", 0))) == (
        "2 cases, each 5 times, then up to 20 times until its throughput is within ± 5 %;"
        " time limit 10 min (--budget)."
        " With --duration, one repetition takes 13 min 20 s: each case runs once."
    )


LONGEST = "E takes 90 % of the time of a repetition."


@pytest.mark.parametrize(
    ("cases", "lacking_s", "notes"),
    [
        ((case("a", 5), case("e", 5)), 0.0, ()),
        (
            (case("a", 5), case("d", 5, got=1), case("e", 5, got=2)),
            300.0,
            (
                "The budget of 10 min was too short: D with 10,000 records and E with 10,000"
                " records ran 1 to 2 times instead of 5, so their ± is wide or that of a single"
                " run; --budget 17m is enough.",
            ),
        ),
        (
            (case("a", 5, wanted=20), case("e", 5)),
            300.0,
            (
                "The budget of 10 min was too short: one of 2 cases needs more repetitions for"
                " ± 5 %; --budget 17m is enough.",
            ),
        ),
        ((case("a", 10), case("e", 90)), 0.0, (LONGEST,)),
        ((case("e", 90),), 0.0, ()),
    ],
    ids=["complete", "too few", "more needed", "longest", "one workload"],
)
def test_closing_notes_name_missing_repetitions_and_the_slowest_workload(
    cases: tuple[CaseRepetitions, ...], lacking_s: float, notes: tuple[str, ...]
) -> None:
    assert closing_notes(summary(*cases, lacking_s=lacking_s), []) == notes


@pytest.mark.parametrize(
    ("kind", "speedups", "advice"),
    [
        ("scan", (PARTS,), " pipeline_parts=true in the URL of the system sends the commands"
         " together."),
        ("read", (PARTS,), ""),
        ("scan", (), ""),
    ],
    ids=["helpful", "another kind", "no option"],
)  # fmt: skip
def test_an_option_for_the_slowest_case_is_advised(kind: str, speedups: Any, advice: str) -> None:
    slow = summary(case("a", 10), case("e", 90), lacking_s=0.0)
    manifests = [manifest("a", "read", *speedups), manifest("e", kind, *speedups)]
    assert closing_notes(slow, manifests) == (LONGEST + advice,)


def test_an_ended_case_is_named_and_without_a_budget_only_the_slowest_workload() -> None:
    cut = summary(case("a", 5), case("e", 5, got=1, cut=True))
    note = closing_notes(cut, [])[0]
    assert note.startswith("The budget ended E with 10,000 records before all operations were done")
    few = summary(case("a", 18), case("e", 60, got=1), budget_s=None)
    assert closing_notes(few, []) == ("E takes 77 % of the time of a repetition.",)
