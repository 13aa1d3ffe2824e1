"""A phase in cells of time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))

from kvmark.analysis.summary.chart_data import Timeline, timelines
from kvmark.records import Records, Run
from runs_on_disk import OPERATIONS, begun, engine_record, write_second

S = 10**9


def recorded(tmp_path: Path, seconds: int, *, failing: int | None = None) -> Run:
    folder = begun(Records(tmp_path / "runs"))
    for second in range(seconds):
        write_second(folder, second, failed=7 if second == failing else 0)
    for state, at_s in (("begun", 3.5), ("ended", 6.0)):
        event = {"kind": "fault", "fault": "3s kill primary-1 for 3s", "node": "primary-1"}
        folder.append_event({**event, "at_ns": int(at_s * S), "state": state, "do": "kill"})
    return folder.close(engine_record(seconds))


def only(run: Run, most: int) -> Timeline:
    (timeline,) = timelines(run, most)
    return timeline


def test_a_cell_is_an_interval_where_there_is_room(tmp_path: Path) -> None:
    timeline = only(recorded(tmp_path, 8, failing=5), 60)
    assert timeline.cell_ns == S
    assert timeline.length_ns == 8 * S
    assert timeline.succeeded_per_s == (OPERATIONS,) * 8
    assert timeline.failed_per_s == (0, 0, 0, 0, 0, 7, 0, 0)
    assert timeline.response_ns_p99 == (19_900,) * 8


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7])
def test_cells_are_whole_intervals_and_lose_nothing(tmp_path: Path, most: int) -> None:
    timeline = only(recorded(tmp_path, 8, failing=5), most)
    assert len(timeline.succeeded_per_s) <= most
    assert timeline.cell_ns % S == 0
    assert set(timeline.succeeded_per_s) == {OPERATIONS}
    lengths = [min(timeline.cell_ns, timeline.length_ns - place * timeline.cell_ns)
               for place in range(len(timeline.failed_per_s))]  # fmt: skip
    failed = zip(timeline.failed_per_s, lengths, strict=True)
    assert sum((rate or 0) * length / S for rate, length in failed) == pytest.approx(7)


def test_a_fault_covers_the_cells_that_it_touches(tmp_path: Path) -> None:
    (fault,) = only(recorded(tmp_path, 8), 60).faults
    # From 3.5 s to 6 s, which is where the next cell begins.
    assert (fault.text, fault.first, fault.last) == ("3s kill primary-1 for 3s", 3, 5)


def test_one_interval_is_no_course(tmp_path: Path) -> None:
    assert timelines(recorded(tmp_path, 1), 60) == ()


def test_where_no_interval_lies_nothing_is_known(tmp_path: Path) -> None:
    folder = begun(Records(tmp_path / "runs"))
    for second in (0, 1, 4):
        write_second(folder, second)
    timeline = only(folder.close(engine_record(5)), 60)
    assert timeline.succeeded_per_s == (OPERATIONS, OPERATIONS, None, None, OPERATIONS)
    assert timeline.response_ns_p99[2:4] == (None, None)
