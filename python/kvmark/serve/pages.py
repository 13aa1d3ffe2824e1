"""The application's own pages; those of closed runs are reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from kvmark.report.charts.library import vega_library
from kvmark.report.format.html import begins, drawn, sections
from kvmark.report.views.runs_list import runs_grid
from kvmark.serve.library import Filter, ListedRuns, verdict_words
from kvmark.serve.watching import LiveRun

__all__ = ["list_page", "live_page", "live_values", "problem_page", "static_text"]

_STATIC = {
    "report.css": ("kvmark.report", "templates/page.css"),
    "serve.css": ("kvmark.serve", "templates/serve.css"),
    "figures.js": ("kvmark.report", "templates/page.js"),
    "live.js": ("kvmark.serve", "templates/live.js"),
}


def list_page(found: ListedRuns, asked: Filter, tags: Sequence[str], place: str) -> str:
    """The list of runs, of which only the newest may be shown."""
    return _environment().get_template("list.html.j2").render(
        grid=runs_grid(found.lines),
        lines=found.lines,
        asked=asked,
        tags=tags,
        verdicts=verdict_words(),
        place=place,
        total=found.total,
    )  # fmt: skip


def live_page(watched: LiveRun) -> str:
    """A run that isn't closed."""
    return _environment().get_template("live.html.j2").render(watched=watched)


def live_values(watched: LiveRun) -> dict[str, Any]:
    """What the page of a run that goes asks for again and again."""
    return {
        "goes": watched.goes,
        "facts": [[fact.label, fact.text] for fact in watched.now],
        "figures": [drawn(figure) for figure in watched.figures],
    }


def problem_page(sentence: str) -> str:
    """What went wrong, in a sentence."""
    return _environment().get_template("problem.html.j2").render(sentence=sentence)


def static_text(name: str) -> str:
    """A style sheet or script by name.

    Raises:
        KeyError: there is none of that name.
    """
    if name == "vega.js":
        return vega_library()
    package, path = _STATIC[name]
    return files(package).joinpath(path).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("kvmark.serve"), PackageLoader("kvmark.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["sections"] = sections
    environment.globals["begins"] = begins
    return environment
