"""Carries out what a command decided, shows it, and answers.

Apart from the commands, because it needs libraries that take a second to load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from kvmark.analysis import Judgement, SequenceRow, summarize
from kvmark.cli.live import LiveDisplay
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.progress import show
from kvmark.errors import AnswerIsNo, UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run
from kvmark.report.gather import run_answer, sequence_answer
from kvmark.report.terminal import run_text, sequence_text
from kvmark.run import make_setting
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.ycsb import YcsbProperties
from kvmark.study.measured import Measured, measure
from kvmark.study.ycsb import Step, YcsbStudy, planned
from kvmark.testbed.rocksdb import holds_database, remove_database, scratch_folder

__all__ = ["measure_one", "measure_sequence"]


def measure_one(
    plan: Plan,
    spec: RunSpec,
    tags: tuple[str, ...],
    report: Path | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out one run and prints it.

    Raises:
        KvmarkError: the run failed or was interrupted, or is INVALID; it is printed all the same.
    """
    setting = make_setting(_command_line(), plan, tags)
    with LiveDisplay(quiet=quiet) as display:
        display.step(spec.workload.name, 1, 1)
        measured = measure(plan, spec.as_json(), Records.default(), setting, show(display))
    _answer_one(measured, report, json=json)
    measured.or_raise()
    if measured.verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {measured.run.id} is INVALID, for the reasons above")


def measure_sequence(
    study: YcsbStudy,
    tags: tuple[str, ...],
    report: Path | None,
    *,
    scratch: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out a sequence and prints its table; on a database of its own with `scratch`.

    Raises:
        KvmarkError: a step failed or was interrupted, or a case is INVALID.
    """
    records = Records.default()
    with scratch_folder(records.root) if scratch else nullcontext() as folder:
        if folder is not None:
            path = str(folder / "db")
            study = replace(study, system=SystemUrl("rocksdb", {"path": path}, f"rocksdb:{path}"))
        runs = _carry(study, records, tags, quiet=quiet)
    rows = _answer_sequence(runs, report, json=json)
    invalid = sum(row.figures.verdict.judgement is Judgement.INVALID for row in rows)
    if invalid:
        raise AnswerIsNo(f"{invalid} of {len(rows)} cases are INVALID, for the reasons above")


def _carry(study: YcsbStudy, records: Records, tags: tuple[str, ...], *, quiet: bool) -> list[Run]:
    steps = study.steps()
    setting = make_setting(_command_line(), study.typical_plan(), tags)
    ycsb = _kept(study.properties)
    with LiveDisplay(quiet=quiet) as display:

        def carry(number: int, step: Step, spec: RunSpec) -> Run:
            display.step(step.title, number, len(steps))
            kept = {**spec.as_json(), "ycsb": ycsb, "sequence": asdict(step)}
            plan, more = compile_run(spec), study.repetitions
            measured = measure(plan, kept, records, setting, show(display), repetitions=more)
            return measured.or_raise()

        return list(planned(study, carry, _emptier(study)))


def _kept(properties: YcsbProperties) -> dict[str, Any]:
    """What an export as YCSB's text needs to know."""
    return {
        "percentiles": properties.hdrhistogram_percentiles,
        "measurement": properties.measurement_interval,
        "properties": {name: given.value for name, given in properties.given.items()},
    }


def _emptier(study: YcsbStudy) -> Callable[[], None]:
    """Makes an embedded database empty before a first load, but only one made by this command."""
    if study.system.driver != "rocksdb" or not any(step.fresh for step in study.steps()):
        return lambda: None
    folder = Path(study.system.options["path"])
    if holds_database(folder):
        raise UsageError(
            f"{folder} already holds a database, and the sequence begins with a load: remove it,"
            " name another folder, or leave load out of --workloads"
        )
    return lambda: remove_database(folder)


def _answer_one(measured: Measured, report: Path | None, *, json: bool) -> None:
    run, verdict = measured.run, measured.verdict
    answer = run_answer(run, verdict)
    if report is not None:
        write_report(lambda page: page.run_page(answer), report)
    if json:
        print_json({"run": run.id, "summary": summarize(run), "verdict": verdict})
        return
    print_answer(run_text(answer, terminal_width()))
    _tell(report)


def _answer_sequence(
    runs: list[Run], report: Path | None, *, json: bool
) -> tuple[SequenceRow, ...]:
    answer = sequence_answer(runs)
    if report is not None:
        write_report(lambda page: page.sequence_page(answer), report)
    if json:
        source, ids = answer.published_source, [run.id for run in runs]
        print_json({"rows": answer.rows, "published_source": source, "runs": ids, "report": report})
    else:
        print_answer(sequence_text(answer, terminal_width()))
        _tell(report)
    return answer.rows


def _tell(report: Path | None) -> None:
    if report is not None:
        typer.echo(f"\nThe report is in {report.resolve()}", err=True)


def _command_line() -> tuple[str, ...]:
    """The command as it was typed, for the manifest."""
    return ("kvmark", *sys.argv[1:])
