"""YCSB's text of a run, and a run without a log of histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.errors import RecordsError
from kvmark.records import Run, RunFolder
from kvmark.records.export import as_hlog, as_ycsb
from runs_on_disk import close


def test_ycsbs_text_has_its_lines_in_its_order(closed: Run) -> None:
    assert as_ycsb(closed, measured="op").splitlines() == [
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


def test_response_time_is_ycsbs_intended_series(closed: Run) -> None:
    both = as_ycsb(closed, percentiles=(50, 99.9, 91))
    assert "[Intended-READ], 50thPercentileLatency(us), 2" in both
    assert "[READ], 99.9PercentileLatency(us), 3" in both
    assert "[READ], 91stPercentileLatency(us), 3" in both
    assert "[READ], " not in as_ycsb(closed, measured="intended")


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        (
            [{"outcome": "timeout"}, {"outcome": "miss"}],
            {
                "[OVERALL], Throughput(ops/sec), 300.0", "[READ], Operations, 300",
                "[READ], Return=ERROR, 300", "[READ], Return=NOT_FOUND, 300",
                "[READ-FAILED], Operations, 600",
            },
        ),
        (
            [{"part": True}, {"operation": "READ-MODIFY-WRITE"}],
            {
                "[OVERALL], Throughput(ops/sec), 200.0", "[READ], Operations, 600",
                "[READ-MODIFY-WRITE], Operations, 300",
            },
        ),
    ],
    ids=["failures have their own series", "parts are reads and no operations of the run"],
)  # fmt: skip
def test_failures_and_parts_are_counted_as_in_ycsb(
    running: Callable[[], RunFolder],
    engine_record: dict[str, Any],
    more: list[dict[str, Any]],
    lines: set[str],
) -> None:
    (read,) = engine_record["totals"]
    engine_record["totals"] += [{**read, **fields} for fields in more]
    run = close(running(), engine_record)
    assert lines <= set(as_ycsb(run, measured="op").splitlines())


def test_a_missing_log_is_reported(closed: Run) -> None:
    (closed.path / "histograms.hlog").unlink()
    with pytest.raises(RecordsError, match=r"the histograms of run .* can't be read"):
        as_hlog(closed)
