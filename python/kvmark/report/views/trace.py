"""A trace as text and as a page; the workload learnt from it, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import altair as alt
from rich.text import Text

from kvmark.analysis.trace import Sizes, TraceAnswer, TracePart
from kvmark.learn import LearnedPart, TwinCheck, TwinFigure
from kvmark.report.model import tables, units
from kvmark.report.model.page import Figure, Page, Provenance, Section
from kvmark.report.views.charts import line_chart, log_ticks
from kvmark.report.views.figures import frame
from kvmark.trace import sentences

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
    lines: list[Text] = []
    for part in parts:
        sentence = f"{part.name.capitalize()}: {part.law}. Lost: {part.loses}."
        lines += tables.sentence_lines(sentence, width)
    rows = [
        tuple(
            map(
                tables.Cell,
                (part.name, fit.name, *(units.significant(n, 4) for n in (fit.trace, fit.twin))),
            )
        )
        for part in parts
        for fit in part.fit
    ]
    columns = (
        tables.key(""),
        tables.word("figure"),
        tables.Column("trace"),
        tables.Column("workload"),
    )
    grid = tables.Grid("How well they fit", columns, tuple(rows))
    return Text("\n").join((*lines, Text(), tables.to_text(grid, width)))


def twin_text(twin: TwinCheck, width: int) -> Text:
    """The differences between trace and workload; the sentence of a failed check is its error."""
    fields: list[tables.Field[TwinFigure]] = [
        (tables.key(""), lambda figure: figure.name),
        (tables.Column("trace"), lambda figure: _twin_value(figure, figure.trace)),
        (tables.Column("workload"), lambda figure: _twin_value(figure, figure.twin)),
        (tables.Column("difference"),
         lambda figure: "-" if figure.difference is None else _change(figure.difference.value)),
        (tables.Column("interval"), _twin_interval),
        (tables.Column("margin"), lambda figure: f"{100 * figure.margin:g} %"),
        (tables.word(""), lambda figure: figure.judgement),
    ]  # fmt: skip
    text = tables.to_text(tables.build("Comparison with the trace", twin.figures, fields), width)
    if twin.judgement != "alike":
        return text
    return Text("\n\n").join((text, Text(_JUDGEMENTS["alike"])))


def twin_sentence(twin: TwinCheck) -> str:
    """The judgement, with the figures that decide it."""
    sentence = _JUDGEMENTS[twin.judgement]
    if twin.judgement == "alike":
        return sentence
    names = ", ".join(one.name for one in twin.figures if one.judgement == twin.judgement)
    return f"{sentence}: {names}{'; give more --blocks' if twin.judgement == 'unknown' else ''}."


def _twin_value(figure: TwinFigure, value: float | None) -> str:
    is_time = figure.name.startswith("p9")
    return units.with_unit(value) if is_time else units.significant(value)


def _twin_interval(figure: TwinFigure) -> str:
    difference = figure.difference
    if difference is None or difference.low is None or difference.high is None:
        return "-"
    return f"{_change(difference.low)} to {_change(difference.high)}"


def _change(change: float) -> str:
    return f"{100 * change:+.2f} %"


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
    y = alt.Y("rate:Q", title="operations per second").scale(zero=True).axis(format="~s")
    yield Figure(
        name="rate",
        title="Rate over time",
        caption=f"Operations per second in {len(data)} equal stretches of time.",
        data=data,
        spec=line_chart(data, x, y, interpolate="step-after"),
    )
    if not answer.hit_ratios:
        return
    data = frame(answer.hit_ratios, {"keys": float, "hits": float})
    x = alt.X("keys:Q", title="keys in the cache").scale(type="log", nice=False)
    x = x.axis(format="~s", values=log_ticks(data["keys"].to_list()), labelOverlap=True)
    y = alt.Y("hits:Q", title="hit ratio of reads").scale(domain=(0, 1))
    yield Figure(
        name="hits",
        title="Hit ratio of an LRU cache",
        caption="The hit ratio of reads, by the number of keys that the cache holds; writes enter"
        " it too.",
        data=data,
        spec=line_chart(data, x, y, interpolate="linear"),
    )


def trace_text(answer: TraceAnswer, width: int) -> Text:
    """A trace for a terminal of this width."""
    sentences = _trace_sentences(answer)
    rates = [rate for _, rate in answer.rate.course][-width:]
    return tables.stacked([
        [line for one in sentences for line in tables.sentence_lines(one, width)],
        Text(units.contrast(rates), "cyan"),
        *(tables.to_text(grid, width) for grid in _trace_grids(answer)),
    ])  # fmt: skip


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
        f" {_percent(answer.top_share)} of the operations."
    )
    if answer.popularity is not None:
        yield (
            f"Popularity: zipfian with theta {answer.popularity.theta:.3f}, off by"
            f" {_percent(answer.popularity.off)} of the operations at most."
        )
    yield (
        f"{_percent(answer.unwritten_reads)} of the reads are of keys that the trace hasn't written"
        f" before, {_percent(answer.first_reads)} the first operation on their key."
    )
    if answer.sampled < 1:
        yield f"The figures of keys come from a sample of {_percent(answer.sampled)} of them."
    yield from sentences(answer.told)


def _trace_grids(answer: TraceAnswer) -> Iterator[tables.Grid]:
    yield _parts_grid("Kinds", answer.kinds)
    yield _parts_grid("Statements", answer.statements)
    if answer.outcomes:
        yield _parts_grid("Outcomes", answer.outcomes)
    if answer.sizes:
        fields: list[tables.Field[Sizes]] = [
            (tables.key(""), lambda sizes: _SIZES[sizes.what]),
            (tables.Column("mean"), lambda sizes: units.significant(sizes.mean)),
            (tables.Column("p50"), lambda sizes: units.whole(sizes.p50)),
            (tables.Column("p99"), lambda sizes: units.whole(sizes.p99)),
            (tables.Column("largest"), lambda sizes: units.whole(sizes.largest)),
            (tables.Column("recorded for, %"), lambda sizes: f"{100 * sizes.share:.1f}"),
        ]
        yield tables.build("Sizes and times", answer.sizes, fields)
    yield _text_grid(
        "An LRU cache's hit ratio of reads",
        ("of all keys", "keys", "hit ratio"),
        (
            (_percent(one.share), units.whole(round(one.keys)), f"{one.hits:.3f}")
            for one in answer.caches
        ),
    )
    yield _text_grid(
        "Different keys in each tenth of the time",
        ("tenth", "keys"),
        (
            (str(tenth), units.whole(round(keys)))
            for tenth, keys in enumerate(answer.working_set, start=1)
        ),
    )


def _text_grid(
    title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> tables.Grid:
    """Numbers, whose first column is the key."""
    columns = (tables.key(headings[0], number=True), *map(tables.Column, headings[1:]))
    return tables.Grid(title, columns, tuple(tuple(map(tables.Cell, row)) for row in rows))


def _parts_grid(title: str, parts: Iterable[TracePart]) -> tables.Grid:
    fields: list[tables.Field[TracePart]] = [
        (tables.key(""), lambda part: part.name),
        (tables.Column("operations"), lambda part: units.whole(part.operations)),
        (tables.Column("%"), lambda part: f"{100 * part.share:.2f}"),
    ]
    return tables.build(title, parts, fields)


def _percent(share: float) -> str:
    return f"{units.significant(100 * share)} %"
