"""A page as one self-contained HTML file, as Markdown, or as a folder of pictures and tables.

In HTML, Vega draws the figures in the reader's browser. The page's policy forbids every request
and every script but its two.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import itertools
import json
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from kvmark.cache import cache_folder
from kvmark.foreign_text import cell_text
from kvmark.outputs import MADE_BY_KVMARK, own_folder, write_output
from kvmark.records.files import write_atomically
from kvmark.report.model.page import Fact, Figure, Page, template_text
from kvmark.report.model.tables import Grid, escape_markdown, to_markdown

FolderFormat = Literal["png", "svg", "pdf", "csv"]
FOLDER_FORMATS: Final[tuple[FolderFormat, ...]] = ("png", "svg", "pdf", "csv")

# Blanks before a unit or on either side of ±.
_BLANKS: Final = re.compile(r"(?<=\d) (?=±|ops/s|[nµm]?s\b|%)|(?<=±) ")
_PACKAGE: Final = "kvmark.report"
_SERVERS: Final = "Servers"
_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"


def write_html(page: Page, path: Path) -> None:
    """Writes the page as HTML."""
    write_output(path, html(page), page=True)


def html(page: Page) -> str:
    """The page as a self-contained document."""
    return html_document(page)[0]


def html_document(page: Page, home: str | None = None) -> tuple[str, str]:
    """The page, and its policy for servers; ``home`` is the address of the list of runs."""
    library = vega_library() if page.figures else ""
    script = template_text("page.js")
    policy = _policy([library, script] if page.figures else [])
    text = environment(_PACKAGE).get_template("page.html.j2").render(
        page=page,
        home=home,
        policy=policy,
        style=template_text("page.css"),
        library=library,
        script=script,
        specifications=_script_json([figure_document(figure) for figure in page.figures]),
    )  # fmt: skip
    return text, policy


def run_fragment(page: Page) -> str:
    """The answer, the verdict reasons and the tables of a page, for another document."""
    return environment(_PACKAGE).get_template("fragment.html.j2").render(page=page)


@cache
def environment(*packages: str) -> Environment:
    """Jinja's environment of the templates of packages, with the filters that tables need."""
    made = Environment(
        loader=ChoiceLoader(list(map(PackageLoader, packages))),
        autoescape=select_autoescape(disabled_extensions=["md.j2"], default=True),
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    made.filters.update({
        "shell": shlex.join, "sections": _sections,
        "pretty": partial(json.dumps, indent=2, ensure_ascii=False),
        "tied": lambda sentence: _BLANKS.sub("\N{NO-BREAK SPACE}", sentence),
        "md": escape_markdown, "table": to_markdown, "fenced": _fenced,
        "block": lambda text: f"{text.strip()}\n\n" if text.strip() else "",
    })  # fmt: skip
    made.globals.update(
        begins=_begins_band, facts=facts_markdown, figure_blocks=figure_blocks,
        short_facts=short_facts,
    )  # fmt: skip
    return made


def figure_document(figure: Figure) -> dict[str, Any]:
    """A figure as an argument of the page's script."""
    return {"name": figure.name, "spec": figure.in_page()}


def _script_json(value: object) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(scripts: list[str]) -> str:
    """The policy that forbids all requests, and all scripts but these.

    Inline style stays allowed because Vega sets style attributes; it makes no request.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests] or ["'none'"]
    return (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline';"
        " base-uri 'none'; form-action 'none'"
    )


def _begins_band(grid: Grid, index: int) -> bool:
    """Whether a band begins at this column."""
    column = grid.columns[index]
    return index > 0 and not column.key and grid.columns[index - 1].band != column.band


def _sections(grid: Grid) -> list[range]:
    """The rows of each section of a table."""
    return [range(*ends) for ends in pairwise(sorted(grid.section_starts | {0, len(grid.rows)}))]


@cache
def vega_library() -> str:
    """The script, which is kept in the cache because making it takes seconds."""
    path = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return path.read_bytes().decode()
    library: str = vl_convert.javascript_bundle(_SNIPPET)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, library.encode())
    return library


def write_markdown(page: Page, path: Path) -> None:
    """Writes the page as Markdown, and its figures into a folder of the same name."""
    folder = path.with_suffix("")
    if page.figures:
        own_folder(folder)
    for figure in page.figures:
        figure.save(folder / f"{figure.name}.svg")
    write_output(path, markdown(page, folder.name if page.figures else None), page=True)


def markdown(page: Page, figures: str | None = None) -> str:
    """The page; ``figures`` is the path from the file to the folder of its figures."""
    parts = filter(None, page_parts(page, figures).values())
    blocks = [f"# {escape_markdown(page.title)}", *parts, MADE_BY_KVMARK]
    return "\n\n".join(blocks) + "\n"


def page_parts(page: Page, figures: str | None = None) -> dict[str, str]:
    """The Markdown below the title by part.

    `question`, `answer`, `facts`, `levels`, `belief`, sections, `provenance`.
    """
    template: Any = environment(_PACKAGE).get_template("page.md.j2").module
    servers = (fact for fact in page.top if fact.label == _SERVERS)
    parts = {
        "question": escape_markdown(page.question),
        "answer": f"**{escape_markdown(page.answer)}**" if page.answer else "",
        "facts": template.origin(page),
        "levels": facts_markdown((*page.facts, *servers)),
        "belief": template.belief(page.caveats),
        **{part.name: template.section(part, figures) for part in page.parts},
        "provenance": template.provenance(page.sources),
    }
    return {name: str(text).strip() for name, text in parts.items()}


def short_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Date with commit, machine with system, and the other facts, without the servers."""
    texts = {fact.label: fact.text for fact in facts if fact.label != _SERVERS}
    for label, second, joint in (("Measured", "Commit", ", commit "), ("Machine", "System", "; ")):
        if label in texts and second in texts:
            texts[label] += joint + texts.pop(second)
    return list(itertools.starmap(Fact, texts.items()))


def facts_markdown(facts: Iterable[Fact]) -> str:
    """Facts as a list."""
    return "\n".join(
        f"- {escape_markdown(fact.label)}: {escape_markdown(fact.text)}" for fact in facts
    )


def figure_blocks(figure: Figure, folder: str) -> tuple[str, str]:
    """The caption, and a reference to the figure's SVG file in a folder."""
    title = escape_markdown(figure.title)
    return escape_markdown(figure.caption), f"![{title}]({folder}/{figure.name}.svg)"


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def write_folder(page: Page, folder: Path, form: FolderFormat) -> list[Path]:
    """Writes a file per figure, and for CSV per table too, and returns their paths.

    Raises:
        RunError: a file can't be written, or the folder has other content.
    """
    own_folder(folder)
    written = []
    for part in page.parts if form == "csv" else ():
        for number, grid in enumerate(part.grids, 1):
            text = io.StringIO(newline="")
            rows = csv.writer(text)
            rows.writerow(column.title for column in grid.columns)
            rows.writerows([cell_text(cell.text.strip()) for cell in row] for row in grid.rows)
            written.append(folder / f"table-{part.name}-{number}.csv")
            write_output(written[-1], text.getvalue())
    for figure in page.figures:
        written.append(folder / f"{figure.name}.{form}")
        figure.save(written[-1])
    return written
