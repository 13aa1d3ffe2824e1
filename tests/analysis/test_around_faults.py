"""The service before, during and after planned faults, from runs whose intervals are planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.summary.chart_data import Stretch, around_faults
from kvmark.analysis.summary.faults import fault_effects
from kvmark.records import Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts

Draft = Any
SECOND = 1_000_000_000
FAULT = "5500ms kill node-2 for 2700ms"


@pytest.fixture
def broken(by_seconds: Callable[[], Draft]) -> Draft:
    """Twenty seconds; a server is gone from 5.5 to 8.2, and the rate low until 10."""
    draft = by_seconds()
    for state, at_s in (("begun", 5.5), ("ended", 8.2)):
        event = {"kind": "fault", "fault": FAULT, "node": "node-2", "state": state}
        draft.events.append({**event, "at_ns": int(at_s * SECOND)})
    for row in draft.intervals:
        second = row["start_ns"] // SECOND
        if row["operation"] != "TOTAL" and second in (6, 7, 8, 9):
            row["count"] = 0 if second in (6, 7) else row["count"] // 2
    return draft


def stretches_of(run: Run) -> tuple[Stretch, ...]:
    return around_faults(run, fault_effects(run))


def with_times(run: Run, times_ns: Callable[[int], list[int]]) -> Run:
    """Writes a log whose reads took these times in each second."""
    lines = [
        f"Tag=READ-rt,{second}.000000000,1.000000000,0.001,{encode(Counts.of(times_ns(second)))}"
        for second in range(20)
    ]
    (run.path / "histograms.hlog").write_text("\n".join(lines) + "\n")
    return run


def test_the_measurement_is_cut_where_a_fault_begins_and_where_it_is_over(broken: Draft) -> None:
    before, during, after = stretches_of(broken.run())
    assert [each.name for each in (before, during, after)] == ["before", FAULT, "after"]
    assert (before.start_ns, before.end_ns) == (0, 5 * SECOND)
    # The interval in which it began counts as the fault's.
    assert (during.start_ns, during.end_ns) == (5 * SECOND, 10 * SECOND)
    assert (after.start_ns, after.end_ns) == (10 * SECOND, 20 * SECOND)


def test_rates_and_failures_are_those_of_each_stretch(broken: Draft) -> None:
    row = {**broken.intervals[6 * 3 + 1], "outcome": "connection", "count": 40}
    broken.intervals.append(row)
    before, during, after = stretches_of(broken.run())
    assert after.throughput == pytest.approx(before.throughput, rel=0.01)
    share = (1 + 0 + 0 + 0.5 + 0.5) / 5
    assert during.throughput == pytest.approx(before.throughput * share, rel=0.01)
    assert [each.failed for each in (before, during, after)] == [0, 40, 0]


def test_response_times_are_those_of_each_stretch(broken: Draft) -> None:
    def times(second: int) -> list[int]:
        return [800_000_000] * 20 if 5 <= second < 10 else [1_000_000] * 1000

    stretches = stretches_of(with_times(broken.run(), times))
    medians = [each.response.shown_ns("p50") for each in stretches]
    assert medians == pytest.approx([1e6, 8e8, 1e6], rel=1e-3)
    assert [each.response.count for each in stretches] == [5000, 100, 10_000]


def test_a_server_that_stays_away_leaves_no_stretch_after_it(broken: Draft) -> None:
    broken.events[:] = [event for event in broken.events if event.get("state") != "ended"]
    names = [each.name for each in stretches_of(broken.run())]
    assert names == ["before", FAULT]


def test_each_of_two_faults_has_its_own_stretches(broken: Draft) -> None:
    for event in [event for event in broken.events if event["kind"] == "fault"]:
        later = {"fault": "15s kill node-3", "at_ns": event["at_ns"] + int(9.5 * SECOND)}
        broken.events.append({**event, **later})
    names = [each.name for each in stretches_of(broken.run())]
    assert names == ["before", FAULT, "after", "15s kill node-3", "after"]


def test_without_a_fault_there_is_nothing_around_it(by_seconds: Callable[[], Draft]) -> None:
    assert stretches_of(by_seconds().run()) == ()
