"""`kvmark capacity`: the maximum throughput that meets an SLO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kvmark.cli import options
from kvmark.cli.options import choice, option
from kvmark.cli.output import print_result, save_report, terminal_width
from kvmark.cli.run_options import LoadOptions, Warmup
from kvmark.cli.session import execute_design, open_journal, report_maker
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.spec.quantity import rate, share

if TYPE_CHECKING:
    from kvmark.analysis.capacity import Capacity
    from kvmark.experiment.capacity import CapacitySearch
    from kvmark.experiment.journal import Journal

_SECOND_NS: Final = 10**9
_MOST_CLIENTS: Final = 4096
"""The most without --clients: servers reject more connections than some thousands."""


@dataclass(frozen=True, kw_only=True)
class CapacityOptions(LoadOptions):
    """Options of `kvmark capacity`."""

    command: ClassVar[str] = "capacity"

    confirm: int = option("N", "Runs with other seeds that confirm each end.", default=3)
    repetitions: int | None = option("N", "Runs at each end: one more than --confirm.", min=1)
    within: str = option("SHARE", "Largest distance between the ends.", default="3%")
    first: str | None = option(
        "RATE", "First rate (default: half the closed model's throughput).", "--from"
    )
    arrival: Literal["poisson", "constant"] = choice(
        "poisson", "Arrival process; independent users arrive as poisson."
    )
    #: Of each run. A search makes about fifteen runs.
    duration_ns: options.Duration = 10 * _SECOND_NS
    warmup_ns: Warmup = _SECOND_NS


def capacity(options: CapacityOptions) -> None:
    """Finds the maximum throughput that meets an SLO without drops."""
    from kvmark import catalog
    from kvmark.experiment.capacity import CapacityRequest, CapacitySearch
    from kvmark.plan.compile import OPEN_CLIENTS
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations

    objectives = options.objectives
    if not objectives:
        raise SpecError("capacity needs an objective to hold: give --slo, such as 'p99<10ms'")
    spec = options.run_spec(catalog.find(options.workload), arrival=None)
    confirm = options.confirm if options.repetitions is None else options.repetitions - 1
    # The number of clients, where the spec gives one.
    clients = spec.clients or next((one.clients for one in spec.active_groups if one.clients), None)
    least, most = (clients, clients) if clients else (OPEN_CLIENTS, _MOST_CLIENTS)
    search = CapacitySearch(
        spec=spec,
        arrival=options.arrival,
        objectives=objectives,
        asked=CapacityRequest(share(options.within), confirm, clients=least, most_clients=most),
        first=None if options.first is None else rate(options.first),
    )
    plan = search.typical_plan()
    check_operations([one.metric for one in objectives], operation_names(plan), "there is")
    journal = open_journal(search, options)
    with execute_design(search, options, journal) as problem:
        if problem is not None or search.result is None:
            raise problem or AnswerIsNo("capacity: the search came to no end")
        _print(search, search.result, journal, options)


def _print(
    search: CapacitySearch, result: Capacity, journal: Journal, options: CapacityOptions
) -> None:
    """Prints the answer, and writes the report.

    Raises:
        AnswerIsNo: there is no capacity, or no upper end of it.
        RunError: the report can't be written.
    """
    from kvmark.analysis.capacity import estimated
    from kvmark.experiment.capacity import tag
    from kvmark.report.model.page import Section
    from kvmark.report.views import capacity as views

    spec, objectives = search.spec, search.objectives
    estimate = estimated(result, objectives)
    answer = views.CapacityAnswer(
        spec.workload.name, spec.system.text, objectives, result, estimate
    )
    sentence = views.capacity_sentence(answer)
    document = {
        "workload": answer.workload, "system": answer.system,
        "objectives": [objective.text for objective in objectives],
        "tag": tag(journal.id), "capacity": estimate, "search": result,
        "sentence": sentence,
    }  # fmt: skip
    print_result(
        "capacity", document if options.json else views.capacity_text(answer, terminal_width())
    )
    if options.report is not None:
        part = Section(
            "capacity", "Capacity", answer=sentence, grids=(views.capacity_grid(answer),)
        )
        runs = [journal.records.open(run) for run in dict.fromkeys(one.run for one in result.runs)]
        save_report(report_maker(runs, part), options.report, quiet=options.json)
    if result.found != "found":
        raise AnswerIsNo(f"capacity: {result.reason}")
