"""Shared steps of commands that run experiments: open the journal, execute, report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvmark import interrupts
from kvmark.cli.command_line import command_line
from kvmark.cli.session import run_context
from kvmark.errors import Interrupted, KvmarkError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from kvmark.cli.options import ExperimentOptions
    from kvmark.experiment.executor import Design
    from kvmark.experiment.journal import Journal
    from kvmark.records import Run
    from kvmark.report.model.page import Page, Section

AGAIN: Final = "the same command and --resume"


def open_journal(design: Design, options: ExperimentOptions) -> Journal:
    """The journal of a new experiment, or with `--resume` of the newest with the same definition.

    Raises:
        UsageError: there is none to resume.
        RunError: it can't be written.
    """
    from kvmark.experiment.journal import begin, find

    records = options.open_records()
    if not options.resume:
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
    from kvmark.cli.live import LiveDisplay, show
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
            journal, lambda: stack.enter_context(context), display, show(display), known
        )
        try:
            design.execute(executor)
            executor.end()
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
