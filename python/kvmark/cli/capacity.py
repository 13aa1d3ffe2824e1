"""`kvmark capacity`: the maximum throughput within an SLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kvmark.cli import options
from kvmark.errors import SpecError
from kvmark.spec.quantity import rate

if TYPE_CHECKING:
    from kvmark.spec.objective import Objective

__all__ = ["capacity"]

_SECOND_NS: Final = 10**9
_DURATION_NS: Final = 10 * _SECOND_NS
"""Of each run. A search makes about fifteen of them."""

Slo = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OBJECTIVE",
        help="What must hold, such as 'p99<10ms', 'service p99.9<5ms', 'errors<0.1%'; repeatable.",
    ),
]
Confirm = Annotated[
    int, typer.Option(metavar="N", help="Runs with other seeds that confirm each end.")
]
Within = Annotated[
    str, typer.Option(metavar="SHARE", help="How near to each other the ends must come.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="RATE", help="Rate to begin at; else half of what a closed model does."
    ),
]
Arrival = Annotated[
    Literal["poisson", "constant"],
    typer.Option(help="Law of the intended starts; users come independently: poisson."),
]


def capacity(
    workload: options.Workload,
    system: options.System = None,
    slo: Slo = None,
    confirm: Confirm = 3,
    within: Within = "3%",
    begin: From = None,
    clients: options.Clients = None,
    arrival: Arrival = "poisson",
    duration: options.Duration = _DURATION_NS,
    warmup: options.Warmup = _SECOND_NS,
    records: options.Records = None,
    load: options.Load = "auto",
    group: options.Groups = None,
    pipeline_depth: options.PipelineDepth = None,
    workers: options.Workers = None,
    seed: options.Seed = 1,
    interval: options.Interval = None,
    timeout: options.Timeout = None,
    drain_limit: options.DrainLimit = 30 * _SECOND_NS,
    pin: options.Pin = None,
    tag: options.Tag = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Finds the maximum throughput within an SLO, at which nothing is dropped."""
    if system is None:
        raise SpecError("capacity needs a system to measure: give --system, such as rocksdb:PATH")
    given: dict[str, Any] = {
        "clients": clients,
        "duration_ns": duration,
        "warmup_ns": warmup,
        "records": records,
        "load": load,
        "groups": tuple(group or ()),
        "pipeline_depth": pipeline_depth,
        "workers": workers,
        "seed": seed,
        "interval_ns": interval,
        "timeout_ns": timeout,
        "drain_limit_ns": drain_limit,
        "pin": tuple(pin or ()),
    }
    from kvmark import catalog
    from kvmark.cli.fleet import asked_fleet
    from kvmark.cli.system import named_system
    from kvmark.plan.operations import operation_names
    from kvmark.spec.metric import check_operations
    from kvmark.spec.objective import share
    from kvmark.spec.run import RunSpec
    from kvmark.study.capacity import Asked
    from kvmark.study.trying import probe_plan

    objectives = _objectives(slo)
    asked = Asked(share(within), confirm)
    first = None if begin is None else rate(begin)
    spec = RunSpec(workload=catalog.find(workload), system=named_system(system), **given)
    plan = probe_plan(spec)
    check_operations([one.metric for one in objectives], operation_names(plan), "there is")
    shared_by = asked_fleet(fleet, machines)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.searching import search_capacity
    from kvmark.records import Records

    more: dict[str, Any] = {"fleet": shared_by, "json": json, "quiet": quiet}
    more["records"] = Records.at(folder)
    search_capacity(plan, spec, arrival, objectives, asked, first, tuple(tag or ()), **more)


def _objectives(slo: list[str] | None) -> tuple[Objective, ...]:
    from kvmark.spec.objective import parse_objective

    if not slo:
        raise SpecError("capacity needs an objective to hold: give --slo, such as 'p99<10ms'")
    return tuple(map(parse_objective, slo))
