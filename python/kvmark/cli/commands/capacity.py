"""`kvmark capacity`: the maximum throughput within an SLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.cli.session import asked_fleet, session
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.spec.quantity import rate

if TYPE_CHECKING:
    from kvmark.experiment.designs.capacity.runs import CapacityRuns
    from kvmark.experiment.designs.capacity.search import Asked, Capacity
    from kvmark.spec.objective import Objective
    from kvmark.spec.run import RunSpec
    from kvmark.spec.url import SystemName, SystemUrl

__all__ = ["capacity"]

_SECOND_NS: Final = 10**9
_DURATION_NS: Final = 10 * _SECOND_NS
"""Of each run. A search makes about fifteen of them."""

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
    slo: options.Slo = None,
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
    commit: options.Commit = None,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Finds the maximum throughput within an SLO, at which nothing is dropped."""
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
    from kvmark.experiment.designs.capacity.runs import CapacityRuns, probe_plan
    from kvmark.experiment.designs.capacity.search import Asked
    from kvmark.plan.operations import operation_names
    from kvmark.records import Records
    from kvmark.spec.metric import check_operations
    from kvmark.spec.objective import share
    from kvmark.spec.run import RunSpec

    objectives = _objectives(slo)
    asked = Asked(share(within), confirm)
    first = None if begin is None else rate(begin)
    spec = RunSpec(workload=catalog.find(workload), system=_named(system), **given)
    plan = probe_plan(spec)
    check_operations([one.metric for one in objectives], operation_names(plan), "there is")
    told: dict[str, Any] = {"fleet": asked_fleet(fleet, machines), "prometheus": prometheus}
    kept = Records.at(folder)
    name = f"capacity:{kept.now():%Y%m%d-%H%M%S}-{kept.token()}"
    tags = (name, *(tag or ()))
    with session(command_line(), kept, plan, tags, commit, **told, quiet=quiet) as setting:
        each = CapacityRuns(name, spec, arrival, objectives, setting)
        found = _search(each, asked, first, quiet=quiet)
    _answer(found, spec, objectives, name, json=json)


def _named(system: SystemName | None) -> SystemUrl:
    from kvmark.cli.system import named_system

    if system is None:
        raise SpecError("capacity needs a system to measure: give --system, such as rocksdb:PATH")
    return named_system(system)


def _search(runs: CapacityRuns, asked: Asked, first: float | None, *, quiet: bool) -> Capacity:
    """The search, as it is shown."""
    from kvmark.cli.display.live import LiveDisplay
    from kvmark.cli.display.progress import show
    from kvmark.experiment.designs.capacity.runs import capacity_of

    with LiveDisplay(quiet=quiet) as display:

        def step(title: str, number: int) -> None:
            display.step(title, number, max(number, asked.steps + (first is None)))

        runs.step, runs.progress = step, show(display)
        return capacity_of(runs, asked, first)


def _answer(
    found: Capacity, spec: RunSpec, objectives: tuple[Objective, ...], tag: str, *, json: bool
) -> None:
    from kvmark.experiment.designs.capacity.estimate import estimated
    from kvmark.report.views.capacity import (
        CapacityAnswer,
        CapacityLine,
        capacity_sentence,
        capacity_text,
    )

    estimate = estimated(found, objectives)
    answer = CapacityAnswer(
        workload=spec.workload.name,
        system=spec.system.text,
        objectives=objectives,
        found=found.found,
        low=found.low,
        high=found.high,
        reason=found.reason,
        estimate=estimate,
        tag=tag,
        lines=tuple(
            CapacityLine(
                one.rate,
                one.stage,
                one.run,
                one.outcome,
                one.reasons,
                one.figures,
                one.throughput,
                one.notes,
            )
            for one in found.runs
        ),
    )
    if json:
        texts = [objective.text for objective in objectives]
        document = {"workload": answer.workload, "system": answer.system, "objectives": texts}
        document["tag"] = tag
        sentence = capacity_sentence(answer)
        print_json(
            "capacity", {**document, "capacity": estimate, "search": found, "sentence": sentence}
        )
    else:
        print_answer(capacity_text(answer, terminal_width()))
    if found.found != "found":
        raise AnswerIsNo(f"capacity: {found.reason}")


def _objectives(slo: list[str] | None) -> tuple[Objective, ...]:
    from kvmark.spec.objective import parse_objective

    if not slo:
        raise SpecError("capacity needs an objective to hold: give --slo, such as 'p99<10ms'")
    return tuple(map(parse_objective, slo))
