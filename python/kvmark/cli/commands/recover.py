"""`kvmark recover`: whether a system returns to its level after a trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kvmark.cli import options
from kvmark.cli.options import choice, flag, option
from kvmark.cli.output import print_result, save_report, terminal_width
from kvmark.cli.run_options import LoadOptions, Warmup
from kvmark.cli.session import execute_design, open_journal, report_maker
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.spec.quantity import rate, share

if TYPE_CHECKING:
    from kvmark.experiment.journal import Journal
    from kvmark.experiment.recover import RecoverySearch

_SECOND_NS: Final = 10**9
_INTERVAL_NS: Final = 2 * 10**8


@dataclass(frozen=True, kw_only=True)
class RecoverOptions(LoadOptions):
    """Options of `kvmark recover`."""

    command: ClassVar[str] = "recover"

    rate: str | None = option("RATE", "Base rate; with --search the first one.")
    trigger: str = option(
        "TEXT",
        "'rate x2 for 5s', or a fault of a testbed: 'pause primary-1 for 2s'.",
        default="rate x2 for 5s",
    )
    before_ns: int = options.duration(
        "Time at the base rate before the trigger (default: 10s).",
        "--before",
        default=10 * _SECOND_NS,
    )
    limit_ns: int = options.duration(
        "Longest time to recover (default: 30s).", "--limit", default=30 * _SECOND_NS
    )
    search: bool = flag("Find the highest base rate that recovers.", "--search")
    confirm: int = option("N", "Runs with other seeds that confirm each end.", default=1)
    within: str = option("SHARE", "Largest distance between the ends.", default="10%")
    arrival: Literal["poisson", "constant"] = choice(
        "poisson", "Arrival process; independent users arrive as poisson."
    )
    warmup_ns: Warmup = _SECOND_NS


def recover(options: RecoverOptions) -> None:
    """Measures whether a system recovers from a trigger.

    A base rate is offered before and after a spike or a fault.
    """
    from kvmark import catalog
    from kvmark.analysis.recovery import LEAST_BEFORE, TOGETHER
    from kvmark.experiment.capacity import CapacityRequest
    from kvmark.experiment.recover import RecoverySearch
    from kvmark.spec.trigger import parse_trigger

    base = None if options.rate is None else rate(options.rate)
    if base is None:
        raise SpecError("recover needs a base rate: give --rate, such as 5k")
    if options.duration_ns is not None:
        raise SpecError("--duration: the length follows from --before, --trigger and --limit")
    if options.objectives:
        raise SpecError("--slo: recover compares with the time before; leave it out")
    interval_ns = options.interval_ns or _INTERVAL_NS
    for name, length_ns, intervals in (
        ("before", options.before_ns, LEAST_BEFORE), ("limit", options.limit_ns, TOGETHER)
    ):  # fmt: skip
        least_ns = max(_SECOND_NS, intervals * interval_ns)
        if length_ns < least_ns:
            least = f"{least_ns / _SECOND_NS:g}s, {intervals} intervals"
            raise SpecError(f"--{name}: must be at least {least}")
    asked = CapacityRequest(share(options.within), options.confirm, 0, 0)
    design = RecoverySearch(
        spec=options.run_spec(
            catalog.find(options.workload),
            arrival=None,
            interval_ns=interval_ns,
            # A service that doesn't recover may answer nothing.
            stall_limit_ns=options.stall_limit_ns or 0,
        ),
        arrival=options.arrival,
        trigger=parse_trigger(options.trigger),
        before_ns=options.before_ns,
        limit_ns=options.limit_ns,
        rate=base,
        asked=asked if options.search else None,
    )
    design.typical_plan()
    journal = open_journal(design, options)
    with execute_design(design, options, journal) as problem:
        if problem is not None or not design.recoveries:
            raise problem or AnswerIsNo("recover: nothing was measured")
        _print(design, journal, options)


def _print(design: RecoverySearch, journal: Journal, options: RecoverOptions) -> None:
    """Prints the answer, and writes the report.

    Raises:
        AnswerIsNo: the system doesn't recover, or there is no highest rate.
        RunError: the report can't be written.
    """
    from kvmark.experiment.recover import tag
    from kvmark.report.model.page import Section
    from kvmark.report.views import recovery as views

    spec, found = design.spec, design.result
    answer = views.RecoveryAnswer(
        spec.workload.name, spec.system.text, design.trigger.text, design.limit_ns,
        tuple(design.recoveries), found,
    )  # fmt: skip
    sentence = views.recovery_sentence(answer)
    document = {
        "workload": answer.workload, "system": answer.system, "trigger": answer.trigger,
        "limit_ns": answer.limit_ns, "tag": tag(journal.id), "recoveries": answer.recoveries,
        "search": found, "sentence": sentence,
    }  # fmt: skip
    print_result(
        "recovery", document if options.json else views.recovery_text(answer, terminal_width())
    )
    if options.report is not None:
        grids = tuple(views.recovery_grids(answer))
        part = Section("recovery", "Recovery", answer=sentence, grids=grids)
        runs = [journal.records.open(one.run) for one in design.recoveries]
        save_report(report_maker(runs, part), options.report, quiet=options.json)
    last = design.recoveries[-1]
    if found is None and last.outcome != "recovered":
        raise AnswerIsNo(f"recover: {last.reason or 'not recovered within the limit'}")
    if found is not None and found.found != "found":
        raise AnswerIsNo(f"recover: {found.reason}")
