"""Checks of what the operations answered."""

from __future__ import annotations

from collections.abc import Iterator

from kvmark.analysis.evidence import Phase, percent, reason
from kvmark.analysis.reasons import Reason
from kvmark.stats import mix_test

# Chance gives a wrong mix once in a million runs.
_MIX_P_VALUE = 1e-6
_CAN_MISS = ("READ", "UPDATE", "READ-MODIFY-WRITE")
_NOT_ERRORS = ("ok", "miss", "mismatch")


def check_success(phase: Phase) -> Iterator[Reason | None]:
    """Something must have succeeded in the window."""
    ok = sum(total.in_window for total in phase.whole() if total.outcome == "ok")
    yield reason(
        "nothing_measured",
        0 if ok else 1,
        f"no operation succeeded in the {phase.name} phase",
        {"operations_ok": ok, "operations": phase.count()},
        phase=phase.name,
    )


def check_errors(phase: Phase) -> Iterator[Reason | None]:
    """Failures by class, and wrong values apart from them."""
    classes = {
        total.outcome: phase.count(total.outcome)
        for total in phase.whole()
        if total.outcome not in _NOT_ERRORS
    }
    failed, all_ended = sum(classes.values()), phase.count()
    if failed:
        share = failed / all_ended
        named = ", ".join(f"{count} {name}" for name, count in sorted(classes.items()))
        yield reason(
            "errors",
            share,
            f"{failed} of {all_ended} operations failed ({named}), {percent(share)}",
            {"failed": failed, "operations": all_ended, **classes},
            phase=phase.name,
        )
    wrong = phase.count("mismatch")
    yield reason(
        "mismatches",
        wrong,
        f"{wrong} operations read a value that is not the one that was written",
        {"mismatches": wrong, "operations": all_ended},
        phase=phase.name,
    )


def check_misses(phase: Phase) -> Iterator[Reason | None]:
    """Records that were looked for and not there. Deletes and inserts don't look for one."""
    looked = [total for total in phase.whole() if total.operation in _CAN_MISS]
    misses = sum(total.count for total in looked if total.outcome == "miss")
    ended = sum(total.count for total in looked if total.outcome in ("ok", "miss"))
    share = misses / ended if ended else 0.0
    yield reason(
        "misses",
        share,
        f"{misses} of {ended} reads and updates found no record, {percent(share)}",
        {"misses": misses, "operations": ended},
        phase=phase.name,
    )


def check_lost_writes(phase: Phase) -> Iterator[Reason | None]:
    """In the verify phase each record must be there."""
    lost = phase.count("miss")
    yield reason(
        "lost_writes",
        lost,
        f"{lost} of {phase.count()} acknowledged records were missing afterwards",
        {"lost": lost, "records": phase.count()},
        phase=phase.name,
    )


def check_mix(phase: Phase) -> Iterator[Reason | None]:
    """Each group's operations against the plan's mix."""
    for group in phase.record.groups:
        planned = phase.planned(group.group).get("mix", ())
        weights = {
            str(entry["kind"]).replace("_", "-").upper(): float(entry["weight"])
            for entry in planned
        }
        counts: dict[str, int] = dict.fromkeys(weights, 0)
        for total in phase.whole():
            if total.group == group.group:
                counts[total.operation] = counts.get(total.operation, 0) + total.count
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
