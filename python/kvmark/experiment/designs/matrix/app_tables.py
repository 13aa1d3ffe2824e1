"""The sample applications among a study's cases: what they count, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from kvmark.analysis.external.yugabyte import (
    CaseTable,
    OperationFigures,
    app_table,
    by_operation,
    commands_of,
)
from kvmark.analysis.study import StudyRow
from kvmark.experiment.designs.matrix.definition import Study, published_for
from kvmark.records import Run
from kvmark.spec.app.flags import APPS, App

__all__ = ["applications", "counted_commands", "operations"]

_FOLDER: Final = "apps/"


def counted_commands(run: Run | None) -> Mapping[str, int]:
    """Operations that the original counts for one of a group's; empty of what is no application."""
    app = None if run is None else _app(run)
    return commands_of(run) if run is not None and app is not None and app.counts_commands else {}


def applications(
    study: Study, rows: Sequence[StudyRow], runs: Sequence[Run], usable: Set[str]
) -> tuple[CaseTable, ...]:
    """The table of each case that is an application, from all of its usable runs."""
    by_id = {run.id: run for run in runs}
    tables = []
    for row in rows:
        its = _shown(row, by_id, usable)
        if not its or _app(its[0]) is None:
            continue
        published = published_for(row.levels, study.published)
        case = ", ".join(f"{label} {name}".strip() for name, label in _sides(row.levels))
        tables.append(
            CaseTable(
                case=case or its[0].manifest.plan["name"],
                table=app_table(its, counted_commands(its[0])),
                published={} if published is None else published.spreads,
            )
        )
    return tuple(tables)


def operations(
    study: Study, rows: Sequence[StudyRow], runs: Sequence[Run], usable: Set[str]
) -> tuple[OperationFigures, ...]:
    """Each operation of the cases of which others published such times, from the same runs."""
    by_id = {run.id: run for run in runs}
    found: list[OperationFigures] = []
    for row in rows:
        its = _shown(row, by_id, usable)
        theirs = published_for(row.levels, study.published)
        if not its or theirs is None or not theirs.operations:
            continue
        found += (
            replace(one, published={**theirs.figures, **theirs.operations.get(one.operation, {})})
            for one in by_operation(its)
        )
    return tuple(found)


def _shown(row: StudyRow, by_id: Mapping[str, Run], usable: Set[str]) -> list[Run]:
    """The runs that stand for a case: those that are usable, or else all with figures."""
    ids = [] if row.figures is None else row.figures.runs
    chosen = [one for one in ids if one in usable] or ids
    return [by_id[one] for one in chosen if one in by_id]


def _app(run: Run) -> App | None:
    name = str(run.manifest.plan.get("name", ""))
    return APPS.get(name.removeprefix(_FOLDER)) if name.startswith(_FOLDER) else None


def _sides(levels: Mapping[str, str]) -> list[tuple[str, str]]:
    """A case's levels as words: `CassandraKeyValue`, `192 writers`, `16 readers`."""
    numbers = {name for name, label in levels.items() if label.isdecimal()}
    return [(name if name in numbers else "", label) for name, label in levels.items()]
