"""A trace: facts, kinds, keys, caches, its page with figures, and the workload learnt from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import altair as alt
import polars as pl
from rich.text import Text

from kvmark.analysis.trace import Sizes, TraceAnswer, TracePart
from kvmark.foreign_text import printable
from kvmark.learn import LearnedPart, TwinCheck, TwinFigure
from kvmark.report.charts.vega import Spec, log_ticks
from kvmark.report.format import units
from kvmark.report.format.bars import contrast
from kvmark.report.format.grid import Cell, Column, Grid, to_text, wrap
from kvmark.report.model.answers import Provenance
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Origin, Page, Section
from kvmark.trace import sentences

_WORDS: Final = {
    "alike": "The workload is a twin of the trace: every difference is within its margin.",
    "unlike": "The workload is no twin of the trace",
    "unknown": "Whether the workload is a twin of the trace can't be told",
}
_WIDTH, _HEIGHT = 640, 220
_SIZES = {
    "key_size": "keys, bytes",
    "value_size": "values, bytes",
    "ttl_ms": "time to live, ms",
    "answered_us": "until answered, µs",
}


def learnt_text(parts: Sequence[LearnedPart], width: int) -> Text:
    """Each part's law, what it loses, and the figures of both, for a terminal of this width."""
    lines: list[Text] = []
    for part in parts:
        sentence = f"{part.name.capitalize()}: {part.law}. Lost: {part.loses}."
        lines += [Text(line) for line in wrap(sentence, width)]
    rows = tuple(
        (Cell(part.name), Cell(one.name), *map(_number, (one.trace, one.twin)))
        for part in parts
        for one in part.fit
    )
    columns = (
        Column("", number=False, key=True), Column("figure", number=False), Column("trace"),
        Column("workload"),
    )  # fmt: skip
    return Text("\n").join(
        (*lines, Text(), to_text(Grid("How well they fit", columns, rows), width))
    )


def likeness_text(found: TwinCheck, width: int) -> Text:
    """What differs by how much, and what follows."""
    columns = (
        Column("", number=False, key=True), Column("trace"), Column("workload"),
        Column("difference"), Column("interval"), Column("margin"), Column("", number=False),
    )  # fmt: skip
    grid = Grid("How like the trace it is", columns, tuple(map(_row, found.figures)))
    text = to_text(grid, width)
    # What is no twin ends the command with its sentence.
    return Text("\n\n").join((text, Text(_WORDS["alike"]))) if found.judgement == "alike" else text


def likeness_sentence(found: TwinCheck) -> str:
    """The judgement, with the figures that are why."""
    why = ", ".join(one.name for one in found.figures if one.judgement == found.judgement)
    words = _WORDS[found.judgement]
    if found.judgement == "alike":
        return words
    return f"{words}: {why}{'; give more --blocks' if found.judgement == 'unknown' else ''}."


def _row(one: TwinFigure) -> tuple[Cell, ...]:
    of_time = one.name.startswith("p9")
    values = map(units.with_unit if of_time else units.significant, (one.trace, one.twin))
    found = one.difference
    change = interval = "-"
    if found is not None:
        change = _change(found.value)
        if found.low is not None and found.high is not None:
            interval = f"{_change(found.low)} to {_change(found.high)}"
    told = (*values, change, interval, f"{100 * one.margin:g} %", one.judgement)
    return (Cell(one.name), *map(Cell, told))


def _change(change: float) -> str:
    return f"{100 * change:+.2f} %"


def _number(value: float) -> Cell:
    return Cell(units.significant(value, 4))


def trace_page(name: str, answer: TraceAnswer, command: tuple[str, ...]) -> Page:
    """What is in the trace of that name."""
    first, *others = _trace_sentences(answer)
    figures = [_rate_figure(answer.rate.course)]
    if answer.hit_ratios:
        figures.append(_hits_figure(answer.hit_ratios))
    return Page(
        title=name,
        asked="What is asked of the store, when, and of which keys?",
        facts=(),
        answer=" ".join((first, *others)),
        things="traces",
        counts={},
        doubts=(),
        parts=(
            Section("figures", "Figures", figures=tuple(figures)),
            Section("tables", "Tables", grids=tuple(_trace_grids(answer))),
        ),
        sources=(Origin("", Provenance((), command, {})),),
    )


def _rate_figure(course: Sequence[tuple[float, float]]) -> Figure:
    data = pl.DataFrame(course, schema={"seconds": pl.Float64, "rate": pl.Float64}, orient="row")
    x = alt.X("seconds:Q", title="seconds since the first operation")
    y = alt.Y("rate:Q", title="operations per second").scale(zero=True).axis(format="~s")
    return Figure(
        name="rate",
        title="Rate over time",
        caption=f"Operations per second in {len(data)} equal stretches of time.",
        data=data,
        spec=_line(data, x, y, interpolate="step-after"),
    )


def _hits_figure(ratios: Sequence[tuple[float, float]]) -> Figure:
    data = pl.DataFrame(ratios, schema={"keys": pl.Float64, "hits": pl.Float64}, orient="row")
    x = alt.X("keys:Q", title="keys in the cache").scale(type="log", nice=False)
    x = x.axis(format="~s", values=log_ticks(data["keys"].to_list()), labelOverlap=True)
    y = alt.Y("hits:Q", title="hit ratio of reads").scale(domain=(0, 1))
    return Figure(
        name="hits",
        title="Hit ratio of an LRU cache",
        caption="Of the reads, by the number of keys that the cache holds; what is written is kept"
        " in it too.",
        data=data,
        spec=_line(data, x, y, interpolate="linear"),
    )


def _line(
    data: pl.DataFrame, x: alt.X, y: alt.Y, interpolate: Literal["linear", "step-after"]
) -> Spec:
    chart = alt.Chart(alt.InlineData(values=data.to_dicts()))
    line = chart.mark_line(interpolate=interpolate).encode(x=x, y=y)
    spec: Spec = line.properties(width=_WIDTH, height=_HEIGHT).to_dict()
    spec.pop("config", None)
    return spec


def trace_text(answer: TraceAnswer, width: int) -> Text:
    """A trace for a terminal of this width."""
    lines: list[Text] = []
    for sentence in _trace_sentences(answer):
        lines += [Text(line) for line in wrap(printable(sentence), width)]
    lines += [Text(), Text(contrast([rate for _, rate in answer.rate.course][-width:]), "cyan")]
    for grid in _trace_grids(answer):
        lines += [Text(), to_text(grid, width)]
    return Text("\n").join(lines)


def _trace_sentences(answer: TraceAnswer) -> Iterator[str]:
    """What is in a trace, and what should be known of how it was made."""
    rate, clients = answer.rate, units.whole(answer.clients)
    yield (
        f"{units.whole(answer.operations)} operations of {clients}"
        f" {'client' if answer.clients == 1 else 'clients'} in {units.span(answer.span_s)}, from"
        f" {answer.source}: {units.significant(rate.mean)} ops/s, at the most"
        f" {units.significant(rate.peak)} in a second."
    )
    if rate.dispersion:
        told = ", ".join(f"{units.significant(one)} in {at}" for at, one in rate.dispersion.items())
        yield f"Variance over mean of the counts: {told} (1 is a Poisson process, 0 evenly spaced)."
    if rate.autocorrelation is not None:
        yield f"Each second's rate goes with the next one's by {rate.autocorrelation:.2f}."
    yield from _of_keys(answer)
    yield from sentences(answer.told)


def _of_keys(answer: TraceAnswer) -> Iterator[str]:
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
        yield f"What is said of keys comes from a sample of {_percent(answer.sampled)} of them."


def _trace_grids(answer: TraceAnswer) -> Iterator[Grid]:
    """Its tables."""
    yield _parts("Kinds", answer.kinds)
    yield _parts("Statements", answer.statements)
    if answer.outcomes:
        yield _parts("Outcomes", answer.outcomes)
    if answer.sizes:
        headings = ("mean", "p50", "p99", "largest", "said by, %")
        yield Grid(
            "Sizes and times",
            (Column("", number=False, key=True), *map(Column, headings)),
            tuple(_size(one) for one in answer.sizes),
        )
    caches = [
        (Cell(_percent(one.share)), Cell(units.whole(round(one.keys))), Cell(f"{one.hits:.3f}"))
        for one in answer.caches
    ]
    yield Grid(
        "An LRU cache's hit ratio of reads",
        (Column("of all keys", key=True), Column("keys"), Column("hit ratio")),
        tuple(caches),
    )
    tenths = enumerate(answer.working_set, start=1)
    yield Grid(
        "Different keys in each tenth of the time",
        (Column("tenth", key=True), Column("keys")),
        tuple((Cell(str(place)), Cell(units.whole(round(keys)))) for place, keys in tenths),
    )


def _parts(title: str, parts: tuple[TracePart, ...]) -> Grid:
    rows = (
        (Cell(one.name), Cell(units.whole(one.operations)), Cell(f"{100 * one.share:.2f}"))
        for one in parts
    )
    columns = (Column("", number=False, key=True), Column("operations"), Column("%"))
    return Grid(title, columns, tuple(rows))


def _size(one: Sizes) -> tuple[Cell, ...]:
    numbers = (units.significant(one.mean), *map(units.whole, (one.p50, one.p99, one.largest)))
    return (Cell(_SIZES[one.what]), *map(Cell, numbers), Cell(f"{100 * one.share:.1f}"))


def _percent(share: float) -> str:
    return f"{units.significant(100 * share)} %"
