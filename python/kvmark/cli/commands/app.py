"""`kvmark app`: a YugabyteDB sample application, with its own command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kvmark.cli.command_line import command_line
from kvmark.cli.completion import complete
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.session import session
from kvmark.errors import AnswerIsNo, Interrupted, SpecError
from kvmark.spec.suggest import shown

if TYPE_CHECKING:
    from kvmark.records import Records
    from kvmark.run.execution import Carried
    from kvmark.spec.app.flags import App, Flag
    from kvmark.spec.app.servers import Server
    from kvmark.spec.app.words import Asked
    from kvmark.spec.url import SystemUrl
    from kvmark.spec.workload import WorkloadSpec

__all__ = ["CONTEXT_SETTINGS", "app"]

CONTEXT_SETTINGS: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""The flags are the applications' own: their grammar is read here, not by Typer."""

_DEPENDING: Final = ("CassandraTransactionalKeyValue", "CassandraSecondaryIndex")
_WIDTH: Final = 34


def app(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME [--FLAG VALUE]...",
            autocompletion=complete.application,
            help="An application and its flags.",
        ),
    ] = None,
) -> None:
    """Runs a YugabyteDB sample application and prints the table of its published report.

    kvmark app --help lists applications and flags, kvmark app NAME --help those of one.
    """
    from kvmark.spec.app.words import parse_words

    asked = parse_words(words or ["--help"])
    if asked.has("help"):
        typer.echo(_help(asked.app))
        return
    if asked.app is None:
        raise SpecError("app needs the name of an application; see kvmark app --help")
    from kvmark import catalog
    from kvmark.plan.compile import compile_run
    from kvmark.spec.app.run import run_of, with_flags
    from kvmark.spec.app.tables import notes
    from kvmark.spec.app.workload import workload_of

    system = with_flags(_system(asked), asked)
    server = _server(asked, system)
    if asked.has("skip_workload"):
        _drop(asked, system)
        return
    workload = workload_of(asked, catalog.text(f"apps/{asked.app.name}"), server)
    spec = run_of(asked, workload, system)
    plan = compile_run(spec)
    report = _report(asked)
    folder, quiet = asked.text("runs"), asked.has("quiet")
    for sentence in () if quiet else (*asked.idle, *notes(asked, server)):
        typer.echo(f"kvmark: {sentence}", err=True)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.display.live import LiveDisplay
    from kvmark.cli.display.progress import show
    from kvmark.records import Records
    from kvmark.run.execution import carry_out
    from kvmark.testbed.node_exporter import NodeExporter

    exporters = [NodeExporter(url) for url in asked.several.get("observe", ())]
    records = Records.at(None if folder is None else Path(folder))
    with (
        session(command_line(), records, plan, asked.several.get("tag", ())) as setting,
        LiveDisplay(quiet=quiet) as display,
    ):
        display.step(spec.workload.name, 1, 1)
        kept = {**spec.as_json(), "app": _kept(asked, server, workload)}
        carried = carry_out(
            plan, kept, setting, show(display), exporters=exporters,
            password=spec.system.password,
        )  # fmt: skip
    _answer(
        carried,
        records,
        report,
        strict=asked.has("strict") or asked.has("sanity_check_at_end"),
        json=asked.has("json") or asked.has("output_json_metrics"),
    )


def _answer(
    carried: Carried, records: Records, report: Path | None, *, strict: bool, json: bool
) -> None:
    """Closes one run and prints its table.

    Raises:
        KvmarkError: the run failed or was interrupted.
        AnswerIsNo: a value wasn't what it must be, or it isn't VALID and that was asked for.
        RunError: the report can't be written.
    """
    from kvmark.analysis import Judgement
    from kvmark.analysis.external.yugabyte import app_table
    from kvmark.experiment.measured import measured
    from kvmark.report.format.terminal import doubt_lines
    from kvmark.report.model.page import with_part
    from kvmark.report.views import doubts
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.yugabyte import app_part, app_text

    (one,) = measured([carried], records)
    run, verdict = one.run, one.verdict
    if not run.counted:
        carried.or_raise()
        raise AnswerIsNo(f"run {run.id} ended before anything was measured")
    table = app_table(run)
    answer = run_answer(run, verdict)
    if report is not None:
        write_report(lambda page: with_part(page.run_page(answer), app_part(table)), report)
    if json:
        print_json("app", {"run": run.id, "table": table, "verdict": verdict})
    else:
        print_answer(app_text(table, verdict, terminal_width()))
        for line in doubt_lines(doubts.of_runs([answer]), terminal_width()):
            print_answer(line)
        typer.echo(f"\nRun {run.id}", err=True)
    if not isinstance(carried.failure, Interrupted):
        carried.or_raise()
    if table.mismatches:
        raise AnswerIsNo(
            f"{table.mismatches:,} reads of run {run.id} returned something else than what must"
            " be there"
        )
    if strict and verdict.judgement is not Judgement.VALID:
        raise AnswerIsNo(f"run {run.id} is {verdict.judgement.name}, for the reasons above")
    carried.or_raise()


def _system(asked: Asked) -> SystemUrl:
    from kvmark.cli.system import named_system
    from kvmark.spec.app.run import nodes_url

    name = asked.system("system")
    if name is None:
        return nodes_url(asked)
    if asked.has("nodes"):
        raise SpecError("--nodes and --system can't both be given")
    return named_system(name)


def _server(asked: Asked, system: SystemUrl) -> Server:
    """What the server is, asked only where tables or statements depend on it."""
    from kvmark.spec.app.servers import REDIS, Server, recognised

    if asked.app is None or asked.app.store == "redis":
        return REDIS
    if system.driver != "cql" or asked.app.name not in _DEPENDING:
        return Server("cassandra", "", has_transactions=False)
    from kvmark.testbed.cql_server import look_at

    found = look_at(system.options["address"], _login(system), _authority(system))
    return recognised(found.version, found.system_tables, accord=found.accord)


def _drop(asked: Asked, system: SystemUrl) -> None:
    """Only drops the table."""
    if system.driver != "cql":
        raise SpecError("--skip_workload drops a table, which only CQL servers have")
    from kvmark.spec.app.tables import KEYSPACE
    from kvmark.testbed.cql_server import send

    # Refuses a name that can't be a table's.
    name = asked.text("drop_table_name") or ""
    if not name.isidentifier():
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    statement = f"DROP TABLE IF EXISTS {KEYSPACE}.{name}"
    send(system.options["address"], [statement], _login(system), _authority(system))


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
    from kvmark.spec.app.tables import notes
    from kvmark.spec.app.workload import counted_commands

    return {
        "name": "" if asked.app is None else asked.app.name,
        "server": server.kind,
        "flags": asked.plain(),
        "commands": counted_commands(asked, workload),
        "notes": notes(asked, server),
    }


def _help(chosen: App | None) -> str:
    from kvmark import catalog
    from kvmark.spec.app.flags import APPS, FLAGS, flags_of

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
    metavar = {"nothing": "", "whole": " N", "number": " X", "duration": " TIME"}
    return [
        "Flags:",
        *(
            f"  {'--' + flag.name + metavar.get(flag.takes, ' TEXT'):<{_WIDTH + 6}}{flag.help}"
            for flag in flags
        ),
    ]
