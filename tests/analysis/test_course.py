"""How a run went over its time."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))

from kvmark.analysis.summary.chart_data import failure_course, resource_course, time_spread
from kvmark.errors import RecordsError
from kvmark.records import Records, Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts
from runs_on_disk import begun, engine_record, write_second

S = 1_000_000_000


def recorded(tmp_path: Path, lines: list[str] | None = None) -> Run:
    """Four seconds; the third has seven timeouts. A log of histograms where lines are given."""
    folder = begun(Records(tmp_path / "runs"))
    for second in range(4):
        write_second(folder, second, failed=7 if second == 2 else 0)
    if lines is not None:
        (folder.path / "histograms.hlog").write_text("\n".join(lines) + "\n")
    return folder.close(engine_record(4))


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


def test_a_run_without_failures_has_no_course_of_them(tmp_path: Path) -> None:
    folder = begun(Records(tmp_path / "runs"))
    write_second(folder, 0)
    assert failure_course(folder.close(engine_record(1))).is_empty()


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


def test_a_run_without_a_log_of_histograms_has_no_spread(tmp_path: Path) -> None:
    assert time_spread(recorded(tmp_path)).is_empty()


def test_a_damaged_histogram_is_named(tmp_path: Path) -> None:
    run = recorded(tmp_path, ["Tag=READ-rt,0.0,1.0,0.001,nothing"])
    with pytest.raises(RecordsError, match=r"READ-rt in run .* is damaged"):
        time_spread(run)
