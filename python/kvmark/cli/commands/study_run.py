"""Carries out a study, shows how it goes, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from kvmark.analysis.study import StudyRow
from kvmark.cli.command_line import command_line
from kvmark.cli.commands.study_scaling import scalings
from kvmark.cli.display.live import LiveDisplay
from kvmark.cli.display.progress import show
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.session import AskedFleet, session
from kvmark.cli.system import named_system
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, SystemUnderTestError, UsageError
from kvmark.experiment.designs.matrix.answer import Answered, answered
from kvmark.experiment.designs.matrix.app_tables import applications, operations
from kvmark.experiment.designs.matrix.definition import Asked, Study
from kvmark.experiment.environment import Environment
from kvmark.experiment.executor import Executor, best_attempts, missing
from kvmark.experiment.journal import Journal, begin, find, tag
from kvmark.records import Records
from kvmark.report.model.study_answers import Drawn, StudyAnswer, Ways
from kvmark.report.views.study_gather import study_provenance
from kvmark.report.views.study_page import study_page, study_text
from kvmark.spec.study import StudyFile
from kvmark.spec.url import SystemName, system_name

__all__ = ["carry_study"]


def carry_study(
    file: StudyFile,
    asked: Asked,
    tags: tuple[str, ...],
    records: Records,
    report: Path | None,
    *,
    commit: str | None = None,
    fleet: AskedFleet | None = None,
    prometheus: int | None = None,
    again: str | None = None,
    resume: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out what is missing of a study, and prints its answer.

    `again` says how to go on when it was interrupted; else by the study's name.

    Raises:
        AnswerIsNo: a case failed or is INVALID.
        SystemUnderTestError: no case measured anything.
        KvmarkError: the study can't be carried out, or was interrupted.
    """
    journal = _found(records, file.spec.name) if resume else None
    if journal is not None:
        asked = _as_before(asked, journal)
    study = Study(file, asked, named_system)
    study.check()
    if journal is None:
        journal = begin(records, study.name, _definition(study))
    elif journal.definition.get("digest") != study.digest():
        raise UsageError(
            f"study {journal.id} was begun with another file or another version of kvmark;"
            " begin anew without --resume"
        )
    problem: KvmarkError | None = None
    with journal.alone():
        try:
            told = {"commit": commit, "fleet": fleet, "prometheus": prometheus, "quiet": quiet}
            _carry(study, journal, tags, told, resumed=resume)
        except KvmarkError as ended:
            problem = ended
        except KeyboardInterrupt:
            # Between two runs, when servers start or come back.
            problem = Interrupted("interrupted")
        _answer(study, journal, report, json=json, problem=problem, again=again)


def _carry(
    study: Study,
    journal: Journal,
    tags: tuple[str, ...],
    told: Mapping[str, Any],
    *,
    resumed: bool,
) -> None:
    best = best_attempts(journal) if resumed else {}
    done = {place for place, one in best.items() if one.usable}
    todo = missing(study, done)
    if not todo:
        return
    plan, quiet = study.plan(study.cases[0]), told["quiet"]

    def tell(text: str) -> None:
        if not quiet:
            typer.echo(f"[study] {text}", err=True)

    with (
        session(command_line(), journal.records, plan, (tag(journal.id), *tags), **told) as setting,
        Environment(study, resumed, tell) as environment,
        LiveDisplay(quiet=quiet) as display,
    ):
        executor = Executor(study, journal, environment, setting, display, show(display))
        executor.carry_out(todo)


def _answer(
    study: Study,
    journal: Journal,
    report: Path | None,
    *,
    json: bool,
    problem: KvmarkError | None,
    again: str | None,
) -> None:
    """Prints the answer as far as there is one, then raises what ended the study."""
    rows = _print_study(study, journal, report, json=json)
    if problem is not None:
        if isinstance(problem, Interrupted):
            again = again or f"kvmark study {study.name} --resume"
            raise Interrupted(f"interrupted: go on with {again}") from problem
        raise problem
    failed = sum(not row.is_usable for row in rows)
    if all(row.figures is None for row in rows):
        raise SystemUnderTestError(f"no case measured anything: {rows[0].failures[0]}")
    if failed:
        raise AnswerIsNo(
            f"{failed} of {len(rows)} cases failed or are INVALID, for the reasons above"
        )


def _found(records: Records, name: str) -> Journal:
    journal = find(records, name)
    if journal is None:
        raise UsageError(f"no study {name} was begun in {records.root}; leave --resume out")
    return journal


def _definition(study: Study) -> Mapping[str, Any]:
    return {
        "digest": study.digest(),
        "asked": study.asked.as_json(),
        "command": list(command_line()),
        "text": study.file.text,
    }


def _as_before(asked: Asked, journal: Journal) -> Asked:
    """What the study was begun with, where the user doesn't say it again.

    Raises:
        UsageError: the user says something else.
    """
    before = journal.definition.get("asked", {})
    said: dict[str, Any] = {}
    # A password isn't kept: the system must be said again, and is compared without it.
    for name, value in asked.as_json().items():
        kept = before.get(name)
        kept = tuple(kept) if isinstance(kept, list) else kept
        if value in (None, ()):
            said[name] = _named(name, kept)
        elif value != kept:
            raise UsageError(
                f"{name}: study {journal.id} was begun with {kept}, not {value}; leave it out, or"
                " begin anew without --resume"
            )
    return replace(asked, **said)


def _named(word: str, kept: Any) -> Any:
    """What was kept of a word, as it is said: the names of systems."""
    if word == "through":
        return tuple(map(SystemName, kept or ()))
    return system_name(kept) if word == "system" else kept


def _print_study(
    study: Study, journal: Journal, report: Path | None, *, json: bool
) -> tuple[StudyRow, ...]:
    """Prints the answer as far as the study has been carried out, and writes the report.

    Raises:
        KvmarkError: a run can't be read, or the report not written.
    """
    found = answered(study, journal)
    answer = _drawn(study, journal, found)
    if report is not None:
        write_report(lambda _: study_page(answer), report)
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
        tell_report(report)
    return answer.rows


def _drawn(study: Study, journal: Journal, found: Answered) -> StudyAnswer:
    spec = study.spec
    figure, sources = spec.figure, dict.fromkeys(table.source for table in spec.published)
    definition = {key: value for key, value in journal.definition.items() if key != "digest"}
    return StudyAnswer(
        title=f"Study {study.name}",
        question=" ".join(spec.question.split()),
        factors=study.factors,
        rows=found.rows,
        effects=found.effects,
        notes=found.notes,
        unit="records/s" if spec.measure == "records" else "ops/s",
        repetitions=study.repetitions,
        missing=found.missing,
        provenance=study_provenance(journal.id, definition, found.rows, found.runs),
        published_source="; ".join(sources) or None,
        applications=applications(study, found.rows, found.runs),
        operations=operations(study, found.rows, found.runs),
        scalings=scalings(spec.published, found.runs),
        disk_reads=spec.disk_reads,
        drawn=None if figure is None else Drawn(figure.across, figure.series, figure.panels),
        ways=_ways(study, found),
    )


def _ways(study: Study, found: Answered) -> Ways | None:
    through = study.spec.through
    if through is None:
        return None
    source = through.published.source if through.published else ""
    return Ways(found.costs, found.published_costs, source)
