"""Carries out a command line of cassandra-stress and prints what it would print."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

from kvmark.cli.command_line import command_line
from kvmark.cli.commands.stress_output import ladder_text, log_histograms, results_of, settings_text
from kvmark.cli.session import AskedFleet, session
from kvmark.cli.system import named_system
from kvmark.errors import AnswerIsNo, RunError, SpecError
from kvmark.experiment.designs.ladder.levels import PAUSE_S, goes_on, levels, target_uncertainty
from kvmark.experiment.designs.ladder.lines import Line, LineMaker, LogTail
from kvmark.plan.model import Plan
from kvmark.plan.stress import StressPlans, driver_options
from kvmark.records import Records, RunFolder
from kvmark.report.format.bars import writable
from kvmark.report.views.cassandra_stress import HEAD, line_text
from kvmark.run.execution import Carried, carry_out
from kvmark.run.setting import Setting
from kvmark.secret import Secret
from kvmark.spec.stress.command import StressSpec
from kvmark.spec.stress.profile import load_profile
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl

__all__ = ["Wanted", "carry_out_stress"]

_UPDATING: Final = ("write", "counter_write", "mixed", "user")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kvmark's own options ask for."""

    pin: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    strict: bool = False
    json: bool = False
    quiet: bool = False
    pause_s: float = PAUSE_S
    commit: str | None = None
    fleet: AskedFleet | None = None
    prometheus: int | None = None


@dataclass(frozen=True, slots=True)
class _Where:
    """What all runs of a command line have in common."""

    setting: Setting
    password: Secret | None


@dataclass(frozen=True, slots=True)
class _Level:
    """A run with one number of clients that has ended."""

    clients: int
    carried: Carried
    lines: tuple[Line, ...]

    @property
    def op_rate(self) -> float:
        """Operations a second over the whole run."""
        last = self.lines[-1] if self.lines else None
        return last.operations / last.time_s if last and last.time_s else 0.0


def carry_out_stress(spec: StressSpec, wanted: Wanted, records: Records) -> None:
    """Carries out a command line.

    Raises:
        KvmarkError: it can't be carried out, a run failed or was interrupted, or operations failed.
    """
    system = _system(spec)
    profiles = tuple(map(load_profile, spec.profiles))
    plans = StressPlans(spec, profiles, system.driver, system.options)
    first = plans.plan(spec.threads or spec.ladder.first)
    _check_pending(spec, first)
    # What gives JSON on standard output tells people on standard error, or nobody.
    told = None if wanted.quiet else sys.stderr
    with _output(spec, told if wanted.json else sys.stdout) as out:
        if spec.log.settings:
            out(settings_text(spec))
        tags = (*wanted.tags, *spec.log.tags)
        with session(
            command_line(), records, _pinned(first, wanted), tags, wanted.commit,
            fleet=wanted.fleet, prometheus=wanted.prometheus, quiet=wanted.quiet,
        ) as setting:  # fmt: skip
            where = _Where(setting, system.password)
            ended = list(_climb(spec, plans, where, wanted, out))
        _answer(spec, plans, ended, records, wanted, out)


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
    """Where lines go: a stream or nowhere, or the file of -log."""
    with ExitStack() as stack:
        if spec.log.file is not None:
            try:
                stream = stack.enter_context(spec.log.file.open("w", encoding="utf-8"))
            except OSError as problem:
                reason = problem.strerror
                raise RunError(f"{spec.log.file} can't be written because {reason}") from problem

        def out(text: str) -> None:
            if stream is not None:
                print(writable(text, stream.encoding), file=stream, flush=True)

        yield out


def _climb(
    spec: StressSpec,
    plans: StressPlans,
    where: _Where,
    wanted: Wanted,
    out: Callable[[str], None],
) -> Iterator[_Level]:
    """Carries out one number of clients, or a ladder of them."""
    if spec.threads is not None:
        out(_running(spec, spec.threads))
        yield _level(plans, spec.threads, where, wanted, out, first=True)
        return
    rates: list[float] = []
    before = 0
    for clients in levels(spec.ladder):
        if rates and spec.command in _UPDATING:
            out(f"Sleeping for {wanted.pause_s:g}s")
            time.sleep(wanted.pause_s)
        out(f"Running with {clients} threadCount")
        out(_running(spec, clients))
        level = _level(plans, clients, where, wanted, out, first=not rates)
        yield level
        rates.append(level.op_rate)
        if len(rates) > 1 and rates[-2]:
            gain = (rates[-1] - rates[-2]) / rates[-2]
            out(f"Improvement over {before} threadCount: {gain:.0%}")
        before = clients
        failed = level.carried.failure is not None
        if failed or not goes_on(spec.ladder, rates, target_uncertainty(spec)):
            return


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


def _level(
    plans: StressPlans,
    clients: int,
    where: _Where,
    wanted: Wanted,
    out: Callable[[str], None],
    *,
    first: bool,
) -> _Level:
    """One run, whose lines are printed as its intervals end."""
    spec = plans.spec
    plan = _pinned(plans.plan(clients, first=first), wanted)
    out(HEAD)
    printer = _Printer(_maker(spec, plan), out)

    def progress(folder: RunFolder, _: Mapping[str, Any]) -> None:
        printer.catch_up(folder.path)

    carried = carry_out(plan, spec.as_json(), where.setting, progress, password=where.password)
    printer.catch_up(carried.folder.path)
    return _Level(clients, carried, tuple(printer.totals))


class _Printer:
    """Prints the intervals of a run's log that weren't printed yet."""

    def __init__(self, maker: LineMaker, out: Callable[[str], None]) -> None:
        self.totals: list[Line] = []
        self._maker = maker
        self._out = out
        self._tail: LogTail | None = None

    def catch_up(self, folder: Path) -> None:
        """Prints what has ended since."""
        if self._tail is None:
            self._tail = LogTail(folder)
        intervals = list(self._tail.intervals())
        if not intervals and not self.totals:
            # What is collected during the warm-up belongs to no line.
            self._tail.collections()
        for rows in intervals:
            lines, self._maker = self._maker.take(rows, self._tail.collections())
            for line in lines:
                self._out(line_text(line))
            self.totals += lines[-1:]


def _maker(spec: StressSpec, plan: Plan) -> LineMaker:
    sort = "response" if spec.rate is not None else "service"
    return LineMaker(sort, partitions_of(plan), checked_of(spec, plan))  # type: ignore[arg-type]


def partitions_of(plan: Plan) -> Mapping[str, int]:
    """Partitions in one operation, by the operation's name."""
    return {one.name: getattr(one.commands, "size", 1) for one in plan.statements}


def checked_of(spec: StressSpec, plan: Plan) -> frozenset[str]:
    """Operations that a record must be there for: those that read the predefined tables."""
    if spec.command == "user" or not spec.checks_reads:
        return frozenset()
    return frozenset(one.name for one in plan.statements if one.name.endswith("READ"))


def _pinned(plan: Plan, wanted: Wanted) -> Plan:
    return plan.model_copy(update={"pin": wanted.pin}) if wanted.pin else plan


def _answer(
    spec: StressSpec,
    plans: StressPlans,
    ended: Sequence[_Level],
    records: Records,
    wanted: Wanted,
    out: Callable[[str], None],
) -> None:
    """The Results blocks, the files that were asked for, and how it ended."""
    plan = plans.plan(ended[0].clients)
    shown = "response" if spec.rate is not None else "service"
    answer = results_of(
        spec,
        [level.carried for level in ended],
        records,
        (shown, partitions_of(plan), checked_of(spec, plan)),
        out,
    )
    if spec.log.summary and spec.threads is None:
        named = [
            (f"{level.clients} threadCount", level.lines[-1]) for level in ended if level.lines
        ]
        out(ladder_text(named))
    if spec.log.hdr_file is not None:
        # Each level of a ladder begins the file anew.
        log_histograms(answer.runs[-1], spec.log.hdr_file)
    failed = answer.errors and not spec.ignores_errors
    failure = next((level.carried.failure for level in ended if level.carried.failure), None)
    out("FAILURE" if failed or failure is not None else "END")
    if wanted.json:
        answer.print_json()
    if failure is not None:
        raise failure
    if failed:
        raise AnswerIsNo(
            f"{answer.errors:,} operations failed; run {answer.runs[-1].id} says how, and -errors"
            " ignore ends as if none had"
        )
    if wanted.strict and answer.invalid:
        raise AnswerIsNo(f"run {answer.invalid} is INVALID; kvmark show {answer.invalid} says why")
