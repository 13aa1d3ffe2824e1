"""What a run's counted phases came to, as labelled facts."""

from __future__ import annotations

from kvmark.analysis import FaultEffect, PhaseSummary, SweepSummary, Times
from kvmark.report.format import units
from kvmark.report.model.answers import Fact, RunAnswer
from kvmark.report.views.imported import imported_facts


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
