"""The answers that a report draws: what `kvmark.analysis` computed, and the words that go with it.

Tables, figures and pages read these frozen values and compute no number of their own. Times are
nanoseconds, rates operations per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from kvmark.analysis import (
    FaultSpan,
    SequenceRow,
    Stretch,
    Summary,
    Timeline,
    TimeSteps,
    Verdict,
)
from kvmark.records import ImportedRecord, TimeName
from kvmark.report.format.units import Bounded

MOST_DRAWN: Final = 8
"""Most runs on a page that has figures for each run."""
MOST_CURVES: Final = 50
"""Most runs whose curves can be told apart in one figure."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what stands beside it, both as text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """How long operations take at every quantile that has enough of them beyond it."""

    #: What the curves of one panel have in common: a workload, or an operation.
    panel: str
    time: TimeName
    #: Quantile in [0, 1) and nanoseconds, in rising order.
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase and its window since the run's origin."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where figures come from: enough to obtain them again."""

    #: Versions, host, seeds and the like, in the order they are shown.
    facts: tuple[Fact, ...]
    #: The command line, word by word.
    command: tuple[str, ...]
    #: What is too long for a line, as JSON values by title: plans, configurations.
    documents: Mapping[str, object] = field(default_factory=dict)
    #: What a reader must know first: date, commit and machine.
    top: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceAnswer:
    """The YCSB sequence, whole."""

    title: str
    #: What was asked, in a sentence or two.
    asked: str
    rows: tuple[SequenceRow, ...]
    #: Quantile curves at the largest number of records.
    curves: tuple[Curve, ...]
    provenance: Provenance
    #: Name of the published report whose figures stand beside ours.
    published_source: str
    #: Sentences on the time that it took, and on what there was no time for.
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunCourse:
    """How a run went over its time, besides its intervals; empty where nothing is known."""

    #: Cores and memory in use, by node.
    resources: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: Errors by class.
    failures: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: Response times by how often.
    spread: pl.DataFrame = field(default_factory=pl.DataFrame)


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """One run."""

    title: str
    asked: tuple[Fact, ...]
    summary: Summary
    verdict: Verdict
    phases: tuple[PhaseSpan, ...]
    #: Rows ``TOTAL`` of the run's intervals, columns as recorded.
    intervals: pl.DataFrame
    provenance: Provenance
    #: What was broken on purpose.
    faults: tuple[FaultSpan, ...] = ()
    #: The measurement cut where these began and were over.
    around_faults: tuple[Stretch, ...] = ()
    #: Gives the course. Only figures need it, and every histogram of the run is read for it.
    course: Callable[[], RunCourse] = RunCourse
    #: Gives the curves, one panel per operation. Only figures need them.
    curves: Callable[[], tuple[Curve, ...]] = tuple
    #: Gives times along an axis, of response where known; none where nothing ended ok. For text.
    time_steps: Callable[[], TimeSteps | None] = lambda: None
    #: Gives the counted phases in at most so many cells of time. For text.
    timelines: Callable[[int], tuple[Timeline, ...]] = lambda _: ()
    #: Gives p50 and p99 of response time of each operation, with their intervals. Every histogram
    #: of the run is read for it.
    response_quantiles: Callable[[], Mapping[tuple[str, str], Bounded]] = dict
    #: Another tool's figures; none for a run of kvmark's own.
    imported: ImportedRecord | None = None
