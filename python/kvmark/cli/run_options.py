"""Options of commands that measure one workload, and the run that they describe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from kvmark.cli import completion, options
from kvmark.cli.options import ExperimentOptions, option
from kvmark.cli.registry import StrictCommand
from kvmark.errors import SpecError
from kvmark.spec.curve import pace, parse_curve
from kvmark.spec.quantity import share
from kvmark.spec.replay import is_trace, parse_scale_keys, parse_speed
from kvmark.spec.retry import retry_text

if TYPE_CHECKING:
    from kvmark.spec.metric import Objective
    from kvmark.spec.replay import ReplaySpec
    from kvmark.spec.run import RunSpec
    from kvmark.spec.url import SystemUrl
    from kvmark.spec.workload import WorkloadSpec

_OF_COMMANDS: Final = (
    "slo", "sweep", "repetitions", "resume", "report", "record", "prometheus", "observe",
    "fleet", "machines", "insecure_fleet", "folder", "json", "quiet",
)  # fmt: skip
"""Options of a command, and not of one of its runs."""


Warmup = Annotated[
    int | None,
    options.duration(
        "Warm-up with the same load, such as 5s (default: none; without a length of the run,"
        " until throughput is steady, at most 30 s).",
        "--warmup",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LoadOptions(ExperimentOptions):
    """Options of a load: the workload, the system, and how long it is measured."""

    command: ClassVar[str]

    workload: str = options.argument(
        "WORKLOAD", "Name such as ycsb/a, or YAML file.", autocompletion=completion.workload
    )
    system: options.System = None
    clients: options.Clients = None
    duration_ns: options.Duration = None
    warmup_ns: Warmup = None
    records: options.Records = None
    load: Literal["auto", "always", "never"] = options.choice(
        "auto", "Whether to load the records first; auto: missing records only."
    )
    groups: tuple[str, ...] = option(
        "NAME", "Measure only this group of clients; repeatable.", "--group", default=()
    )
    pipeline_depth: int | None = options.number(
        "Commands that an operation sends at once (default: the workload's)."
    )
    workers: int | None = options.number(
        "Executor threads of an asynchronous driver (default: one per core)."
    )
    seed: options.Seed = 1
    interval_ns: int | None = options.duration(
        "Length of a recorded interval (default: 100ms to 1s, by the duration).", "--interval"
    )
    timeout_ns: options.Timeout = None
    retry: str | None = options.quantity(
        retry_text,
        "POLICY",
        "Most attempts of a failed operation: 3,backoff=50ms..1s,jitter,timeout=100ms.",
    )
    drain_limit_ns: int | None = options.duration(
        "Longest wait for operations in flight at the end (default: 30s).", "--drain-limit"
    )
    pin: options.Pin = None
    slo: tuple[str, ...] = option(
        "OBJECTIVE",
        "Objective: 'p99<10ms', 'service p99.9<5ms', 'errors<0.1%'; repeatable.",
        default=(),
    )
    report: options.RunReport = None

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives of `--slo`."""
        from kvmark.spec.metric import parse_objective

        return tuple(map(parse_objective, self.slo))

    def run_spec(self, workload: WorkloadSpec, **values: Any) -> RunSpec:
        """The run of these options, with other values of its fields."""
        from kvmark.spec.run import RunSpec

        names = RunSpec.__dataclass_fields__.keys() - {"workload", "system", "rate", "faults"}
        given = ((name, getattr(self, name, None)) for name in names)
        known = {name: value for name, value in given if value is not None} | values
        return RunSpec(workload=workload, system=self.system_url, **known)

    @cached_property
    def system_url(self) -> SystemUrl:
        """The system of `--system`.

        Raises:
            SpecError: the option is missing.
            UsageError: there is no such testbed.
        """
        from kvmark.cli.session import named_system

        if self.system is None:
            raise SpecError(
                f"{self.command} needs a system to measure: give --system, such as rocksdb:PATH"
            )
        return named_system(self.system)


@dataclass(frozen=True, kw_only=True)
class RunOptions(LoadOptions):
    """Options of `kvmark run`."""

    command: ClassVar[str] = "run"

    rate: str | None = options.quantity(
        # The text once it is parsed; none for `max`.
        lambda text: None if pace(text) is None else text,
        "RATE",
        "Open model: operations per second, such as 5k, or a curve.",
    )
    ramp: str | None = options.quantity(
        lambda text: parse_curve(f"ramp:{text}").text,
        "RATE..RATE",
        "Open model with a rising rate: 1k..50k.",
    )
    arrival: Literal["constant", "poisson"] | None = options.choice(
        None, "Arrival process of the open model (default: constant)."
    )
    operations: int | None = options.number("Number of operations.")
    until_stderr: float | None = option(
        "BOUND", "Stop below this standard error of the mean rate, as cassandra-stress."
    )
    precision: float | None = options.quantity(
        share,
        "PERCENT",
        "Stop when the throughput's 95 % confidence interval is within ± PERCENT"
        " (default: 3 % and at most 60 s, where nothing else ends the run).",
    )
    warmup_until: Literal["stationary"] | None = options.choice(
        None, "End the warm-up when throughput is steady; --warmup is its limit."
    )
    settle: bool = options.choice(True, "Wait after a load until the system is quiet.")
    verify: bool = options.flag(
        "Read every written record at the end and count lost writes.", "--verify"
    )
    fault: tuple[str, ...] = option(
        "TEXT", "Fault, such as '10s pause primary-1 for 2s' of a testbed; repeatable.", default=()
    )
    fault_file: Path | None = option("FILE", "Faults: a YAML file with the key faults.", "--faults")
    sweep: tuple[str, ...] = option(
        "OPTION=V,V,…",
        "Run once per value of an option: clients=1,10,100; repeatable for combinations.",
        default=(),
    )
    repetitions: int | None = option("N", "Repetitions of each case, in random order.", min=1)
    record: Path | None = option("X.trace", "Record every measured operation as a trace.")

    def __post_init__(self) -> None:
        """Checks options that exclude each other."""
        super().__post_init__()
        if self.rate is not None and self.ramp is not None:
            raise SpecError("--ramp: the rate can't be one and rise; leave --rate out")
        if self.record is not None and (self.fleet or self.is_study):
            raise SpecError(
                "--record is for one run on one machine: leave --sweep, --repetitions and --fleet"
                " out"
            )

    @property
    def is_study(self) -> bool:
        """Whether several runs are requested."""
        return bool(self.sweep) or self.repetitions is not None

    @cached_property
    def spec(self) -> RunSpec:
        """The run.

        Raises:
            SpecError: the options are wrong, alone or together.
        """
        from kvmark.spec.faults import load_faults, parse_fault

        workload = self._workload
        planned = load_faults(self.fault_file) if self.fault_file else ()
        rate = self.rate if self.ramp is None else self.ramp
        return self.run_spec(
            workload,
            rate=None if rate is None else pace(rate),
            faults=(*workload.faults, *planned, *map(parse_fault, self.fault)),
            replay=self._replay,
        )

    @property
    def _workload(self) -> WorkloadSpec:
        from kvmark import catalog

        if is_trace(self.workload):
            raise SpecError(f"{self.workload} is a trace; replay it with kvmark replay")
        return catalog.find(self.workload)

    @property
    def _replay(self) -> ReplaySpec | None:
        return None


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(RunOptions):
    """Options of `kvmark replay`: those of a run, and how the trace is replayed."""

    workload: str = options.argument("TRACE", "Folder of a trace, X.trace.")
    speed: options.Speed = None
    keep_order: Literal["key", "client", "none"] | None = options.choice(
        None, "Scope within which operations keep their order (default: key)."
    )
    skip: str | None = option("VERB,…", "Operations to leave out, such as ping.")
    from_ns: int | None = options.duration("Start within the trace.", "--from")
    until_ns: int | None = options.duration("End within the trace.", "--until")
    scale_keys: float | None = options.quantity(
        parse_scale_keys, "N", "Scale the key space by N; below 1, replay a sample of the keys."
    )
    loop: int | None = options.number("Number of consecutive replays.")
    map_file: options.StatementMap = None

    @property
    def _workload(self) -> WorkloadSpec:
        from kvmark import catalog

        if is_trace(self.workload):
            driver = self.system_url.driver
            return catalog.of_trace(Path(self.workload), driver, self.map_file)
        for name in get_annotations(ReplayOptions):
            if name != "workload" and getattr(self, name) is not None:
                flag = name.removesuffix("_ns").removesuffix("_file").replace("_", "-")
                raise SpecError(f"--{flag} is for a trace, X.trace, and {self.workload} is none")
        return catalog.find(self.workload)

    @property
    def _replay(self) -> ReplaySpec | None:
        from kvmark.spec.replay import ReplaySpec

        if not is_trace(self.workload):
            return None
        return ReplaySpec(
            trace=Path(self.workload),
            speed=parse_speed(self.speed or "1"),
            order=self.keep_order or "key",
            skip=tuple(filter(None, (self.skip or "").split(","))),
            from_ns=self.from_ns or 0,
            until_ns=self.until_ns,
            scale_keys=1 if self.scale_keys is None else self.scale_keys,
            loops=1 if self.loop is None else self.loop,
        )


@dataclass(frozen=True, kw_only=True)
class _PartOptions(ReplayOptions):
    """Options of a run that is a part of a command."""

    workload: str = options.argument("WORKLOAD", "Name such as ycsb/a, YAML file, or trace.")


def parse_run(words: Sequence[str], rejected: Collection[str] = _OF_COMMANDS) -> RunOptions:
    """Parses arguments of `kvmark run` or `kvmark replay`, and runs nothing.

    Options in `rejected` belong to the command that the run is a part of.

    Raises:
        SpecError: the arguments are wrong.
    """

    def run(given: _PartOptions) -> RunOptions:
        for name in rejected:
            if getattr(given, name) not in (None, False, ()):
                flag = "runs" if name == "folder" else name
                raise SpecError(f"--{flag} is not for a part of a command: give it to the whole")
        return given

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("run", cls=StrictCommand)(options.expand_options(run))
    try:
        parsed = app(args=list(words), prog_name="kvmark run", standalone_mode=False)
    except typer.TyperException as problem:
        raise SpecError(problem.format_message().rstrip(".")) from problem
    if not isinstance(parsed, RunOptions):
        raise SpecError("give arguments of kvmark run, without --help")
    # What is wrong is reported before anything else begins.
    parsed.spec, parsed.objectives  # noqa: B018
    return parsed
