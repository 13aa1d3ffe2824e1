"""Runs and sequences in sentences, and a run's facts and tables; nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kvmark.analysis import (
    FaultEffect,
    Judgement,
    Level,
    PhaseSummary,
    SequenceRow,
    Stretch,
    SweepSummary,
    Times,
)
from kvmark.analysis.compare.extremes import Extremes, extremes
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid
from kvmark.report.model.answers import Fact, RunAnswer, SequenceAnswer
from kvmark.report.views.imported import imported_facts, imported_grids, imported_sentence
from kvmark.report.views.plan_words import listed
from kvmark.report.views.sequence import SUCCESSFUL, operations_grid, verdict_counts

_QUANTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_NS_PER_S = 1e9
_FAULT_NOTE = (
    "A fault lasts until its server is back, the rate is 80 % of that before again, and no more"
    " arrivals wait than before."
)

_Case = TypeVar("_Case")
_MOST_NAMED: Final = 3


def run_grids(run: RunAnswer) -> tuple[Grid, ...]:
    """All tables of a run, in the order in which they are shown."""
    if run.imported is not None:
        return tuple(imported_grids(run.imported))
    phases = run.summary.phases
    grids = [operations_grid(phase, _title(phase, several=len(phases) > 1)) for phase in phases]
    if run.around_faults:
        grids.append(around_faults_grid(run.around_faults))
    return tuple(grids)


def around_faults_grid(stretches: Sequence[Stretch]) -> Grid:
    """The service before, during and after each fault, a row each."""
    unit = units.time_unit(each.response.shown_ns("p99") for each in stretches)
    return Grid(
        title="Around the faults",
        columns=(
            Column("stretch", number=False, key=True),
            Column("from, s"),
            Column("length, s"),
            Column("ops/s"),
            Column("failed, %"),
            *(Column(name, f"response time, {unit.name}") for name in _QUANTILES.values()),
            Column("max", f"response time, {unit.name}"),
        ),
        rows=tuple(_row(each, unit, stretches[0].start_ns) for each in stretches),
        notes=(
            "From counts from the begin of the measurement.",
            _FAULT_NOTE,
            "An interval that a fault touches is the fault's.",
            SUCCESSFUL,
        ),
    )


def _row(stretch: Stretch, unit: units.TimeUnit, begin_ns: int) -> tuple[Cell, ...]:
    completed = stretch.succeeded + stretch.failed
    failed = stretch.failed / completed * 100 if completed else None
    length_ns = stretch.end_ns - stretch.start_ns
    times = [stretch.response.shown_ns(name) for name in _QUANTILES]
    return (
        Cell(stretch.name),
        Cell(units.significant((stretch.start_ns - begin_ns) / _NS_PER_S)),
        Cell(units.significant(length_ns / _NS_PER_S)),
        Cell(units.significant(stretch.throughput), "strong"),
        Cell(units.significant(failed)),
        *(Cell(units.duration(time, unit)) for time in (*times, stretch.response.max_ns)),
    )


def _title(phase: PhaseSummary, *, several: bool) -> str:
    """A run with one counted phase needs no name for it."""
    return f"Operations of phase {phase.phase}, {phase.name}" if several else "Operations"


def sequence(answer: SequenceAnswer) -> str:
    """The fastest and the slowest case, and how many cases can be believed."""
    rows = answer.rows
    if not rows:
        return "Nothing was measured."
    found = extremes(rows, lambda row: row.figures.throughput, lambda row: row.figures.verdict)
    belief = beliefs(verdict_counts(row.figures.verdict for row in rows))
    return f"{ends_sentence(found, lambda row: row.case.title, _speed)} {belief}".lstrip()


def run(answer: RunAnswer) -> str:
    """Throughput, the response time of the most frequent operation, and the verdict."""
    if answer.imported is not None:
        return imported_sentence(answer.imported)
    told = [_phase(phase) for phase in answer.summary.phases]
    return " ".join([*told, _run_verdict(answer)])


def beliefs(counts: Mapping[Judgement, int], thing: str = "case") -> str:
    """How many cases, or runs, have which verdict."""
    total = sum(counts.values())
    present = {word.value: count for word, count in counts.items() if count}
    if len(present) == 1:
        word = next(iter(present))
        return f"The one {thing} is {word}." if total == 1 else f"All {total} {thing}s are {word}."
    named = [f"{count} {'is' if count == 1 else 'are'} {word}" for word, count in present.items()]
    return f"Of {total} {thing}s {listed(named)}."


def _phase(phase: PhaseSummary) -> str:
    speed = f"Throughput is {units.estimate(phase.throughput)} ops/s"
    whole = [row for row in phase.operations if not row.part and row.count]
    most = max(whole, key=lambda row: row.count, default=None)
    if most is None:
        return f"{speed}."
    shown = [(name, most.response.shown_ns(name)) for name in ("p50", "p99")]
    times = [f"{units.with_unit(ns)} at {name}" for name, ns in shown if ns is not None]
    if not times:
        return f"{speed}."
    return f"{speed}; the response time of {most.operation} is {listed(times)}."


def _run_verdict(answer: RunAnswer) -> str:
    word = answer.verdict.judgement.value
    count = sum(reason.level is not Level.NOTE for reason in answer.verdict.reasons)
    because = {0: "", 1: ", for one reason"}.get(count, f", for {count} reasons")
    return f"The run is {word}{because}."


def _speed(row: SequenceRow) -> str:
    return f"{units.estimate(row.figures.throughput)} ops/s"


def ends_sentence(
    found: Extremes[_Case], named: Callable[[_Case], str], speed: Callable[[_Case], str]
) -> str:
    """What may be said of the ends; empty where there is no case."""
    told = _placed(found, named, speed)
    left = len(found.left_out)
    if not left:
        return told
    if left == 1 and not found.placed:
        (only,) = found.left_out
        return f"Throughput of {named(only)} is {speed(only)}."
    if not found.placed:
        return "No case is the fastest: none is VALID and known precisely enough to say so."
    cases = "One case isn't" if left == 1 else f"{left} cases aren't"
    return f"{told} {cases} VALID and precise, and in no comparison."


def _placed(
    found: Extremes[_Case], named: Callable[[_Case], str], speed: Callable[[_Case], str]
) -> str:
    def at(case: _Case) -> str:
        return f"{named(case)}, at {speed(case)}"

    if not found.placed:
        return ""
    fastest, slowest = found.fastest[0], found.slowest[0]
    if found.placed == 1:
        return f"Throughput of {named(fastest)} is {speed(fastest)}."
    if not found.apart:
        return (
            f"No case is the fastest: the intervals of the highest throughput, {at(fastest)}, and"
            f" of the lowest, {at(slowest)}, overlap."
        )
    fast, slow = (_end(group, named, at) for group in (found.fastest, found.slowest))
    case = " case" if len(found.fastest) == 1 else ""
    return f"The fastest{case} {fast}; the slowest {slow}."


def _end(cases: Sequence[_Case], named: Callable[[_Case], str], at: Callable[[_Case], str]) -> str:
    """One case, or a group with the one that leads it."""
    first, *others = cases
    if not others:
        return f"is {at(first)}"
    names = [named(case) for case in others[:_MOST_NAMED]]
    more = len(others) - len(names)
    if more:
        names.append(f"{more} more")
    return f"are {at(first)}, with {listed(names)}, whose intervals overlap its own"


def run_facts(run: RunAnswer) -> tuple[Fact, ...]:
    """What a run's counted phases came to."""
    facts = []
    if run.summary.warm_up_ms is not None:
        facts.append(Fact("Warm-up", units.with_unit(run.summary.warm_up_ms * 1e6)))
    facts += [fact for phase in run.summary.phases for fact in _phase_facts(phase)]
    facts += [Fact("Fault", _fault(effect)) for effect in run.summary.faults]
    if run.summary.sweep is not None:
        facts += _sweep_facts(run.summary.sweep)
    if run.imported is not None:
        facts += imported_facts(run.imported)
    return tuple(facts)


def _phase_facts(phase: PhaseSummary) -> list[Fact]:
    facts = [
        Fact("Throughput", f"{units.estimate(phase.throughput)} ops/s"),
        Fact("Runtime", units.with_unit(phase.runtime_ms * 1e6)),
    ]
    if phase.rows is not None:
        facts.append(Fact("Records", f"{units.whole(phase.rows)} read or written"))
    if phase.hit_ratio is not None:
        facts.append(Fact("Hit ratio", f"{units.significant(phase.hit_ratio * 100, 4)} %"))
    if phase.errors:
        told = ", ".join(f"{units.whole(count)} {name}" for name, count in phase.errors.items())
        facts.append(Fact("Errors", told))
    if phase.generator_lag is not None and phase.generator_lag.count:
        facts.append(Fact("Generator lag", _lag(phase.generator_lag)))
    if phase.cpu_ns_per_operation is not None:
        cost = f"{units.with_unit(phase.cpu_ns_per_operation)} per operation"
        facts.append(Fact("Processor", cost))
    if phase.max_resident_bytes is not None:
        facts.append(Fact("Peak memory", units.size(phase.max_resident_bytes)))
    return facts


def _lag(lag: Times) -> str:
    """From arrivals to stamps; quantiles as far as there are reads enough."""
    known = {name: lag.shown_ns(name) for name in ("p50", "p99")}
    told = [f"{name} {units.with_unit(ns)}" for name, ns in known.items() if ns is not None]
    return ", ".join([*told, f"{units.whole(lag.count)} reads sampled"])


def _fault(effect: FaultEffect) -> str:
    """What was broken, how long nothing succeeded, when the rate was as before, and what failed."""
    without = units.with_unit(effect.without_service_ns)
    told = [f"no service for {without}" if effect.without_service_ns else "always some service"]
    if effect.recovery_ns is not None:
        after = units.with_unit(effect.recovery_ns)
        told.append(
            f"80 % of the rate before again after {after}"
            if effect.recovery_ns
            else "the rate never below 80 % of that before"
        )
    told += [f"{units.whole(count)} {name}" for name, count in effect.errors.items()]
    return f"{effect.text}: {', '.join(told)}"


def _sweep_facts(sweep: SweepSummary) -> list[Fact]:
    counts = (
        (sweep.intact, "intact"),
        (sweep.missing, "missing though acknowledged"),
        (sweep.incomplete, "without an acknowledged field"),
        (sweep.torn, "with a torn value"),
        (sweep.stale, "with another value than acknowledged"),
        (sweep.resurrected, "back after an acknowledged removal"),
        (sweep.unread, "could not be read"),
    )
    told = ", ".join(f"{units.whole(count)} {what}" for count, what in counts if count)
    whole = f"{units.whole(sweep.records)} records written"
    if sweep.records < sweep.written:
        whole = (
            f"{units.whole(sweep.records)} of about {units.whole(sweep.written)} records written"
        )
    facts = [Fact("Read back", f"{whole}: {told or 'none'}")]
    if sweep.unacknowledged:
        text = f"{units.whole(sweep.unacknowledged)} records hold a write that nobody acknowledged"
        facts.append(Fact("Uncertain", text))
    limits = "a store that outlives a killed process may still lose writes when power is cut"
    return [*facts, Fact("What it shows", limits)]
