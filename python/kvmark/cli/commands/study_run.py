"""Carries out a study, shows how it goes, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from kvmark.analysis.study import StudyRow
from kvmark.cli.command_line import command_line
from kvmark.cli.commands.study_answer import study_answer
from kvmark.cli.experiment import Shared, carried_out
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.system import named_system
from kvmark.errors import AnswerIsNo, KvmarkError, SystemUnderTestError, UsageError
from kvmark.experiment.designs.matrix.answer import answered, begun_with, newest_of
from kvmark.experiment.designs.matrix.definition import Asked, Study
from kvmark.experiment.designs.matrix.design import Matrix
from kvmark.experiment.environment import Environment
from kvmark.experiment.journal import Journal, begin, find
from kvmark.outputs import check_output
from kvmark.plan.names import key_names
from kvmark.records import Records
from kvmark.report.views.study_page import study_page, study_text
from kvmark.run.existing import DatasetClaim, OnExisting
from kvmark.spec.study import StudyFile

__all__ = ["carry_study"]


def carry_study(
    file: StudyFile,
    asked: Asked,
    shared: Shared,
    report: Path | None,
    again: str | None = None,
    on_existing: OnExisting = "refuse",
) -> None:
    """Carries out what is missing of a study, and prints its answer.

    `again` says how to go on when it was interrupted; else by the study's name.

    Raises:
        AnswerIsNo: a case failed or is INVALID.
        SystemUnderTestError: no case measured anything.
        KvmarkError: the study can't be carried out, or was interrupted.
    """
    if report is not None:
        check_output(report, "report: ")
    records = shared.records
    name = file.spec.name
    journal = _found(records, name, asked) if shared.resume else None
    if journal is not None:
        asked = _as_before(asked, file, journal)
    study = Study(file, asked, named_system)
    study.check()

    def tell(text: str) -> None:
        if not shared.quiet:
            typer.echo(f"[study] {text}", err=True)

    environment = Environment(study, tell, on_existing)
    matrix = Matrix(study, environment)
    if journal is None:
        journal = begin(records, name, _definition(matrix))
    else:
        _go_on(study, journal)
    environment.claim = DatasetClaim(
        journal.claim(), lambda: key_names(study.plan(case) for case in study.cases)
    )
    kept = "" if on_existing == "refuse" else f" --on-existing {on_existing}"
    again = again or f"kvmark study {study.name} --resume{kept}"
    with carried_out(matrix, shared, journal, again) as problem:
        _answer(study, journal, report, json=shared.json, problem=problem)


def _answer(
    study: Study,
    journal: Journal,
    report: Path | None,
    *,
    json: bool,
    problem: KvmarkError | None,
) -> None:
    """Prints the answer as far as there is one, then raises what ended the study."""
    rows = _print_study(study, journal, report, json=json)
    if problem is not None:
        raise problem
    failed = sum(not row.is_usable for row in rows)
    if all(row.figures is None for row in rows):
        raise SystemUnderTestError(f"no case measured anything: {rows[0].failures[0]}")
    if failed:
        raise AnswerIsNo(
            f"{failed} of {len(rows)} cases failed or are INVALID, for the reasons above"
        )


def _found(records: Records, name: str, asked: Asked) -> Journal:
    """The newest study of a name, or of those with the user's choice of cases where there are some.

    Raises:
        UsageError: there is none.
    """
    chosen = newest_of(records, name, asked.only) if asked.only else None
    journal = chosen or find(records, name)
    if journal is None:
        raise UsageError(f"no study {name} was begun in {records.root}; leave --resume out")
    return journal


def _go_on(study: Study, journal: Journal) -> None:
    """Goes on with a study that was begun, and keeps how many repetitions are asked for.

    Raises:
        UsageError: it is another study.
        RunError: its folder can't be written.
    """
    if journal.definition.get("digest") != study.digest():
        raise UsageError(
            f"study {journal.id} was begun with another file or another version of kvmark;"
            " begin anew without --resume"
        )
    if study.asked.repetitions != begun_with(journal).repetitions:
        with journal.alone():
            journal.ask_for_more(study.asked.as_json())


def _definition(matrix: Matrix) -> Mapping[str, Any]:
    return {"design": matrix.kind, "command": list(command_line()), **matrix.definition()}


def _as_before(asked: Asked, file: StudyFile, journal: Journal) -> Asked:
    """What the study was begun with, where the user doesn't say it again; repetitions may be more.

    Raises:
        UsageError: the user says something else.
    """
    before = begun_with(journal)
    said: dict[str, Any] = {}
    # A password isn't kept: the system must be said again, and is compared without it.
    for name, value in asked.as_json().items():
        kept = before.as_json()[name]
        if value in (None, ()):
            said[name] = getattr(before, name)
        elif name == "repetitions":
            _check_repetitions(value, kept or file.spec.repetitions, journal)
        elif value != kept:
            raise UsageError(
                f"{name}: study {journal.id} was begun with {kept}, not {value}; leave it out, or"
                " begin anew without --resume"
            )
    return replace(asked, **said)


def _check_repetitions(wanted: int, before: int, journal: Journal) -> None:
    """Repetitions are only ever added: what was measured isn't left out.

    Raises:
        UsageError: fewer are wanted.
    """
    if wanted < before:
        raise UsageError(
            f"repetitions: study {journal.id} was begun with {before}, and {wanted} are fewer; say"
            " more, or begin anew without --resume"
        )


def _print_study(
    study: Study, journal: Journal, report: Path | None, *, json: bool
) -> tuple[StudyRow, ...]:
    """Prints the answer as far as the study has been carried out, and writes the report.

    Raises:
        KvmarkError: a run can't be read, or the report not written.
    """
    found = answered(study, journal)
    answer = study_answer(study, journal, found)
    if json:
        print_json(
            "study",
            {
                "study": journal.id,
                "rows": answer.rows,
                "effects": answer.effects,
                "notes": answer.notes,
                "published_source": answer.published_source,
                "missing": answer.missing,
                "ways": answer.ways,
                "runs": [run.id for run in found.runs],
                "report": report,
            },
        )
    else:
        print_answer(study_text(answer, terminal_width()))
    if report is not None:
        write_report(lambda _: study_page(answer), report)
        if not json:
            tell_report(report)
    return answer.rows
