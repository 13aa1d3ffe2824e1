"""Encoded HdrHistograms as counts, and the log that contains them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark import _engine
from kvmark.stats import Counts

# The engine's precision, also for counts that are encoded again.
_SIGNIFICANT_DIGITS = 3
#: The end of a tag in the log for each time.
TIME_TAGS: Final = {"service": "st", "response": "rt", "wait": "wt"}
#: The end of the tag in the log for the lag of the engine's stamps.
LAG_TAG: Final = "generator-lag"
ATTEMPT: Final = "ATTEMPT"
"""The operation of rows that count attempts, in runs with a retry policy."""
COUNTED_PARTS: Final = ("READ", "UPDATE", ATTEMPT)
"""Parts that other operations count already. All other parts are fills: writes after a miss."""
FILL_PREFIX: Final = "FILL."
"""The begin of a fill's tag."""
# A run of a day has 86,400 lines per tag: merging in batches bounds the memory.
_MERGED_AT_ONCE = 64
_QUANTILES: Final = {
    "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999
}  # fmt: skip


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
    """The histograms of a log, without comments and truncated lines."""
    for line in text.splitlines():
        parts = line.split(",")
        if line.startswith("Tag=") and len(parts) == 5:
            tag, start, length, _, encoded = parts
            yield LogLine(tag.removeprefix("Tag="), float(start), float(length), encoded)


def merge_log(lines: Iterable[LogLine]) -> dict[str, Counts]:
    """The merged histograms of each tag, in order of appearance."""
    merged: dict[str, list[Counts]] = {}
    for line in lines:
        parts = merged.setdefault(line.tag, [])
        parts.append(decode(line.encoded))
        if len(parts) == _MERGED_AT_ONCE:
            parts[:] = [Counts.merge(parts)]
    return {tag: Counts.merge(parts) for tag, parts in merged.items()}


def is_alone(operation: str, *, part: bool) -> bool:
    """Whether no other operation counts these: all but the parts of one."""
    return not part or operation not in COUNTED_PARTS


def series_tag(
    phase: str, group: str, operation: str, outcome: str, *, part: bool, several_groups: bool
) -> str:
    """The tag of a series in the log, without the time, as ``crates/record`` writes it."""
    plain = "".join("_" if char == "," or char.isspace() else char for char in group)
    group_prefix = f"{plain}." if several_groups else ""
    part_prefix = ""
    if part and operation != ATTEMPT:
        part_prefix = "READ-MODIFY-WRITE." if operation in COUNTED_PARTS else FILL_PREFIX
    ending = "" if outcome == "ok" else f".{outcome}"
    return f"{phase_prefix(phase)}{group_prefix}{part_prefix}{operation}{ending}"


def phase_prefix(phase: str) -> str:
    """The begin of all tags of phases with this name."""
    return "" if phase == "measure" else f"{phase}:"


def time_record(
    counts: Counts, least: int, largest: int, mean: float | None = None
) -> dict[str, Any]:
    """One time of a total in the manifest's form; by default with the mean of the counts."""
    quantiles = {
        name: min(max(counts.quantile(q) or 0, least), largest) for name, q in _QUANTILES.items()
    }
    return {
        "min": least,
        "mean": (counts.mean() or 0.0) if mean is None else mean,
        **quantiles,
        "max": largest,
        "stddev": counts.deviation() or 0.0,
        "histogram": encode(counts),
    }
