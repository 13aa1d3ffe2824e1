"""YCSB's text of a run, the log of histograms, and encoded histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import RecordsError
from kvmark.records import Run, RunFolder
from kvmark.records.export import as_hlog, as_ycsb
from kvmark.records.histograms import decode, encode, log_lines, merge_log
from kvmark.stats import Counts
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


def test_failures_and_parts_are_counted_as_in_ycsb(
    running: Callable[[], RunFolder], engine_record: dict[str, Any]
) -> None:
    (read,) = engine_record["totals"]
    more = [{"outcome": "timeout"}, {"outcome": "miss"}]
    more += [{"part": True}, {"operation": "READ-MODIFY-WRITE"}]
    engine_record["totals"] += [{**read, **fields} for fields in more]
    lines = as_ycsb(close(running(), engine_record), measured="op").splitlines()
    # Failures have their own series; parts are reads and no operations of the run.
    assert {
        "[OVERALL], Throughput(ops/sec), 400.0", "[READ], Operations, 600",
        "[READ], Return=ERROR, 300", "[READ], Return=NOT_FOUND, 300",
        "[READ-FAILED], Operations, 600", "[READ-MODIFY-WRITE], Operations, 300",
    } <= {*lines}  # fmt: skip


def test_a_missing_log_is_reported(closed: Run) -> None:
    (closed.path / "histograms.hlog").unlink()
    with pytest.raises(RecordsError, match=r"the histograms of run .* can't be read"):
        as_hlog(closed)


# Encoded histograms against the public package.


LONGEST_NS = 3_600_000_000_000
samples = st.lists(st.integers(0, LONGEST_NS), min_size=1, max_size=100)


@given(samples, st.integers(2, 3), st.sampled_from([1, 1000]))
def test_counts_equal_the_public_package(recorded: list[int], digits: int, least: int) -> None:
    histogram = HdrHistogram(least, LONGEST_NS, digits)
    for value in recorded:
        histogram.record_value(value)
    counts = decode(histogram.encode().decode())
    lowest = {histogram.get_lowest_equivalent_value(value) for value in recorded}
    assert counts.low.tolist() == sorted(lowest)
    assert counts.high.tolist() == [
        histogram.get_highest_equivalent_value(low) for low in sorted(lowest)
    ]
    assert counts.count.tolist() == [histogram.get_count_at_value(low) for low in sorted(lowest)]


@given(samples)
def test_encoding_decoded_counts_changes_nothing(recorded: list[int]) -> None:
    once = decode(encode(Counts.of(recorded)))
    twice = decode(encode(once))
    assert decode(encode(Counts.empty())).n == 0
    assert once.n == len(recorded)
    assert (once.low == twice.low).all()
    assert (once.count == twice.count).all()


@pytest.mark.parametrize("text", ["", "no histogram", "AAAA", "HISTFAAAABl4nJNpmSzMwMDAxAABAA=="])
def test_a_text_that_is_no_histogram_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not an HdrHistogram"):
        decode(text)


def test_a_log_merges_by_tag_however_long_it_is() -> None:
    encoded = encode(Counts.of([5, 7]))
    text = '#[a comment]\n"StartTimestamp",…\n'
    text += "".join(f"Tag=READ-st,{second}.0,1.0,0.1,{encoded}\n" for second in range(200))
    text += "Tag=READ-rt,0.0,1.0\n"
    merged = merge_log(log_lines(text))
    assert list(merged) == ["READ-st"]
    assert merged["READ-st"].count.tolist() == [200, 200]
