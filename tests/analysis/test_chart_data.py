"""The data of charts: a run over its time, and response times along a logarithmic axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.analysis.summary.chart_data import (
    MOST_STEPS,
    Timeline,
    TimeSteps,
    failure_course,
    resource_course,
    response_steps,
    steps_of,
    time_spread,
    timelines,
)
from kvmark.errors import RecordsError
from kvmark.records import Records, Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts
from runs_on_disk import OPERATIONS, begun, close, engine_record, write_second

S = 1_000_000_000
PLACE = ("clients", "READ")
times_ns = st.lists(st.integers(0, 10**14), min_size=1, max_size=200)


def recorded(
    tmp_path: Path, lines: list[str] | None = None, *, seconds: int = 4, failing: int | None = 2
) -> Run:
    """A second has seven timeouts; a server is gone from 3.5 to 6. With a log of histograms."""
    folder = begun(Records(tmp_path / "runs"))
    for second in range(seconds):
        write_second(folder, second, failed=7 if second == failing else 0)
    for state, at_s in (("begun", 3.5), ("ended", 6.0)):
        event = {"kind": "fault", "fault": "3s kill primary-1 for 3s", "node": "primary-1"}
        folder.append_event({**event, "at_ns": int(at_s * S), "state": state, "do": "kill"})
    if lines is not None:
        (folder.path / "histograms.hlog").write_text("\n".join(lines) + "\n")
    return close(folder, engine_record(seconds))


def line(tag: str, second: int, values: list[int]) -> str:
    return f"Tag={tag},{second}.000000000,1.000000000,0.001,{encode(Counts.of(values))}"


def test_cores_in_use_are_processor_time_over_time(tmp_path: Path) -> None:
    course = resource_course(recorded(tmp_path))
    generator = course.filter(pl.col("node") == "generator")
    assert generator["cores"].to_list() == pytest.approx([0.6, 0.6, 0.6])
    assert generator["end_ns"].to_list() == [S, 2 * S, 3 * S]
    server = course.filter(pl.col("node") == "primary-1")
    assert server["cores"].to_list() == pytest.approx([0.25, 0.25, 0.25])
    assert server["resident_bytes"].to_list() == [90_000_000] * 3


def test_a_server_that_was_started_again_has_no_cores_for_a_moment(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    again = pl.when(pl.col("at_wall_ns") < pl.col("at_wall_ns").max()).then(pl.col("cpu_user_s"))
    run.__dict__["resources"] = run.resources.with_columns(again.otherwise(0.0).alias("cpu_user_s"))
    server = resource_course(run).filter(pl.col("node") == "primary-1")
    assert server["cores"].to_list() == [0.25, 0.25, None]


def test_failures_have_a_row_for_every_interval(tmp_path: Path) -> None:
    course = failure_course(recorded(tmp_path))
    assert course["outcome"].unique().to_list() == ["timeout"]
    assert course["count"].to_list() == [0, 0, 7, 0]
    assert failure_course(recorded(tmp_path, seconds=1)).is_empty()


def test_the_spread_counts_every_operation_once(tmp_path: Path) -> None:
    lines = [
        line("READ-rt", 0, [1_000] * 90 + [2_000_000] * 10),
        line("UPDATE-rt", 0, [1_000] * 100),
        line("READ-st", 0, [1_000] * 50),
        line("READ-MODIFY-WRITE.READ-rt", 0, [1_000] * 50),
        line("READ-rt", 1, [1_000] * 4),
    ]
    spread = time_spread(recorded(tmp_path, lines))
    assert spread["count"].sum() == 204
    first = spread.filter(pl.col("start_ns") == 0)
    assert first["count"].to_list() == [190, 10]
    assert first["share"].to_list() == [0.95, 0.05]
    slow = first.row(1, named=True)
    assert slow["low_ns"] <= 2_000_000 < slow["high_ns"]
    assert spread["start_ns"].unique().sort().to_list() == [0, S]


def test_a_long_run_has_at_most_a_hundred_moments(tmp_path: Path) -> None:
    lines = [line("READ-rt", second, [1_000]) for second in range(600)]
    spread = time_spread(recorded(tmp_path, lines))
    assert 90 <= spread["start_ns"].n_unique() <= 97
    assert spread["count"].sum() == 600
    # Without a log of histograms there is none.
    assert time_spread(recorded(tmp_path)).is_empty()


def test_a_damaged_histogram_is_named(tmp_path: Path) -> None:
    run = recorded(tmp_path, ["Tag=READ-rt,0.0,1.0,0.001,nothing"])
    with pytest.raises(RecordsError, match=r"READ-rt in run .* is damaged"):
        time_spread(run)


def only(run: Run, most: int) -> Timeline:
    (timeline,) = timelines(run, most)
    return timeline


def test_a_cell_is_an_interval_where_there_is_room(tmp_path: Path) -> None:
    timeline = only(recorded(tmp_path, seconds=8, failing=5), 60)
    assert timeline.cell_ns == S
    assert timeline.length_ns == 8 * S
    assert timeline.cells.succeeded_per_s == (OPERATIONS,) * 8
    assert timeline.cells.failed_per_s == (0, 0, 0, 0, 0, 7, 0, 0)
    assert timeline.cells.response_ns_p99 == (19_900,) * 8


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7])
def test_cells_are_whole_intervals_and_lose_nothing(tmp_path: Path, most: int) -> None:
    timeline = only(recorded(tmp_path, seconds=8, failing=5), most)
    assert len(timeline.cells.succeeded_per_s) <= most
    assert timeline.cell_ns % S == 0
    assert set(timeline.cells.succeeded_per_s) == {OPERATIONS}
    lengths = [min(timeline.cell_ns, timeline.length_ns - place * timeline.cell_ns)
               for place in range(len(timeline.cells.failed_per_s))]  # fmt: skip
    failed = zip(timeline.cells.failed_per_s, lengths, strict=True)
    assert sum((rate or 0) * length / S for rate, length in failed) == pytest.approx(7)


def test_a_fault_covers_the_cells_that_it_touches(tmp_path: Path) -> None:
    (fault,) = only(recorded(tmp_path, seconds=8), 60).faults
    # From 3.5 s to 6 s, which is where the next cell begins.
    assert (fault.text, fault.first, fault.last) == ("3s kill primary-1 for 3s", 3, 5)


def test_where_no_interval_lies_nothing_is_known(tmp_path: Path) -> None:
    # One interval is no course.
    assert timelines(recorded(tmp_path, seconds=1), 60) == ()
    folder = begun(Records(tmp_path / "runs"))
    for second in (0, 1, 4):
        write_second(folder, second)
    timeline = only(close(folder, engine_record(5)), 60)
    assert timeline.cells.succeeded_per_s == (OPERATIONS, OPERATIONS, None, None, OPERATIONS)
    assert timeline.cells.response_ns_p99[2:4] == (None, None)


def steps(*values_ns: int) -> TimeSteps:
    return steps_of("response", {PLACE: Counts.of(values_ns)})


@given(st.lists(times_ns, min_size=1, max_size=4))
def test_the_counts_of_each_kind_sum_to_its_operations(kinds: list[list[int]]) -> None:
    found = steps_of(
        "response", {("g", str(n)): Counts.of(values) for n, values in enumerate(kinds)}
    )
    assert [sum(kind.counts) for kind in found.kinds] == [len(values) for values in kinds]
    assert {len(kind.counts) for kind in found.kinds} == {len(found.edges_ns) - 1}
    assert list(found.edges_ns) == sorted(found.edges_ns)


@given(times_ns)
def test_a_mark_stands_where_its_quantile_was_counted(values: list[int]) -> None:
    found = steps(*values)
    (kind,) = found.kinds
    counts = Counts.of(values)
    for name, q in {"p50": 0.5, "p99": 0.99, "max": 1.0}.items():
        assert (name in kind.marks) == counts.shows(q)
        if name in kind.marks:
            value = counts.quantile(q) or 0
            step = kind.marks[name]
            # An edge is a power that a float holds to the last digit or so.
            assert found.edges_ns[step] * (1 - 1e-8) <= max(value, 1)
            assert max(value, 1) <= found.edges_ns[step + 1] * (1 + 1e-8)
            assert kind.counts[step] > 0


def test_the_axis_is_short_and_of_one_factor() -> None:
    found = steps(*([50_000] * 90), *([60_000_000] * 10))
    assert len(found.edges_ns) - 1 <= MOST_STEPS
    ratios = {round(b / a, 6) for a, b in zip(found.edges_ns[1:], found.edges_ns[2:], strict=False)}
    assert ratios == {round(10 ** (1 / found.per_decade), 6)}
    # Without an operation that ended ok there is none.
    assert steps_of("response", {PLACE: Counts.empty()}) is None


@pytest.mark.parametrize(
    ("values", "counts", "marks"),
    [
        ([200_000] * 30, (30,), {"p50": 0, "max": 0}),
        # One operation has a maximum and no quantile.
        ([5], (1,), {"max": 0}),
        # The fastest hundredth doesn't stretch the axis.
        ([1, *([1_000_000] * 500)], (501,), {"p50": 0, "p99": None, "max": 0}),
    ],
)
def test_equal_times_stand_in_one_step(
    values: list[int], counts: tuple[int, ...], marks: dict[str, int | None]
) -> None:
    found = steps(*values)
    assert found.kinds[0].counts == counts
    assert found.kinds[0].marks == {name: step for name, step in marks.items() if step is not None}
    assert (found.edges_ns[0] == 0) == (len(values) > 30)
    assert found.edges_ns[0] <= values[-1] < found.edges_ns[1]


def test_a_run_s_steps_are_of_what_ended_ok(healthy: Callable[[], Any]) -> None:
    draft = healthy()
    draft.engine["totals"].append({**draft.total("READ"), "outcome": "timeout", "count": 7})
    run = draft.run()
    found = response_steps(run)
    ok = {total.operation: total.count for total in run.totals(0) if total.outcome == "ok"}
    assert {kind.operation: sum(kind.counts) for kind in found.kinds} == ok
