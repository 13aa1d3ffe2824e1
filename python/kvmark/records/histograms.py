"""HdrHistogram's encoded histograms as counts, and the log that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark import _engine
from kvmark.stats import Counts

# What the engine records with; used when counts must be encoded again.
_SIGNIFICANT_DIGITS = 3
#: The end of a tag in the log for each time.
TIME_TAGS: Final = {"service": "st", "response": "rt", "wait": "wt"}
#: The end of the tag in the log for the lag of the engine's own stamps.
LAG_TAG: Final = "generator-lag"
# A run of a day has 86,400 lines per tag: not all are held at once.
_MERGED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class LogLine:
    """One histogram of ``histograms.hlog``. Seconds count from the run's start."""

    tag: str
    start_s: float
    length_s: float
    encoded: str


def decode(encoded: str) -> Counts:
    """The counts of an encoded histogram.

    Raises:
        ValueError: the text isn't an HdrHistogram.
    """
    buckets = np.frombuffer(_engine.decode_histogram(encoded), dtype="<i8").reshape(-1, 3)
    return Counts(buckets[:, 0], buckets[:, 1], buckets[:, 2])


def encode(counts: Counts) -> str:
    """The counts as HdrHistogram V2, deflated, in base64."""
    values = zip(counts.low.tolist(), counts.count.tolist(), strict=True)
    return _engine.encode_histogram(list(values), _SIGNIFICANT_DIGITS)


def log_lines(text: str) -> Iterator[LogLine]:
    """The histograms of a log; comments and lines that were cut off are passed over."""
    for line in text.splitlines():
        if not line.startswith("Tag="):
            continue
        parts = line.split(",")
        if len(parts) != 5:
            continue
        tag, start, length, _, encoded = parts
        yield LogLine(tag.removeprefix("Tag="), float(start), float(length), encoded)


def merge_log(lines: Iterable[LogLine]) -> dict[str, Counts]:
    """All histograms of each tag together, in order of appearance."""
    merged: dict[str, list[Counts]] = {}
    for line in lines:
        parts = merged.setdefault(line.tag, [])
        parts.append(decode(line.encoded))
        if len(parts) == _MERGED_AT_ONCE:
            parts[:] = [Counts.merge(parts)]
    return {tag: Counts.merge(parts) for tag, parts in merged.items()}


def series_tag(
    phase: str, group: str, operation: str, outcome: str, *, part: bool, several_groups: bool
) -> str:
    """The tag of a series in the log, without the time, as ``crates/record`` writes it."""
    plain = "".join("_" if char == "," or char.isspace() else char for char in group)
    named = f"{plain}." if several_groups else ""
    whole = "READ-MODIFY-WRITE." if part else ""
    ending = "" if outcome == "ok" else f".{outcome}"
    return f"{_prefix(phase)}{named}{whole}{operation}{ending}"


def lag_tag(phase: str) -> str:
    """The tag of the generator's lag in a phase of this name."""
    return f"{_prefix(phase)}{LAG_TAG}"


def _prefix(phase: str) -> str:
    return "" if phase == "measure" else f"{phase}:"


def time_record(
    counts: Counts, least: int, largest: int, mean: float | None = None
) -> dict[str, Any]:
    """One time of a total as the manifest keeps it; the mean is the counts' own if not known."""

    def at(q: float) -> int:
        return min(max(counts.quantile(q) or 0, least), largest)

    return {
        "min": least,
        "mean": (counts.mean() or 0.0) if mean is None else mean,
        "p50": at(0.5),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "max": largest,
        "stddev": counts.deviation() or 0.0,
        "histogram": encode(counts),
    }
