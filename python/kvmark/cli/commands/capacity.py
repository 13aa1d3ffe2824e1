"""`kvmark capacity`: the maximum throughput within an SLO."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kvmark.cli import options
from kvmark.cli.experiment import (
    ExperimentOptions,
    execute_design,
    experiment_options,
    open_journal,
    report_maker,
)
from kvmark.cli.output import (
    print_answer,
    print_json,
    tell_report,
    terminal_width,
    write_report,
)
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.spec.quantity import rate

if TYPE_CHECKING:
    from kvmark.experiment.capacity import CapacitySearch
    from kvmark.experiment.capacity_search import Capacity, CapacityRequest
    from kvmark.experiment.journal import Journal
    from kvmark.report.views.capacity import CapacityAnswer
    from kvmark.spec.objective import Objective
    from kvmark.spec.run import RunSpec
    from kvmark.spec.url import SystemName, SystemUrl

_SECOND_NS: Final = 10**9
_DURATION_NS: Final = 10 * _SECOND_NS
"""Of each run. A search makes about fifteen of them."""

_MOST_CLIENTS: Final = 4096
"""Where their number isn't given: servers refuse more connections than some thousands."""

Confirm = Annotated[
    int, typer.Option(metavar="N", help="Runs with other seeds that confirm each end.")
]
Repetitions = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Runs at each end in all: one more than --confirm."),
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


@experiment_options
def capacity(
    workload: options.Workload,
    system: options.System = None,
    slo: options.Slo = None,
    confirm: Confirm = 3,
    repetitions: Repetitions = None,
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
    report: options.RunReport = None,
    *,
    shared: ExperimentOptions,
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
    from kvmark.experiment.capacity import CapacitySearch
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations
    from kvmark.spec.run import RunSpec

    objectives = _objectives(slo)
    spec = RunSpec(workload=catalog.find(workload), system=_named(system), **given)
    search = CapacitySearch(
        spec=spec,
        arrival=arrival,
        objectives=objectives,
        asked=_asked(within, confirm if repetitions is None else repetitions - 1, spec),
        first=None if begin is None else rate(begin),
    )
    plan = search.typical_plan()
    check_operations([one.metric for one in objectives], operation_names(plan), "there is")
    journal = open_journal(search, shared)
    with execute_design(search, shared, journal) as problem:
        if problem is not None or search.found is None:
            raise problem or AnswerIsNo("capacity: the search came to no end")
        _answer(search, search.found, journal, report, json=shared.json)


def _asked(within: str, confirm: int, spec: RunSpec) -> CapacityRequest:
    """How exact the answer is to be, with the number of clients where the spec gives one."""
    from kvmark.experiment.capacity_search import CapacityRequest
    from kvmark.plan.compile import OPEN_CLIENTS
    from kvmark.spec.quantity import share

    clients = spec.clients or next((one.clients for one in spec.active_groups if one.clients), None)
    least, most = (clients, clients) if clients else (OPEN_CLIENTS, _MOST_CLIENTS)
    return CapacityRequest(share(within), confirm, clients=least, most_clients=most)


def _named(system: SystemName | None) -> SystemUrl:
    from kvmark.cli.session import named_system

    if system is None:
        raise SpecError("capacity needs a system to measure: give --system, such as rocksdb:PATH")
    return named_system(system)


def _answer(
    search: CapacitySearch, found: Capacity, journal: Journal, report: Path | None, *, json: bool
) -> None:
    """Prints what was found.

    Raises:
        AnswerIsNo: there is no capacity, or no upper end of it.
        RunError: the report can't be written.
    """
    from kvmark.report.model.page import Section
    from kvmark.report.views.capacity import capacity_grid, capacity_sentence, capacity_text

    answer = _capacity_answer(search, found, journal)
    sentence = capacity_sentence(answer)
    if json:
        texts = [objective.text for objective in search.objectives]
        document: dict[str, object] = {
            "workload": answer.workload,
            "system": answer.system,
            "objectives": texts,
        }
        document["tag"] = answer.tag
        document |= {"capacity": answer.estimate, "search": found, "sentence": sentence}
        print_json("capacity", document)
    else:
        print_answer(capacity_text(answer, terminal_width()))
    if report is not None:
        part = Section("capacity", "Capacity", answer=sentence, grids=(capacity_grid(answer),))
        runs = dict.fromkeys(line.run for line in answer.lines)
        write_report(report_maker([journal.records.open(run) for run in runs], part), report)
        if not json:
            tell_report(report)
    if found.found != "found":
        raise AnswerIsNo(f"capacity: {found.reason}")


def _capacity_answer(search: CapacitySearch, found: Capacity, journal: Journal) -> CapacityAnswer:
    from kvmark.experiment.capacity import tag
    from kvmark.experiment.capacity_search import estimated
    from kvmark.report.views.capacity import CapacityAnswer, CapacityLine

    return CapacityAnswer(
        workload=search.spec.workload.name,
        system=search.spec.system.text,
        objectives=search.objectives,
        found=found.found,
        low=found.low,
        high=found.high,
        reason=found.reason,
        clients=found.clients,
        estimate=estimated(found, search.objectives),
        tag=tag(journal.id),
        lines=tuple(
            CapacityLine(
                one.rate, one.stage, one.run, one.outcome, one.reasons, one.figures,
                one.throughput, one.clients,
            )
            for one in found.runs
        ),
    )  # fmt: skip


def _objectives(slo: list[str] | None) -> tuple[Objective, ...]:
    from kvmark.spec.objective import parse_objective

    if not slo:
        raise SpecError("capacity needs an objective to hold: give --slo, such as 'p99<10ms'")
    return tuple(map(parse_objective, slo))
