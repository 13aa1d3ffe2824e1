"""Whether a run may be used: VALID, SUSPECT or INVALID, with typed reasons.

A verdict is computed from the records alone and can be computed again at any time. It is kept
beside the run's folder, never in it, so that a closed run stays as it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvmark.analysis.summary.imported import imported_rows
from kvmark.analysis.summary.metrics import rate_of
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict import checks_audit, checks_operations, checks_run, checks_servers
from kvmark.analysis.verdict.rules import RULES, JudgedPhase, Level, Reason
from kvmark.errors import RecordsError, RunError
from kvmark.records import Entry, Judgement, Records, Run, RunLine
from kvmark.records.store import keep_verdict, kept_verdict

# Phases whose operations must succeed although they are not counted: others depend on them.
_MUST_SUCCEED = ("load", "measure", "verify")
# A p99 of fewer operations is their maximum.
_LEAST_OF_P99 = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a run and its reasons, the most serious first."""

    judgement: Judgement
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, reasons: Iterable[Reason]) -> Verdict:
        """The verdict that follows from reasons."""
        order = (Level.INVALID, Level.SUSPECT, Level.NOTE)
        ordered = tuple(sorted(reasons, key=lambda reason: order.index(reason.level)))
        worst = ordered[0].level if ordered else Level.NOTE
        return cls(Judgement.VALID if worst is Level.NOTE else Judgement(worst.value), ordered)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Verdict:
        """The verdict that these JSON values were made of."""
        reasons = (Reason(**{**one, "level": Level(one["level"])}) for one in values["reasons"])
        return cls(Judgement(values["judgement"]), tuple(reasons))

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {
            "judgement": self.judgement.value,
            "reasons": [{**asdict(one), "level": one.level.value} for one in self.reasons],
        }


Judge = Callable[[Run], Verdict]
"""Gives the verdict on a run."""


def judge(run: Run) -> Verdict:
    """The verdict on a run: a function of its folder, independent of other runs.

    An imported run isn't judged: it is SUSPECT for that one reason, unless a tap saw its load.

    Raises:
        RecordsError: the run's files can't be read.
    """
    return Verdict.of(_advised(reason, run) for reason in _reasons(run) if reason is not None)


def _advised(reason: Reason, run: Run) -> Reason:
    """The reason with advice that the run hasn't followed already, and that it can follow."""
    rule, spec = RULES[reason.code], run.manifest.spec
    of_replay = rule.advice_of_replay if spec.get("replay") else None
    pinned = rule.advice_pinned if spec.get("pin") else None
    return replace(reason, advice=of_replay or pinned or reason.advice)


def _reasons(run: Run) -> Iterator[Reason | None]:
    imported = run.manifest.imported
    if imported is not None:
        if imported.audit is None:
            yield checks_run.imported(imported)
        else:
            yield from checks_audit.check_audit(imported.audit)
        return
    yield from checks_run.check_ending(run)
    yield from checks_operations.check_fleet(run)
    yield from checks_run.check_machine(run)
    yield from checks_run.check_warm_up(run)
    yield from checks_run.check_server_warm_up(run)
    yield from checks_run.check_notices(run)
    yield from checks_servers.check_faults(run)
    for record in run.counted:
        yield from checks_operations.check_gone(JudgedPhase(run, record))
    for record in run.manifest.engine.phases:
        if record.name in _MUST_SUCCEED:
            yield from checks_operations.check_errors(JudgedPhase(run, record))
        if record.name == "verify":
            yield from checks_operations.check_lost_writes(JudgedPhase(run, record))
    for record in run.counted:
        phase = JudgedPhase(run, record)
        yield from checks_operations.check_success(phase)
        yield from checks_operations.check_misses(phase)
        yield from checks_operations.check_mix(phase)
        yield from checks_operations.check_rate(phase)
        yield from checks_operations.check_lateness(phase)
        yield from checks_operations.check_generator(phase)
        yield from checks_operations.check_lag(phase)
        yield from checks_operations.check_read_late(phase)
        yield from checks_operations.check_waiting(phase)
        yield from checks_servers.check_servers(phase)
        yield from checks_run.check_resolution(phase)
        yield from checks_run.check_stationary(phase)
        yield from checks_run.check_hit_ratio(phase)
        yield from checks_run.check_samples(phase)
        yield from checks_run.check_precision(phase)


def known_verdict(records: Records, run: Run) -> Verdict:
    """The verdict kept beside the run where judging it now would give the same, or else a new one.

    Raises:
        RecordsError: the run's files can't be read.
    """
    kept = kept_verdict(records, run.id)
    return judge(run) if kept is None else Verdict.of_json(kept)


def known_line(records: Records, line: RunLine, *, keep: bool) -> RunLine:
    """A run in a list, with figures and judgement where it is closed.

    What isn't kept beside the run is made now, and with ``keep`` kept where the folder takes it. A
    closed run that can't be read is broken, with the problem.
    """
    if line.entry.state != "closed" or line.judgement is not None:
        return line
    try:
        run = Run.open(line.entry.path).with_histogram_cache()
        verdict = judge(run)
        made = _line(line.entry, run, verdict)
    except RecordsError as problem:
        return RunLine(replace(line.entry, state="broken", problem=str(problem)))
    if keep:
        # A list can be read where nothing can be written.
        with suppress(RunError):
            keep_verdict(records, made, verdict.to_json())
    return made


def save_verdict(records: Records, run: Run, verdict: Verdict) -> None:
    """Keeps the verdict beside the run's folder, replacing an earlier one.

    Raises:
        RecordsError: the run's files can't be read.
        RunError: the file can't be written.
    """
    line = _line(records.line(run.id).entry, run, verdict)
    keep_verdict(records, line, verdict.to_json())


def _line(entry: Entry, run: Run, verdict: Verdict) -> RunLine:
    """The first phase's throughput, and the longest p99 of any operation; those of an import."""
    phases, imported = summarize(run).phases, run.manifest.imported
    rows = imported_rows(imported) if imported else ()
    rates = [one.throughput.value for one in phases[:1]]
    if imported is not None:
        stated = [row.throughput for row in rows if row.operation is None]
        rates = list(filter(None, stated)) or list(filter(None, [rate_of(run)]))
    p99s_ns: list[tuple[str, float | None]] = [
        (time, times.shown_ns("p99"))
        for phase in phases
        for one in phase.operations
        for time, times in (("response", one.response), ("service", one.service))
        if not one.part
    ]
    p99s_ns += [
        (time, times_ns.get("p99"))
        for row in rows
        for time, times_ns in row.times_ns.items()
        if (row.operations or _LEAST_OF_P99) >= _LEAST_OF_P99
    ]

    def longest(time: str) -> int | None:
        return max((round(ns) for one, ns in p99s_ns if one == time and ns), default=None)

    return RunLine(
        entry,
        throughput=max(rates, default=None),
        response_ns_p99=longest("response"),
        judgement=verdict.judgement,
        least_throughput=min(rates, default=None) if imported else None,
        service_ns_p99=longest("service"),
    )
