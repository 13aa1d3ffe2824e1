"""The application's pages: the list of runs, and a run that isn't closed, from its logs.

Pages of closed runs are reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from kvmark.analysis.summary.faults import Segment, fault_spans
from kvmark.records import Entry, Judgement, OpenRun, RunLine
from kvmark.records.intervals import TIMED
from kvmark.report.format import environment, figure_document, vega_library
from kvmark.report.model import units
from kvmark.report.model.page import Fact, Figure
from kvmark.report.model.tables import Cell
from kvmark.report.views.figures import rate_figure, response_figure
from kvmark.report.views.gather import plan_facts
from kvmark.report.views.runs_list import runs_grid
from kvmark.serve.library import Filter

_PACKAGES = ("kvmark.serve", "kvmark.report")
_STATIC = {
    "report.css": ("kvmark.report", "templates/page.css"),
    "serve.css": ("kvmark.serve", "templates/serve.css"),
    "figures.js": ("kvmark.report", "templates/page.js"),
    "live.js": ("kvmark.serve", "templates/live.js"),
}


def list_page(
    lines: Sequence[RunLine], total: int | None, filter_: Filter, tags: Sequence[str], place: Path
) -> str:
    """The list of the newest runs, of ``total`` in the folder, by command."""
    grid = runs_grid(lines)
    commands: dict[str, list[tuple[RunLine, tuple[Cell, ...]]]] = {}
    for line, row in zip(lines, grid.rows, strict=True):
        studies = (tag for tag in line.entry.tags if tag.startswith("study:"))
        commands.setdefault(next(studies, line.entry.id), []).append((line, row))
    return environment(*_PACKAGES).get_template("list.html.j2").render(
        grid=grid,
        commands=commands,
        lines=lines,
        filter=filter_,
        tags=tags,
        verdicts=[*(word.value for word in Judgement), "going", "ended", "killed", "broken"],
        place=place,
        total=total,
    )  # fmt: skip


def live_page(entry: Entry) -> str:
    """A run that isn't closed, from its logs.

    Raises:
        RecordsError: it has been closed, or its description can't be read.
    """
    run = OpenRun.read(entry.path)
    return environment(*_PACKAGES).get_template("live.html.j2").render(
        entry=entry,
        title=f"{entry.name} on {entry.system}",
        asked=plan_facts(run.header.plan),
        now=list(_now(run, _totals(run))),
    )  # fmt: skip


def live_values(entry: Entry) -> dict[str, Any]:
    """The values that the page of a running run polls.

    Raises:
        RecordsError: it has been closed, or its description can't be read.
    """
    run = OpenRun.read(entry.path)
    totals, drawn = _totals(run), list[Figure]()
    if not totals.is_empty():
        phases, faults = _phases(run, totals), fault_spans(run)
        drawn = [rate_figure(totals, phases, faults), response_figure(totals, phases, faults)]
    return {
        "goes": entry.state == "going",
        "facts": [[fact.label, fact.text] for fact in _now(run, totals)],
        "figures": [figure_document(figure) for figure in drawn],
    }


def problem_page(sentence: str) -> str:
    """An error in a sentence."""
    return environment(*_PACKAGES).get_template("problem.html.j2").render(sentence=sentence)


def static_text(name: str) -> str:
    """A style sheet or script by name.

    Raises:
        KeyError: the name is unknown.
    """
    if name == "vega.js":
        return vega_library()
    package, path = _STATIC[name]
    return files(package).joinpath(path).read_text(encoding="utf-8")


def _totals(run: OpenRun) -> pl.DataFrame:
    return run.intervals.filter(pl.col("operation") == "TOTAL")


def _phases(run: OpenRun, totals: pl.DataFrame) -> tuple[Segment, ...]:
    """The phases of the newest rows; the last one ends with the last row."""
    first, last = min(totals["start_ns"].to_list()), max(totals["end_ns"].to_list())
    ends = {event["phase"]: event["at_ns"] for event in _events(run, "phase_ended")}
    spans = (
        Segment(
            str(event["name"]),
            max(event["at_ns"], first),
            min(ends.get(event["phase"], last), last),
        )
        for event in _events(run, "phase_started")
    )
    return tuple(span for span in spans if span.end_ns > span.start_ns)


def _now(run: OpenRun, totals: pl.DataFrame) -> Iterator[Fact]:
    phase = next((str(event["name"]) for event in reversed(_events(run, "phase_started"))), "")
    if phase:
        yield Fact("Phase", phase.replace("_", "-"))
    newest = totals.sort("end_ns").group_by("group", maintain_order=True).last()
    for row in newest.iter_rows(named=True):
        several = newest.height > 1
        label = f"Newest interval of {row['group']}" if several else "Newest interval"
        yield Fact(label, ", ".join(_figure_texts(row)))
    rows = run.intervals.filter(~pl.col("outcome").is_in(["any", "ok", "miss"]) & ~pl.col("part"))
    sums = rows.group_by("outcome", maintain_order=True).agg(TIMED.sum().alias("count"))
    if not sums.is_empty():
        yield Fact("Errors in these intervals", units.counts_text(dict(sums.iter_rows())))
    if run.servers:
        yield Fact("Servers' CPU time", ", ".join(map(str, run.servers)))


def _figure_texts(row: Mapping[str, Any]) -> Iterator[str]:
    length_s = (row["end_ns"] - row["start_ns"]) / 1e9
    if length_s > 0:
        yield f"{units.significant(row['count'] / length_s)} ops/s"
    for name in ("p50", "p99", "max"):
        if row[f"response_ns_{name}"] is not None:
            yield f"response {name} {units.with_unit(row[f'response_ns_{name}'])}"
    if row["backlog"] is not None:
        yield f"backlog {units.whole(row['backlog'])}"
    if row["in_flight"] is not None:
        yield f"in flight {units.whole(row['in_flight'])}"


def _events(run: OpenRun, kind: str) -> list[dict[str, Any]]:
    return [event for event in run.events if event.get("kind") == kind]
