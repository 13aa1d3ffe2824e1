"""Exports for other programs: YCSB's text, CSV, HdrHistogram log."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from kvmark.errors import RecordsError
from kvmark.records import RunFolder
from kvmark.records.export import as_csv, as_hlog, as_ycsb

Make = Callable[[], RunFolder]
Engine = Callable[[], dict[str, Any]]


def test_ycsbs_text_has_its_lines_in_its_order(running: Make, engine_record: Engine) -> None:
    text = as_ycsb(running().close(engine_record()), measured="op")
    assert text.splitlines() == [
        "[OVERALL], RunTime(ms), 3000",
        "[OVERALL], Throughput(ops/sec), 100.0",
        "[READ], Operations, 300",
        "[READ], AverageLatency(us), 2.0495",
        "[READ], MinLatency(us), 1",
        "[READ], MaxLatency(us), 3",
        "[READ], 50thPercentileLatency(us), 2",
        "[READ], 95thPercentileLatency(us), 3",
        "[READ], 99thPercentileLatency(us), 3",
        "[READ], Return=OK, 300",
    ]


def test_response_time_is_ycsbs_intended_series(running: Make, engine_record: Engine) -> None:
    run = running().close(engine_record())
    both = as_ycsb(run, percentiles=(50, 99.9, 91))
    assert "[Intended-READ], 50thPercentileLatency(us), 2" in both
    assert "[READ], 99.9PercentileLatency(us), 3" in both
    assert "[READ], 91stPercentileLatency(us), 3" in both
    assert "[READ], " not in as_ycsb(run, measured="intended")


def test_failures_have_their_own_series_and_returns(running: Make, engine_record: Engine) -> None:
    record = engine_record()
    (ok,) = record["totals"]
    record["totals"] += [{**ok, "outcome": "timeout"}, {**ok, "outcome": "miss"}]
    lines = as_ycsb(running().close(record), measured="op").splitlines()
    assert "[OVERALL], Throughput(ops/sec), 300.0" in lines
    assert "[READ], Operations, 300" in lines
    assert "[READ], Return=ERROR, 300" in lines
    assert "[READ], Return=NOT_FOUND, 300" in lines
    assert "[READ-FAILED], Operations, 600" in lines


def test_parts_count_as_reads_but_not_as_operations_of_the_run(
    running: Make, engine_record: Engine
) -> None:
    record = engine_record()
    (read,) = record["totals"]
    record["totals"] += [
        {**read, "part": True},
        {**read, "operation": "READ-MODIFY-WRITE"},
    ]
    lines = as_ycsb(running().close(record), measured="op").splitlines()
    assert "[OVERALL], Throughput(ops/sec), 200.0" in lines
    assert "[READ], Operations, 600" in lines
    assert "[READ-MODIFY-WRITE], Operations, 300" in lines


def test_the_csv_is_the_table_of_intervals(running: Make, engine_record: Engine) -> None:
    run = running().close(engine_record())
    table = pl.read_csv(io.StringIO(as_csv(run)))
    assert table.columns == run.intervals.columns
    assert table.height == run.intervals.height


def test_the_log_is_read_by_the_public_package(running: Make, engine_record: Engine) -> None:
    run = running().close(engine_record())
    copy = run.path.parent / "copy.hlog"
    copy.write_bytes(as_hlog(run))
    reader = HistogramLogReader(str(copy), HdrHistogram(1, 10**9, 3))
    count = 0
    while (histogram := reader.get_next_interval_histogram()) is not None:
        count += histogram.get_total_count() if histogram.get_tag() == "READ-rt" else 0
    reader.input_file.close()
    assert count == 300


def test_a_missing_log_is_reported(running: Make, engine_record: Engine) -> None:
    run = running().close(engine_record())
    (run.path / "histograms.hlog").unlink()
    with pytest.raises(RecordsError, match=r"the histograms of run .* can't be read"):
        as_hlog(run)
