"""What an importer makes of a file, and the collector that it uses.

Encoded histograms are bounded before they are unpacked.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

import numpy as np

from kvmark.imports.source import Source
from kvmark.records import BucketsRecord, FigureRecord, ImportedCase, TimeName
from kvmark.records.audit import AuditRecord
from kvmark.records.histograms import decode
from kvmark.records.model import VALUE
from kvmark.stats import Counts

NS: Final[Mapping[str, int]] = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 10**9}
"""Nanoseconds of the units in which tools give times."""

NAMES: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = tomllib.loads(
    (files(__package__) / "figures.toml").read_text("utf-8")
)
"""Quantity and unit by the names of formats."""

_LATEST: Final = 2**62
"""Nanoseconds and counts below it have room in every table."""
MOST_FIGURES: Final = 100_000
MOST_INTERVALS: Final = 1_000_000

_COMPRESSED: Final = 0x1C849304
_PLAIN: Final = 0x1C849303
_BASE: Final = ~0xF0
_HEADER: Final = struct.Struct(">iiiiqqd")
_LARGEST_BYTES: Final = 16 << 20
_LONGEST: Final = 16 << 20
_MOST_BUCKETS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Interval:
    """A slice of time that a tool reported. What it didn't say is none or left out."""

    case: int
    #: None for all operations together.
    operation: str | None
    start_ns: int
    end_ns: int
    count: int | None
    #: Nanoseconds by time and statistic (``min``, ``mean``, ``p50``, …).
    times: Mapping[TimeName, Mapping[str, float]] = field(default_factory=dict)
    #: The tool's own columns, as it wrote them.
    written: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass
class Collector:
    """The content of a file of results, to which an importer adds what it finds."""

    source: Source
    kind: Format
    #: None when the file doesn't tell who measured.
    tool: str | None
    version: str | None = None
    #: The system under test, where the file names it.
    system: str = ""
    system_version: str = ""
    started_wall_ns: int | None = None
    said: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    cases: list[ImportedCase] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    histograms: list[BucketsRecord] = field(default_factory=list)
    #: Whether the file is a log of histograms that the public tools read.
    is_histogram_log: bool = False
    #: Lines of a logger, a virtual machine or a shell.
    passed_over: int = 0
    #: Of an audit, whose figures are the tap's, and the file of its workload.
    audit: AuditRecord | None = None
    workload: str = ""
    _figures: dict[tuple[int, str | None, str, str], FigureRecord] = field(default_factory=dict)

    @property
    def figures(self) -> tuple[FigureRecord, ...]:
        """In the order in which they were found."""
        return tuple(self._figures.values())

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, without those that others wrote; they are counted."""
        for line, text in enumerate(self.source.lines, 1):
            if line not in self.source.noise:
                yield line, text
        self.passed_over += len(self.source.noise)

    def case(self, labels: Mapping[str, str] | None = None) -> int:
        """Begins a case and returns its index."""
        self.cases.append(ImportedCase(labels=dict(labels or {})))
        return len(self.cases) - 1

    def add(  # noqa: PLR0913  (the parts of a figure)
        self,
        line: int | None,
        quantity: str,
        value: float | None,
        unit: str = "",
        *,
        statistic: str = VALUE,
        case: int = 0,
        operation: str | None = None,
        error: float | None = None,
        n: float | None = None,
    ) -> None:
        """Adds a figure, unless the tool had none.

        Raises:
            ImportFileError: the same figure was there before, or there are too many.
        """
        if value is None:
            return
        key = (case, operation, quantity, statistic)
        if key in self._figures:
            what = " ".join(part for part in (operation, quantity, statistic) if part)
            message = f"a second {what} stands here: import one result per file"
            raise self.source.error(line, message)
        if not math.isfinite(value) or not (error is None or math.isfinite(error)):
            message = f"{quantity} is infinite: no tool measures that, the file is damaged"
            raise self.source.error(line, message)
        if len(self._figures) >= MOST_FIGURES:
            message = f"it has more than {MOST_FIGURES} figures: import it in parts"
            raise self.source.error(line, message)
        self._figures[key] = FigureRecord(
            case=case, operation=operation, quantity=quantity, statistic=statistic, value=value,
            unit=unit, error=error, n=None if n is None else int(n),
        )  # fmt: skip

    def value(
        self, quantity: str, *, case: int = 0, operation: str | None = None, statistic: str = VALUE
    ) -> float | None:
        """A figure that was added; none when it wasn't."""
        found = self._figures.get((case, operation, quantity, statistic))
        return None if found is None else found.value

    def interval(self, line: int | None, interval: Interval) -> None:
        """Adds an interval.

        Raises:
            ImportFileError: it ends before it begins, its values can't be, or there are too many.
        """
        if not 0 <= interval.start_ns <= interval.end_ns < _LATEST:
            message = "its interval ends before it begins: lines are missing or mixed up"
            raise self.source.error(line, message)
        values = [value for each in interval.times.values() for value in each.values()]
        if not all(value < _LATEST for value in values):
            message = "a time of more than a century: the line is damaged"
            raise self.source.error(line, message)
        if not 0 <= (interval.count or 0) < _LATEST:
            message = f"{interval.count} operations are impossible: the line is damaged"
            raise self.source.error(line, message)
        if len(self.intervals) >= MOST_INTERVALS:
            message = f"it has more than {MOST_INTERVALS} intervals: import it in parts"
            raise self.source.error(line, message)
        self.intervals.append(interval)

    def histogram(
        self, counts: Counts, time: TimeName, *, case: int = 0, operation: str | None = None
    ) -> None:
        """Adds a histogram of nanoseconds, unless it is empty."""
        if counts.n:
            names = ("low_ns", "high_ns", "count")
            ends = (tuple(part.tolist()) for part in (counts.low, counts.high, counts.count))
            content = dict(zip(names, ends, strict=True))
            self.histograms.append(
                BucketsRecord(case=case, operation=operation, time=time, **content)
            )


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: how it is recognised, and what reads it."""

    #: Such as ``ycsb-text``.
    code: str
    #: What a user calls it.
    name: str
    #: None for a table.
    tool: str | None
    #: The line, counted from 1, where its output begins; none when the file is something else.
    begins: Callable[[Source], int | None]
    #: Adds the content. Raises ``ImportFileError`` and nothing else.
    collect: Callable[[Collector], None]
    #: Whether it is JSON, with which no other format is in the file; else lines of text.
    is_json: bool = False

    def read(self, source: Source) -> Collector:
        """The content of a file.

        Raises:
            ImportFileError: it isn't whole, or there is no figure.
        """
        found = Collector(source, self, self.tool)
        if self.is_json:
            found.passed_over = len(source.noise)
        else:
            source.ends()
        self.collect(found)
        if not found.figures and not found.intervals:
            raise source.error(None, "it is recognised and has not a single figure")
        if count := found.passed_over:
            found.notes.append(
                f"{count} {'line' if count == 1 else 'lines'} of a logger, a virtual machine or a"
                f" shell {'was' if count == 1 else 'were'} passed over."
            )
        return found


def first_line(is_own: Callable[[str], object]) -> Callable[[Source], int | None]:
    """Finds the line with which a format begins: the first that `is_own` accepts."""
    return lambda source: next(
        (line for line, text in enumerate(source.lines, 1) if is_own(text)), None
    )


def decode_bounded(source: Source, line: int | None, encoded: str, ns: int) -> Counts:
    """The counts of an encoded histogram whose values are multiples of ``ns`` nanoseconds.

    Raises:
        ImportFileError: it isn't an HdrHistogram of version 2, or its values are beyond reason.
    """
    try:
        _check(encoded)
        counts = decode(encoded)
    except (ValueError, binascii.Error, zlib.error, struct.error) as problem:
        message = f"a histogram can't be decoded ({problem}): the file may be cut off or damaged"
        raise source.error(line, message) from problem
    if counts.n < 0 or np.any(counts.count <= 0) or np.any(counts.high > 2**62 // ns):
        raise source.error(line, "a histogram has counts or values that can't be: it is damaged")
    # A range ends where the next one begins, also when both are multiplied.
    return Counts(counts.low * ns, (counts.high + 1) * ns - 1, counts.count)


def _check(encoded: str) -> None:
    """Refuses what a decoder would trust: cookies, lengths, sizes.

    Raises:
        ValueError: one of them is wrong.
    """
    if len(encoded) > _LONGEST:
        raise ValueError("it is too long")
    packed = base64.b64decode(encoded, validate=True)
    if len(packed) < 8:
        raise ValueError("it is too short")
    cookie, length = struct.unpack(">ii", packed[:8])
    if cookie & _BASE != _COMPRESSED & _BASE or length != len(packed) - 8:
        raise ValueError("it isn't HdrHistogram's version 2")
    unpacker = zlib.decompressobj()
    payload = unpacker.decompress(packed[8:], _LARGEST_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it isn't whole")
    if len(payload) < _HEADER.size:
        raise ValueError("it is too short")
    cookie, size, _, digits, lowest, highest, _ = _HEADER.unpack(payload[: _HEADER.size])
    if cookie & _BASE != _PLAIN & _BASE or size != len(payload) - _HEADER.size:
        raise ValueError("its parts don't fit together")
    if not (1 <= digits <= 5 and 1 <= lowest <= highest // 2 and highest < 2**63):
        raise ValueError("its settings can't be")
    # Each doubling of the range has half of 2 · 10^digits steps, rounded up to a power of two.
    steps = 1 << (2 * 10**digits).bit_length()
    if (highest // lowest).bit_length() * steps > _MOST_BUCKETS:
        raise ValueError("it has too many buckets")
