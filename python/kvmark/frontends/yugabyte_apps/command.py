"""`kvmark app`: a YugabyteDB sample application, with its own command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kvmark.cli.completion import offered
from kvmark.cli.experiment import execute_design, open_journal, report_maker
from kvmark.cli.options import ExperimentOptions
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, SpecError
from kvmark.spec.suggest import shown

if TYPE_CHECKING:
    from kvmark.experiment.judging import JudgedRun
    from kvmark.frontends.yugabyte_apps.flags import App, Flag
    from kvmark.frontends.yugabyte_apps.repeated import AppRuns
    from kvmark.frontends.yugabyte_apps.servers import Server
    from kvmark.frontends.yugabyte_apps.table import AppTable
    from kvmark.frontends.yugabyte_apps.words import Asked
    from kvmark.records import Records
    from kvmark.run.existing import OnExisting
    from kvmark.spec.run import RunSpec
    from kvmark.spec.url import SystemUrl
    from kvmark.spec.workload import WorkloadSpec

CONTEXT_SETTINGS: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""The flags are the applications' own: their grammar is read here, not by Typer."""

_DEPENDING: Final = ("CassandraTransactionalKeyValue", "CassandraSecondaryIndex")
_WIDTH: Final = 34


@offered
def _application_names(_ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """The sample applications."""
    from kvmark.frontends.yugabyte_apps.flags import APPS

    yield from APPS


def app(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME [--FLAG VALUE]...",
            autocompletion=_application_names,
            help="An application and its flags.",
        ),
    ] = None,
) -> None:
    """Runs a YugabyteDB sample application and prints the table of its published report.

    kvmark app --help lists applications and flags, kvmark app NAME --help those of one.
    """
    from kvmark.frontends.yugabyte_apps.words import parse_words

    asked = parse_words(words or ["--help"])
    if asked.has("help"):
        typer.echo(_help(asked.app))
        return
    if asked.app is None:
        raise SpecError("app needs the name of an application; see kvmark app --help")
    from kvmark import catalog
    from kvmark.frontends.yugabyte_apps.repeated import AppRuns
    from kvmark.frontends.yugabyte_apps.run_spec import run_of, with_flags
    from kvmark.frontends.yugabyte_apps.tables import notes, removals
    from kvmark.frontends.yugabyte_apps.workload import workload_of
    from kvmark.run.existing import remove_tables
    from kvmark.testbed.observe import NodeExporter

    system = with_flags(_system(asked), asked)
    server = _server(asked, system)
    if asked.has("skip_workload"):
        _drop(asked, system)
        return
    text = catalog.text(f"apps/{asked.app.name}")
    workload = workload_of(asked, text, server)
    report, shared = _report(asked), _shared(asked)

    def make() -> RunSpec:
        return run_of(asked, workload_of(asked, text, server), system)

    runs = AppRuns(
        make=make,
        application=_kept(asked, server, workload),
        repetitions=asked.whole("repetitions") or 1,
        exporters=tuple(NodeExporter(url) for url in asked.several.get("observe", ())),
        prepare=partial(
            remove_tables, system, removals(workload.prepare, asked), _on_existing(asked)
        ),
    )
    runs.typical_plan()
    for sentence in () if shared.quiet else (*asked.idle, *notes(asked, server)):
        typer.echo(f"kvmark: {sentence}", err=True)
    strict = asked.has("strict") or asked.has("sanity_check_at_end")
    journal = open_journal(runs, shared)
    with execute_design(runs, shared, journal) as problem:
        _answer(runs, journal.records, report, problem, strict=strict, json=shared.json)


def _shared(asked: Asked) -> ExperimentOptions:
    folder = asked.text("runs")
    return ExperimentOptions(
        tags=asked.several.get("tag", ()),
        commit=asked.text("commit"),
        resume=asked.has("resume"),
        prometheus=asked.whole("prometheus"),
        fleet=asked.text("fleet"),
        machines=asked.whole("machines"),
        insecure_fleet=asked.has("insecure-fleet"),
        stall_limit_ns=asked.whole("stall-limit"),
        folder=None if folder is None else Path(folder),
        json=asked.has("json") or asked.has("output_json_metrics"),
        quiet=asked.has("quiet"),
    )


def _answer(
    runs: AppRuns,
    records: Records,
    report: Path | None,
    problem: KvmarkError | None,
    *,
    strict: bool,
    json: bool,
) -> None:
    """Closes the runs and prints their tables.

    Raises:
        KvmarkError: a run failed or was interrupted.
        AnswerIsNo: a value wasn't what it must be, or it isn't VALID and that was asked for.
        RunError: the report can't be written.
    """
    from kvmark.analysis import Judgement
    from kvmark.experiment.judging import close_and_judge
    from kvmark.frontends.yugabyte_apps.table import app_table
    from kvmark.frontends.yugabyte_apps.table_view import app_part

    ended = (one.run for one in runs.outcomes if one.run is not None)
    closed = [close_and_judge(records, run) for run in ended]
    counted = [one for one in closed if one.run.counted]
    if not counted:
        first = closed[0].run.id if closed else "none"
        raise problem or AnswerIsNo(f"run {first} ended before anything was measured")
    if len(counted) < len(closed) and problem is None:
        lost = next(one.run.id for one in closed if not one.run.counted)
        problem = AnswerIsNo(f"run {lost} ended before anything was measured")
    tables = [app_table([one.run]) for one in counted]
    if report is not None:
        measured_runs = [one.run for one in counted]
        write_report(report_maker(measured_runs, app_part(app_table(measured_runs))), report)
    if json:
        documents = [
            {"run": one.run.id, "table": table, "verdict": one.verdict}
            for one, table in zip(counted, tables, strict=True)
        ]
        if runs.repetitions == 1:
            print_json("app", documents[0])
        else:
            print_json("app-runs", {"runs": documents})
    else:
        for one, table in zip(counted, tables, strict=True):
            _print_table(one, table)
        _print_mean(counted)
    if problem is not None and not isinstance(problem, Interrupted):
        raise problem
    for one, table in zip(counted, tables, strict=True):
        if table.mismatches:
            raise AnswerIsNo(
                f"{table.mismatches:,} reads of run {one.run.id} returned something else than what"
                " must be there"
            )
        if strict and one.verdict.judgement is not Judgement.VALID:
            judged = one.verdict.judgement.name
            raise AnswerIsNo(f"run {one.run.id} is {judged}, for the reasons above")
    if problem is not None:
        raise problem


def _print_table(one: JudgedRun, table: AppTable) -> None:
    from kvmark.frontends.yugabyte_apps.table_view import app_text
    from kvmark.report.format.terminal import doubt_lines
    from kvmark.report.views import doubts
    from kvmark.report.views.gather import run_answer

    print_answer(app_text(table, one.verdict, terminal_width()))
    for line in doubt_lines(doubts.of_runs([run_answer(one.run, one.verdict)]), terminal_width()):
        print_answer(line)
    typer.echo(f"\nRun {one.run.id}", err=True)


def _print_mean(counted: Sequence[JudgedRun]) -> None:
    """What repetitions say together."""
    from kvmark.analysis.summary.aggregate import case_throughput

    if len(counted) < 2:
        return
    found = case_throughput([one.run for one in counted])
    ends = "" if found.low is None else f" ({found.low:,.0f} to {found.high or 0:,.0f})"
    typer.echo(f"\n{len(counted)} runs: {found.value:,.0f} ops/s on average{ends}")


def _system(asked: Asked) -> SystemUrl:
    from kvmark.cli.session import named_system
    from kvmark.frontends.yugabyte_apps.run_spec import nodes_url

    name = asked.system("system")
    if name is None:
        return nodes_url(asked)
    if asked.has("nodes"):
        raise SpecError("--nodes and --system can't both be given")
    return named_system(name)


def _server(asked: Asked, system: SystemUrl) -> Server:
    """What the server is, asked only where tables or statements depend on it."""
    from kvmark.frontends.yugabyte_apps.servers import REDIS, Server, recognised

    if asked.app is None or asked.app.store == "redis":
        return REDIS
    if system.driver != "cql" or asked.app.name not in _DEPENDING:
        return Server("cassandra", "", has_transactions=False)
    from kvmark.testbed.cassandra.server import look_at

    found = look_at(system.options["address"], _login(system), _authority(system))
    return recognised(found.version, found.system_tables, accord=found.accord)


def _drop(asked: Asked, system: SystemUrl) -> None:
    """Only drops the table."""
    if system.driver != "cql":
        raise SpecError("--skip_workload drops a table, which only CQL servers have")
    from kvmark.frontends.yugabyte_apps.tables import KEYSPACE
    from kvmark.run.existing import remove_tables
    from kvmark.spec.owned_tables import TableRemoval

    # Refuses a name that can't be a table's.
    name = asked.text("drop_table_name") or ""
    if not name.isidentifier():
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    table = TableRemoval(f"{KEYSPACE}.{name.lower()}", drops=True)
    remove_tables(system, [table], _on_existing(asked))


def _on_existing(asked: Asked) -> OnExisting:
    choices: Mapping[str, OnExisting] = {"refuse": "refuse", "keep": "keep", "remove": "remove"}
    text = asked.text("on-existing") or "refuse"
    if text in choices:
        return choices[text]
    raise SpecError(f"--on-existing: {shown(text)} is none of refuse, keep and remove")


def _login(system: SystemUrl) -> tuple[str, str] | None:
    user = system.options.get("username")
    if user is None:
        return None
    if system.password is not None:
        return user, system.password.reveal()
    return user, os.environ.get(system.options.get("password_env", ""), "")


def _authority(system: SystemUrl) -> Path | None:
    file = system.options.get("ca_file")
    return None if file is None else Path(file)


def _report(asked: Asked) -> Path | None:
    from kvmark.cli.options import REPORT_ENDINGS

    text = asked.text("report")
    if text is None or text == "none":
        return None
    path = Path(text)
    if path.suffix not in REPORT_ENDINGS:
        raise SpecError(f"--report: {shown(text)} ends in neither {' nor '.join(REPORT_ENDINGS)}")
    return path


def _kept(asked: Asked, server: Server, workload: WorkloadSpec) -> dict[str, Any]:
    """What the manifest says of the application."""
    from kvmark.frontends.yugabyte_apps.tables import notes
    from kvmark.frontends.yugabyte_apps.workload import counted_commands

    return {
        "name": "" if asked.app is None else asked.app.name,
        "server": server.kind,
        "flags": asked.plain(),
        "commands": counted_commands(asked, workload),
        "notes": notes(asked, server),
    }


def _help(chosen: App | None) -> str:
    from kvmark import catalog
    from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS, flags_of

    if chosen is not None:
        usage = f"Usage: kvmark app {chosen.name} --nodes HOST:{chosen.port} [--FLAG VALUE]..."
        text = catalog.text(f"apps/{chosen.name}")
        return "\n".join(
            [
                usage,
                "",
                chosen.description,
                "",
                *_flag_lines(flags_of(chosen.name)),
                "",
                "Its workload, to copy and change:",
                "",
                text.rstrip(),
            ]
        )
    applications = [f"  {one.name:<{_WIDTH}}{one.description}" for one in APPS.values()]
    return "\n".join(
        [
            "Usage: kvmark app NAME --nodes HOST:PORT[,HOST:PORT...] [--FLAG VALUE]...",
            "",
            "Applications:",
            *applications,
            "",
            *_flag_lines(tuple(FLAGS.values())),
            "",
            "kvmark app NAME --help shows the flags that NAME has a use for.",
        ]
    )


def _flag_lines(flags: tuple[Flag, ...]) -> list[str]:
    metavar = {"nothing": "", "whole": " N", "number": " X", "duration": " TIME", "limit": " TIME"}
    return [
        "Flags:",
        *(
            f"  {'--' + flag.name + metavar.get(flag.takes, ' TEXT'):<{_WIDTH + 6}}{flag.help}"
            for flag in flags
        ),
    ]
