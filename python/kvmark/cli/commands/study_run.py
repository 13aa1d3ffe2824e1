"""Carries out a study, of a file or made of a command line (sweeps, repetitions), and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kvmark.analysis.study import StudyRow
from kvmark.cli.command_line import command_line
from kvmark.cli.experiment import ExperimentOptions, execute_design
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.session import named_system
from kvmark.errors import AnswerIsNo, KvmarkError, SpecError, SystemUnderTestError, UsageError
from kvmark.experiment.journal import Journal, begin, find
from kvmark.experiment.study.answer import (
    StudyResults,
    newest_with_cases,
    stored_request,
    study_results,
)
from kvmark.experiment.study.definition import Study, StudyRequest
from kvmark.experiment.study.design import FactorialDesign
from kvmark.experiment.study.environment import Environment
from kvmark.frontends import commands_per_operation, front_ends
from kvmark.outputs import check_output
from kvmark.plan.names import key_names
from kvmark.records import Records
from kvmark.report.model.answers import Drawn, StudyAnswer, Ways
from kvmark.report.views.gather import study_provenance
from kvmark.report.views.study_page import study_page, study_text
from kvmark.run.existing import DatasetClaim, OnExisting
from kvmark.spec.study import StudyFile
from kvmark.spec.suggest import did_you_mean, shown

if TYPE_CHECKING:
    from kvmark.spec.faults import FaultSpec
    from kvmark.spec.run import RunSpec
    from kvmark.spec.study import StudyFile

_TIMES: Final = ("duration", "warmup", "interval", "timeout", "drain_limit", "stall_limit")
_PLAIN: Final = (
    "clients", "arrival", "operations", "until_stderr", "precision", "warmup_until", "workers",
    "records", "pipeline_depth", "settle", "verify",
)  # fmt: skip
_OF_TRACES: Final = ("speed", "keep_order", "scale_keys", "loop")
_PART: Final = {"from_": "from", "until": "until"}
"""Options whose values are instants of a trace, and their words in a study."""
_WORDS: Final = (*_PLAIN, *_TIMES, *_OF_TRACES, *_PART.values())


def swept(
    given: Mapping[str, Any], spec: RunSpec, sweep: Sequence[str], repetitions: int | None
) -> StudyFile:
    """The study of the options of a run, by their names: a case for each combination of values.

    Raises:
        SpecError: something can't be varied, or a value isn't one.
    """
    from kvmark.spec.study import parse_study
    from kvmark.spec.suggest import without_credentials

    factors = dict(map(_factor, sweep))
    if len(factors) < len(sweep):
        raise SpecError("--sweep: a word is swept twice; give all of its values at once")
    varied = f", and how does it vary with {' and '.join(factors)}" if factors else ""
    study = {
        "question": f"What does {spec.workload.name} do{varied}?",
        "system": without_credentials(given["system"].reveal()),
        **_workload(given["workload"], spec),
        "run": {**_words(given, spec), "faults": _faults(spec)},
        "factors": factors,
        "repetitions": repetitions or 1,
        "seed": given["seed"],
    }
    if len(factors) == 1:
        study["figure"] = {"across": next(iter(factors))}
    # The same words have the same name, by which --resume finds what was begun.
    name = f"sweep-{sha256(json.dumps(study).encode()).hexdigest()[:8]}"
    return parse_study(json.dumps({"name": name, **study}, indent=2) + "\n", "--sweep")


def _workload(name: str, spec: RunSpec) -> dict[str, Any]:
    """A ready workload by its name, one of the user's as it stands in its file now."""
    from kvmark.spec.yaml_file import read_document, read_text

    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        return {"workload": name}
    content: Any = read_document(read_text(path), name).value
    own = {"name": spec.workload.name, **content}
    return {"workload": path.stem, "workloads": {path.stem: own}}


def _factor(text: str) -> tuple[str, list[str]]:
    name, sign, values = text.partition("=")
    name, known = name.strip().lstrip("-").replace("-", "_"), ("rate", "load", *_WORDS)
    if not sign or not values.strip():
        raise SpecError(f"--sweep: {shown(text)} isn't a word and its values: clients=1,10,100")
    if "." not in name and name not in known:
        raise SpecError(f"--sweep: {shown(name)} can't be swept{did_you_mean(name, known)}")
    return name, [value.strip() for value in values.split(",")]


def _words(given: Mapping[str, Any], spec: RunSpec) -> dict[str, Any]:
    """What a study's file says of one run, where it was said here."""
    plain = (*_PLAIN, *_OF_TRACES)
    words: dict[str, Any] = {name: given[name] for name in plain if given[name] is not None}
    words |= {word: f"{given[name]}ns" for name, word in _PART.items() if given[name] is not None}
    if spec.replay is not None and spec.replay.skip:
        words["skip"] = spec.replay.skip
    if given["map_"] is not None:
        words["map"] = str(given["map_"])
    if spec.rate is not None:
        words["rate"] = spec.rate
    words |= {name: f"{given[name]}ns" for name in _TIMES if given[name]}
    if given["stall_limit"] == 0:
        words["stall_limit"] = "off"
    if given["load"] != "auto":
        # Each case loads its own records where nobody says how.
        words["load"] = given["load"]
    if spec.groups:
        words["groups"] = spec.groups
    if spec.pin:
        words["pin"] = spec.pin
    return words


def _faults(spec: RunSpec) -> list[dict[str, Any]]:
    """Those of the command line; those of the workload's file come with it."""
    return [_fault(one) for one in spec.faults[len(spec.workload.faults) :]]


def _fault(fault: FaultSpec) -> dict[str, Any]:
    lasting = {} if fault.for_ns is None else {"for": f"{fault.for_ns}ns"}
    others = {"from": fault.others} if fault.others else {}
    by = {} if fault.by is None else {"by": fault.by}
    at = {"at": f"{fault.at_ns}ns", "do": fault.do, "node": fault.node}
    return {**at, **by, **others, **lasting}


def study_answer(study: Study, journal: Journal, found: StudyResults) -> StudyAnswer:
    """What the runs of a study come to, as a page or a terminal shows it."""
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
        sections=tuple(one for each in front_ends() for one in each.study_sections(study, found)),
        columns=spec.columns,
        disk_reads=spec.disk_reads,
        drawn=None if figure is None else Drawn(**figure.model_dump()),
        ways=_ways(study, found),
    )


def _ways(study: Study, found: StudyResults) -> Ways | None:
    through = study.spec.through
    if through is None:
        return None
    source = through.published.source if through.published else ""
    return Ways(found.costs, found.published_costs, source)


def carry_study(
    file: StudyFile,
    asked: StudyRequest,
    shared: ExperimentOptions,
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
    matrix = FactorialDesign(study, environment)
    if journal is None:
        journal = begin(records, name, _definition(matrix))
    else:
        _go_on(study, journal)
    environment.claim = DatasetClaim(
        journal.claim(), lambda: key_names(study.plan(case) for case in study.cases)
    )
    kept = "" if on_existing == "refuse" else f" --on-existing {on_existing}"
    again = again or f"kvmark study {study.name} --resume{kept}"
    with execute_design(matrix, shared, journal, again) as problem:
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


def _found(records: Records, name: str, asked: StudyRequest) -> Journal:
    """The newest study of a name, or of those with the user's choice of cases where there are some.

    Raises:
        UsageError: there is none.
    """
    chosen = newest_with_cases(records, name, asked.only) if asked.only else None
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
    if study.asked.repetitions != stored_request(journal).repetitions:
        with journal.alone():
            journal.ask_for_more(study.asked.as_json())


def _definition(matrix: FactorialDesign) -> Mapping[str, Any]:
    return {"design": matrix.kind, "command": list(command_line()), **matrix.definition()}


def _as_before(asked: StudyRequest, file: StudyFile, journal: Journal) -> StudyRequest:
    """What the study was begun with, where the user doesn't say it again; repetitions may be more.

    Raises:
        UsageError: the user says something else.
    """
    before = stored_request(journal)
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
    found = study_results(study, journal, commands_per_operation)
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
