"""`kvmark audit`: another tool's benchmark through a tap."""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.commands.trace import read_hash_key, tap_settings
from kvmark.cli.options import argument, number, option, quantity
from kvmark.cli.output import print_result, save_report, terminal_width
from kvmark.errors import AnswerIsNo, Interrupted, RunError, SpecError, UsageError
from kvmark.foreign_text import printable
from kvmark.interrupts import listening
from kvmark.records import Judgement, Records
from kvmark.spec.other_commands import redacted_command, without_secrets
from kvmark.spec.quantity import rate as read_rate
from kvmark.spec.url import SystemName, parse_system_url, system_name

if TYPE_CHECKING:
    from kvmark.analysis.audit.observed import ObservedLoad
    from kvmark.imports.reading import Collector
    from kvmark.records.audit import AnnouncedLoad, AuditRecord
    from kvmark.testbed.audited_command import AuditedCommand
    from kvmark.trace.recording import TapProgress

_HOST: Final = "{host}"
_PORT: Final = "{port}"
_MEMORY: Final = 256 << 20
_DISK: Final = 10 << 30
_US: Final = 1e3


def _read_rate(text: str) -> float:
    found = read_rate(text)
    if found is None:
        raise SpecError("max is no announced rate; leave --rate out")
    return found


def audit(
    words: list[str] = argument(
        "COMMAND...", "Command after --, with {host} and {port} for the tap.", show_default=False
    ),
    *,
    to: Annotated[
        SystemName,
        option(
            "URL",
            "Server, such as redis://HOST, memcached://HOST or cql://HOST.",
            parser=system_name,
        ),
    ],
    clients: int | None = number("Announced connections (default: by the command)."),
    rate: float | None = quantity(
        _read_rate, "RATE", "Announced requests per second (default: by the command)."
    ),
    records: int | None = number("Announced keys (default: by the command)."),
    output: Path | None = option("X.trace", "Keep the trace in this folder.", "--output", "-o"),
    name: str | None = option("NAME", "Name of the run (default: the tool's)."),
    report: options.RunReport = None,
    tag: options.Tag = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs another tool's benchmark through a tap, and judges it.

    Options of the tool follow --: kvmark audit --to URL -- redis-benchmark -h {host} -p {port}
    """
    from kvmark.imports.foreign_command import announced_load

    tool = _tool(words)
    for option_name, value in (("--clients", clients), ("--records", records)):
        if value == 0:
            raise UsageError(f"{option_name}: must be at least 1")
    typed = announced_load(words)
    announced = replace(
        typed,
        clients=clients or typed.clients,
        records=records or typed.records,
        rate=rate or typed.rate,
    )
    kept = Records.at(folder)
    with tempfile.TemporaryDirectory(prefix="kvmark-audit-") as place:
        trace = output or Path(place) / "audit.trace"
        made = _audited(words, tool, to, announced, (Path(place), trace), quiet=quiet)
    _answer(kept, made, (name or tool, tag or []), report, json=json, quiet=quiet)


def _tool(words: Sequence[str]) -> str:
    """The name of the tool, once its command can be executed and uses the tap.

    Raises:
        UsageError: it can't, or doesn't.
    """
    from kvmark.testbed.process import find_program

    tool = Path(words[0]).name
    if not any(_PORT in word for word in words):
        raise UsageError(f"{tool} doesn't use {_PORT}: write it in place of the server's port")
    missing = f"there is no program {printable(words[0])}: install it, or give its path"
    find_program(words[0], missing)
    return tool


def _audited(
    words: Sequence[str],
    tool: str,
    to: SystemName,
    announced: AnnouncedLoad,
    places: tuple[Path, Path],
    *,
    quiet: bool,
) -> Collector:
    """Runs the command, and analyses what the tap recorded in a folder of both.

    Raises:
        KvmarkError: the server, the command or the tap failed, or nothing was sent.
    """
    from kvmark.analysis.audit.observed import observe
    from kvmark.imports.foreign_command import read_results, results_option
    from kvmark.learn.counterpart import counterpart
    from kvmark.records.audit import AuditRecord, TapCostRecord
    from kvmark.testbed.audited_command import AuditedCommand
    from kvmark.trace.folder import HASHED, Trace
    from kvmark.trace.tap_cost import measure_tap

    folder, trace_folder = places
    settings = tap_settings("0", to, None, _MEMORY, _DISK, HASHED)
    cost = measure_tap(settings)
    since_ns = time.time_ns()
    with listening() as interrupts, AuditedCommand(folder) as command:
        tap, interrupted = _observe(
            command, words, interrupts.take, (settings, trace_folder), quiet=quiet
        )
        interrupts.forget()
        exit_code, threads = command.exit_code or 0, command.threads()
        last = _last_line(command, words)
    trace = Trace.open(trace_folder)
    load = observe(trace, tap, announced, threads)
    results = read_results(words, command.output, since_ns)
    same = counterpart(load, trace, parse_system_url(to.reveal()), tool, announced.records)
    record = AuditRecord(
        tool=tool, exit_code=exit_code, interrupted=interrupted, announced=announced,
        sent=load.sent, connections=load.connections, pace=load.pace, omission=load.omission,
        drift=load.drift, intervals=max(0, load.sent.span_ns // load.slot_ns - 1),
        threads=threads, tap=TapCostRecord(*cost) if cost else None, figures=load.figures,
        counterpart=() if same is None else same.options,
    )  # fmt: skip
    made = _collected(record, load, words, trace.info.told, results)
    made.system = settings["protocol"]
    made.workload = "" if same is None else same.text
    if results is None and (advice := results_option(words)):
        made.notes.append(f"{tool}'s own figures aren't here: give it {advice}.")
    if exit_code and not interrupted:
        made.notes.append(f"{tool} ended with {exit_code}{last}.")
    return made


def _observe(
    command: AuditedCommand,
    words: Sequence[str],
    is_interrupted: Callable[[], int],
    tap: tuple[Mapping[str, Any], Path],
    *,
    quiet: bool,
) -> tuple[TapProgress, bool]:
    """Runs the command to its end; the tap's last progress, and whether the user ended it.

    Raises:
        KvmarkError: the command or the tap can't start, or nothing was sent.
    """
    from kvmark.trace.recording import record as record_trace

    settings, trace = tap
    tool, interrupted = Path(words[0]).name, False
    last: list[TapProgress] = []

    def continues(progress: TapProgress) -> bool:
        nonlocal interrupted
        last[:] = [progress]
        if not command.is_started:
            host, _, port = progress.listens.rpartition(":")
            filled = [word.replace(_HOST, host).replace(_PORT, port) for word in words]
            command.start(filled)
            if not quiet:
                typer.echo(f"{printable(tool)} runs through {progress.listens}", err=True)
            return True
        ended = command.exit_code is not None
        if not ended:
            command.sample()
            if is_interrupted():
                interrupted = True
                command.interrupt()
        return not ended

    source = f"a tap before {settings['protocol']}"
    try:
        record_trace(settings, trace, source, read_hash_key(None), continues)
    except RunError as problem:
        if command.exit_code is None or trace.exists():
            raise
        end = f" and ended with {command.exit_code}" if command.exit_code else ""
        why = _last_line(command, words)
        if interrupted:
            raise Interrupted(f"interrupted before {tool} sent anything") from problem
        raise RunError(f"{tool} sent nothing to {_HOST}:{_PORT}{end}{why}") from problem
    return last[0], interrupted


def _last_line(command: AuditedCommand, words: Sequence[str]) -> str:
    """The last line of the command's errors or output, after a colon, without secrets."""
    for file in (command.errors, command.output):
        with suppress(OSError):
            lines = file.read_text(errors="replace").split("\n")
            if line := next((line.strip() for line in reversed(lines) if line.strip()), ""):
                return f": {printable(without_secrets(line, words))}"
    return ""


def _collected(
    record: AuditRecord,
    load: ObservedLoad,
    words: Sequence[str],
    told: Sequence[str],
    results: Collector | None,
) -> Collector:
    """The tap's figures as those of an imported file, which is the command."""
    from kvmark.analysis.audit.observed import ALL
    from kvmark.analysis.audit.own_figures import with_own_figures
    from kvmark.imports.reading import Collector, Format, Interval
    from kvmark.imports.source import Source
    from kvmark.imports.writing import imported_record
    from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT
    from kvmark.stats import Counts
    from kvmark.trace.folder import sentences

    # A shell would quote the braces.
    text = re.sub(r"'([\w@%+=:,./{}-]+)'", r"\1", shlex.join(redacted_command(words)))
    kind = Format("audit", "an audit", None, lambda _: None, lambda _: None)
    made = Collector(Source(record.tool, f"{text}\n".encode(), text), kind, record.tool)
    made.said["command"], made.notes = text, sentences(told)
    made.case()
    made.add(None, OPERATIONS, record.sent.operations)
    made.add(None, RUNTIME, record.sent.span_ns / 1e9, "s")
    for one in record.figures:
        operation = None if one.name == ALL else one.name
        made.add(None, THROUGHPUT, one.rate, "ops/s", operation=operation)
        for statistic, value_ns in (("p50", one.p50_ns), ("p99", one.p99_ns)):
            value = None if value_ns is None else value_ns / _US
            made.add(None, "service", value, "us", statistic=statistic, operation=operation)
    for name, values in load.services.items():
        made.histogram(Counts.rounded(values), "service", operation=name)
    for name, slot, count, p50, p99, largest in load.intervals.iter_rows():
        start_ns, end_ns = slot * load.slot_ns, (slot + 1) * load.slot_ns
        known = {"p50": p50, "p99": p99, "max": largest}
        times = {name: float(value) for name, value in known.items() if value is not None}
        operation = None if name == ALL else name
        made.interval(None, Interval(0, operation, start_ns, end_ns, count, {"service": times}))
    figures = record.figures
    if results is not None:
        figures = with_own_figures(figures, imported_record(results))
        made.version = results.version
    made.audit = replace(record, figures=figures)
    return made


def _answer(
    records: Records,
    made: Collector,
    named: tuple[str, Sequence[str]],
    report: Path | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Keeps the audit under a name with tags, and prints it.

    Raises:
        KvmarkError: the audit is INVALID, or the command failed or was interrupted.
    """
    from kvmark.analysis.verdict.judge import judge, save_verdict
    from kvmark.imports.writing import keep
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.screen import audit_screen

    (run,) = keep(records, [made], name=named[0], tags=named[1], command=command_line())
    verdict = judge(run)
    with suppress(RunError):
        save_verdict(records, run, verdict)
    answer = run_answer(run, verdict, page_runs=None if report is None else 1)
    imported, audit = run.manifest.imported, made.audit
    if imported is None or audit is None:
        return
    document = {"run": run.id, "audit": imported.audit, "verdict": verdict}
    print_result("audit", document if json else audit_screen(answer, terminal_width()))
    save_report(lambda page: page.run_page(answer), report, quiet=json or quiet)
    if audit.interrupted:
        raise Interrupted(f"interrupted: what {audit.tool} sent until then is run {run.id}")
    if audit.exit_code:
        why = next((one for one in reversed(made.notes) if "ended with" in one), "")
        raise RunError(f"{why.rstrip('.')}; what it sent is run {run.id}")
    if verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {run.id} is INVALID, for the reasons above")
