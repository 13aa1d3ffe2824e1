"""How the values of YCSB's properties are read, and which properties are not carried out.

A parser takes the text of a value and gives a typed one. It raises `SpecError` for a value that
means nothing, `UnsupportedProperty` for one that YCSB would carry out and kvmark does not; both
without a place, which the caller knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from kvmark.errors import SpecError, UnsupportedProperty
from kvmark.spec.quantity import LARGEST
from kvmark.spec.suggest import did_you_mean, shown

LARGEST_INT: Final = 2**31 - 1

T = TypeVar("T")

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)


def text(value: str) -> str:
    """Any text that is not empty, as it stands."""
    if not value:
        raise SpecError("must not be empty")
    return value


def exactly(value: str) -> str:
    """Any text as it stands."""
    return value


def integer(low: int, high: int = LARGEST) -> Callable[[str], int]:
    """A whole number from `low` to `high`, both included."""

    def parse(value: str) -> int:
        plain = value.strip()
        if not _INTEGER.fullmatch(plain):
            raise SpecError(f"must be a whole number, not {shown(value)}")
        if not low <= int(plain) <= high:
            raise SpecError(f"must be a whole number from {low} to {high}, not {shown(value)}")
        return int(plain)

    return parse


def number(low: float, high: float = math.inf) -> Callable[[str], float]:
    """A finite decimal number from `low` to `high`, both included."""

    def parse(value: str) -> float:
        plain = value.strip()
        if not _NUMBER.fullmatch(plain) or not math.isfinite(float(plain)):
            raise SpecError(f"must be a number, not {shown(value)}")
        if not low <= float(plain) <= high:
            bound = f"not be below {low:g}" if high == math.inf else f"be from {low:g} to {high:g}"
            raise SpecError(f"must {bound}, not {shown(value)}")
        return float(plain)

    return parse


def boolean(value: str) -> bool:
    """`true` or `false`; YCSB takes any other word for false without a word."""
    plain = value.strip().lower()
    if plain not in ("true", "false"):
        raise SpecError(f"must be true or false, not {shown(value)}")
    return plain == "true"


def choice(*known: str) -> Callable[[str], str]:
    """One of the known words."""

    def parse(value: str) -> str:
        plain = value.strip()
        if plain not in known:
            raise SpecError(f"has no value {shown(plain)}{did_you_mean(plain, known)}")
        return plain

    return parse


def only(known: tuple[str, ...], reason: str) -> Callable[[str], str]:
    """One of the words that kvmark carries out; any other is refused with the reason."""

    def parse(value: str) -> str:
        plain = value.strip()
        if plain not in known:
            raise UnsupportedProperty(f"is not supported with the value {shown(plain)}: {reason}")
        return plain

    return parse


def percentiles(value: str) -> tuple[float, ...]:
    """Percentiles separated by commas, above 0 and up to 100."""
    parse = number(0, 100)
    found = tuple(parse(part) for part in value.split(","))
    if not all(found):
        raise SpecError("must be percentiles above 0")
    return found


def read_length_histogram(name: str) -> tuple[int, tuple[int, ...]]:
    """Block size and bucket weights of YCSB's histogram file.

    The first line is `BlockSize`, a tab and the size; each further line is a bucket's number, from
    0 upwards, a tab and its weight.
    """
    file = Path(name)
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"names the file {shown(name)}, which cannot be read: {reason}") from None
    except ValueError:
        raise SpecError(f"names the file {shown(name)}, which is not text") from None
    rows = [line.split("\t") for line in lines]
    if not rows or len(rows[0]) != 2 or rows[0][0] != "BlockSize":
        raise SpecError("the first line must be BlockSize, a tab and a number", file=name, line=1)
    block_size = _located(integer(1, LARGEST_INT), rows[0][1], name, 1)
    weights = []
    for bucket, row in enumerate(rows[1:]):
        if len(row) != 2 or row[0].strip() != str(bucket):
            sentence = f"the line must be {bucket}, a tab and the bucket's weight"
            raise SpecError(sentence, file=name, line=bucket + 2)
        weights.append(_located(integer(0, LARGEST_INT), row[1], name, bucket + 2))
    if not any(weights):
        raise SpecError("one of the buckets must have a weight above 0", file=name)
    return block_size, tuple(weights)


def _located(parse: Callable[[str], T], value: str, file: str, line: int) -> T:
    try:
        return parse(value)
    except SpecError as problem:
        raise SpecError(f"the number {problem.message}", file=file, line=line) from None


ALWAYS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "workload": only(
            (
                "site.ycsb.workloads.CoreWorkload",
                "com.yahoo.ycsb.workloads.CoreWorkload",
            ),
            "kvmark carries out CoreWorkload only; write what another class does as statements of"
            " your own in a workload file",
        ),
        "measurementtype": only(
            ("hdrhistogram", "histogram", "hdrhistogram+histogram"),
            "kvmark records HDR histograms per interval, not single operations",
        ),
        "histogram.buckets": integer(1, LARGEST_INT),
        "timeseries.granularity": integer(1, LARGEST_INT),
        "hdrhistogram.fileoutput": boolean,
        "measurement.histogram.verbose": only(
            ("false",), "all buckets are in the run's histograms.hlog"
        ),
        "measurement.trackjvm": only(("false",), "there is no JVM to track"),
        "reportlatencyforeacherror": boolean,
        "latencytrackederrors": exactly,
        "core_workload_insertion_retry_limit": only(
            ("0",), "a failed insert is recorded as failed and not tried again"
        ),
        "core_workload_insertion_retry_interval": integer(0, LARGEST_INT),
        "spin.sleep": boolean,
        "status": boolean,
        "exporter": only(
            (
                "site.ycsb.measurements.exporter.TextMeasurementsExporter",
                "com.yahoo.ycsb.measurements.exporter.TextMeasurementsExporter",
            ),
            "write other formats with 'kvmark runs export RUN --format json'",
        ),
    }
)
"""Properties that leave no choice: each value accepted asks for what kvmark does anyway.

Histograms of every outcome are always recorded, over the whole range and by interval, and their log
always written, the schedule is kept as exactly as the engine can, progress is always shown, and the
retry interval matters only to retries, of which there are none.
"""

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "exportfile": "write the text with 'kvmark runs export RUN --format ycsb'",
        "hdrhistogram.output.path": "histograms are written into the run's folder",
        "measurement.raw.output_file": "single operations are not recorded",
        "measurement.raw.no_summary": "single operations are not recorded",
        "hosts": "name the system with its URL in --system",
        "host": "name the system with its URL in --system",
        "port": "name the system with its URL in --system",
    }
)
"""Properties that YCSB knows and kvmark does not carry out, and why."""

BINDING_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "htrace.": "kvmark does not trace single operations",
    }
)
"""Beginnings of the names of properties that no binding has; drivers know those of theirs."""
