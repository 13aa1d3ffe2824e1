"""Executes a cassandra-stress command line and prints its output.

Without -rate threads=, a ramp has more and more clients, until more of them bring no gain.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

from kvmark.cli.output import document, print_json, terminal_width, write_report
from kvmark.cli.session import execute_design, named_system, open_journal, report_maker
from kvmark.errors import AnswerIsNo, KvmarkError, RunError, SpecError
from kvmark.experiment.executor import Design, Executor, PreparedRun, RunOutcome, RunRequest
from kvmark.experiment.judging import JudgedRun, close_and_judge
from kvmark.frontends.cassandra_stress import output
from kvmark.frontends.cassandra_stress.grammar import StressOptions
from kvmark.frontends.cassandra_stress.options import StressSpec, ThreadRamp
from kvmark.frontends.cassandra_stress.plan import GROUP, WARMING, StressPlans, driver_options
from kvmark.frontends.cassandra_stress.profiles import load_profile
from kvmark.interrupts import pause
from kvmark.outputs import HISTOGRAMS_BY_KVMARK, append_output, check_output, write_output
from kvmark.plan.model import Plan
from kvmark.records import Judgement, Records, Run
from kvmark.records.export import as_hlog
from kvmark.report.model.units import writable
from kvmark.report.views.gather import run_answer
from kvmark.report.views.run import charts_text
from kvmark.run.execution import ExecutedRun
from kvmark.run.existing import remove_tables
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval
from kvmark.spec.run import check_pin
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl

_PAUSE_S: Final = 15.0
"""Between two levels of a ramp that writes, so that the nodes settle."""
_DOUBLING: Final = 16
_RECENT: Final = 3
_LONGER: Final = 5
_UPDATING: Final = ("write", "counter_write", "mixed", "user")
_Print = Callable[[str], None]


def levels(ramp: ThreadRamp) -> Iterator[int]:
    """Numbers of clients: doubled up to 16, then raised by half."""
    clients = ramp.first
    while clients <= ramp.last:
        yield clients
        clients = clients * 2 if clients < _DOUBLING else max(clients * 3 // 2, clients + 1)


def continues(spec: StressSpec, rates: Sequence[float]) -> bool:
    """Whether the ramp continues, by the rates so far (`StressAction.runMulti`)."""
    # A run with another end than the error bound has no least gain.
    least = -1.0 if spec.until is None else spec.until.bound
    return not spec.ladder.auto or (_gains(rates, _RECENT, 0.0) and _gains(rates, _LONGER, least))


def _gains(rates: Sequence[float], steps: int, least: float) -> bool:
    """Whether the mean gain of the last steps is large enough, or there are too few of them."""
    gains = [(after - before) / before for before, after in pairwise(rates[-steps - 1 :])]
    return len(gains) < steps or sum(gains) / steps >= least


@dataclass(frozen=True, slots=True)
class RampLevel:
    """An executed run with one number of clients."""

    clients: int
    outcome: RunOutcome
    #: Its last line, if it has one.
    last: output.Line | None

    @property
    def op_rate(self) -> float:
        """Operations per second over the whole run."""
        return self.last.operations / self.last.time_s if self.last and self.last.time_s else 0.0


@dataclass(kw_only=True)
class StressRuns(Design):
    """The runs of a command line: one number of clients, or a ramp."""

    kind: ClassVar[str] = "stress"

    plans: StressPlans
    system: str
    password: Secret | None
    repetitions: int
    #: Empties tables before a level.
    empty: Callable[[Sequence[TableRemoval]], None]
    out: _Print = lambda _: None
    ended: list[RampLevel] = field(default_factory=list)

    @property
    def spec(self) -> StressSpec:
        """The command line."""
        return self.plans.spec

    def definition(self) -> Mapping[str, Any]:
        own = {"system": self.system, "pin": self.plans.pin, "repetitions": self.repetitions}
        profiles = [repr(profile) for profile in self.plans.profiles]
        return {**own, "profiles": profiles, **self.spec.as_json()}

    def typical_plan(self) -> Plan:
        return self.plans.plan(self.spec.threads or self.spec.ladder.first)

    def execute(self, runs: Executor) -> None:
        for repetition in range(self.repetitions):
            done: list[RampLevel] = []
            for clients in [self.spec.threads] if self.spec.threads else levels(self.spec.ladder):
                done.append(self._level(runs, clients, repetition, done))
                self.ended.append(done[-1])
                done[-1].outcome.id_or_raise()
                rates = [one.op_rate for one in done]
                if len(rates) > 1 and rates[-2]:
                    gain = (rates[-1] - rates[-2]) / rates[-2]
                    self.out(f"Improvement over {done[-2].clients} threadCount: {gain:.0%}")
                if not continues(self.spec, rates):
                    break

    def _level(
        self, runs: Executor, clients: int, repetition: int, done: Sequence[RampLevel]
    ) -> RampLevel:
        before = done[-1].outcome if done else None
        # The first executed level warms up, also after levels of an earlier execution.
        warmup = self.spec.warmup if before is not None and before.carried is None else None
        plan = self.plans.plan(clients, first=not done, warmup=warmup)
        printer = output.LinePrinter(output.CountingRules.of(self.spec, plan), self.out)
        count = 1 if self.spec.threads else len(list(levels(self.spec.ladder)))

        def make() -> PreparedRun:
            if before is not None and before.carried and self.spec.command in _UPDATING:
                self.out(f"Sleeping for {_PAUSE_S:g}s")
                pause(_PAUSE_S)
            self.empty(self.plans.removals(first=not done))
            if self.spec.threads is None:
                self.out(f"Running with {clients} threadCount")
            self.out(_running(self.spec, clients))
            self.out(output.HEAD)
            return PreparedRun(plan, self.spec.as_json(), password=self.password)

        def keep(executed: ExecutedRun) -> Mapping[str, Any]:
            printer.catch_up(executed.folder.path)
            return {} if printer.last is None else {"last": document(printer.last)}

        outcome = runs.run(
            RunRequest(
                case=f"{clients} threads",
                repetition=repetition,
                title=f"{clients} threads",
                number=len(self.ended) + 1,
                total=self.repetitions * count,
                make=make,
                keep=keep,
                watch=lambda folder, _: printer.catch_up(folder.path),
            )
        )
        if outcome.carried is not None and outcome.failure is not None:
            printer.catch_up(outcome.carried.folder.path)
        if outcome.carried is None and outcome.failure is None:
            self.out(f"Judged before with {clients} threads: run {outcome.run}")
        return RampLevel(clients, outcome, printer.last or _line(outcome.kept.get("last")))


def _line(content: Mapping[str, Any] | None) -> output.Line | None:
    """A line from its JSON values, where null is NaN."""
    if content is None:
        return None
    values: dict[str, Any]
    values, collections = (
        {name: math.nan if value is None else value for name, value in one.items()}
        for one in (content, content["collections"])
    )
    return output.Line(**{**values, "collections": output.Collections(**collections)})


def _running(spec: StressSpec, clients: int) -> str:
    names = [name if spec.command == "user" else name.upper() for name in spec.shares]
    mix = f"[{', '.join(names)}]" if len(names) > 1 or spec.command == "user" else names[0]
    if spec.until is not None:
        length = f"until stderr of mean < {spec.until.bound:g}"
    elif spec.operations is not None:
        length = f"for {spec.operations} iteration"
    else:
        seconds = (spec.duration_ns or 0) // 10**9
        units = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
        size, unit = next(one for one in units if seconds % one[0] == 0)
        length = f"{seconds // size} {unit}"
    return f"Running {mix} with {clients} threads {length}"


def execute_stress(spec: StressSpec, options: StressOptions) -> None:
    """Executes a command line.

    Raises:
        KvmarkError: it can't be executed, a run failed or was interrupted, or operations failed.
    """
    pin = tuple(options.pin or ())
    check_pin(pin)
    files = {"-log: hdrfile= ": spec.log.hdr_file, "-graph: file= ": spec.log.graph_file}
    for name, path in files.items():
        if path is not None:
            check_output(path, name)
    if spec.log.file is not None:
        check_output(spec.log.file, "-log: file= ", page=False)
    system = _system(spec)
    profiles = tuple(map(load_profile, spec.profiles))
    runs = StressRuns(
        plans=StressPlans(spec, profiles, system.driver, system.options, pin),
        system=system.text,
        password=system.password,
        repetitions=options.repetitions,
        empty=partial(remove_tables, system, on_existing=options.on_existing),
    )
    _check_pending(spec, runs.typical_plan())
    with _output(spec, options) as runs.out:
        if spec.log.settings:
            runs.out(_settings_text(spec))
        options = replace(options, tags=(*options.tags, *spec.log.tags))
        journal = open_journal(runs, options)
        again = "kvmark stress --resume and the same words"
        with execute_design(runs, options, journal, again, shown=False) as problem:
            _report(runs, journal.records, options, problem)


def _system(spec: StressSpec) -> SystemUrl:
    target, options = spec.target, driver_options(spec)
    if target.url is None:
        if target.password is not None:
            options["password_env"] = PASSWORD_VARIABLE
        return SystemUrl("cql", options, f"cql://{target.address}", target.password)
    system = named_system(target.url)
    if system.driver not in ("cql", "null", "sim"):
        raise SpecError(f"-node: {target.url} doesn't speak CQL; name nodes of a CQL cluster")
    if system.driver != "cql":
        return system
    return replace(system, options={**options, **system.options})


def _check_pending(spec: StressSpec, plan: Plan) -> None:
    """Rejects a limit of requests in flight that would make clients wait for a connection."""
    pending, most = spec.target.max_pending, spec.threads or spec.ladder.last
    if pending is None or plan.system.driver != "cql":
        return
    if most > pending * spec.target.connections * len(spec.target.hosts):
        raise SpecError(
            f"-mode: maxPending={pending} on {spec.target.connections} connections leaves no"
            f" place for {most} threads; raise connectionsPerHost= or leave maxPending= out"
        )


@contextmanager
def _output(spec: StressSpec, options: StressOptions) -> Iterator[_Print]:
    """Prints to -log's file, or to standard output; with --json to standard error."""
    stream = sys.stdout if not options.json else None if options.quiet else sys.stderr
    log = nullcontext(stream) if spec.log.file is None else append_output(spec.log.file)
    with log as target:

        def out(text: str) -> None:
            if target is not None:
                print(writable(text, target.encoding), file=target, flush=True)

        yield out


def _settings_text(spec: StressSpec) -> str:
    lines = ["******************** Stress Settings ********************", "Command:"]
    groups: dict[str, Any] = spec.as_json()["stress"]
    lines += [
        _setting(name, value) for name, value in groups.items() if not isinstance(value, Mapping)
    ]
    for name, value in groups.items():
        if isinstance(value, Mapping):
            lines.append(f"{name.replace('_', ' ').title()}:")
            # A URL has the hosts and their port.
            out = {"hosts", "port"} if name == "target" and spec.target.url is not None else ()
            lines += [_setting(inner, one) for inner, one in value.items() if inner not in out]
    return "\n".join([*lines, ""])


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{inner}={one}" for inner, one in value.items() if one not in (0, None))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    shown = "*not set*" if value in (None, "") else value
    return f"  {name.replace('_', ' ').title()}: {shown}"


def _report(
    runs: StressRuns, records: Records, options: StressOptions, problem: KvmarkError | None
) -> None:
    """Prints the Results blocks, writes the files and raises the command's error, if any."""
    spec, out = runs.spec, runs.out
    ended = [level for level in runs.ended if level.outcome.run is not None]
    if not ended:
        raise problem or RunError("no level was executed")
    rules = output.CountingRules.of(spec, runs.plans.plan(ended[0].clients))
    judged = [close_and_judge(records, str(level.outcome.run)) for level in ended]
    results = []
    for run, _ in judged:
        results.append(output.StressRun(run.id, output.stress_results(run, rules)))
        _print_results(spec, run, results[-1].results, out)
    if spec.log.graph_file is not None:
        _write_graph(judged[-1], spec.log.graph_file, out)
    if spec.log.summary and spec.threads is None:
        rows = [(f"{one.clients} threadCount", one.last) for one in ended if one.last is not None]
        out(output.ramp_table(rows))
    if spec.log.hdr_file is not None:
        # Of a ramp, the file has the last level, as in cassandra-stress.
        _write_histograms(judged[-1].run, spec.log.hdr_file)
    if options.report is not None:
        write_report(report_maker([one.run for one in judged]), options.report)
        out(f"The report is in {options.report.resolve()}")
    errors = 0 if spec.ignores_errors else sum(one.results.total.errors for one in results)
    out("FAILURE" if errors or problem is not None else "END")
    if options.json:
        print_json("stress", {"runs": [asdict(one) for one in results]})
    if problem is not None:
        raise problem
    if errors:
        raise AnswerIsNo(
            f"{errors:,} operations failed; kvmark show {judged[-1].run.id} lists the errors, and"
            " -errors ignore exits with 0"
        )
    invalid = [one.run.id for one in judged if one.verdict.judgement is Judgement.INVALID]
    if options.strict and invalid:
        raise AnswerIsNo(f"run {invalid[0]} is INVALID; kvmark show {invalid[0]} lists the reasons")


def _print_results(spec: StressSpec, run: Run, results: output.StressResults, out: _Print) -> None:
    out(output.results_text(results))
    if spec.rate is not None:
        out(output.times_table(results))
    for notice in run.manifest.engine.notices:
        failed = notice.code == "operations_failed" and spec.log.level != "minimal"
        if failed or spec.log.level == "verbose":
            out(notice.message)


def _write_graph(judged: JudgedRun, path: Path, out: _Print) -> None:
    """Writes the report, and prints its charts."""
    width = terminal_width()
    answer = run_answer(judged.run, judged.verdict, page_runs=1, text_width=width)
    write_report(lambda page: page.run_page(answer), path)
    if charts := charts_text(answer, width):
        out(f"{charts.plain}\n")


def _write_histograms(run: Run, path: Path) -> None:
    """Writes the measured histograms with cassandra-stress's tags.

    Raises:
        RunError: the file can't be written.
    """
    own, warm_up = f"Tag={GROUP}.", f":{WARMING}"
    # Lines of an uncounted phase have its name and a colon before the group's.
    lines = (line for line in as_hlog(run).decode().splitlines() if warm_up not in line)
    text = "".join(line.replace(own, "Tag=", 1) + "\n" for line in lines)
    write_output(path, f"{HISTOGRAMS_BY_KVMARK}\n{text}", page=True)
