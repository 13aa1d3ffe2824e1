"""`kvmark run` and `kvmark replay`: one workload on one system."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_result, save_report, terminal_width
from kvmark.cli.run_options import ReplayOptions, RunOptions
from kvmark.cli.session import run_context
from kvmark.errors import AnswerIsNo, Interrupted, SpecError
from kvmark.spec.replay import is_trace

if TYPE_CHECKING:
    from kvmark.plan.model import Plan
    from kvmark.records import Records
    from kvmark.run.execution import ExecutedRun
    from kvmark.trace.recording import RunRecording


def run(options: RunOptions) -> None:
    """Measures one workload on one system, and prints a verdict."""
    spec, objectives = options.spec, options.objectives
    if options.is_study:
        if objectives:
            raise SpecError("--slo is held against one run: leave --sweep and --repetitions out")
        from kvmark.cli.commands.study_run import run_sweep

        run_sweep(options)
        return
    if options.resume:
        raise SpecError("--resume continues a sweep or repetitions: give --sweep too")
    from kvmark.plan.compile import compile_run
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations

    plan = compile_run(spec)
    metrics = [objective.metric for objective in objectives]
    check_operations(metrics, operation_names(plan), "there is")
    records = options.open_records()
    with _recording(options) as recording:
        carried = measured_run(options, plan, records, command_line(), recording)
        if recording is not None:
            notices = carried.manifest.engine.notices
            recording.told = tuple(one.message for one in notices if one.code == "log_incomplete")
    try:
        _answer(carried, records, options)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: what was measured is kept as run {carried.folder.id}; kvmark show"
            " prints it"
        ) from None
    finally:
        if recording is not None and not options.json:
            _print_recording(recording)


def replay(options: ReplayOptions) -> None:
    """Replays a trace on any system.

    The options of `kvmark run` apply.
    """
    if not is_trace(options.workload):
        raise SpecError(f"{options.workload} is no trace; kvmark run takes other workloads")
    run(options)


def _recording(options: RunOptions) -> AbstractContextManager[RunRecording | None]:
    if options.record is None:
        return nullcontext()
    from kvmark.cli.commands.trace import read_hash_key
    from kvmark.trace.recording import RunRecording

    source = f"a run of {options.spec.workload.name} on {options.spec.system.driver}"
    return RunRecording(options.record, source, read_hash_key(None))


def _print_recording(recording: RunRecording) -> None:
    from kvmark.trace.folder import sentences

    if recording.info is None:
        typer.echo(f"{recording.folder}: nothing was recorded, for nothing was measured")
        return
    typer.echo(f"{recording.folder} has {recording.info.operations:,} operations")
    for sentence in sentences(recording.info.told):
        typer.echo(sentence)


def measured_run(
    options: RunOptions,
    plan: Plan,
    records: Records,
    command: tuple[str, ...],
    recording: RunRecording | None = None,
) -> ExecutedRun:
    """Executes one run, and shows its progress."""
    from kvmark.cli.live import LiveDisplay
    from kvmark.run.execution import execute

    spec = options.spec
    with (
        run_context(command, records, plan, options) as shared,
        LiveDisplay(quiet=options.quiet) as display,
    ):
        display.step(spec.workload.name, 1, 1)
        log = None if recording is None else (recording.folder, recording.hash_key)
        context = replace(shared, recording=log)
        kept = {**spec.as_json(), "objectives": [one.text for one in options.objectives]}
        return execute(
            plan, kept, context, display.show, spec.faults, password=spec.system.password
        )


def _answer(carried: ExecutedRun, records: Records, options: RunOptions) -> None:
    """Closes one run and prints its answer.

    Raises:
        KvmarkError: the run failed or was interrupted, is INVALID, or misses an objective.
        RunError: the report can't be written.
    """
    from kvmark.experiment.judging import close_and_judge
    from kvmark.records import Judgement
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.screen import run_screen

    run, verdict = close_and_judge(records, carried.folder.id)
    answer = run_answer(run, verdict, page_runs=None if options.report is None else 1)
    names = ("value", "held", "sentence")
    objectives = [
        {"objective": one.objective.text, **{name: getattr(one, name) for name in names}}
        for one in answer.objectives
    ]
    document = {"run": run.id, "summary": answer.summary, "verdict": verdict}
    document["objectives"] = objectives
    print_result("run", document if options.json else run_screen(answer, terminal_width()))
    save_report(lambda page: page.run_page(answer), options.report, quiet=options.json)
    carried.or_raise()
    if verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {run.id} is INVALID, for the reasons above")
    if missed := [one.sentence for one in answer.objectives if not one.held]:
        raise AnswerIsNo("; ".join(missed))
