from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from typing import Any

import polars as pl
import pytest
import vl_convert
from synthetic import run_answer, sequence_answer

from kvmark.analysis.summary.faults import FaultSpan, Segment
from kvmark.report.model.page import Figure
from kvmark.report.views import charts, figures
from kvmark.report.views.charts import log_ticks
from kvmark.report.views.pages import run_page

S = 1_000_000_000


def drawn() -> list[Figure]:
    sequence, run = sequence_answer(), run_answer()
    return [
        figures.sequence_figure(sequence.rows),
        figures.quantile_figure(sequence.curves, "At the largest number of records."),
        figures.rate_figure(run.intervals, run.phases),
        figures.response_figure(run.intervals, run.phases),
    ]


def level_data(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"panel": "", "low": None, "high": None, "runs": 1, **columns})


def values(spec: Any) -> list[list[dict[str, Any]]]:
    """The data of a specification."""
    return list(spec["datasets"].values())


def test_the_data_of_figures_are_those_of_the_answers() -> None:
    sequence, run = sequence_answer(), run_answer()
    rows = sequence.rows
    data = figures.sequence_figure(rows).data
    ours = data.filter(pl.col("series") == "RocksDB")
    theirs = data.filter(pl.col("series") == "RocksDB, published")
    assert ours["value"].to_list() == [row.figures.throughput.value for row in rows]
    assert ours["low"].to_list() == [row.figures.throughput.low for row in rows]
    assert theirs["value"].to_list() == [r.published.throughput for r in rows if r.published]
    assert theirs["low"].null_count() == len(theirs)
    assert figures.quantile_figure(sequence.curves, "").data.select("quantile", "ns").rows() == [
        point for curve in sequence.curves for point in curve.points if point[1] > 0
    ]
    data = figures.rate_figure(run.intervals, run.phases).data
    assert data["value"].to_list() == run.intervals["count"].to_list()
    assert data["end_ns"].to_list() == run.intervals["end_ns"].to_list()
    # Groups have series of their own.
    readers = run.intervals.with_columns(pl.lit("readers").alias("group"))
    both = figures.rate_figure(pl.concat([run.intervals, readers]), run.phases).data
    assert set(both["series"]) == {"clients, completed", "readers, completed"}


def test_the_course_of_a_run_has_figures_of_its_recorded_values() -> None:
    run = run_answer()
    drawn = {figure.name: figure for figure in figures.course_figures(run)}
    assert list(drawn) == ["spread", "failures", "cores", "memory"]
    assert drawn["spread"].data.equals(run.spread)
    assert drawn["cores"].data["value"].to_list() == run.resources["cores"].to_list()
    assert drawn["failures"].data["series"].unique().to_list() == ["timeout"]
    assert drawn["failures"].caption.endswith("by error class: timeout.")
    assert all(figure.svg().startswith("<svg") for figure in drawn.values())
    assert "#0072b2" in drawn["cores"].svg()


def test_the_rate_of_a_load_or_of_a_read_back_flattens_no_measured_rate() -> None:
    run = run_answer()
    ends = (Segment("load", 0, 5 * S), Segment("verify", 60 * S, 61 * S))
    read_back = run.intervals.tail(1).with_columns(phase_name=pl.lit("verify"))
    loaded = replace(
        run, phases=(ends[0], *run.phases, ends[1]),
        intervals=pl.concat([run.intervals.head(59), read_back]),
    )  # fmt: skip
    (section,) = [part for part in run_page(loaded).parts if part.figures]
    figure = section.figures[0]
    assert figure.data["end_ns"].max() == 59 * S
    assert figure.caption.endswith("Phases left out: load and verify.")
    assert '"verify"' not in json.dumps(figure.spec)
    assert "left out" not in figures.rate_figure(run.intervals, run.phases).caption


def test_an_interval_in_which_nothing_completed_is_a_gap() -> None:
    run = run_answer()
    empty = pl.when(pl.col("start_ns") == 0).then(None).otherwise(pl.col("response_ns_p50"))
    intervals = run.intervals.with_columns(empty.alias("response_ns_p50"))
    data = figures.response_figure(intervals, run.phases).data
    assert data.filter(pl.col("series") == "p50")["value"].to_list()[0] is None
    nothing = figures.rate_figure(intervals.with_columns(count=0), run.phases)
    assert '"domain": [0, 1]' in json.dumps(nothing.spec)


@pytest.mark.parametrize("figure", drawn(), ids=lambda figure: figure.name)
def test_a_specification_has_the_rows_and_tooltips_that_read_them(figure: Figure) -> None:
    assert figure.data.to_dicts() in values(figure.spec)
    compiled = json.dumps(vl_convert.vegalite_to_vega(figure.spec))
    tooltips = re.findall(r'"tooltip": \{"signal": "((?:[^"\\]|\\.)*)"', compiled)
    assert tooltips
    assert not any("datum.datum" in tooltip for tooltip in tooltips)


def test_twelve_series_differ_by_colour_and_shape_together_and_by_dash() -> None:
    data = level_data(clients=10.0, series=[f"series {n}" for n in range(12)], value=1.0)
    spec = charts.level_chart(data, "ops/s", "clients", "panel")
    encodings = [layer["encoding"] for layer in spec["spec"]["layer"]]
    assert {"color", "shape", "strokeDash"} <= {channel for each in encodings for channel in each}
    (scale,) = (each["shape"]["scale"] for each in encodings if "shape" in each)
    looks = {(index % 4, shape) for index, shape in enumerate(scale["range"])}
    assert len(looks) == len(scale["domain"]) == 12


def luminance(colour: str) -> float:
    """WCAG's relative luminance of ``#rrggbb``."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(a * b for a, b in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def page_colours() -> list[dict[str, str]]:
    """The colours of a page by light, by dark and on paper, from its own sheet."""
    sheet = resources.files("kvmark.report").joinpath("templates/page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]


def test_a_saved_figure_has_the_colours_of_a_page_by_light() -> None:
    light, dark, paper = page_colours()
    style = drawn()[0].by_light()["config"]
    assert style["background"] == light["paper"]
    assert style["range"]["category"] == [light[f"series-{n}"] for n in range(1, 5)]
    assert style["text"]["color"] == light["muted"] not in (dark["muted"], paper["muted"])


@pytest.mark.parametrize("colours", page_colours(), ids=["light", "dark", "paper"])
def test_texts_and_marks_have_enough_contrast(colours: dict[str, str]) -> None:
    assert contrast(colours["ink"], colours["paper"]) >= 4.5
    assert contrast(colours["muted"], colours["paper"]) >= 4.5
    assert contrast(colours["muted"], colours["band"]) >= 4.5
    assert all(contrast(colours[f"series-{n}"], colours["paper"]) >= 3 for n in range(1, 4))


def test_a_logarithmic_axis_has_a_few_ticks_within_its_data() -> None:
    assert log_ticks([1_000, 20_000]) == [1_000, 2_000, 5_000, 10_000, 20_000]
    assert log_ticks([2_300, 504_000]) == [3_000, 10_000, 30_000, 100_000, 300_000]
    assert log_ticks([15_000, 1e9]) == [1e5, 1e6, 1e7, 1e8, 1e9]
    assert log_ticks([None, 0]) == []


@pytest.mark.parametrize("low", [9.3e-5, 0.4, 1.0, 9_820.0, 3.3e9])
@pytest.mark.parametrize("factor", [1, 1.001, 1.2, 2, 9, 11, 25, 31, 400, 1e5])
def test_every_logarithmic_axis_has_three_ticks_between_its_ends(low: float, factor: float) -> None:
    values = [low, low * factor]
    data = level_data(run=["1", "2"], series="p99", value=values)
    spec = charts.level_chart(data, "time", "run", quantity="time")["spec"]
    y = spec["layer"][0]["encoding"]["y"]
    ticks, (least, most) = y["axis"]["values"], y["scale"]["domain"]
    assert least <= min(values) <= max(values) <= most
    assert 3 <= len(ticks) == len(set(ticks)) <= 9
    assert all(least <= tick <= most for tick in ticks)
    assert "' µs'" in y["axis"]["labelExpr"]


def test_a_fault_is_marked_where_it_began_and_where_it_was_over() -> None:
    run = run_answer()
    fault = FaultSpan("1s kill primary-1 for 2s", "kill", "primary-1", 11 * S, 13 * S)
    for draw in (figures.rate_figure, figures.response_figure):
        assert "Dashed" not in draw(run.intervals, run.phases).caption
        figure = draw(run.intervals, run.phases, [fault])
        assert [{"at_s": 11.0}, {"at_s": 13.0}] in values(figure.spec)
        assert [{"fault": "kill primary-1", "at_s": 11.0}] in values(figure.spec)
        assert "Dashed lines" in figure.caption


def test_published_figures_have_the_colour_of_those_beside_them() -> None:
    measured = ["one", "two", "three"]
    names = [*measured, "three, published", "one, published", "four, published"]
    data = level_data(clients=1.0, series=names, value=2.0)
    spec = charts.level_chart(data, "ops/s", "clients", "panel")
    series = spec["usermeta"]["series"]
    places = dict(zip(series["names"], series["places"], strict=True))
    for name in ("one", "three"):
        ours, theirs = places[name], places[f"{name}, published"]
        assert (ours != theirs, ours % 4) == (True, theirs % 4)
    # What has nothing beside it has a colour of its own, and no blank has a place in the legend.
    assert len({places[name] % 4 for name in (*measured, "four, published")}) == 4
    color = spec["spec"]["layer"][0]["encoding"]["color"]
    assert color["legend"]["values"] == series["names"]
    assert [color["scale"]["domain"][place] for place in places.values()] == series["names"]
    assert sorted(series["names"]) == sorted(names)
