"""Checks of another tool's load, as a tap saw it."""

from __future__ import annotations

from collections.abc import Iterator

from kvmark.analysis.verdict.rules import RULES, Reason, percent, reason
from kvmark.records.audit import AuditRecord
from kvmark.stats import LEAST_INTERVALS

_MS = 1e6


def check_audit(audit: AuditRecord) -> Iterator[Reason | None]:
    """All reasons that an audit can give."""
    yield from _check_end(audit)
    yield from _check_answers(audit)
    yield from _check_keys(audit)
    yield from _check_sending(audit)
    yield from _check_times(audit)


def _check_end(audit: AuditRecord) -> Iterator[Reason | None]:
    yield reason("interrupted", int(audit.interrupted), "the command was ended by the user", {})
    failed = audit.exit_code != 0 and not audit.interrupted
    code = {"exit_code": audit.exit_code}
    yield reason("command_failed", int(failed), f"the command ended with {audit.exit_code}", code)
    missing, few = LEAST_INTERVALS - audit.intervals, f"{audit.intervals} of the {LEAST_INTERVALS}"
    what = f"the load has {few} full intervals that show whether its rate is steady"
    yield reason("too_short", missing, what, {"intervals": audit.intervals})


def _check_answers(audit: AuditRecord) -> Iterator[Reason | None]:
    sent = audit.sent
    ended = sent.operations - sent.unanswered
    failed = sent.failed / max(1, ended)
    what = f"{sent.failed} of {ended} operations failed, {percent(failed)}"
    yield reason("errors", failed, what, {"failed": sent.failed, "operations": ended})
    missed = sent.missed / max(1, sent.looked)
    what = f"{percent(missed)} of its reads missed"
    yield reason("misses", missed, what, {"missed": sent.missed, "looked_for": sent.looked})


def _check_keys(audit: AuditRecord) -> Iterator[Reason | None]:
    sent, announced = audit.sent, audit.announced.records
    top = sent.top_share
    what = f"{percent(top)} of its operations are on one key of {sent.keys:,.0f}"
    yield reason("one_hot_key", top, what, {"top_share": top, "keys": sent.keys})
    if sent.population is not None and announced is not None:
        missing = 1 - sent.population / announced
        what = f"it uses {sent.population:,.0f} keys and announces {announced:,}"
        evidence = {"population": sent.population, "announced": announced}
        yield reason("fewer_keys", missing, what, evidence)


def _check_sending(audit: AuditRecord) -> Iterator[Reason | None]:
    connections, pace, threads = audit.connections, audit.pace, audit.threads
    idle = round(connections.unused_share * connections.expected)
    yield reason(
        "unused_connections",
        connections.unused_share,
        f"{idle} of its {connections.expected} connections sent next to nothing",
        {"unused": idle, "connections": connections.expected},
    )
    announced = audit.announced.rate
    if announced is not None and not audit.interrupted:
        off = abs(audit.sent.rate / announced - 1)
        what = f"it sent {audit.sent.rate:,.0f} ops/s and announces {announced:,.0f}"
        evidence = {"rate": audit.sent.rate, "announced": announced}
        yield reason("wrong_pace", off, what, evidence)
    if threads is not None:
        share = threads.busiest_share
        what = f"its busiest thread used {percent(share)} of a core"
        yield reason("generator_saturated", share, what, {"busy_share": share})
    pauses = "a pause" if pace.pauses == 1 else f"{pace.pauses} pauses"
    yield reason(
        "generator_pause",
        pace.paused_share,
        f"it sent nothing in {pauses} of up to {pace.longest_pause_ns / _MS:,.0f} ms, though"
        f" nothing was outstanding, {percent(pace.paused_share)} of the time",
        {"pauses": pace.pauses, "longest_ns": pace.longest_pause_ns},
    )


def _check_times(audit: AuditRecord) -> Iterator[Reason | None]:
    """Lateness, stalls and drift; a pause explains all of them, and a stall a drift."""
    pace, omission, moved = audit.pace, audit.omission, audit.drift
    paused = RULES["generator_pause"].level(pace.paused_share) is not None
    if pace.late_share is not None and not paused:
        what = f"{percent(pace.late_share)} of its requests were later than its own pace"
        evidence = {"late_share": pace.late_share, "late_ns_p99": pace.late_ns_p99 or 0.0}
        yield reason("schedule_late", pace.late_share, what, evidence)
    stalled = None
    if omission is not None:
        stalled = reason(
            "coordinated_omission",
            omission.stalled_share,
            f"its connections waited up to {omission.longest_ns / _MS:,.0f} ms for an answer and"
            f" left out {percent(omission.stalled_share)} of an open load's requests: its p99 of"
            f" {omission.service_ns_p99 / _MS:,.3g} ms would be"
            f" {omission.corrected_ns_p99 / _MS:,.3g} ms",
            {
                "service_ns_p99": omission.service_ns_p99,
                "corrected_ns_p99": omission.corrected_ns_p99,
            },
        )
        yield stalled
    if moved is not None and not paused and stalled is None:
        rose = "rose" if moved.change > 0 else "fell"
        what = f"the rate of {moved.command} {rose} by {percent(abs(moved.change))}"
        evidence = {"change": moved.change, "p_value": moved.p_value, "intervals": moved.intervals}
        yield reason("not_stationary", abs(moved.change), what, evidence)
