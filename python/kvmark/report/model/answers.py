"""The answers that a report draws: what `kvmark.analysis` computed, and the words that go with it.

Tables, figures and pages read these frozen values and compute no number of their own. Times are
nanoseconds, rates operations per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

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
from kvmark.analysis.models.path_costs import PathCost
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.records import Case, ImportedRecord, TimeName
from kvmark.report.format import units
from kvmark.report.format.units import Bounded

if TYPE_CHECKING:
    from kvmark.report.model.page import Section

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


@dataclass(frozen=True, slots=True)
class Drawn:
    """How cases are drawn: factors by their part in a figure."""

    across: str
    series: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    #: The response times that have a figure each, such as p99.
    times: tuple[str, ...] = ("p99",)


@dataclass(frozen=True, slots=True)
class Ways:
    """What ways through proxies cost."""

    costs: tuple[PathCost, ...]
    published: tuple[PathCost, ...] = ()
    #: Name of the report that published them.
    source: str = ""


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """A study, whole or as far as it has been carried out."""

    title: str
    question: str
    #: The factors that vary, in the study's order.
    factors: tuple[str, ...]
    rows: tuple[StudyRow, ...]
    effects: tuple[StudyEffect, ...]
    #: Sentences that stand under the table.
    notes: tuple[str, ...]
    #: What throughput is counted in, such as ``ops/s``.
    unit: str
    #: How often each case is run.
    repetitions: int
    #: Runs that weren't made.
    missing: int
    provenance: Provenance
    #: Name of the published report whose figures stand beside ours.
    published_source: str | None = None
    #: What is shown of each case beside the usual: see `StudySpec.columns`.
    columns: tuple[str, ...] = ()
    #: Whether what the servers read from their disks is shown.
    disk_reads: bool = False
    drawn: Drawn | None = None
    #: None where no ways are compared.
    ways: Ways | None = None
    #: Tables that front ends make of its cases.
    sections: tuple[Section, ...] = ()


def case_titles(answer: StudyAnswer) -> Callable[[StudyRow], str]:
    """What a case is called among those of its study: by the levels in which they differ."""
    levels = {name: {row.levels[name] for row in answer.rows} for name in answer.factors}
    apart = [name for name, labels in levels.items() if len(labels) > 1] or answer.factors
    return lambda row: Case.of_levels({name: row.levels[name] for name in apart}).title


def speed(answer: StudyAnswer, row: StudyRow) -> str:
    """A case's throughput with its unit."""
    return f"{units.estimate(row.throughput)} {answer.unit}"
