"""Encoded histograms against the public package."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from kvmark.records.histograms import decode, encode, log_lines, merge_log
from kvmark.stats import Counts

LONGEST_NS = 3_600_000_000_000
samples = st.lists(st.integers(0, LONGEST_NS), min_size=1, max_size=100)


@given(samples, st.integers(2, 3), st.sampled_from([1, 1000]))
def test_counts_are_those_of_the_public_package(
    recorded: list[int], digits: int, least: int
) -> None:
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
    assert once.n == len(recorded)
    assert (once.low == twice.low).all()
    assert (once.count == twice.count).all()


def test_empty_counts_are_encoded_and_decoded() -> None:
    assert decode(encode(Counts.empty())).n == 0


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
