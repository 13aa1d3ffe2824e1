"""The answer to a study as a report draws it."""

from __future__ import annotations

from dataclasses import dataclass

from kvmark.analysis.study import Effect, StudyRow
from kvmark.report import units
from kvmark.report.answers import Provenance


@dataclass(frozen=True, slots=True)
class Drawn:
    """How cases are drawn: factors by their part in a figure."""

    across: str
    series: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """A study, whole or as far as it has been carried out."""

    title: str
    question: str
    #: The factors that vary, in the study's order.
    factors: tuple[str, ...]
    rows: tuple[StudyRow, ...]
    effects: tuple[Effect, ...]
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
    drawn: Drawn | None = None


def row_name(row: StudyRow) -> str:
    """A case in words, where it stands away from its row."""
    return ", ".join(f"{name} {label}" for name, label in row.levels.items()) or "the only case"


def speed(answer: StudyAnswer, row: StudyRow) -> str:
    """A case's throughput with its unit."""
    return f"{units.estimate(row.throughput)} {answer.unit}"
