"""An audit: its headline, the observed load, and the tool's figures beside the tap's."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level
from kvmark.records.audit import AuditRecord, ComparedFigures, OmissionRecord, SentLoad
from kvmark.report.model import units
from kvmark.report.model.page import Fact
from kvmark.report.model.tables import Grid, Table

_Figure: TypeAlias = Callable[[ComparedFigures], float | None]
_THRESHOLD: Final = re.compile(r" \([^()]*\)\.$|\.$")
_MODELS: Final = {
    "closed": "closed loop", "paced": "paced, one request at a time", "open": "open loop",
}  # fmt: skip
_MOST_COMMANDS: Final = 4
_RARE: Final = 0.001
_MOST_ROWS: Final = 8
_NOTE: Final = (
    "Times are service times. The tap's are those of the server, without the network and the"
    " client in front of it."
)


def audit_headline(audit: AuditRecord, verdict: Verdict) -> str:
    """The tool's rate, the verdict and its first reason, in a sentence."""
    rate = audit.figures[0].own_rate or audit.sent.rate
    text = f"{audit.tool}'s {units.whole(round(rate))} ops/s is {verdict.judgement.value}"
    serious = [one for one in verdict.reasons if one.level is not Level.NOTE]
    if not serious:
        return f"{text}."
    why = _THRESHOLD.sub("", serious[0].sentence)
    return f"{text}: {why[0].lower()}{why[1:]}."


def audit_facts(audit: AuditRecord) -> Iterator[Fact]:
    """The observed load."""
    yield Fact("Load", _load(audit))
    yield Fact("Sent", _sent(audit.sent))
    if audit.sent.keys:
        yield Fact("Keys", _keys(audit.sent))
    yield Fact("Answers", _answers(audit.sent))
    if audit.omission is not None:
        yield Fact("Left out", _left_out(audit.omission))
    if audit.threads is not None:
        used = audit.threads
        yield Fact(
            "Processor",
            f"{units.significant(used.cores)} cores by {_count(used.threads, 'thread')}, the"
            f" busiest {units.percent(used.busiest_share)} of one",
        )
    if audit.tap is not None:
        times = (units.with_unit(one) for one in (audit.tap.added_ns, audit.tap.direct_ns))
        text = "adds {} to a round trip of {}, medians of one connection before the load"
        yield Fact("Tap", text.format(*times))
    if audit.counterpart:
        yield Fact("Same load", shlex.join(audit.counterpart))


def _load(audit: AuditRecord) -> str:
    connections, pace = audit.connections, audit.pace
    model, where = _MODELS[pace.model], _count(connections.at_once, "connection")
    if connections.clients is not None:
        model = model.partition(",")[0]
        where = f"up to {_count(connections.clients, 'request')} at once on {where}"
    parts = [model, where]
    if connections.pipeline > 1:
        parts.append(f"{connections.pipeline} requests at once")
    if pace.interval_ns is not None:
        parts.append(f"a request every {units.with_unit(pace.interval_ns)}")
        late = units.with_unit(pace.late_ns_p99)
        parts.append(f"{units.percent(pace.late_share or 0.0)} late, p99 {late}")
    elif pace.model != "closed":
        parts.append("no steady interval")
    if pace.busy_share is not None:
        parts.append(f"waiting {units.percent(pace.busy_share)} of the time")
    return ", ".join(parts)


def _left_out(omission: OmissionRecord) -> str:
    """Times as measured, and with the requests that an open load would have sent."""
    corrected = (omission.corrected_ns_p50, omission.corrected_ns_p99)
    measured = (omission.service_ns_p50, omission.service_ns_p99)
    (p50, p99), (corrected_p50, corrected_p99) = (
        map(units.with_unit, times) for times in (measured, corrected)
    )
    return (
        f"service p50 {p50}, p99 {p99}; with an open load's requests {corrected_p50} and"
        f" {corrected_p99} (HdrHistogram's correction: each connection keeps its interval, and the"
        " server isn't slower for it)"
    )


def _sent(sent: SentLoad) -> str:
    shares = [f"{name} {units.percent(share)}" for name, share in sent.mix.items() if share > _RARE]
    if more := len(sent.mix) - len(shares[:_MOST_COMMANDS]):
        shares[_MOST_COMMANDS:] = [_count(more, "other")]
    return (
        f"{units.whole(sent.operations)} operations in {units.span(sent.span_ns / 1e9)},"
        f" {units.whole(round(sent.rate))} ops/s: {', '.join(shares)}"
    )


def _keys(sent: SentLoad) -> str:
    parts = [units.whole(round(sent.keys)), sent.key_law]
    if sent.population is not None and round(sent.population) > sent.keys:
        parts.append(f"from about {units.whole(round(sent.population))}")
    parts.append(f"{units.percent(sent.top_share)} on the most popular")
    sizes = (("keys", sent.key_bytes), ("values", sent.value_bytes))
    parts += [f"{name} of {size} bytes" for name, size in sizes if size is not None]
    return ", ".join(parts)


def _answers(sent: SentLoad) -> str:
    hits = "" if sent.hit_ratio is None else f"hit ratio {units.percent(sent.hit_ratio)}, "
    unanswered = f", {units.whole(sent.unanswered)} without an answer" if sent.unanswered else ""
    return f"{hits}{units.whole(sent.failed)} failed{unanswered}"


def audit_grid(audit: AuditRecord) -> Grid:
    """The tool's figures beside those of the tap."""
    table = Table("Figures", audit.figures[:_MOST_ROWS])
    table.key("command", lambda one: one.name)
    columns: tuple[tuple[str, _Figure, _Figure, Callable[[float | None], str]], ...] = (
        ("ops/s", lambda one: one.own_rate, lambda one: one.rate, units.significant),
        ("p50", lambda one: one.own_p50_ns, lambda one: one.p50_ns, units.with_unit),
        ("p99", lambda one: one.own_p99_ns, lambda one: one.p99_ns, units.with_unit),
    )
    for band, own, tapped, text in columns:
        for heading, value in ((audit.tool, own), ("tap", tapped)):
            table.number(heading, partial(_figure, value, text), band)
    return table.grid((_NOTE,))


def _figure(value: _Figure, text: Callable[[float | None], str], figures: ComparedFigures) -> str:
    return text(value(figures))


def _count(number: int, noun: str) -> str:
    return f"{units.whole(number)} {noun}{'' if number == 1 else 's'}"
