"""What commands that measure share: the system that is named, the context of runs, experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from kvmark import interrupts
from kvmark.cli.command_line import command_line
from kvmark.errors import Interrupted, KvmarkError, UsageError
from kvmark.spec.suggest import refuse_credentials
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url

if TYPE_CHECKING:
    from types import ModuleType

    from kvmark.cli.options import ExperimentOptions
    from kvmark.experiment.executor import Design
    from kvmark.experiment.journal import Journal
    from kvmark.plan.model import Plan
    from kvmark.records import Records, Run
    from kvmark.report.model.page import Page, Section
    from kvmark.run.context import RunContext
    from kvmark.testbed.sources.sample import Source

AGAIN: Final = "the same command and --resume"
_UP: Final = "up:"


def named_system(name: SystemName) -> SystemUrl:
    """The system of a URL, or with `up:NAME` of a testbed; `up:` is the only testbed that is up.

    Proxies don't count as testbeds for `up:`. Options of the driver may follow as in a URL:
    `up:NAME?consistency=one`.

    Raises:
        UsageError: the URL is wrong, or there is no such testbed.
    """
    text = name.reveal()
    if text.startswith(_UP):
        testbed, _, options = text.removeprefix(_UP).partition("?")
        refuse_credentials("system", testbed, "the name of a testbed alone")
        url = _url_of(testbed)
        text = f"{url}{'&' if '?' in url else '?'}{options}" if options else url
    return parse_system_url(text)


def _url_of(name: str) -> str:
    # Testbeds load a library that other systems don't need.
    from kvmark.testbed import testbeds_root
    from kvmark.testbed.state import all_testbeds, find_testbed

    root = testbeds_root()
    if name:
        testbed = find_testbed(root, name)
        if not any(node.lives for node in testbed.nodes):
            raise UsageError(f"testbed '{name}' is down; bring it back with kvmark up {name}")
        return testbed.url
    living = [one for one in all_testbeds(root) if one.lives and one.system != "proxy"]
    if len(living) != 1:
        names = ", ".join(f"{_UP}{testbed.name}" for testbed in living)
        raise UsageError(
            f"system: several testbeds are up; name one of {names}"
            if living
            else f"system: no testbed is up in {root}; start one with kvmark up redis"
        )
    return living[0].url


@contextmanager
def run_context(
    command: tuple[str, ...],
    records: Records,
    plan: Plan,
    options: ExperimentOptions,
    other_plans: Mapping[str, Plan] | None = None,
) -> Iterator[RunContext]:
    """The context of all runs of a command, calibrated with its first or typical plan.

    `other_plans` are plans of cases with another engine overhead, by the cases' titles.

    Load comes from one process of this machine, or from a fleet, until the context is left.

    Raises:
        UsageError: the plan makes no sense on a fleet, the fleet can't be joined, or the port for
            metrics can't be used.
        SystemUnderTestError: an observed server doesn't answer.
    """
    from kvmark.run.context import engine_overhead, make_run_context
    from kvmark.run.generator import LocalGenerator
    from kvmark.run.shares import check_divisible

    others = other_plans or {}
    with ExitStack() as stack:
        observed = stack.enter_context(_observed(options))
        generator = stack.enter_context(LocalGenerator())
        setting = replace(
            make_run_context(command, plan, generator, records, options.tags, options.commit),
            overheads={case: engine_overhead(one, generator) for case, one in others.items()},
            stall_limit_ns=options.stall_limit_ns,
            observed=observed,
        )
        if options.fleet is not None:
            for one in (*others.values(), plan):
                check_divisible(one)
            from kvmark.run.fleet import joined

            fleet = joined(options.fleet, options.machines, insecure=options.insecure_fleet)
            setting = replace(setting, generator=stack.enter_context(fleet))
        if options.prometheus is not None:
            from kvmark.run.prometheus import exporting

            exporter = stack.enter_context(exporting(options.prometheus))
            if not options.quiet:
                typer.echo(f"Metrics are at {exporter.address} while it measures", err=True)
            setting = replace(setting, exporter=exporter)
        yield setting


@contextmanager
def _observed(options: ExperimentOptions) -> Iterator[tuple[Source, ...]]:
    """The sources of observed servers."""
    if not options.observe:
        yield ()
        return
    # It takes a while to load.
    from kvmark.testbed.sources.opening import opened

    with opened(options.observe) as sources:
        yield sources


def check_observed(options: ExperimentOptions) -> None:
    """Checks that each observed server answers, before an experiment begins.

    Raises:
        UsageError: names or sources can't be used.
        SystemUnderTestError: a server doesn't answer.
    """
    with _observed(options):
        pass


def open_journal(design: Design, options: ExperimentOptions) -> Journal:
    """The journal of a new experiment, or with `--resume` of the newest with the same definition.

    Raises:
        UsageError: there is none to resume.
        SystemUnderTestError: an observed server doesn't answer.
        RunError: it can't be written.
    """
    from kvmark.experiment.journal import begin, find

    records = options.open_records()
    if not options.resume:
        check_observed(options)
        asked = {"command": list(command_line()), "asked": design.definition()}
        return begin(records, design.name, {"design": design.kind, **asked})
    journal = find(records, design.name)
    if journal is None:
        raise UsageError(
            f"no {design.kind} with these words was begun in {records.root}: leave --resume out"
        )
    return journal


@contextmanager
def execute_design(
    design: Design,
    options: ExperimentOptions,
    journal: Journal,
    again: str = AGAIN,
    *,
    shown: bool = True,
) -> Iterator[KvmarkError | None]:
    """Executes the missing runs of an experiment, and gives the error that ended it early.

    The journal is locked until the context is left, so that the answer belongs to its runs.

    Raises:
        UsageError: another command executes it.
    """
    with journal.alone():
        problem = _execute(design, options, journal, shown=shown)
        if isinstance(problem, Interrupted):
            # Some libraries raise for Ctrl-C by themselves.
            interrupts.take()
            resumable = Interrupted(f"interrupted: resume it with {again}")
            resumable.__cause__, problem = problem, resumable
        yield problem


def _execute(
    design: Design, options: ExperimentOptions, journal: Journal, *, shown: bool
) -> KvmarkError | None:
    from kvmark.cli.live import LiveDisplay
    from kvmark.experiment.executor import Executor, ended_runs
    from kvmark.experiment.journal import tag

    known = {}
    if options.resume:
        known = dict(ended_runs(journal, redoes_invalid=design.redoes_invalid))
    options = replace(options, tags=(tag(journal.id), *options.tags))
    with ExitStack() as stack, LiveDisplay(quiet=options.quiet or not shown) as display:
        context = run_context(
            command_line(), journal.records, design.typical_plan(), options, design.other_plans()
        )
        executor = Executor(
            journal, lambda: stack.enter_context(context), display, display.show, known
        )
        try:
            design.execute(executor)
            executor.end()
            if options.resume and not executor.has_measured:
                executor.say("Nothing was missing.")
        except KvmarkError as ended:
            return ended
        except KeyboardInterrupt:
            # Between two runs, when servers start or come back.
            return Interrupted("interrupted between two runs")
    return None


def report_maker(runs: Sequence[Run], part: Section | None = None) -> Callable[[ModuleType], Page]:
    """Makes the page of an experiment's runs, with its answer before them."""
    from kvmark.report.views.gather import run_answers

    def make(page: ModuleType) -> Page:
        report: Page = page.runs_page(run_answers(runs, len(runs)))
        return report if part is None else report.with_first(part)

    return make
