"""A trace as text and as a page; the workload learnt from it, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import altair as alt
from rich.text import Text

from kvmark.analysis.trace import TraceAnswer, TracePart
from kvmark.learn import LearnedPart, TwinCheck, TwinFigure
from kvmark.report.model import units
from kvmark.report.model.page import Figure, Page, Provenance, Section
from kvmark.report.model.tables import Grid, Table, stacked
from kvmark.report.views.charts import from_zero, line_chart, log_ticks
from kvmark.report.views.figures import frame
from kvmark.trace.folder import sentences

_JUDGEMENTS: Final = {
    "alike": "The workload is a twin of the trace: every difference is within its margin.",
    "unlike": "The workload is no twin of the trace",
    "unknown": "Whether the workload is a twin of the trace is undecided",
}
_SIZES: Final = {
    "key_size": "keys, bytes",
    "value_size": "values, bytes",
    "ttl_ms": "time to live, ms",
    "answered_us": "until answered, µs",
}


def learned_text(parts: Sequence[LearnedPart], width: int) -> Text:
    """Each part's law and its losses, and the figures of trace and workload."""
    table = Table("How well they fit", [(part.name, fit) for part in parts for fit in part.fit])
    table.key("", lambda row: row[0])
    table.word("figure", lambda row: row[1].name)
    table.number("trace", lambda row: units.significant(row[1].trace, 4))
    table.number("workload", lambda row: units.significant(row[1].twin, 4))
    laws = [f"{part.name.capitalize()}: {part.law}. Lost: {part.loses}." for part in parts]
    return stacked(width, laws, table.grid())


def twin_text(twin: TwinCheck, width: int) -> Text:
    """The differences between trace and workload; the sentence of a failed check is its error."""

    def value(figure: TwinFigure, value: float | None) -> str:
        is_time = figure.name.startswith("p9")
        return units.with_unit(value) if is_time else units.significant(value)

    def change(change: float) -> str:
        return f"{100 * change:+.2f} %"

    table = Table("Comparison with the trace", twin.figures)
    table.key("", lambda figure: figure.name)
    table.number("trace", lambda figure: value(figure, figure.trace))
    table.number("workload", lambda figure: value(figure, figure.twin))
    table.number("difference", lambda one: change(one.difference.value) if one.difference else "-")
    table.number("interval", lambda figure: units.interval(figure.difference, change, "-"))
    table.number("margin", lambda figure: f"{100 * figure.margin:g} %")
    table.word("", lambda figure: figure.judgement)
    return stacked(width, table.grid(), _JUDGEMENTS["alike"] if twin.judgement == "alike" else "")


def twin_sentence(twin: TwinCheck) -> str:
    """The judgement, with the figures that decide it."""
    sentence = _JUDGEMENTS[twin.judgement]
    if twin.judgement == "alike":
        return sentence
    names = ", ".join(one.name for one in twin.figures if one.judgement == twin.judgement)
    return f"{sentence}: {names}{'; give more --blocks' if twin.judgement == 'unknown' else ''}."


def trace_page(name: str, answer: TraceAnswer, command: tuple[str, ...]) -> Page:
    """The contents of a trace."""
    return Page(
        title=name,
        question="Which operations does the trace contain, at which times and of which keys?",
        answer=" ".join(_trace_sentences(answer)),
        parts=(
            Section("figures", "Figures", figures=tuple(_trace_figures(answer))),
            Section("tables", "Tables", grids=tuple(_trace_grids(answer))),
        ),
        sources=(Provenance((), command),),
    )


def _trace_figures(answer: TraceAnswer) -> Iterator[Figure]:
    data = frame(answer.rate.course, {"seconds": float, "rate": float})
    x = alt.X("seconds:Q", title="seconds since the first operation")
    y = from_zero(alt.Y("rate:Q", title="operations per second"), data["rate"].to_list())
    caption = f"Operations per second in {len(data)} equal stretches of time."
    spec = line_chart(data, x, y, interpolate="step-after")
    yield Figure("rate", "Rate over time", caption, data, spec)
    if not answer.hit_ratios:
        return
    data = frame(answer.hit_ratios, {"keys": float, "hits": float})
    x = alt.X("keys:Q", title="keys in the cache").scale(type="log", nice=False)
    x = x.axis(format="~s", values=log_ticks(data["keys"].to_list()), labelOverlap=True)
    y = alt.Y("hits:Q", title="hit ratio of reads").scale(domain=(0, 1))
    caption = (
        "The hit ratio of reads, by the number of keys that the cache holds; writes enter it too."
    )
    spec = line_chart(data, x, y, interpolate="linear")
    yield Figure("hits", "Hit ratio of an LRU cache", caption, data, spec)


def trace_text(answer: TraceAnswer, width: int) -> Text:
    """A trace for a terminal of this width."""
    rates = [rate for _, rate in answer.rate.course][-width:]
    blocks = Text(units.contrast(rates), "cyan")
    return stacked(width, [*_trace_sentences(answer)], blocks, *_trace_grids(answer))


def _trace_sentences(answer: TraceAnswer) -> Iterator[str]:
    """The contents of a trace, and remarks on how it was made."""
    rate, clients = answer.rate, units.whole(answer.clients)
    yield (
        f"{units.whole(answer.operations)} operations of {clients}"
        f" {'client' if answer.clients == 1 else 'clients'} in {units.span(answer.span_s)}, from"
        f" {answer.source}: {units.significant(rate.mean)} ops/s, at the most"
        f" {units.significant(rate.peak)} in a second."
    )
    if rate.dispersion:
        ratios = ", ".join(
            f"{units.significant(ratio)} in {length}" for length, ratio in rate.dispersion.items()
        )
        yield f"Variance over mean of the counts: {ratios} (Poisson: 1, evenly spaced: 0)."
    if rate.autocorrelation is not None:
        yield f"Autocorrelation of consecutive seconds: {rate.autocorrelation:.2f}."
    about = "" if answer.sampled == 1 else "About "
    yield (
        f"{about}{units.whole(round(answer.keys))} different keys, of which the most popular has"
        f" {units.percent(answer.top_share)} of the operations."
    )
    if answer.popularity is not None:
        yield (
            f"Popularity: zipfian with theta {answer.popularity.theta:.3f}, off by"
            f" {units.percent(answer.popularity.off)} of the operations at most."
        )
    yield (
        f"{units.percent(answer.unwritten_reads)} of the reads are of keys that the trace hasn't"
        f" written before, {units.percent(answer.first_reads)} the first operation on their key."
    )
    if answer.sampled < 1:
        yield f"The figures of keys come from a sample of {units.percent(answer.sampled)} of them."
    yield from sentences(answer.told)


def _trace_grids(answer: TraceAnswer) -> Iterator[Grid]:
    yield _parts_grid("Kinds", answer.kinds)
    yield _parts_grid("Statements", answer.statements)
    if answer.outcomes:
        yield _parts_grid("Outcomes", answer.outcomes)
    if answer.sizes:
        sizes = Table("Sizes and times", answer.sizes)
        sizes.key("", lambda size: _SIZES[size.what])
        sizes.number("mean", lambda size: units.significant(size.mean))
        sizes.number("p50", lambda size: size.p50)
        sizes.number("p99", lambda size: size.p99)
        sizes.number("largest", lambda size: size.largest)
        sizes.number("recorded for, %", lambda size: f"{100 * size.share:.1f}")
        yield sizes.grid()
    caches = Table("An LRU cache's hit ratio of reads", answer.caches)
    caches.key("of all keys", lambda one: units.percent(one.share), number=True)
    caches.number("keys", lambda one: round(one.keys))
    caches.number("hit ratio", lambda one: f"{one.hits:.3f}")
    yield caches.grid()
    tenths = Table("Different keys in each tenth of the time", enumerate(answer.working_set, 1))
    tenths.key("tenth", lambda row: row[0], number=True)
    tenths.number("keys", lambda row: round(row[1]))
    yield tenths.grid()


def _parts_grid(title: str, parts: Iterable[TracePart]) -> Grid:
    table = Table(title, parts)
    table.key("", lambda part: part.name)
    table.number("operations", lambda part: part.operations)
    table.number("%", lambda part: f"{100 * part.share:.2f}")
    return table.grid()
