"""`kvmark run`: one workload on one system."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.registry import OneCommand
from kvmark.cli.session import FleetRequest, fleet_request, session
from kvmark.errors import AnswerIsNo, Interrupted, SpecError
from kvmark.spec.replay import is_trace

if TYPE_CHECKING:
    from kvmark.plan.model import Plan
    from kvmark.records import Records
    from kvmark.run.execution import ExecutedRun
    from kvmark.spec.objective import Objective
    from kvmark.spec.replay import ReplaySpec
    from kvmark.spec.run import RunSpec
    from kvmark.trace import RunRecording

_SECOND_NS = 10**9

_FIELDS: Final = {
    "clients": "clients",
    "arrival": "arrival",
    "duration": "duration_ns",
    "operations": "operations",
    "until_stderr": "until_stderr",
    "precision": "precision",
    "warmup": "warmup_ns",
    "warmup_until": "warmup_until",
    "records": "records",
    "load": "load",
    "settle": "settle",
    "pipeline_depth": "pipeline_depth",
    "verify": "verify",
    "workers": "workers",
    "seed": "seed",
    "interval": "interval_ns",
    "timeout": "timeout_ns",
    "drain_limit": "drain_limit_ns",
    "stall_limit": "stall_limit_ns",
}
"""Options whose value is a field of `RunSpec` as it is."""
_OF_TRACES: Final = ("speed", "keep_order", "skip", "from_", "until", "scale_keys", "loop", "map_")
_OF_THE_WHOLE: Final = (
    "slo", "sweep", "repetitions", "resume", "report", "record", "prometheus", "fleet", "machines",
    "insecure_fleet", "folder", "json", "quiet",
)  # fmt: skip
"""Options of a command, and not of one of its runs."""


@dataclass(frozen=True, slots=True)
class AskedRun:
    """What the words of a `kvmark run` ask for."""

    spec: RunSpec
    tags: tuple[str, ...]
    commit: str | None
    fleet: FleetRequest | None
    prometheus: int | None
    objectives: tuple[Objective, ...]


def run(
    workload: options.Workload,
    system: options.System = None,
    clients: options.Clients = None,
    rate: options.Rate = None,
    ramp: options.Ramp = None,
    arrival: options.Arrival = None,
    speed: options.Speed = None,
    keep_order: options.KeepOrder = None,
    skip: options.Skip = None,
    from_: options.FromTime = None,
    until: options.UntilTime = None,
    scale_keys: options.ScaleKeys = None,
    loop: options.Loop = None,
    map_: options.Map = None,
    duration: options.Duration = None,
    operations: options.Operations = None,
    until_stderr: options.UntilStderr = None,
    precision: options.Precision = None,
    warmup: options.Warmup = None,
    warmup_until: options.WarmupUntil = None,
    records: options.Records = None,
    load: options.Load = "auto",
    settle: options.Settle = True,
    group: options.Groups = None,
    pipeline_depth: options.PipelineDepth = None,
    verify: options.Verify = False,
    workers: options.Workers = None,
    seed: options.Seed = 1,
    interval: options.Interval = None,
    timeout: options.Timeout = None,
    drain_limit: options.DrainLimit = 30 * _SECOND_NS,
    stall_limit: options.StallLimit = 30 * _SECOND_NS,
    pin: options.Pin = None,
    fault: options.Fault = None,
    faults: options.FaultFile = None,
    slo: options.Slo = None,
    sweep: options.Sweep = None,
    repetitions: options.RunRepetitions = None,
    resume: options.Resume = False,
    tag: options.Tag = None,
    commit: options.Commit = None,
    report: options.RunReport = None,
    record: options.Record = None,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    insecure_fleet: options.InsecureFleet = False,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Benchmarks one system under one workload, and says what can be believed."""
    given = dict(locals())
    asked = _asked(given)
    if sweep or repetitions is not None:
        _sweep(given, asked)
        return
    if resume:
        raise SpecError("--resume goes on with a sweep or repetitions: give --sweep too")
    _one(given, asked)


def _one(given: Mapping[str, Any], asked: AskedRun) -> None:
    """Carries out one run, and prints its answer."""
    from kvmark.plan.compile import compile_run
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations

    plan = compile_run(asked.spec)
    metrics = [objective.metric for objective in asked.objectives]
    check_operations(metrics, operation_names(plan), "there is")
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.records import Records

    kept, json = Records.at(given["folder"]), given["json"]
    with _recorded(given["record"], asked.spec) as recording:
        more: dict[str, Any] = {"quiet": given["quiet"], "recording": recording}
        carried = measured_run(asked, plan, kept, command_line(), **more)
        if recording is not None:
            recording.told = _said_of_log(carried)
    try:
        _answer(carried, kept, given["report"], asked.objectives, json=json)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: what was measured is kept as run {carried.folder.id}; kvmark show"
            " prints it"
        ) from None
    finally:
        if recording is not None and not json:
            _tell_recorded(recording)


def _recorded(path: Path | None, spec: RunSpec) -> AbstractContextManager[RunRecording | None]:
    """What the run is recorded by, if it is."""
    if path is None:
        return nullcontext()
    from kvmark.cli.commands.trace import hash_key_in
    from kvmark.trace import RunRecording

    source = f"a run of {spec.workload.name} on {spec.system.driver}"
    return RunRecording(path, source, hash_key_in(None))


def _said_of_log(carried: ExecutedRun) -> tuple[str, ...]:
    """What the engine said of the log."""
    notices = carried.manifest.engine.notices
    return tuple(notice.message for notice in notices if notice.code == "log_incomplete")


def _tell_recorded(recording: RunRecording) -> None:
    from kvmark.trace import sentences

    if recording.info is None:
        typer.echo(f"{recording.folder}: nothing was recorded, for nothing was measured")
        return
    typer.echo(f"{recording.folder} has {recording.info.operations:,} operations")
    for sentence in sentences(recording.info.told):
        typer.echo(sentence)


@functools.wraps(run, assigned=("__module__", "__annotations__"))
def replay(**given: Any) -> None:
    """Issues a trace's operations when they were due, on any system."""
    if not is_trace(given["workload"]):
        raise SpecError(f"{given['workload']} is no trace; kvmark run takes other workloads")
    run(**given)


def _sweep(given: Mapping[str, Any], asked: AskedRun) -> None:
    """Carries out all cases and repetitions, and prints their table."""
    from kvmark.cli.commands.study_run import carry_study, swept
    from kvmark.cli.experiment import AGAIN, ExperimentOptions
    from kvmark.experiment.study.definition import StudyRequest

    if asked.objectives:
        raise SpecError("--slo is held against one run: leave --sweep and --repetitions out")
    file = swept(given, asked.spec, given["sweep"] or (), given["repetitions"])
    shared = ExperimentOptions(
        tags=asked.tags,
        commit=asked.commit,
        resume=given["resume"],
        prometheus=asked.prometheus,
        fleet=asked.fleet,
        folder=given["folder"],
        json=given["json"],
        quiet=given["quiet"],
    )
    carry_study(file, StudyRequest(given["system"]), shared, given["report"], AGAIN)


def measured_run(
    asked: AskedRun,
    plan: Plan,
    records: Records,
    command: tuple[str, ...],
    *,
    quiet: bool,
    recording: RunRecording | None = None,
) -> ExecutedRun:
    """Carries out one run, and shows how it goes."""
    from kvmark.cli.live import LiveDisplay, show
    from kvmark.run.execution import execute

    spec = asked.spec
    more: dict[str, Any] = {"fleet": asked.fleet, "prometheus": asked.prometheus, "quiet": quiet}
    with (
        session(command, records, plan, asked.tags, asked.commit, **more) as shared,
        LiveDisplay(quiet=quiet) as display,
    ):
        display.step(spec.workload.name, 1, 1)
        logged = None if recording is None else (recording.folder, recording.hash_key)
        setting = replace(shared, recording=logged)
        return execute(
            plan, spec.as_json(), setting, show(display), spec.faults,
            password=spec.system.password,
        )  # fmt: skip


def parse_run(words: Sequence[str], refused: Collection[str] = _OF_THE_WHOLE) -> AskedRun:
    """Reads words that would follow `kvmark run`, and carries nothing out.

    Options in `refused` are said elsewhere: by the command that the run is a part of.

    Raises:
        SpecError: they are wrong.
    """

    @functools.wraps(run)
    def told(**given: Any) -> AskedRun:
        for name in refused:
            if given[name] not in (None, False):
                word = "runs" if name == "folder" else name
                raise SpecError(f"--{word} is not for a part of a command: give it to the whole")
        return _asked(given)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("run", cls=OneCommand)(told)
    try:
        asked = app(args=list(words), prog_name="kvmark run", standalone_mode=False)
    except typer.TyperException as problem:
        raise SpecError(problem.format_message().rstrip(".")) from problem
    if not isinstance(asked, AskedRun):
        raise SpecError("write the words of a kvmark run, without --help")
    return asked


def _asked(given: Mapping[str, Any]) -> AskedRun:
    """What the options ask for, by their names."""
    from kvmark.spec.objective import parse_objective

    spec = _spec(given)
    fleet = fleet_request(given["fleet"], given["machines"], insecure=given["insecure_fleet"])
    if given["record"] and (fleet or given["sweep"] or given["repetitions"] is not None):
        raise SpecError(
            "--record is for one run on one machine: leave --sweep, --repetitions and --fleet out"
        )
    objectives = tuple(map(parse_objective, given["slo"] or ()))
    tags, prometheus = tuple(given["tag"] or ()), given["prometheus"]
    return AskedRun(spec, tags, given["commit"], fleet, prometheus, objectives)


def _spec(given: Mapping[str, Any]) -> RunSpec:
    """The run that options ask for, by their names."""
    from kvmark import catalog
    from kvmark.cli.session import named_system
    from kvmark.spec.faults import load_faults, parse_fault
    from kvmark.spec.run import RunSpec

    if given["system"] is None:
        raise SpecError("run needs a system to measure: give --system, such as rocksdb:PATH")
    asked = given["workload"]
    system = named_system(given["system"])
    workload = (
        catalog.of_trace(Path(asked), system.driver, given["map_"])
        if is_trace(asked)
        else catalog.find(asked)
    )
    planned = load_faults(given["faults"]) if given["faults"] else ()
    faults = (*workload.faults, *planned, *map(parse_fault, given["fault"] or ()))
    return RunSpec(
        workload=workload,
        system=system,
        groups=tuple(given["group"] or ()),
        rate=_rate(given["rate"], given["ramp"]),
        pin=tuple(given["pin"] or ()),
        faults=faults,
        replay=_replay(given),
        **{field: given[name] for name, field in _FIELDS.items()},
    )


def _rate(rate: str | None, ramp: str | None) -> float | str | None:
    from kvmark.spec.curve import pace

    if rate is not None and ramp is not None:
        raise SpecError("--ramp: the rate can't be one and rise; leave --rate out")
    said = rate if ramp is None else ramp
    return None if said is None else pace(said)


def _replay(given: Mapping[str, Any]) -> ReplaySpec | None:
    """How a trace is replayed; None for another workload."""
    from kvmark.spec.replay import ReplaySpec, parse_speed

    said = {name: given[name] for name in _OF_TRACES if given[name] is not None}
    if not is_trace(given["workload"]):
        for name in said:
            raise SpecError(
                f"--{name.strip('_').replace('_', '-')} is for a trace, X.trace, and"
                f" {given['workload']} is none"
            )
        return None
    return ReplaySpec(
        trace=Path(given["workload"]),
        speed=parse_speed(said.get("speed", "1")),
        order=said.get("keep_order", "key"),
        skip=tuple(filter(None, said.get("skip", "").split(","))),
        from_ns=said.get("from_", 0),
        until_ns=said.get("until"),
        scale_keys=said.get("scale_keys", 1),
        loops=said.get("loop", 1),
    )


def _answer(
    carried: ExecutedRun,
    records: Records,
    report: Path | None,
    objectives: Sequence[Objective],
    *,
    json: bool,
) -> None:
    """Closes one run and prints its answer.

    Raises:
        KvmarkError: the run failed or was interrupted, is INVALID, or misses an objective.
        RunError: the report can't be written.
    """
    from kvmark.analysis import Judgement, summarize
    from kvmark.analysis.verdict.objectives import figure
    from kvmark.experiment.judging import close_and_judge
    from kvmark.report.format.terminal import run_text
    from kvmark.report.views.gather import run_answer

    (one,) = close_and_judge([carried.folder.id], records)
    run, verdict = one.run, one.verdict
    answer = run_answer(run, verdict)
    found = [figure([run], objective) for objective in objectives]
    if json:
        held = [
            {"objective": one.objective.text, "value": one.value, "held": one.held,
             "sentence": one.sentence}
            for one in found
        ]  # fmt: skip
        answered = {"run": run.id, "summary": summarize(run), "verdict": verdict}
        print_json("run", {**answered, "objectives": held})
    else:
        print_answer(run_text(answer, terminal_width()))
        for objective in found:
            print(f"{objective.sentence}.")
    if report is not None:
        write_report(lambda page: page.run_page(answer), report)
        if not json:
            tell_report(report)
    carried.or_raise()
    if verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {run.id} is INVALID, for the reasons above")
    if not all(one.held for one in found):
        raise AnswerIsNo("; ".join(one.sentence for one in found if not one.held))
