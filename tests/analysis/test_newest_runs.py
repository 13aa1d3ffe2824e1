"""Which runs of a case are those of its newest pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from kvmark.analysis.compare.selection import newest
from kvmark.records import Records, Run

Make = Callable[[], Any]

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
LATER_MINUTES = 100


def made(healthy: Make, repetitions: Iterable[int], *, minute: int, study: str = "") -> list[Run]:
    """Runs of one command, a minute apart, each with its number."""
    runs = []
    for place, repetition in enumerate(repetitions):
        draft, began = healthy(), BEGAN + timedelta(minutes=minute + place)
        draft.records = Records(draft.records.root, now=lambda began=began: began)
        draft.spec["sequence"] = {"repetition": repetition, "workload": "A", "records": 1000}
        if study:
            draft.spec = {"study": {"id": study, "repetition": repetition}}
        runs.append(draft.run())
    return runs


def ids(runs: Iterable[Run]) -> list[str]:
    return [run.id for run in runs]


def test_a_shorter_pass_is_not_filled_up_from_the_one_before(healthy: Make) -> None:
    old = made(healthy, range(10), minute=0)
    new = made(healthy, range(5), minute=LATER_MINUTES)
    assert ids(newest([*old, *new])) == ids(new)


def test_a_repetition_that_is_left_out_has_none_of_an_older_pass_in_its_place(
    healthy: Make,
) -> None:
    old = made(healthy, range(3), minute=0)
    new = made(healthy, range(2), minute=LATER_MINUTES)
    assert ids(newest([*old, *new])) == ids(new)


def test_a_study_may_make_a_repetition_again_after_others(healthy: Make) -> None:
    old = made(healthy, range(3), minute=0, study="one")
    new = made(healthy, (0, 2, 1), minute=LATER_MINUTES, study="two")
    assert ids(newest([*old, *new])) == ids(new)
