"""The answers of a report: values that `kvmark.analysis` computed, and their provenance.

Views compute no number. Times are nanoseconds, rates operations per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from kvmark.analysis.compare.bounds import ObjectiveFigure
from kvmark.analysis.summary.chart_data import Stretch, Timeline, TimeSteps
from kvmark.analysis.summary.faults import FaultSpan, Segment
from kvmark.analysis.summary.imported import Curve
from kvmark.analysis.summary.run import Summary
from kvmark.analysis.summary.servers import ServerUsage
from kvmark.analysis.verdict.cases import SequenceRow
from kvmark.analysis.verdict.judge import Verdict
from kvmark.records import ImportedRecord
from kvmark.report.model.page import Fact, Provenance
from kvmark.report.model.units import Bounded


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What differs between stores beside their speed; none if it isn't known."""

    durability: str | None
    #: Of an embedded store's database after its largest run.
    disk_bytes: int | None
    #: Of the process with an embedded store and the generator.
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class SequenceAnswer:
    """The YCSB sequence."""

    title: str
    #: The cases and their load, in a sentence or two.
    question: str
    rows: tuple[SequenceRow, ...]
    #: Quantile curves at the largest number of records.
    curves: tuple[Curve, ...]
    provenance: Provenance
    #: Sentences on the duration and on cases that were cut short.
    remarks: tuple[str, ...] = ()
    #: A sentence that must be read before the figures: stores of unequal durability.
    caution: str = ""
    #: By the stores' names.
    stores: Mapping[str, StoreFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """One run. Parts that only figures or terminals show are empty unless requested."""

    title: str
    #: Workload, load and phases.
    request: tuple[Fact, ...]
    summary: Summary
    verdict: Verdict
    phases: tuple[Segment, ...]
    #: Rows ``TOTAL`` of the run's intervals, columns as recorded.
    intervals: pl.DataFrame
    provenance: Provenance
    faults: tuple[FaultSpan, ...] = ()
    #: The measurement, cut at the starts and ends of faults.
    around_faults: tuple[Stretch, ...] = ()
    #: For figures: cores and memory in use by node, errors by class, and numbers of operations by
    #: response time; frames without data are empty.
    resources: pl.DataFrame = field(default_factory=pl.DataFrame)
    failures: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: As ``attempt_course`` gives it.
    attempts: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: As ``hit_course`` gives it.
    hits: pl.DataFrame = field(default_factory=pl.DataFrame)
    spread: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: For figures: one panel per operation.
    curves: tuple[Curve, ...] = ()
    #: For figures of several runs: response p50 and p99 by operation and quantile.
    response_quantiles: Mapping[tuple[str, str], Bounded] = field(default_factory=dict)
    #: For terminals: times on an axis; none without a successful operation.
    time_steps: TimeSteps | None = None
    #: For terminals: the counted phases over time.
    timelines: tuple[Timeline, ...] = ()
    #: The figures of the objectives of `--slo`.
    objectives: tuple[ObjectiveFigure, ...] = ()
    #: Observed servers by phase.
    servers: tuple[ServerUsage, ...] = ()
    #: Another tool's figures; none for kvmark's runs.
    imported: ImportedRecord | None = None
