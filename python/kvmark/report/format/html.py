"""A report as one HTML file that needs no network: style, script and data are in it.

Figures are drawn by Vega in the reader's browser from the specifications in `figures`; the library
is in the file once. The page's policy forbids everything but its own two scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from kvmark.cache import cache_folder
from kvmark.outputs import write_output
from kvmark.records.files import write_atomically
from kvmark.report.charts.vega import PAGE
from kvmark.report.format.grid import Grid
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Page

_TEMPLATES = "templates"
# Blanks before a unit or on either side of ±.
_LOOSE = re.compile(r"(?<=\d) (?=±|ops/s|[nµm]?s\b|%)|(?<=±) ")
_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page as text, and the policy in it, for those who send it with headers."""

    text: str
    policy: str


def html(page: Page) -> str:
    """The page as a self-contained document."""
    return document(page).text


def document(page: Page, home: str | None = None) -> HtmlPage:
    """The page as a self-contained document; ``home`` is where a link to all runs leads."""
    environment = _environment()
    figures = [figure for part in page.parts for figure in part.figures]
    library = vega_library() if figures else ""
    script = _template_text(environment, "page.js")
    policy = _policy([library, script] if figures else [])
    text = environment.get_template("page.html.j2").render(
        page=page,
        home=home,
        policy=policy,
        style=_template_text(environment, "page.css"),
        library=library,
        script=script,
        specifications=embedded([drawn(figure) for figure in figures]),
    )
    return HtmlPage(text, policy)


def run_fragment(page: Page) -> str:
    """The answer, the doubts and the tables of a page, to stand within another document."""
    return _environment().get_template("fragment.html.j2").render(page=page)


def write_html(page: Page, path: Path) -> None:
    """Writes the page to a file."""
    write_output(path, html(page), page=True)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kvmark.report", _TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["shell"] = shlex.join
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    environment.filters["sections"] = sections
    environment.filters["tied"] = tied
    environment.globals["begins"] = begins
    return environment


def _template_text(environment: Environment, name: str) -> str:
    """A file that is put into the page as it stands."""
    loader = environment.loader
    text, _, _ = loader.get_source(environment, name) if loader else ("", None, None)
    return text


def drawn(figure: Figure) -> dict[str, Any]:
    """A figure as the page's script takes it."""
    return {"name": figure.name, "spec": figure.themed(PAGE)}


def embedded(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(scripts: list[str]) -> str:
    """Nothing may be fetched, and only these scripts may run.

    Inline style stays allowed because Vega sets style attributes; it can fetch nothing.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return "; ".join([
        "default-src 'none'",
        "script-src " + (hashes or "'none'"),
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ])  # fmt: skip


def tied(sentence: str) -> str:
    """The sentence with its estimates kept on one line."""
    return _LOOSE.sub("\N{NO-BREAK SPACE}", sentence)


def begins(grid: Grid, index: int) -> bool:
    """Whether a band begins at this column."""
    column = grid.columns[index]
    return index > 0 and not column.key and grid.columns[index - 1].band != column.band


def sections(grid: Grid) -> list[range]:
    """The rows of each section of a table."""
    starts = sorted(grid.section_starts | {0})
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(grid.rows)], strict=True)]


@cache
def vega_library() -> str:
    """The script. It takes seconds to make and is always the same: it is kept in the cache."""
    path = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return path.read_bytes().decode()
    library: str = vl_convert.javascript_bundle(_SNIPPET)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, library.encode())
    return library
