"""Carries out a command line of cassandra-stress and prints what it would print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kvmark.cli.experiment import execute_design, open_journal, report_maker
from kvmark.cli.options import ExperimentOptions
from kvmark.cli.output import write_report
from kvmark.cli.session import named_system
from kvmark.errors import AnswerIsNo, KvmarkError, RunError, SpecError
from kvmark.experiment.journal import Journal
from kvmark.frontends.cassandra_stress.command_line import StressSpec
from kvmark.frontends.cassandra_stress.lines import Line
from kvmark.frontends.cassandra_stress.plan import GROUP, WARMING, StressPlans, driver_options
from kvmark.frontends.cassandra_stress.profile import load_profile
from kvmark.frontends.cassandra_stress.ramp import (
    LadderLevel,
    LadderTeller,
    StressLadder,
    checked_of,
    partitions_of,
)
from kvmark.frontends.cassandra_stress.text import (
    HEAD,
    ladder_table,
    line_text,
    results_text,
    side_by_side,
)
from kvmark.outputs import HISTOGRAMS_BY_KVMARK, append_output, check_output, write_output
from kvmark.plan.model import Plan
from kvmark.records import Records
from kvmark.report.format.bars import writable
from kvmark.run.existing import OnExisting, remove_tables
from kvmark.spec.run import check_pin
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl

if TYPE_CHECKING:
    from kvmark.frontends.cassandra_stress.results import StressResults
    from kvmark.records.run import Run


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kvmark's own options ask for, beside those of all experiments."""

    pin: tuple[int, ...] = ()
    repetitions: int = 1
    report: Path | None = None
    on_existing: OnExisting = "refuse"
    strict: bool = False


def carry_out_stress(spec: StressSpec, wanted: Wanted, shared: ExperimentOptions) -> None:
    """Carries out a command line.

    Raises:
        KvmarkError: it can't be carried out, a run failed or was interrupted, or operations failed.
    """
    _check(spec, wanted)
    system = _system(spec)
    profiles = tuple(map(load_profile, spec.profiles))
    ladder = StressLadder(
        plans=StressPlans(spec, profiles, system.driver, system.options, len(wanted.pin)),
        system=system.text,
        password=system.password,
        pin=wanted.pin,
        repetitions=wanted.repetitions,
        empty=partial(remove_tables, system, on_existing=wanted.on_existing),
    )
    _check_pending(spec, ladder.typical_plan())
    # What gives JSON on standard output tells people on standard error, or nobody.
    told = None if shared.quiet else sys.stderr
    stream = told if shared.json else sys.stdout
    with _output(spec, stream) as out:
        if spec.log.settings:
            out(_settings_text(spec))
        ladder.teller = _Printer(spec, out)
        own = replace(shared, tags=(*shared.tags, *spec.log.tags))
        journal = open_journal(ladder, own)
        # The lines are what is shown while it goes on.
        again = "kvmark stress --resume and the same words"
        with execute_design(ladder, own, journal, again, shown=False) as problem:
            _answer(ladder, journal, wanted, out, problem, json=shared.json)


def _check(spec: StressSpec, wanted: Wanted) -> None:
    """Refuses what would fail only after the measurement, or can't be bound."""
    check_pin(wanted.pin)
    files = {"-log: hdrfile=": spec.log.hdr_file, "-graph: file=": spec.log.graph_file}
    for name, path in files.items():
        if path is not None:
            check_output(path, f"{name} ")
    if spec.log.file is not None:
        check_output(spec.log.file, "-log: file= ", page=False)


def _system(spec: StressSpec) -> SystemUrl:
    target = spec.target
    if target.url is None:
        options = driver_options(target, spec)
        if target.password is not None:
            options["password_env"] = PASSWORD_VARIABLE
        return SystemUrl("cql", options, f"cql://{target.address}", target.password)
    named = named_system(target.url)
    if named.driver not in ("cql", "null", "sim"):
        raise SpecError(f"-node: {target.url} doesn't speak CQL; name nodes of a CQL cluster")
    if named.driver != "cql":
        return named
    own = {**driver_options(target, spec), **named.options}
    return replace(named, options=own)


def _check_pending(spec: StressSpec, plan: Plan) -> None:
    """Clients wait for a free place on a connection only where that is known not to happen."""
    pending = spec.target.max_pending
    most = spec.threads or spec.ladder.last
    if pending is not None and plan.system.driver == "cql":
        places = pending * spec.target.connections * len(spec.target.hosts)
        if most > places:
            raise SpecError(
                f"-mode: maxPending={pending} on {spec.target.connections} connections leaves no"
                f" place for {most} threads; raise connectionsPerHost= or leave maxPending= out"
            )


@contextmanager
def _output(spec: StressSpec, stream: TextIO | None) -> Iterator[Callable[[str], None]]:
    """Where lines go: a stream or nowhere, or the end of -log's file, which may be anybody's."""
    with ExitStack() as stack:
        if spec.log.file is not None:
            stream = stack.enter_context(append_output(spec.log.file))

        def out(text: str) -> None:
            if stream is not None:
                print(writable(text, stream.encoding), file=stream, flush=True)

        yield out


class _Printer(LadderTeller):
    """Prints what cassandra-stress would while it goes on."""

    def __init__(self, spec: StressSpec, out: Callable[[str], None]) -> None:
        self._spec, self._out = spec, out

    def begin(self, clients: int, *, alone: bool) -> None:
        """A level begins."""
        if not alone:
            self._out(f"Running with {clients} threadCount")
        self._out(_running(self._spec, clients))
        self._out(HEAD)

    def pause(self, seconds: float) -> None:
        """The nodes come to rest."""
        self._out(f"Sleeping for {seconds:g}s")

    def line(self, line: Line) -> None:
        """An interval has ended."""
        self._out(line_text(line))

    def known(self, level: LadderLevel) -> None:
        """A level was measured in an earlier pass."""
        self._out(f"Measured before with {level.clients} threads: run {level.outcome.run}")

    def gain(self, share: float, before: int) -> None:
        """What more clients brought than `before`."""
        self._out(f"Improvement over {before} threadCount: {share:.0%}")


def _running(spec: StressSpec, clients: int) -> str:
    """The line that says what runs, and for how long."""
    names = [name if spec.command == "user" else name.upper() for name in spec.shares]
    what = f"[{', '.join(names)}]" if len(names) > 1 or spec.command == "user" else names[0]
    if spec.until is not None:
        length = f"until stderr of mean < {spec.until.bound:g}"
    elif spec.operations is not None:
        length = f"for {spec.operations} iteration"
    else:
        seconds = (spec.duration_ns or 0) // 10**9
        units = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
        size, unit = next((size, unit) for size, unit in units if seconds % size == 0)
        length = f"{seconds // size} {unit}"
    return f"Running {what} with {clients} threads {length}"


def _answer(
    ladder: StressLadder,
    journal: Journal,
    wanted: Wanted,
    out: Callable[[str], None],
    problem: KvmarkError | None,
    *,
    json: bool,
) -> None:
    """The Results blocks, the files that were asked for, and how it ended."""
    spec = ladder.spec
    ended = [level for level in ladder.ended if level.outcome.run is not None]
    if not ended:
        raise problem or RunError("no level was carried out")
    plan = ladder.plan(ended[0].clients)
    shown = "response" if spec.rate is not None else "service"
    how = (shown, partitions_of(plan), checked_of(spec, plan))
    runs = [str(level.outcome.run) for level in ended]
    answer = _results_of(spec, runs, journal.records, how, out)
    if spec.log.summary and spec.threads is None:
        named = [(f"{one.clients} threadCount", one.last) for one in ended if one.last is not None]
        out(_ladder_text(named))
    if spec.log.hdr_file is not None:
        # Each level of a ladder begins the file anew.
        _log_histograms(answer.runs[-1], spec.log.hdr_file)
    if wanted.report is not None:
        write_report(report_maker(answer.runs), wanted.report)
        out(f"The report is in {wanted.report.resolve()}")
    failed = answer.errors and not spec.ignores_errors
    out("FAILURE" if failed or problem is not None else "END")
    if json:
        answer.print_json()
    if problem is not None:
        raise problem
    if failed:
        raise AnswerIsNo(
            f"{answer.errors:,} operations failed; run {answer.runs[-1].id} says how, and -errors"
            " ignore ends as if none had"
        )
    if wanted.strict and answer.invalid:
        raise AnswerIsNo(f"run {answer.invalid} is INVALID; kvmark show {answer.invalid} says why")


@dataclass(frozen=True, slots=True)
class _StressAnswer:
    """The runs of one command line, closed, and what came of them."""

    runs: tuple[Run, ...]
    results: tuple[StressResults, ...]
    errors: int
    invalid: str | None
    """The first run that is INVALID."""

    def print_json(self) -> None:
        """Prints one JSON document."""
        from kvmark.cli.output import print_json

        runs = zip(self.runs, self.results, strict=True)
        print_json(
            "stress", {"runs": [{"run": run.id, "results": asdict(one)} for run, one in runs]}
        )


def _settings_text(spec: StressSpec) -> str:
    """What was asked for, defaults filled in."""
    lines = ["******************** Stress Settings ********************"]
    groups: dict[str, Any] = spec.as_json()["stress"]
    plain = {name: value for name, value in groups.items() if not isinstance(value, Mapping)}
    lines += ["Command:", *(_setting(name, value) for name, value in plain.items())]
    for name, value in groups.items():
        if isinstance(value, Mapping):
            lines.append(f"{name.replace('_', ' ').title()}:")
            lines += [_setting(inner, one) for inner, one in value.items()]
    return "\n".join([*lines, ""])


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{inner}={one}" for inner, one in value.items() if one not in (0, None))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    shown = "*not set*" if value in (None, "") else value
    return f"  {name.replace('_', ' ').title()}: {shown}"


def _results_of(
    spec: StressSpec,
    ended: Sequence[str],
    records: Records,
    how: tuple[Any, Mapping[str, Callable[[int], int]], frozenset[str]],
    out: Callable[[str], None],
) -> _StressAnswer:
    """Closes the runs, prints their Results blocks, and writes the page if it was asked for."""
    from kvmark.analysis import Judgement
    from kvmark.experiment.judging import close_and_judge
    from kvmark.frontends.cassandra_stress.results import stress_results

    judged = [close_and_judge(records, run) for run in ended]
    results = []
    for one in judged:
        figures = stress_results(one.run, *how)
        results.append(figures)
        out(results_text(figures))
        if spec.rate is not None:
            out(side_by_side(figures))
        _tell_failures(spec, one.run, out)
    if spec.log.graph_file is not None:
        _draw(judged[-1], spec.log.graph_file, out)
    invalid = [one.run.id for one in judged if one.verdict.judgement is Judgement.INVALID]
    return _StressAnswer(
        runs=tuple(one.run for one in judged),
        results=tuple(results),
        errors=sum(one.total.errors for one in results),
        invalid=invalid[0] if invalid else None,
    )


def _tell_failures(spec: StressSpec, run: Run, out: Callable[[str], None]) -> None:
    if spec.log.level == "minimal":
        return
    for notice in run.manifest.engine.notices:
        if notice.code == "operations_failed" or spec.log.level == "verbose":
            out(notice.message)


def _draw(judged: Any, path: Path, out: Callable[[str], None]) -> None:
    """Writes the page, and prints the pictures of text that `kvmark show` has."""
    from kvmark.cli.output import terminal_width, write_report
    from kvmark.report.format.terminal import charts_text
    from kvmark.report.views.gather import run_answer

    answer = run_answer(judged.run, judged.verdict)
    write_report(lambda page: page.run_page(answer), path)
    if charts := charts_text(answer, terminal_width()):
        out(f"{charts.plain}\n")


def _ladder_text(rows: Sequence[tuple[str, Line]]) -> str:
    """The ladder's table."""
    return ladder_table(rows)


def _log_histograms(run: Run, path: Path) -> None:
    """Writes a run's histograms with the tags that cassandra-stress gives them, warm-up left out.

    Raises:
        RunError: the file can't be written.
    """
    from kvmark.records.export import as_hlog

    own, other = f"Tag={GROUP}.", f":{WARMING}"
    # Lines of a phase that isn't counted have its name and a colon before the group's.
    lines = (line for line in as_hlog(run).decode().splitlines() if other not in line)
    text = "".join(line.replace(own, "Tag=", 1) + "\n" for line in lines)
    write_output(path, f"{HISTOGRAMS_BY_KVMARK}\n{text}", page=True)
