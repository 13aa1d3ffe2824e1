"""`kvmark run`: one workload on one system."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from kvmark.cli import options
from kvmark.cli.commands import OneCommand
from kvmark.errors import SpecError

if TYPE_CHECKING:
    from kvmark.spec.run import RunSpec

__all__ = ["AskedRun", "parse_run", "run"]

_SECOND_NS = 10**9

_FIELDS: Final = {
    "clients": "clients",
    "rate": "rate",
    "arrival": "arrival",
    "duration": "duration_ns",
    "operations": "operations",
    "until_stderr": "until_stderr",
    "until_rule": "until_rule",
    "warmup": "warmup_ns",
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
}
"""Options whose value is a field of `RunSpec` as it is."""


@dataclass(frozen=True, slots=True)
class AskedRun:
    """What the words of a `kvmark run` ask for."""

    spec: RunSpec
    tags: tuple[str, ...]
    commit: str | None


def run(
    workload: options.Workload,
    system: options.System = None,
    clients: options.Clients = None,
    rate: options.Rate = None,
    arrival: options.Arrival = None,
    duration: options.Duration = None,
    operations: options.Operations = None,
    until_stderr: options.UntilStderr = None,
    until_rule: options.UntilRule = "autocorrelated",
    warmup: options.Warmup = 0,
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
    pin: options.Pin = None,
    fault: options.Fault = None,
    faults: options.FaultFile = None,
    tag: options.Tag = None,
    commit: options.Commit = None,
    report: options.RunReport = None,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Benchmarks one system under one workload, and says what can be believed."""
    spec = _spec(dict(locals()))
    from kvmark.cli.fleet import asked_fleet
    from kvmark.plan.compile import compile_run

    plan = compile_run(spec)
    shared_by = asked_fleet(fleet, machines)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.measuring import measure_one
    from kvmark.records import Records

    tags = tuple(tag or ())
    more: dict[str, Any] = {"commit": commit, "prometheus": prometheus, "fleet": shared_by}
    more["records"] = Records.at(folder)
    measure_one(plan, spec, tags, report, json=json, quiet=quiet, **more)


def parse_run(words: Sequence[str]) -> AskedRun:
    """Reads words that would follow `kvmark run`, and carries nothing out.

    Raises:
        SpecError: they are wrong.
    """

    @functools.wraps(run)
    def told(**given: Any) -> AskedRun:
        for name in ("report", "prometheus", "fleet", "machines", "folder", "json", "quiet"):
            if given[name] not in {None, False}:
                word = "runs" if name == "folder" else name
                raise SpecError(f"--{word} is not for a part of a command: give it to the whole")
        return AskedRun(_spec(given), tuple(given["tag"] or ()), given["commit"])

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("run", cls=OneCommand)(told)
    try:
        asked = app(args=list(words), prog_name="kvmark run", standalone_mode=False)
    except typer.TyperException as problem:
        raise SpecError(problem.format_message().rstrip(".")) from problem
    if not isinstance(asked, AskedRun):
        raise SpecError("write the words of a kvmark run, without --help")
    return asked


def _spec(given: Mapping[str, Any]) -> RunSpec:
    """The run that options ask for, by their names."""
    from kvmark import catalog
    from kvmark.cli.system import named_system
    from kvmark.spec.faults import load_faults, parse_fault
    from kvmark.spec.run import RunSpec

    if given["system"] is None:
        raise SpecError("run needs a system to measure: give --system, such as rocksdb:PATH")
    workload = catalog.find(given["workload"])
    planned = load_faults(given["faults"]) if given["faults"] else ()
    faults = (*workload.faults, *planned, *map(parse_fault, given["fault"] or ()))
    return RunSpec(
        workload=workload,
        system=named_system(given["system"]),
        groups=tuple(given["group"] or ()),
        pin=tuple(given["pin"] or ()),
        faults=faults,
        **{field: given[name] for name, field in _FIELDS.items()},
    )
