"""Carries out a study, shows how it goes, and answers.

Apart from the command, because it needs libraries that take a while to load. What judges and
answers takes longer and a lot of memory, which would count as the generator's: it is imported when
nothing is measured any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from kvmark.cli.command_line import command_line
from kvmark.cli.fleet import AskedFleet, on_fleet
from kvmark.cli.live import LiveDisplay
from kvmark.cli.progress import show
from kvmark.cli.system import named_system, password_lent
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, SystemUnderTestError, UsageError
from kvmark.records import Records
from kvmark.run import make_setting
from kvmark.spec.study import StudyFile
from kvmark.spec.url import SystemName, system_name
from kvmark.study.carry import Carrier, best_attempts, missing
from kvmark.study.definition import Asked, Study
from kvmark.study.journal import Journal, begin, find, tag
from kvmark.study.stage import Stage

__all__ = ["carry_study"]


def carry_study(
    file: StudyFile,
    asked: Asked,
    tags: tuple[str, ...],
    records: Records,
    report: Path | None,
    *,
    fleet: AskedFleet | None,
    resume: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out what is missing of a study, and prints its answer.

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
            _carry(study, journal, tags, fleet, resumed=resume, quiet=quiet)
        except KvmarkError as ended:
            problem = ended
        except KeyboardInterrupt:
            # Between two runs, when servers start or come back.
            problem = Interrupted("interrupted")
        _answer(study, journal, report, problem, json=json)


def _carry(
    study: Study,
    journal: Journal,
    tags: tuple[str, ...],
    fleet: AskedFleet | None,
    *,
    resumed: bool,
    quiet: bool,
) -> None:
    best = best_attempts(journal) if resumed else {}
    done = {place for place, one in best.items() if one.usable}
    todo = missing(study, done)
    if not todo:
        return
    plan = study.plan(study.cases[0])
    common = make_setting(command_line(), plan, (tag(journal.id), *tags))

    def tell(text: str) -> None:
        if not quiet:
            typer.echo(f"[study] {text}", err=True)

    with (
        on_fleet(common, fleet, plan) as setting,
        Stage(study, resumed, tell) as stage,
        LiveDisplay(quiet=quiet) as display,
    ):
        carrier = Carrier(study, journal, stage, setting, password_lent, display, show(display))
        carrier.carry_out(todo)


def _answer(
    study: Study,
    journal: Journal,
    report: Path | None,
    problem: KvmarkError | None,
    *,
    json: bool,
) -> None:
    """Prints the answer as far as there is one, then raises what ended the study."""
    from kvmark.cli.study_answering import print_study

    rows = print_study(study, journal, report, json=json)
    if problem is not None:
        if isinstance(problem, Interrupted):
            raise Interrupted(
                f"interrupted: go on with kvmark study {study.name} --resume"
            ) from problem
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
