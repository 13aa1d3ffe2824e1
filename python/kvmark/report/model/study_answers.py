"""The answer to a study as a report draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvmark.analysis.external.yugabyte import CaseTable, OperationFigures
from kvmark.analysis.models.path_costs import PathCost
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.records import Case
from kvmark.report.format import units
from kvmark.report.model.answers import Provenance


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
    #: The tables of the sample applications among its cases.
    applications: tuple[CaseTable, ...] = ()
    #: Each operation of its workloads, where others published such a table.
    operations: tuple[OperationFigures, ...] = ()


def case_titles(answer: StudyAnswer) -> Callable[[StudyRow], str]:
    """What a case is called among those of its study: by the levels in which they differ."""
    levels = {name: {row.levels[name] for row in answer.rows} for name in answer.factors}
    apart = [name for name, labels in levels.items() if len(labels) > 1] or answer.factors
    return lambda row: Case.of_levels({name: row.levels[name] for name in apart}).title


def speed(answer: StudyAnswer, row: StudyRow) -> str:
    """A case's throughput with its unit."""
    return f"{units.estimate(row.throughput)} {answer.unit}"
