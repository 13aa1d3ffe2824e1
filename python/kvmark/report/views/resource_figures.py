"""Figures of a run's course besides its rate and response time: spread, errors, what it used."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kvmark.records.files import COORDINATOR, is_ours
from kvmark.report.charts import vega as charts
from kvmark.report.charts.frames import course_frame
from kvmark.report.model.answers import RunAnswer
from kvmark.report.model.figures import Figure

__all__ = ["course_figures"]


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
