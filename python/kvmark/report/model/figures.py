"""Figures: one Altair specification each, drawn alike in a page, as SVG and as PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl
import vl_convert

from kvmark.analysis import FaultSpan, SequenceRow
from kvmark.outputs import write_output
from kvmark.records import TimeName
from kvmark.records.files import COORDINATOR, is_ours
from kvmark.report.charts import vega as charts
from kvmark.report.charts.frames import (
    PUBLISHED,
    course_frame,
    curve_frame,
    interval_frame,
    sequence_frame,
    target_frame,
)
from kvmark.report.charts.vega import LIGHT, Spec, Theme, config
from kvmark.report.model.answers import Curve, PhaseSpan, RunAnswer

#: As notebooks name a specification of the version that Altair writes.
_VEGA_LITE: Final = "application/vnd.vegalite.v6+json"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with the words around it."""

    #: Identifier within a page.
    name: str
    title: str
    #: What is drawn and how to read it.
    caption: str
    #: The rows drawn.
    data: pl.DataFrame
    spec: Spec

    def save_svg(self, path: Path, theme: Theme = LIGHT) -> None:
        """Writes the figure as SVG."""
        write_output(path, self.svg(theme))

    def svg(self, theme: Theme = LIGHT) -> str:
        """The figure as SVG; the same figure gives the same text."""
        drawn: str = vl_convert.vegalite_to_svg(self.themed(theme))
        return drawn

    def save_png(self, path: Path, theme: Theme = LIGHT, scale: float = 2.0) -> None:
        """Writes the figure as PNG, `scale` pixels for each of its own."""
        write_output(path, vl_convert.vegalite_to_png(self.themed(theme), scale=scale))

    def save(self, path: Path, theme: Theme = LIGHT) -> None:
        """Writes the figure as the file's ending says: .svg, .png, .pdf, or its rows as .csv.

        Raises:
            ValueError: the ending is none of these.
            RunError: the file can't be written.
        """
        match path.suffix:
            case ".svg":
                self.save_svg(path, theme)
            case ".png":
                self.save_png(path, theme)
            case ".pdf":
                write_output(path, vl_convert.vegalite_to_pdf(self.themed(theme)))
            case ".csv":
                write_output(path, self.data.write_csv())
            case _:
                raise ValueError(f"{path} ends in none of .svg, .png, .pdf and .csv")

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """What a notebook shows: the specification where it can draw it, else the same as SVG."""
        return {
            _VEGA_LITE: self.themed(LIGHT),
            "image/svg+xml": vl_convert.vegalite_to_svg(self.themed(LIGHT)),
            "text/plain": f"{self.title}. {self.caption}",
        }

    def named(self, name: str) -> Figure:
        """The same figure under another identifier."""
        return replace(self, name=name)

    def themed(self, theme: Theme) -> Spec:
        """The specification in the colours and type of a theme."""
        return {**self.spec, "config": config(theme)}


def throughput_figure(rows: Sequence[SequenceRow], published_source: str) -> Figure:
    """Throughput against the number of records, one panel per workload."""
    data = sequence_frame(rows, "throughput")
    return Figure(
        name="throughput",
        title="Throughput",
        caption=_sequence_caption("Operations per second", data, published_source),
        data=data,
        spec=charts.sequence_chart(data, "operations per second"),
    )


def target_figure(rows: Sequence[SequenceRow]) -> Figure:
    """Response time against the throughput that came of each target, one panel per workload."""
    data = target_frame(rows)
    return Figure(
        name="throughput-latency",
        title="Response time against throughput",
        caption="Each point is a target: the throughput that was reached, and the response time"
        " from the intended start. The last one offers as much as the clients can. Both axes are"
        " logarithmic.",
        data=data,
        spec=charts.target_chart(data),
    )


def runtime_figure(rows: Sequence[SequenceRow], published_source: str) -> Figure:
    """Runtime against the number of records, one panel per workload."""
    data = sequence_frame(rows, "runtime_ms")
    return Figure(
        name="runtime",
        title="Runtime",
        caption=_sequence_caption("Milliseconds, first to last operation", data, published_source),
        data=data,
        spec=charts.sequence_chart(data, "milliseconds"),
    )


def quantile_figure(curves: Sequence[Curve], subject: str) -> Figure:
    """How long operations take at every quantile, one panel per workload or operation."""
    data = curve_frame(curves)
    return Figure(
        name="quantiles",
        title="Response and service time at every quantile",
        caption=(
            f"{subject} The horizontal axis stretches the tail: each step to the right "
            "leaves a tenth of the operations above it. Both axes are logarithmic."
        ),
        data=data,
        spec=charts.quantile_chart(data),
    )


def rate_figure(
    intervals: pl.DataFrame, phases: Sequence[PhaseSpan], faults: Sequence[FaultSpan] = ()
) -> Figure:
    """Completed rate of each interval over the run's time."""
    window = intervals.filter(~pl.col("drain"))
    data = interval_frame(window, {"completed": "count"})
    return Figure(
        name="rate",
        title="Completed rate over time",
        caption="Operations completed per second in each interval, whatever their outcome."
        + _faults_caption(faults),
        data=data,
        spec=charts.rate_chart(data, phases, faults),
    )


def response_figure(
    intervals: pl.DataFrame,
    phases: Sequence[PhaseSpan],
    faults: Sequence[FaultSpan] = (),
    time: TimeName = "response",
) -> Figure:
    """Quantiles of response time, or of another, in each interval over the run's time."""
    columns = {name: f"{time}_ns_{name}" for name in ("p50", "p99", "max")}
    data = interval_frame(intervals.filter(~pl.col("drain")), columns)
    return Figure(
        name="response",
        title=f"{time.capitalize()} time over time",
        caption="Quantiles over the operations completed in each interval, on a logarithmic axis."
        + _faults_caption(faults),
        data=data,
        spec=charts.response_chart(data, phases, faults, f"{time} time"),
    )


def _faults_caption(faults: Sequence[FaultSpan]) -> str:
    return " Dashed lines: a server was broken on purpose, and was back." if faults else ""


def _sequence_caption(what: str, data: pl.DataFrame, source: str) -> str:
    known = data["low"].is_not_null().any()
    bars = " Bars are 95 % confidence intervals, often smaller than their point." if known else ""
    beside = data["series"].str.ends_with(PUBLISHED).any()
    theirs = f" Diamonds on dashed lines: {source}." if beside else ""
    return f"{what}, both axes logarithmic.{bars}{theirs}"


def course_figures(run: RunAnswer) -> Iterator[Figure]:
    """Those for which the run has anything to show, in the order of a report."""
    course = run.course()
    if not course.spread.is_empty():
        yield _spread_figure(run, course.spread)
    if not course.failures.is_empty():
        yield _failures_figure(run, course.failures)
    # A line needs two points.
    if course.resources.height > 1:
        yield _cores_figure(run, course.resources)
        yield _memory_figure(run, course.resources)


def _spread_figure(run: RunAnswer, spread: pl.DataFrame) -> Figure:
    return Figure(
        name="spread",
        title="Spread of response time over time",
        caption=(
            "Each cell is a stretch of the run and of response times; the fuller its colour, the "
            "more of that stretch's operations it holds. What a median hides stands here: two "
            "humps, stalls, a tail that comes and goes."
        ),
        data=spread,
        spec=charts.spread_chart(spread, run.phases, run.faults),
    )


def _failures_figure(run: RunAnswer, failures: pl.DataFrame) -> Figure:
    data = course_frame(failures, "outcome", "count")
    return Figure(
        name="failures",
        title="Errors by class over time",
        caption="Operations that failed in each interval, by error class.",
        data=data,
        spec=charts.course_chart(data, run.phases, run.faults, "operations", "~s"),
    )


def _cores_figure(run: RunAnswer, resources: pl.DataFrame) -> Figure:
    data = course_frame(resources, "node", "cores")
    return Figure(
        name="cores",
        title="Processor over time",
        caption=f"Cores kept busy by {_whose(data)}, over each second.",
        data=data,
        spec=charts.course_chart(data, run.phases, run.faults, "cores", "~g"),
    )


def _memory_figure(run: RunAnswer, resources: pl.DataFrame) -> Figure:
    data = course_frame(resources, "node", "resident_bytes")
    return Figure(
        name="memory",
        title="Memory over time",
        caption=f"Resident memory of {_whose(data)}.",
        data=data,
        spec=charts.course_chart(data, run.phases, run.faults, "bytes", "~s"),
    )


def _whose(data: pl.DataFrame) -> str:
    nodes = set(data["series"].to_list())
    ours = "the generator" if COORDINATOR not in nodes else "the command, the generator"
    if all(map(is_ours, nodes)):
        return f"{ours.replace(',', ' and')}, which an embedded system is part of"
    return f"{ours} and each server"
