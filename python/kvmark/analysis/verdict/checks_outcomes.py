"""Checks of the outcomes of operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvmark.analysis.summary.faults import expected_errors
from kvmark.analysis.summary.run import looked_for
from kvmark.analysis.verdict.evidence import JudgedPhase, percent, reason
from kvmark.analysis.verdict.rules import RULES, Reason, Unit
from kvmark.stats import mix_test

# Chance gives a wrong mix once in a million runs.
_MIX_P_VALUE = 1e-6
_NOT_ERRORS = ("ok", "miss", "mismatch")
#: Classes of failures with their own reason.
_OWN_REASONS = {"timeout": "timeouts", "overloaded": "overloaded", "unavailable": "unavailable"}


def check_success(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Something must have succeeded in the window."""
    ok = sum(total.in_window for total in phase.whole() if total.outcome == "ok")
    yield reason(
        "nothing_measured",
        0 if ok else 1,
        f"no operation succeeded in the {phase.name} phase",
        {"operations_ok": ok, "operations": phase.count()},
        phase=phase.name,
    )


def check_errors(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Failures by class: those that planned faults explain, the others, and wrong values."""
    found = {
        total.outcome: phase.count(total.outcome)
        for total in phase.whole()
        if total.outcome not in _NOT_ERRORS
    }
    planned = expected_errors(phase.run, phase.record)
    expected = {name: min(count, planned.get(name, 0)) for name, count in found.items() if count}
    yield _failures(
        "errors_during_faults",
        phase,
        expected,
        sum(expected.values()),
        " of all, while a server was broken on purpose, or soon after it",
    )
    others = {name: count - expected.get(name, 0) for name, count in found.items()}
    failed = sum(others.values())
    for code in ("errors", *_OWN_REASONS.values()):
        own = {name: n for name, n in others.items() if _OWN_REASONS.get(name, "errors") == code}
        together = f"; with other classes {percent(failed / phase.count())}" if failed else ""
        yield _failures(code, phase, own, failed, together if sum(own.values()) < failed else "")
    all_ended = phase.count()
    # A value that isn't the last one written is a lost write in the verify phase.
    wrong = 0 if phase.name == "verify" else phase.count("mismatch")
    yield reason(
        "mismatches",
        wrong,
        f"{wrong} operations read a value that is not the one that was written",
        {"mismatches": wrong, "operations": all_ended},
        phase=phase.name,
    )


def _failures(
    code: str, phase: JudgedPhase, classes: Mapping[str, int], judged: int, more: str
) -> Reason | None:
    """A reason for failures of these classes, with a level by their number."""
    classes = {name: count for name, count in sorted(classes.items()) if count}
    failed, all_ended = sum(classes.values()), phase.count()
    if not failed:
        return None
    named = ", ".join(f"{count} {name}" for name, count in classes.items())
    return reason(
        code,
        judged / all_ended if RULES[code].unit is Unit.SHARE else judged,
        f"{failed} of {all_ended} operations failed ({named}), {percent(failed / all_ended)}{more}",
        {"failed": failed, "operations": all_ended, **classes},
        phase=phase.name,
    )


def check_misses(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Records that were looked for and not there: the rest of the hit ratio."""
    hits, misses = looked_for(phase.run, phase.whole())
    ended = hits + misses
    share = misses / ended if ended else 0.0
    yield reason(
        "misses",
        share,
        f"{misses} of {ended} operations that look for a record found none, {percent(share)}",
        {"misses": misses, "operations": ended},
        phase=phase.name,
    )


def check_lost_writes(phase: JudgedPhase) -> Iterator[Reason | None]:
    """In the verify phase each record must have the value written last."""
    missing, wrong = phase.count("miss"), phase.count("mismatch")
    sweep = phase.record.sweep
    incomplete, torn, resurrected = (
        (sweep.incomplete, sweep.torn, sweep.resurrected) if sweep else (0, 0, 0)
    )
    counts = {
        "missing": (missing, "were missing"),
        "incomplete": (incomplete, "lacked a field"),
        "torn": (torn, "held a torn value"),
        "stale": (wrong - incomplete - torn - resurrected, "held another value"),
        "resurrected": (resurrected, "were back after their removal"),
    }
    losses = ", ".join(f"{count} {what}" for count, what in counts.values() if count)
    yield reason(
        "lost_writes",
        missing + wrong,
        f"{missing + wrong} of {phase.count()} records that were read back had lost an acknowledged"
        f" write: {losses}",
        {**{name: count for name, (count, _) in counts.items()}, "records": phase.count()},
        phase=phase.name,
    )


def check_mix(phase: JudgedPhase) -> Iterator[Reason | None]:
    """Each group's operations against the plan's mix."""
    for group in phase.record.groups:
        planned = phase.planned(group.group).get("mix", ())
        weights = {phase.run.operation(entry): float(entry["weight"]) for entry in planned}
        counts: dict[str, int] = dict.fromkeys(weights, 0)
        first = _before_all_is_there(phase, planned)
        for total in phase.whole():
            if total.group == group.group:
                name = first.get(total.operation, total.operation)
                counts[name] = counts.get(name, 0) + total.count
        if not weights or not sum(counts.values()):
            continue
        test = mix_test(list(counts.values()), [weights.get(kind, 0.0) for kind in counts])
        if test.p_value < _MIX_P_VALUE:
            yield reason(
                "wrong_mix",
                test.deviation,
                f"the mix of group {group.group} is off by {percent(test.deviation)} of the"
                " operations",
                {"group": group.group, "p_value": test.p_value, **counts},
                phase=phase.name,
            )


def _before_all_is_there(
    phase: JudgedPhase, planned: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """The statement that writes once all records exist, and the one of the mix that it replaces."""
    statements = phase.run.manifest.plan.get("statements", ())
    mixed = {entry.get("statement") for entry in planned} - {None}
    becomes = {place: statements[place].get("when_full") for place in mixed}
    return {
        statements[then]["name"]: statements[place]["name"]
        for place, then in becomes.items()
        if then is not None and then not in mixed
    }
