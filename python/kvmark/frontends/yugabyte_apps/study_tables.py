"""The applications' own tables of a study's cases: over intervals, and by operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from kvmark.analysis.study import StudyRow
from kvmark.experiment.study.answer import StudyResults
from kvmark.experiment.study.definition import Study, published_for
from kvmark.frontends.yugabyte_apps.flags import APPS, App
from kvmark.frontends.yugabyte_apps.table import (
    CaseTable,
    OperationFigures,
    app_table,
    by_operation,
)
from kvmark.frontends.yugabyte_apps.table_view import case_grid, operations_by_workload
from kvmark.records import Run
from kvmark.report.model.page import Section

_FOLDER: Final = "apps/"


def study_sections(study: Study, found: StudyResults) -> tuple[Section, ...]:
    """The sections of a study's report; none if no case is an application.

    Raises:
        RecordsError: a run's files can't be read.
    """
    return tuple(_sections(study, found))


def _sections(study: Study, found: StudyResults) -> Iterator[Section]:
    if tables := applications(study, found.rows, found.runs, found.usable):
        grids = tuple(map(case_grid, tables))
        yield Section("applications", "Each application over its intervals", grids=grids)
    if figures := operations(study, found.rows, found.runs, found.usable):
        yield Section("operations", "Each operation", grids=(operations_by_workload(figures),))


def commands_per_operation(run: Run) -> Mapping[str, int]:
    """The rows or commands of one operation of each group; empty if the application counts one."""
    app = _app(run)
    return _commands_of(run) if app is not None and app.counts_commands else {}


def _commands_of(run: Run) -> dict[str, int]:
    """Rows or commands in one operation of each group, from the run's plan."""
    plan = run.manifest.plan
    found = {}
    for group in plan["groups"]:
        statement = plan["statements"][group["mix"][0]["statement"]]
        # A new record's statement counts as the one that it becomes once all are there.
        then = statement.get("when_full")
        counted = statement if then is None else plan["statements"][then]
        found[group["name"]] = int(counted["commands"].get("size", 1))
    return found


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
                table=app_table(its, commands_per_operation(its[0])),
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
