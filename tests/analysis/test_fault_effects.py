"""Time without service and time to recover, from runs whose intervals are planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.summary.faults import fault_effects
from kvmark.analysis.summary.run import summarize

Draft = Any
SECOND = 1_000_000_000


@pytest.fixture
def broken(by_seconds: Callable[[], Draft]) -> Draft:
    """Twenty seconds, of which a server is gone from 5.5 to 8.2."""
    draft = by_seconds()
    common = {"kind": "fault", "fault": "5500ms kill node-2 for 2700ms", "node": "node-2"}
    for state, at_s in (("begun", 5.5), ("ended", 8.2)):
        draft.events.append({**common, "at_ns": int(at_s * SECOND), "state": state})
    return draft


def thin(draft: Draft, second: int, share: float) -> None:
    """Leaves this share of an interval's successes."""
    for row in draft.intervals:
        if row["start_ns"] == second * SECOND and row["operation"] != "TOTAL":
            row["count"] = int(row["count"] * share)


def fail(draft: Draft, second: int, outcome: str, count: int) -> None:
    row = {**draft.intervals[second * 3 + 1], "outcome": outcome, "count": count}
    draft.intervals.append(row)


def test_intervals_without_a_success_are_time_without_service(broken: Draft) -> None:
    for second in (6, 7):
        thin(broken, second, 0.0)
    thin(broken, 5, 0.5)
    thin(broken, 8, 0.3)
    (effect,) = fault_effects(broken.run())
    assert effect.without_service_ns == 2 * SECOND
    assert effect.recovery_ns == 9 * SECOND - effect.begun_ns
    assert (effect.node, effect.ended_ns) == ("node-2", int(8.2 * SECOND))


def test_failures_are_told_by_class_from_the_fault_on(broken: Draft) -> None:
    fail(broken, 2, "timeout", 50)
    fail(broken, 6, "connection", 7)
    fail(broken, 12, "unavailable", 3)
    (effect,) = summarize(broken.run()).faults
    assert effect.errors == {"connection": 7, "unavailable": 3}


def test_a_fault_that_nobody_notices_needs_no_recovery(broken: Draft) -> None:
    thin(broken, 6, 0.9)
    (effect,) = fault_effects(broken.run())
    assert (effect.without_service_ns, effect.recovery_ns) == (0, 0)


def test_a_service_that_is_still_down_at_the_end_has_not_recovered(broken: Draft) -> None:
    for second in range(6, 20):
        thin(broken, second, 0.2)
    (effect,) = fault_effects(broken.run())
    assert effect.recovery_ns is None


def test_each_fault_is_followed_until_the_next_one(broken: Draft) -> None:
    for event in list(broken.events):
        broken.events.append(
            {**event, "fault": "12s kill node-3", "at_ns": event["at_ns"] + 7 * SECOND}
        )
    thin(broken, 6, 0.0)
    thin(broken, 13, 0.0)
    thin(broken, 14, 0.0)
    first, second = fault_effects(broken.run())
    assert (first.without_service_ns, second.without_service_ns) == (SECOND, 2 * SECOND)


def test_without_a_fault_there_is_no_effect(by_seconds: Callable[[], Draft]) -> None:
    assert fault_effects(by_seconds().run()) == ()
