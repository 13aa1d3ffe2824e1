"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kvmark.analysis import SequenceRow
from kvmark.cli import options
from kvmark.cli.live import LiveDisplay
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.progress import show
from kvmark.errors import SpecError, UsageError
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run
from kvmark.report.gather import sequence_answer
from kvmark.report.terminal import sequence_text
from kvmark.run import make_setting
from kvmark.spec.properties import parse_assignment, read_properties
from kvmark.spec.quantity import count, listed
from kvmark.spec.quantity import rate as read_rate
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemUrl, parse_system_url
from kvmark.spec.ycsb import YcsbProperties, flag_properties, read_ycsb
from kvmark.spec.ycsb_run import STEPS
from kvmark.study.measured import measure
from kvmark.study.ycsb import SEQUENCE, Step, YcsbStudy, first_plan, planned
from kvmark.testbed.rocksdb import holds_database, remove_database

__all__ = ["ycsb"]

PUBLISHED_RECORDS: Final = (1000, 3000, 6000, 10000)
SHORT_RECORDS: Final = 10_000
SHORT_REPETITIONS: Final = 20
"""A run of a few thousand operations lasts milliseconds: only repetitions give it an error."""


def ycsb(
    system: options.System = None,
    records: Annotated[
        str | None, typer.Option(help="Numbers of records, such as 1000,3000 or 1M.")
    ] = None,
    operations: Annotated[
        str | None, typer.Option(help="Operations per workload; else as many as records.")
    ] = None,
    workloads: Annotated[
        str | None, typer.Option(help="Steps in their order, such as load,a,b or c.")
    ] = None,
    clients: Annotated[
        str | None, typer.Option("--clients", "-threads", help="Clients, each one at a time.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-target", help="Rates to offer in turn, such as 1000,2000,max."),
    ] = None,
    property_files: Annotated[
        list[Path] | None, typer.Option("-P", help="A YCSB property file; a later one wins.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("-p", help="A YCSB property, key=value; wins over files.")
    ] = None,
    load: Annotated[bool, typer.Option("-load", help="Only the load, as in YCSB.")] = False,
    transactions: Annotated[
        bool, typer.Option("-t", help="Only the properties' own transactions, as in YCSB.")
    ] = False,
    status: Annotated[bool, typer.Option("-s", help="As in YCSB; progress shows anyway.")] = False,
    label: Annotated[str | None, typer.Option("-l", help="As in YCSB: a tag.")] = None,
    database: Annotated[
        str | None, typer.Option("-db", help="As in YCSB; must agree with --system.")
    ] = None,
    repetitions: Annotated[
        str | None,
        typer.Option(help="How often; 20 when there are at most 10,000 records, else once."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="End each workload after this time instead of a count.")
    ] = None,
    seed: options.Seed = 1,
    interval: Annotated[str | None, typer.Option(help="Length of a recorded interval.")] = None,
    timeout: options.Timeout = None,
    pin: options.Pin = None,
    tag: options.Tag = None,
    report: options.Report = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs YCSB's workloads and prints the published table with what it lacks."""
    flags = flag_properties(
        db=database, label=label, load=load, transactions=transactions, status=status
    )
    files = [read_properties(path) for path in property_files or ()]
    asked = read_ycsb(files, [*map(parse_assignment, properties or ()), *flags])
    steps = _steps(workloads, asked, load=load, own=transactions or bool(property_files))
    sizes = _sizes(records, asked)
    scratch = None if system else Records.default().root / f"scratch-{secrets.token_hex(4)}"
    url = parse_system_url(system or f"rocksdb:{scratch}/db")
    study = YcsbStudy(
        system=url,
        properties=asked,
        records=sizes,
        operations=options.optional_count(operations),
        workloads=steps,
        targets=tuple(listed(target, read_rate)) if target else (None,),
        repetitions=_repetitions(repetitions, sizes),
        seed=seed,
        more=_more(clients, duration, interval, timeout, pin),
    )
    tags = (*(tag or ()), *([asked.label] if asked.label else ()))
    if scratch is not None:
        scratch.mkdir(parents=True)
    try:
        runs = _carry(study, tags, quiet=quiet)
    finally:
        if scratch is not None and scratch.exists():
            remove_database(scratch / "db")
            scratch.rmdir()
    _answer(runs, options.optional_path(report, Path("kvmark-ycsb.html")), json=json)


def _steps(text: str | None, asked: YcsbProperties, *, load: bool, own: bool) -> tuple[str, ...]:
    """The steps: as listed, or YCSB's flags, or the file's own transactions, or the sequence."""
    if text is None:
        if load or not asked.dotransactions:
            return ("load",)
        if "dotransactions" in asked.given:
            return ("run",)
        return ("load", "run") if own else SEQUENCE
    known = (*STEPS, "reload")
    steps = tuple(step.strip().lower() for step in text.split(","))
    for step in steps:
        if step not in known:
            hint = did_you_mean(step, known)
            raise SpecError(f"workloads: there is no step {shown(step)}{hint}")
    return steps


def _sizes(text: str | None, asked: YcsbProperties) -> tuple[int, ...]:
    if text is not None:
        sizes = tuple(listed(text, count))
        if 0 in sizes:
            raise SpecError("records: must be at least 1, not 0")
        return sizes
    if asked.recordcount is not None:
        return (asked.recordcount,)
    return PUBLISHED_RECORDS


def _repetitions(text: str | None, sizes: tuple[int, ...]) -> int:
    if text is None:
        return SHORT_REPETITIONS if max(sizes) <= SHORT_RECORDS else 1
    number = count(text)
    if number < 1:
        raise SpecError(f"repetitions: must be at least 1, not {number}")
    return number


def _more(
    clients: str | None,
    duration: str | None,
    interval: str | None,
    timeout: str | None,
    pin: str | None,
) -> dict[str, Any]:
    said = {
        "clients": options.optional_count(clients),
        "duration_ns": options.optional_duration_ns(duration),
        "interval_ns": options.optional_duration_ns(interval),
        "timeout_ns": options.optional_duration_ns(timeout),
        "pin": options.pins(pin) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _carry(study: YcsbStudy, tags: tuple[str, ...], *, quiet: bool) -> list[Run]:
    records = Records.default()
    steps = study.steps()
    setting = make_setting(options.command_line(), first_plan(study), tags)
    repetitions = study.repetitions
    with LiveDisplay(quiet=quiet) as display:
        done = 0
        ycsb = _kept(study.properties)

        def carry(step: Step, spec: RunSpec) -> Run:
            nonlocal done
            done += 1
            display.step(step.title, done, len(steps))
            plan = compile_run(spec)
            kept = {**spec.as_json(), "ycsb": ycsb, "sequence": dataclasses.asdict(step)}
            measured = measure(plan, kept, records, setting, show(display), repetitions=repetitions)
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
    folder = _folder(study.system)
    if folder is None or not any(step.fresh for step in study.steps()):
        return lambda: None
    if holds_database(folder):
        raise UsageError(
            f"{folder} already holds a database, and the sequence begins with a load: remove it,"
            " name another folder, or leave load out of --workloads"
        )
    return lambda: remove_database(folder)


def _folder(system: SystemUrl) -> Path | None:
    return Path(system.options["path"]) if system.driver == "rocksdb" else None


def _answer(runs: list[Run], path: Path | None, *, json: bool) -> None:
    answer = sequence_answer(runs)
    if path is not None:
        write_report(lambda page: page.sequence_page(answer), path)
    if json:
        rows: tuple[SequenceRow, ...] = answer.rows
        source = answer.published_source
        ids = [run.id for run in runs]
        print_json({"rows": rows, "published_source": source, "runs": ids, "report": path})
        return
    print_answer(sequence_text(answer, terminal_width()))
    if path is not None:
        typer.echo(f"\nThe report is in {path.resolve()}", err=True)
