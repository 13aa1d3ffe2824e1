"""Planned faults: time without service, recovery, and the segments before and after them.

The intervals of the runs are planted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.summary.chart_data import Stretch, around_faults
from kvmark.analysis.summary.faults import FaultEffect, fault_effects, quiet_segments, segments
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import judge
from kvmark.records import Judgement, Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts

Draft = Any
S = 1_000_000_000
FAULT = "5500ms kill node-2 for 2700ms"


def at(row: dict[str, Any]) -> float:
    """When an interval of a row begins, in seconds."""
    return float(row["start_ns"]) / S


def scale(draft: Draft, share: Callable[[float], float]) -> None:
    """Leaves such a share of the successes of each interval."""
    for row in draft.intervals:
        if row["operation"] != "TOTAL":
            row["count"] = int(row["count"] * share(at(row)))


def fail(draft: Draft, second: int, outcome: str, count: int) -> None:
    row = {**draft.intervals[second * 3 + 1], "outcome": outcome, "count": count}
    draft.intervals.append(row)


def again(draft: Draft, text: str, later_s: float) -> None:
    """The same fault a second time, of another server."""
    for event in list(draft.events):
        at_ns = event["at_ns"] + int(later_s * S)
        draft.events.append({**event, "fault": text, "at_ns": at_ns})


@pytest.fixture
def broken(by_seconds: Callable[[], Draft]) -> Draft:
    """Twenty seconds, of which a server is gone from 5.5 to 8.2."""
    draft = by_seconds()
    draft.fault(FAULT, "node-2", 5.5, 8.2)
    return draft


@pytest.fixture
def low(broken: Draft) -> Draft:
    """The same with the rate low until 10."""
    scale(broken, lambda at_s: {6: 0.0, 7: 0.0, 8: 0.5, 9: 0.5}.get(int(at_s), 1.0))
    return broken


@pytest.fixture
def at_rate(healthy_open: Callable[[], Draft]) -> Draft:
    """Twenty seconds at a rate; a server is gone from 6 to 8, what fell due is done until 9.5."""
    draft = healthy_open()
    draft.fault(FAULT, "node-2", 6.0, 8.0)
    scale(draft, lambda at_s: 0.0 if 6 <= at_s < 8 else 2.3 if 8 <= at_s < 9.5 else 1.0)
    for row in draft.total_rows():
        row["backlog"] = 9000 if 6 <= at(row) < 9 else 0
    return draft


def only(draft: Draft) -> FaultEffect:
    (effect,) = fault_effects(draft.run())
    return effect


def stretches_of(run: Run) -> tuple[Stretch, ...]:
    return around_faults(run, fault_effects(run))


def test_intervals_without_a_success_are_time_without_service(broken: Draft) -> None:
    scale(broken, lambda at_s: {5: 0.5, 6: 0.0, 7: 0.0, 8: 0.3}.get(int(at_s), 1.0))
    effect = only(broken)
    assert effect.without_service_ns == 2 * S
    assert effect.recovery_ns == 9 * S - effect.begun_ns
    assert (effect.node, effect.ended_ns) == ("node-2", int(8.2 * S))


def test_failures_are_told_by_class_from_the_fault_on(broken: Draft) -> None:
    for second, outcome, count in (
        (2, "timeout", 50),
        (6, "connection", 7),
        (12, "unavailable", 3),
    ):
        fail(broken, second, outcome, count)
    (effect,) = summarize(broken.run()).faults
    assert effect.errors == {"connection": 7, "unavailable": 3}


def test_a_fault_that_nobody_notices_needs_no_recovery(broken: Draft) -> None:
    scale(broken, lambda at_s: 0.9 if at_s == 6 else 1.0)
    effect = only(broken)
    assert (effect.without_service_ns, effect.recovery_ns) == (0, 0)


def test_a_service_that_is_still_down_at_the_end_has_not_recovered(broken: Draft) -> None:
    scale(broken, lambda at_s: 0.2 if at_s >= 6 else 1.0)
    assert only(broken).recovery_ns is None


def test_each_fault_is_followed_until_the_next_one(broken: Draft) -> None:
    again(broken, "12s kill node-3", 7)
    scale(broken, lambda at_s: 0.0 if at_s in (6, 13, 14) else 1.0)
    first, second = fault_effects(broken.run())
    assert (first.without_service_ns, second.without_service_ns) == (S, 2 * S)


def test_without_a_fault_there_is_one_segment(by_seconds: Callable[[], Draft]) -> None:
    run = by_seconds().run()
    assert (fault_effects(run), stretches_of(run)) == ((), ())
    (phase,) = run.counted
    (whole,) = quiet_segments(run, phase)
    assert (whole.name, whole.start_ns, whole.end_ns) == ("", phase.start_ns, phase.end_ns)


def test_the_measurement_is_cut_where_a_fault_begins_and_where_it_is_over(low: Draft) -> None:
    fail(low, 6, "connection", 40)
    stretches = stretches_of(low.run())
    assert [(each.name, each.start_ns, each.end_ns, each.failed) for each in stretches] == [
        ("before", 0, 5 * S, 0),
        # The interval in which it began counts as the fault's.
        (FAULT, 5 * S, 10 * S, 40),
        ("after", 10 * S, 20 * S, 0),
    ]
    before, during, after = (each.throughput for each in stretches)
    assert after == pytest.approx(before, rel=0.01)
    assert during == pytest.approx(before * (1 + 0 + 0 + 0.5 + 0.5) / 5, rel=0.01)


def test_response_times_are_those_of_each_stretch(low: Draft) -> None:
    run, lines = low.run(), []
    for second in range(20):
        times = [800_000_000] * 20 if 5 <= second < 10 else [1_000_000] * 1000
        text = encode(Counts.of(times))
        lines.append(f"Tag=READ-rt,{second}.000000000,1.000000000,0.001,{text}\n")
    (run.path / "histograms.hlog").write_text("".join(lines))
    stretches = stretches_of(run)
    medians = [each.response.shown_ns("p50") for each in stretches]
    assert medians == pytest.approx([1e6, 8e8, 1e6], rel=1e-3)
    assert [each.response.count for each in stretches] == [5000, 100, 10_000]


def test_a_server_that_stays_away_leaves_no_stretch_after_it(low: Draft) -> None:
    low.events[:] = [event for event in low.events if event.get("state") != "ended"]
    assert [each.name for each in stretches_of(low.run())] == ["before", FAULT]


def test_each_of_two_faults_has_its_own_stretches(low: Draft) -> None:
    again(low, "15s kill node-3", 9.5)
    names = [each.name for each in stretches_of(low.run())]
    assert names == ["before", FAULT, "after", "15s kill node-3", "after"]


def test_an_outage_is_neither_imprecise_nor_a_drift(at_rate: Draft) -> None:
    run = at_rate.run()
    verdict = judge(run)
    assert (verdict.judgement, verdict.reasons) == (Judgement.VALID, ())
    (phase,) = summarize(run).phases
    assert phase.throughput.error is None
    assert "a server was broken on purpose" in phase.throughput.method


def test_what_fell_due_meanwhile_is_the_faults(at_rate: Draft) -> None:
    run = at_rate.run()
    (effect,) = fault_effects(run)
    assert (effect.recovery_ns, effect.caught_up_ns) == (2 * S, 3.5 * S)
    (phase,) = run.counted
    found = [(one.name, one.start_ns, one.end_ns) for one in segments(phase, [effect])]
    assert found == [
        ("before", 0, 6 * S), (FAULT, 6 * S, 9.5 * S), ("after", 9.5 * S, 20 * S),
    ]  # fmt: skip
    assert [one.name for one in quiet_segments(run, phase)] == ["before", "after"]


@pytest.mark.parametrize(("place", "first", "last"), [("before", 0, 6), ("after", 10, 20)])
def test_a_drift_of_a_segment_is_named(
    at_rate: Draft, place: str, first: float, last: float
) -> None:
    def falling(at_s: float) -> float:
        return 1 - 0.19 * (at_s - first) / (last - first) if first <= at_s < last else 1.0

    scale(at_rate, falling)
    (moved,) = (one for one in judge(at_rate.run()).reasons if one.code == "not_stationary")
    assert f"{place} the fault" in moved.sentence


def test_scatter_before_the_fault_is_imprecise(healthy_open: Callable[[], Draft]) -> None:
    draft = healthy_open()
    draft.fault(FAULT, "node-2", 15.0, 16.0)
    chance = np.random.default_rng(5).lognormal(0, 1.2, 40)
    share = {at(row): number for row, number in zip(draft.total_rows(), chance, strict=True)}
    scale(draft, lambda at_s: share[at_s] if at_s < 15 else 0.0 if at_s < 16 else 1.5)
    (wide,) = (one for one in judge(draft.run()).reasons if one.code == "imprecise")
    assert "throughput before the fault is" in wide.sentence
