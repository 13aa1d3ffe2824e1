"""A trace in words: facts, the kinds and statements, keys and the caches that would hold them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from kvmark.analysis.trace import Sizes, TraceAnswer, TracePart
from kvmark.foreign_text import printable
from kvmark.report.format import units
from kvmark.report.format.bars import contrast
from kvmark.report.format.grid import Cell, Column, Grid, to_text, wrap
from kvmark.trace import sentences

__all__ = ["trace_grids", "trace_sentences", "trace_text"]

_SIZES = {
    "key_size": "keys, bytes",
    "value_size": "values, bytes",
    "ttl_ms": "time to live, ms",
    "answered_us": "until answered, µs",
}


def trace_text(answer: TraceAnswer, width: int) -> Text:
    """A trace for a terminal of this width."""
    lines: list[Text] = []
    for sentence in trace_sentences(answer):
        lines += [Text(line) for line in wrap(printable(sentence), width)]
    lines += [Text(), Text(contrast([rate for _, rate in answer.rate.course][-width:]), "cyan")]
    for grid in trace_grids(answer):
        lines += [Text(), to_text(grid, width)]
    return Text("\n").join(lines)


def trace_sentences(answer: TraceAnswer) -> Iterator[str]:
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


def trace_grids(answer: TraceAnswer) -> Iterator[Grid]:
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
