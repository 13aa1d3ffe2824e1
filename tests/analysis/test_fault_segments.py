"""Around planned faults precision and steadiness are those of the segments before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.summary.faults import fault_effects, quiet_segments, segments
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import judge
from kvmark.records import Judgement

Draft = Any
SECOND = 1_000_000_000
FAULT = "6s kill node-2 for 2s"


def at(row: dict[str, Any]) -> float:
    """When an interval of a row begins, in seconds."""
    return float(row["start_ns"]) / SECOND


def scale(draft: Draft, share: Callable[[float], float]) -> None:
    """Leaves such a share of the successes of each interval."""
    for row in draft.intervals:
        if row["operation"] != "TOTAL":
            row["count"] = int(row["count"] * share(at(row)))


@pytest.fixture
def broken(healthy_open: Callable[[], Draft]) -> Draft:
    """Twenty seconds at a rate; a server is gone from 6 to 8, what fell due is done until 9.5."""
    draft = healthy_open()
    for state, at_s in (("begun", 6.0), ("ended", 8.0)):
        event = {"kind": "fault", "fault": FAULT, "node": "node-2", "state": state}
        draft.events.append({**event, "at_ns": int(at_s * SECOND)})
    scale(draft, lambda at_s: 0.0 if 6 <= at_s < 8 else 2.3 if 8 <= at_s < 9.5 else 1.0)
    for row in draft.total_rows():
        row["backlog"] = 9000 if 6 <= at(row) < 9 else 0
    return draft


def test_an_outage_is_neither_imprecise_nor_a_drift(broken: Draft) -> None:
    run = broken.run()
    verdict = judge(run)
    assert (verdict.judgement, verdict.reasons) == (Judgement.VALID, ())
    (phase,) = summarize(run).phases
    assert phase.throughput.error is None
    assert "a server was broken on purpose" in phase.throughput.method


def test_what_fell_due_meanwhile_is_the_faults(broken: Draft) -> None:
    run = broken.run()
    (effect,) = fault_effects(run)
    assert effect.recovery_ns == 2 * SECOND
    assert effect.caught_up_ns == 3.5 * SECOND
    (phase,) = run.counted
    found = [(one.name, one.start_ns, one.end_ns) for one in segments(phase, [effect])]
    assert found == [
        ("before", 0, 6 * SECOND),
        (FAULT, 6 * SECOND, 9.5 * SECOND),
        ("after", 9.5 * SECOND, 20 * SECOND),
    ]
    assert [one.name for one in quiet_segments(run, phase)] == ["before", "after"]


@pytest.mark.parametrize(("place", "first", "last"), [("before", 0, 6), ("after", 10, 20)])
def test_a_drift_of_one_segment_is_found_and_its_place_is_named(
    broken: Draft, place: str, first: float, last: float
) -> None:
    def falling(at_s: float) -> float:
        return 1 - 0.19 * (at_s - first) / (last - first) if first <= at_s < last else 1.0

    scale(broken, falling)
    reasons = judge(broken.run()).reasons
    (moved,) = (one for one in reasons if one.code == "not_stationary")
    assert f"{place} the fault" in moved.sentence


def test_scatter_before_the_fault_is_imprecise(healthy_open: Callable[[], Draft]) -> None:
    draft = healthy_open()
    for state, at_s in (("begun", 15.0), ("ended", 16.0)):
        event = {"kind": "fault", "fault": FAULT, "node": "node-2", "state": state}
        draft.events.append({**event, "at_ns": int(at_s * SECOND)})
    chance = np.random.default_rng(5).lognormal(0, 1.2, 40)
    share = {at(row): number for row, number in zip(draft.total_rows(), chance, strict=True)}
    scale(draft, lambda at_s: share[at_s] if at_s < 15 else 0.0 if at_s < 16 else 1.5)
    (wide,) = (one for one in judge(draft.run()).reasons if one.code == "imprecise")
    assert "throughput before the fault is" in wide.sentence


def test_a_run_without_faults_is_one_segment(healthy: Callable[[], Draft]) -> None:
    run = healthy().run()
    (phase,) = run.counted
    (whole,) = quiet_segments(run, phase)
    assert (whole.name, whole.start_ns, whole.end_ns) == ("", phase.start_ns, phase.end_ns)
