"""Executes a sample application, once or several times, and prints its tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import typer

from kvmark.analysis.summary.metrics import case_throughput
from kvmark.cli.options import ExperimentOptions, report_path
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.session import execute_design, named_system, open_journal, report_maker
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, SpecError
from kvmark.experiment.executor import (
    Design,
    Executor,
    PreparedRun,
    RunOutcome,
    RunRequest,
    prepare_run,
)
from kvmark.experiment.judging import JudgedRun, close_and_judge
from kvmark.frontends.yugabyte_apps import table
from kvmark.frontends.yugabyte_apps import workload as workloads
from kvmark.frontends.yugabyte_apps.flags import OF_THE_COMMAND, AppRequest
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Judgement, Records
from kvmark.report.views.gather import run_answer
from kvmark.report.views.verdicts import caveat_texts, run_caveats
from kvmark.run.existing import OnExisting, remove_tables
from kvmark.spec.observe import ServerSource
from kvmark.spec.owned_tables import TableRemoval
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, SystemUrl
from kvmark.testbed.cassandra.server import look_at


@dataclass(kw_only=True)
class AppRuns(Design):
    """The repetitions of a sample application."""

    kind: ClassVar[str] = "app"

    #: Makes the run; without --uuid or --nouuid, each has another key prefix.
    make: Callable[[], RunSpec]
    #: The application in the manifest of each run.
    application: Mapping[str, Any]
    repetitions: int
    #: Drops or empties the application's tables.
    prepare: Callable[[], None]
    outcomes: list[RunOutcome] = field(default_factory=list)

    def definition(self) -> Mapping[str, Any]:
        flags = self.application["flags"]
        own = {name: value for name, value in flags.items() if name not in OF_THE_COMMAND}
        application = {**self.application, "flags": own}
        return {"application": application, "repetitions": self.repetitions}

    def typical_plan(self) -> Plan:
        return compile_run(self.make())

    def execute(self, runs: Executor) -> None:
        name = self.application["name"]
        for repetition in range(self.repetitions):
            suffix = f", repetition {repetition + 1}" if self.repetitions > 1 else ""
            outcome = runs.run(
                RunRequest(
                    case=name,
                    repetition=repetition,
                    title=f"{name}{suffix}",
                    number=repetition + 1,
                    total=self.repetitions,
                    make=partial(self._run, repetition),
                )
            )
            self.outcomes.append(outcome)
            outcome.id_or_raise()

    def _run(self, repetition: int) -> PreparedRun:
        self.prepare()
        spec = self.make()
        spec = replace(spec, seed=spec.seed + repetition)
        return prepare_run(spec, compile_run(spec), {"app": self.application})


def execute_app(request: AppRequest) -> None:
    """Executes the application and prints its tables.

    Raises:
        KvmarkError: a flag is wrong, a run failed or was interrupted, reads returned wrong values,
            or a run isn't VALID and --strict was passed.
    """
    system = workloads.with_flag_options(_system(request), request)
    server = _server(request, system)
    existing = cast(OnExisting, request.text("on-existing") or "refuse")
    if request.has("skip_workload"):
        _drop_table(request, system, existing)
        return
    try:
        report = report_path(request.text("report") or "none")
    except SpecError as wrong:
        raise SpecError(f"--report: {wrong.message}") from None
    shared = _experiment_options(request)
    notes = workloads.server_notes(request, server)

    def make() -> RunSpec:
        return workloads.run_of(request, workloads.workload_of(request, server), system)

    spec = make()
    runs = AppRuns(
        make=make,
        application={
            "name": request.app.name,
            "server": server.kind,
            "flags": request.as_json(),
            "commands": table.side_commands(compile_run(spec).model_dump(mode="json")),
            "notes": notes,
        },
        repetitions=request.whole("repetitions") or 1,
        prepare=partial(
            remove_tables, system, workloads.removals(spec.workload.prepare, request), existing
        ),
    )
    for sentence in () if shared.quiet else (*request.unused_flags, *notes):
        typer.echo(f"kvmark: {sentence}", err=True)
    strict = request.has("strict") or request.has("sanity_check_at_end")
    journal = open_journal(runs, shared)
    with execute_design(runs, shared, journal) as problem:
        _report_runs(runs, journal.records, report, problem, strict=strict, json=shared.json)


def _system(request: AppRequest) -> SystemUrl:
    system = request.get("system", SystemName)
    if system is None:
        return workloads.nodes_url(request)
    if request.has("nodes"):
        raise SpecError("--nodes and --system can't both be given")
    return named_system(system)


def _server(request: AppRequest, system: SystemUrl) -> workloads.Server:
    """The kind of server. It is only contacted if tables or statements depend on it."""
    if request.app.store == "redis":
        return workloads.Server("redis")
    if system.driver != "cql" or request.app.name not in (workloads.PAIRS, workloads.INDEXED):
        return workloads.Server("cassandra")
    options, login = system.options, None
    if "username" in options:
        password = os.environ.get(options.get("password_env", ""), "")
        login = (options["username"], system.password.reveal() if system.password else password)
    authority = Path(options["ca_file"]) if "ca_file" in options else None
    version, system_tables, accord = look_at(options["address"], login, authority)
    return workloads.server_of(version, system_tables, accord=accord)


def _drop_table(request: AppRequest, system: SystemUrl, existing: OnExisting) -> None:
    if system.driver != "cql":
        raise SpecError("--skip_workload drops a table, which only CQL servers have")
    name = request.text("drop_table_name") or ""
    if not name.isidentifier():
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    remove_tables(
        system, [TableRemoval(f"{workloads.KEYSPACE}.{name.lower()}", drops=True)], existing
    )


def _experiment_options(request: AppRequest) -> ExperimentOptions:
    folder = request.text("runs")
    return ExperimentOptions(
        tags=request.all("tag", str),
        observe=request.all("observe", ServerSource),
        commit=request.text("commit"),
        resume=request.has("resume"),
        prometheus=request.whole("prometheus"),
        fleet=request.text("fleet"),
        machines=request.whole("machines"),
        insecure_fleet=request.has("insecure-fleet"),
        stall_limit_ns=request.whole("stall-limit"),
        folder=None if folder is None else Path(folder),
        json=request.has("json") or request.has("output_json_metrics"),
        quiet=request.has("quiet"),
    )


def _report_runs(
    runs: AppRuns,
    records: Records,
    report: Path | None,
    problem: KvmarkError | None,
    *,
    strict: bool,
    json: bool,
) -> None:
    """Judges the runs, prints their tables and raises the command's error, if there is one."""
    ended = (one.run for one in runs.outcomes if one.run is not None)
    closed = [close_and_judge(records, run) for run in ended]
    counted = [one for one in closed if one.run.counted]
    lost = next((one.run.id for one in closed if not one.run.counted), None if closed else "none")
    if problem is None and lost is not None:
        problem = AnswerIsNo(f"run {lost} ended before anything was measured")
    if problem is not None and not counted:
        raise problem
    answers = [(one, table.app_table([one.run])) for one in counted]
    if report is not None:
        all_runs = [one.run for one in counted]
        part = table.app_section(table.app_table(all_runs))
        write_report(report_maker(all_runs, part), report)
    if json:
        documents = [
            {"run": one.run.id, "table": answer, "verdict": one.verdict} for one, answer in answers
        ]
        single = runs.repetitions == 1
        print_json("app" if single else "app-runs", documents[0] if single else {"runs": documents})
    else:
        _print_tables(answers)
    if problem is not None and not isinstance(problem, Interrupted):
        raise problem
    for one, answer in answers:
        if answer.mismatches:
            raise AnswerIsNo(
                f"{answer.mismatches:,} reads of run {one.run.id} returned wrong values"
            )
        if strict and one.verdict.judgement is not Judgement.VALID:
            judgement = one.verdict.judgement.name
            raise AnswerIsNo(f"run {one.run.id} is {judgement}, for the reasons above")
    if problem is not None:
        raise problem


def _print_tables(answers: Sequence[tuple[JudgedRun, table.AppTable]]) -> None:
    width = terminal_width()
    for one, answer in answers:
        print_answer(table.app_text(answer, one.verdict, width))
        for text in caveat_texts(run_caveats([run_answer(one.run, one.verdict)]), width):
            typer.echo()
            print_answer(text)
        typer.echo(f"\nRun {one.run.id}", err=True)
    if len(answers) > 1:
        mean = case_throughput([one.run for one, _ in answers])
        interval = "" if mean.low is None else f" ({mean.low:,.0f} to {mean.high or 0:,.0f})"
        typer.echo(f"\n{len(answers)} runs: {mean.value:,.0f} ops/s on average{interval}")
