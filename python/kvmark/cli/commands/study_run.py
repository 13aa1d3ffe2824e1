"""Runs a study, from its file or from options of `kvmark run`, and prints its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_result, save_report, terminal_width
from kvmark.cli.session import AGAIN, check_observed, execute_design, named_system
from kvmark.errors import AnswerIsNo, KvmarkError, SpecError, SystemUnderTestError, UsageError
from kvmark.experiment.journal import Journal, begin, find
from kvmark.experiment.study.answer import newest_with_cases, stored_request, study_results
from kvmark.experiment.study.definition import Study, StudyRequest
from kvmark.experiment.study.design import Environment, FactorialDesign
from kvmark.frontends import commands_per_operation, front_ends
from kvmark.outputs import check_output
from kvmark.plan.names import key_names
from kvmark.report.views.gather import study_provenance
from kvmark.report.views.study import study_page, study_text
from kvmark.run.existing import DatasetClaim, OnExisting
from kvmark.spec.study import StudyFile, parse_study
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import did_you_mean, shown, without_credentials
from kvmark.spec.yaml_file import Document, read_text

if TYPE_CHECKING:
    from kvmark.analysis.study import StudyResults
    from kvmark.cli.options import ExperimentOptions
    from kvmark.cli.run_options import RunOptions
    from kvmark.report.model.page import Page
    from kvmark.spec.faults import FaultSpec
    from kvmark.spec.run import RunSpec

_KEYS: Final = {name: field.alias or name for name, field in RunWords.model_fields.items()}
"""The keys of a study's `run`, by the fields that they set."""
_NOT_SWEPT: Final = frozenset({"pin", "groups", "skip", "map", "faults"})


def run_sweep(options: RunOptions) -> None:
    """Runs the study of `--sweep` and `--repetitions`, and prints its answer.

    Raises:
        KvmarkError: as `run_study`.
    """
    request = StudyRequest(options.system)
    run_study(sweep_study(options), request, options, options.report, AGAIN)


def sweep_study(options: RunOptions) -> StudyFile:
    """The study with a case for each combination of the values of `--sweep`.

    Raises:
        SpecError: an option can't be swept, or a value isn't valid.
    """
    factors = dict(map(_factor, options.sweep))
    if len(factors) < len(options.sweep):
        raise SpecError("--sweep: a word is swept twice; give all of its values at once")
    spec = options.spec
    varied = f", and how does it vary with {' and '.join(factors)}" if factors else ""
    study = {
        "question": f"What does {spec.workload.name} do{varied}?",
        "system": without_credentials(options.system.reveal() if options.system else ""),
        **_workload(options.workload, spec),
        # The faults of the workload come with it.
        "run": {
            **_run_values(options),
            "faults": [_fault(one) for one in spec.faults[len(spec.workload.faults) :]],
        },
        "factors": factors,
        "repetitions": options.repetitions or 1,
        "seed": options.seed,
    }
    if len(factors) == 1:
        study["figure"] = {"across": next(iter(factors))}
    # The same options give the same name, by which --resume finds the study.
    name = f"sweep-{sha256(json.dumps(study).encode()).hexdigest()[:8]}"
    return parse_study(json.dumps({"name": name, **study}, indent=2) + "\n", "--sweep")


def _factor(text: str) -> tuple[str, list[str]]:
    name, sign, values = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    known = [key for field, key in _KEYS.items() if field not in _NOT_SWEPT]
    if not sign or not values.strip():
        raise SpecError(f"--sweep: {shown(text)} isn't a word and its values: clients=1,10,100")
    if "." not in name and name not in known:
        raise SpecError(f"--sweep: {shown(name)} can't be swept{did_you_mean(name, known)}")
    return name, [value.strip() for value in values.split(",")]


def _workload(name: str, spec: RunSpec) -> dict[str, Any]:
    """A ready workload by its name, a workload file by its present content."""
    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        return {"workload": name}
    content: Any = Document(read_text(path), name).value
    own = {"name": spec.workload.name, **content}
    return {"workload": path.stem, "workloads": {path.stem: own}}


def _run_values(options: RunOptions) -> dict[str, Any]:
    """The given options as a study's `run`."""
    replay, map_file = options.spec.replay, getattr(options, "map_file", None)
    values = {name: getattr(options, name, None) for name in _KEYS} | {
        "rate": options.spec.rate,
        "skip": replay.skip if replay else None,
        "map": str(map_file) if map_file else None,
        # By default each case loads its own records.
        "load": None if options.load == "auto" else options.load,
    }
    given = {name: value for name, value in values.items() if value not in (None, ())}
    texts = {name: f"{value}ns" for name, value in given.items() if name.endswith("_ns")}
    if options.stall_limit_ns == 0:
        texts["stall_limit_ns"] = "off"
    return {_KEYS[name]: value for name, value in (given | texts).items()}


def _fault(fault: FaultSpec) -> dict[str, Any]:
    values = fault.model_dump(by_alias=True, exclude_defaults=True)
    values |= {name: f"{values[name]}ns" for name in ("at", "for") if name in values}
    return {"at": values.pop("at"), **values}


def report_page(study: Study, journal: Journal, results: StudyResults) -> Page:
    """The results of a study's runs as a page."""
    definition = {key: value for key, value in journal.definition.items() if key != "digest"}
    provenance = study_provenance(journal.id, definition, results)
    sections = (one for each in front_ends() for one in each.study_sections(study, results))
    return study_page(results, provenance, sections)


def run_study(
    file: StudyFile,
    request: StudyRequest,
    options: ExperimentOptions,
    report: Path | None,
    again: str | None = None,
    on_existing: OnExisting = "refuse",
) -> None:
    """Executes the missing runs of a study, and prints its answer.

    `again` is the command that resumes it when it is interrupted, if not `kvmark study`.

    Raises:
        AnswerIsNo: a case failed or is INVALID.
        SystemUnderTestError: no case measured anything.
        KvmarkError: the study can't be executed, or was interrupted.
    """
    if report is not None:
        check_output(report, "report: ")
    named = {one.name for one in options.observe}
    sources = (one for one in file.spec.sources if one.name not in named)
    options = replace(options, observe=(*sources, *options.observe))
    records, name = options.open_records(), file.spec.name
    journal = None
    if options.resume:
        chosen = newest_with_cases(records, name, request.only) if request.only else None
        journal = chosen or find(records, name)
        if journal is None:
            raise UsageError(f"no study {name} was begun in {records.root}; leave --resume out")
        request = _resumed_request(request, file, journal)
    study = Study(file, request, named_system)
    study.check()

    def tell(text: str) -> None:
        if not options.quiet:
            typer.echo(f"[study] {text}", err=True)

    environment = Environment(study, tell, on_existing)
    design = FactorialDesign(study, environment)
    if journal is None:
        check_observed(options)
        command = {"design": design.kind, "command": list(command_line())}
        journal = begin(records, name, {**command, **design.definition()})
    else:
        _resume(study, journal)
    environment.claim = DatasetClaim(
        journal.claim(), lambda: key_names(study.plan(case) for case in study.cases)
    )
    existing = "" if on_existing == "refuse" else f" --on-existing {on_existing}"
    again = again or f"kvmark study {study.name} --resume{existing}"
    with execute_design(design, options, journal, again) as problem:
        _answer(study, journal, report, json=options.json, problem=problem)


def _resumed_request(request: StudyRequest, file: StudyFile, journal: Journal) -> StudyRequest:
    """The request with the values of the first pass where none are given; repetitions may increase.

    Raises:
        UsageError: the request contradicts the first pass.
    """
    before, changed = stored_request(journal), dict[str, Any]()
    # A password isn't stored: the system must be given again, and is compared without it.
    for name, value in request.as_json().items():
        stored = before.as_json()[name]
        if value in (None, ()):
            changed[name] = getattr(before, name)
        elif name == "repetitions":
            stored = stored or file.spec.repetitions
            if value < stored:
                raise UsageError(
                    f"repetitions: study {journal.id} was begun with {stored}, and {value} are"
                    " fewer; give more, or begin again without --resume"
                )
        elif value != stored:
            raise UsageError(
                f"{name}: study {journal.id} was begun with {stored}, not {value}; leave it out, or"
                " begin again without --resume"
            )
    return replace(request, **changed)


def _resume(study: Study, journal: Journal) -> None:
    """Checks that a study is the stored one, and stores an increased number of repetitions.

    Raises:
        UsageError: it is another study.
        RunError: its folder can't be written.
    """
    if journal.definition.get("digest") != study.digest():
        raise UsageError(
            f"study {journal.id} was begun with another file or another version of kvmark;"
            " begin again without --resume"
        )
    if study.asked.repetitions != stored_request(journal).repetitions:
        with journal.alone():
            journal.ask_for_more(study.asked.as_json())


def _answer(
    study: Study, journal: Journal, report: Path | None, *, json: bool, problem: KvmarkError | None
) -> None:
    """Prints the answer from the runs so far, writes the report, then raises the problem.

    Raises:
        KvmarkError: the study ended early, a run can't be read, or the report not written.
    """
    results = study_results(study, journal, commands_per_operation)
    names = ("rows", "effects", "notes", "published_source", "missing")
    document = {
        "study": journal.id,
        **{name: getattr(results, name) for name in names},
        "ways": results.proxies,
        "runs": [run.id for run in results.runs],
        "report": report,
    }
    print_result("study", document if json else study_text(results, terminal_width()))
    save_report(lambda _: report_page(study, journal, results), report, quiet=json)
    if problem is not None:
        raise problem
    rows = results.rows
    if all(row.figures is None for row in rows):
        raise SystemUnderTestError(f"no case measured anything: {rows[0].failures[0]}")
    if failed := sum(not row.is_usable for row in rows):
        verb = "is" if failed == 1 else "are"
        raise AnswerIsNo(
            f"{failed} of {len(rows)} cases failed or {verb} INVALID, for the reasons above"
        )
