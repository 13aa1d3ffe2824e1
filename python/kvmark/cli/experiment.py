"""What the commands of experiments share: options, the journal, carrying out, a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.session import FleetRequest, fleet_request, session
from kvmark.errors import Interrupted, KvmarkError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from kvmark.experiment.design import Design
    from kvmark.experiment.journal import Journal
    from kvmark.records import Records, Run
    from kvmark.report.model.page import Page, Section

AGAIN: Final = "the same command and --resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """What every experiment can be told."""

    tags: tuple[str, ...] = ()
    commit: str | None = None
    resume: bool = False
    prometheus: int | None = None
    fleet: FleetRequest | None = None
    stall_limit_ns: int | None = None
    folder: Path | None = None
    json: bool = False
    quiet: bool = False

    @property
    def records(self) -> Records:
        """Where the runs are kept."""
        # It takes a while to load, and a usage error is told before it.
        from kvmark.records import Records

        return Records.at(self.folder)


def _shared(
    tag: options.Tag = None,
    commit: options.Commit = None,
    resume: options.Resume = False,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    insecure_fleet: options.InsecureFleet = False,
    stall_limit: options.StallLimit = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> ExperimentOptions:
    return ExperimentOptions(
        tags=tuple(tag or ()),
        commit=commit,
        resume=resume,
        prometheus=prometheus,
        fleet=fleet_request(fleet, machines, insecure=insecure_fleet),
        stall_limit_ns=stall_limit,
        folder=folder,
        json=json,
        quiet=quiet,
    )


def experiment_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of all experiments where it takes them as ``shared``."""
    own, common = signature(command).parameters, signature(_shared).parameters

    @wraps(command)
    def told(**given: Any) -> None:
        shared = _shared(**{name: given.pop(name) for name in common})
        command(**given, shared=shared)

    parameters: list[Parameter] = []
    for name, one in own.items():
        parameters += common.values() if name == "shared" else [one]
    hints = get_type_hints(
        command, include_extras=True, localns={"ExperimentOptions": ExperimentOptions}
    )
    hints |= get_type_hints(_shared, include_extras=True)
    # Typer asks for one, others who look for options for the other.
    told.__signature__ = signature(command).replace(  # type: ignore[attr-defined]
        parameters=[one.replace(annotation=hints[one.name]) for one in parameters]
    )
    told.__annotations__ = {one.name: hints[one.name] for one in parameters}
    return told


def open_journal(design: Design, shared: ExperimentOptions) -> Journal:
    """The journal of a new experiment, or of the newest with the same words.

    Raises:
        UsageError: none with these words was.
        RunError: it can't be written.
    """
    from kvmark.experiment.journal import begin, find

    records = shared.records
    if not shared.resume:
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
    shared: ExperimentOptions,
    journal: Journal,
    again: str = AGAIN,
    *,
    shown: bool = True,
) -> Iterator[KvmarkError | None]:
    """Carries out what is missing of an experiment, and gives what ended it early.

    It is this command's alone until the context is left, so that it can be answered.

    Raises:
        UsageError: another command carries it out.
    """
    with journal.alone():
        problem = _problem(design, shared, journal, shown=shown)
        if isinstance(problem, Interrupted):
            told = Interrupted(f"interrupted: go on with {again}")
            told.__cause__, problem = problem, told
        yield problem


def _problem(
    design: Design, shared: ExperimentOptions, journal: Journal, *, shown: bool
) -> KvmarkError | None:
    from kvmark.cli.live import LiveDisplay, show
    from kvmark.experiment.executor import Executor, ended_runs
    from kvmark.experiment.journal import tag

    known = {}
    if shared.resume:
        known = dict(ended_runs(journal, redoes_invalid=design.redoes_invalid))
    plan, tags = design.typical_plan(), (tag(journal.id), *shared.tags)
    with ExitStack() as stack, LiveDisplay(quiet=shared.quiet or not shown) as display:
        begin = session(
            command_line(), journal.records, plan, tags, shared.commit,
            others=design.other_plans(), fleet=shared.fleet, prometheus=shared.prometheus,
            quiet=shared.quiet, stall_limit_ns=shared.stall_limit_ns,
        )  # fmt: skip
        executor = Executor(
            journal, lambda: stack.enter_context(begin), display, show(display), known
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
        found: Page = page.runs_page(run_answers(runs, len(runs)))
        return found if part is None else page.with_part(found, part)

    return make
