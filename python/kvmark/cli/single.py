"""`kvmark run`: one workload on one system."""

from __future__ import annotations

from typing import Any

from kvmark import catalog
from kvmark.cli import options
from kvmark.cli.system import named_system
from kvmark.errors import SpecError
from kvmark.plan.compile import compile_run
from kvmark.spec.faults import load_faults, parse_fault
from kvmark.spec.run import RunSpec

__all__ = ["run"]

_SECOND_NS = 10**9


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
    interval: options.Interval = _SECOND_NS,
    timeout: options.Timeout = None,
    drain_limit: options.DrainLimit = 30 * _SECOND_NS,
    pin: options.Pin = None,
    fault: options.Fault = None,
    faults: options.FaultFile = None,
    tag: options.Tag = None,
    report: options.RunReport = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs one workload on one system and says what can be believed."""
    if system is None:
        raise SpecError("run needs a system to measure: give --system, such as rocksdb:PATH")
    given: dict[str, Any] = {
        "clients": clients,
        "rate": rate,
        "arrival": arrival,
        "duration_ns": duration,
        "operations": operations,
        "until_stderr": until_stderr,
        "until_rule": until_rule,
        "warmup_ns": warmup,
        "records": records,
        "load": load,
        "settle": settle,
        "groups": tuple(group or ()),
        "pipeline_depth": pipeline_depth,
        "verify": verify,
        "workers": workers,
        "seed": seed,
        "interval_ns": interval,
        "timeout_ns": timeout,
        "drain_limit_ns": drain_limit,
        "pin": tuple(pin or ()),
        "faults": (*(load_faults(faults) if faults else ()), *map(parse_fault, fault or ())),
    }
    chosen = catalog.find(workload)
    given["faults"] = (*chosen.faults, *given["faults"])
    spec = RunSpec(workload=chosen, system=named_system(system), **given)
    plan = compile_run(spec)
    # What follows takes a second to load, and wrong use is told before it.
    from kvmark.cli.measuring import measure_one

    measure_one(plan, spec, tuple(tag or ()), report, json=json, quiet=quiet)
