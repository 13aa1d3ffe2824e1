"""`kvmark run`: one workload on one system."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import typer

from kvmark import catalog
from kvmark.analysis import Judgement, summarize
from kvmark.cli import options
from kvmark.cli.live import LiveDisplay
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.progress import show
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.report.gather import run_answer
from kvmark.report.terminal import run_text
from kvmark.run import make_setting
from kvmark.spec.quantity import rate as read_rate
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.study.measured import Measured, measure

__all__ = ["run"]

Load = Literal["auto", "always", "never"]


def run(
    workload: Annotated[str, typer.Argument(help="A name such as ycsb/a, or a YAML file.")],
    system: options.System = None,
    clients: Annotated[
        str | None, typer.Option(help="Clients; with --rate the limit on operations in flight.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Operations per second: the open model.")] = None,
    arrival: Annotated[str | None, typer.Option(help="constant or poisson; with --rate.")] = None,
    duration: Annotated[str | None, typer.Option(help="How long to measure, such as 30s.")] = None,
    operations: Annotated[str | None, typer.Option(help="How many operations to do.")] = None,
    until_stderr: Annotated[
        float | None, typer.Option(help="Measure until the mean rate's relative error is below.")
    ] = None,
    until_rule: Annotated[
        str, typer.Option(help="autocorrelated or cassandra-stress.")
    ] = "autocorrelated",
    warmup: Annotated[str | None, typer.Option(help="Same load, not counted, such as 5s.")] = None,
    records: Annotated[str | None, typer.Option(help="Records of the dataset.")] = None,
    load: Annotated[
        str, typer.Option(help="Load the records first: auto (when missing), always, never.")
    ] = "auto",
    settle: Annotated[
        bool, typer.Option(help="After a load, wait until the system is quiet.")
    ] = True,
    group: Annotated[
        list[str] | None, typer.Option(help="Only these groups of the workload.")
    ] = None,
    workers: Annotated[
        str | None, typer.Option(help="Executor threads of an asynchronous driver.")
    ] = None,
    seed: options.Seed = 1,
    interval: options.Interval = "1s",
    timeout: options.Timeout = None,
    drain_limit: Annotated[
        str, typer.Option(help="How long to wait for what is in flight at the end.")
    ] = "30s",
    pin: options.Pin = None,
    tag: options.Tag = None,
    report: options.Report = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs one workload on one system and says what can be believed."""
    if system is None:
        raise SpecError("run needs a system to measure: give --system, such as rocksdb:PATH")
    given: dict[str, Any] = {
        "clients": options.optional_count(clients),
        "rate": None if rate is None else read_rate(rate),
        "arrival": _one_of("arrival", arrival, ("constant", "poisson")),
        "duration_ns": options.optional_duration_ns(duration),
        "operations": options.optional_count(operations),
        "until_stderr": until_stderr,
        "until_rule": _one_of("until-rule", until_rule, ("autocorrelated", "cassandra-stress")),
        "warmup_ns": options.optional_duration_ns(warmup) or 0,
        "records": options.optional_count(records),
        "load": cast(Load, _one_of("load", load, ("auto", "always", "never"))),
        "settle": settle,
        "groups": tuple(group or ()),
        "workers": options.optional_count(workers),
        "seed": seed,
        "interval_ns": options.optional_duration_ns(interval),
        "timeout_ns": options.optional_duration_ns(timeout),
        "drain_limit_ns": options.optional_duration_ns(drain_limit),
        "pin": options.pins(pin),
    }
    spec = RunSpec(workload=catalog.find(workload), system=parse_system_url(system), **given)
    measured = _carry(spec, tuple(tag or ()), quiet=quiet)
    _answer(measured, report, json=json)


def _one_of(name: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise SpecError(f"{name}: '{value}' is not known; give {' or '.join(choices)}")
    return value


def _carry(spec: RunSpec, tags: tuple[str, ...], *, quiet: bool) -> Measured:
    plan = compile_run(spec)
    setting = make_setting(options.command_line(), plan, tags)
    with LiveDisplay(quiet=quiet) as display:
        display.step(spec.workload.name, 1, 1)
        return measure(plan, spec.as_json(), Records.default(), setting, show(display))


def _answer(measured: Measured, report: str | None, *, json: bool) -> None:
    path = options.optional_path(report, None)
    answer = run_answer(measured.run, measured.verdict)
    if path is not None:
        write_report(lambda page: page.run_page(answer), path)
    if json:
        summary = summarize(measured.run)
        print_json({"run": measured.run.id, "summary": summary, "verdict": measured.verdict})
    else:
        print_answer(run_text(answer, terminal_width()))
    measured.or_raise()
    if measured.verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {measured.run.id} is INVALID, for the reasons above")
