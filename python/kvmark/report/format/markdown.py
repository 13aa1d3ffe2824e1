"""A report as Markdown: words and tables, with figures as SVG files beside it when asked."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from kvmark.outputs import MADE_BY_KVMARK, own_folder, write_output
from kvmark.report.format.grid import escape_markdown, to_markdown
from kvmark.report.model.answers import Fact
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views.doubts import Doubt


def markdown(page: Page, figures: str | None = None) -> str:
    """The page; ``figures`` is the folder, as seen from the file, that holds them as SVG."""
    parts = page_parts(page, figures).values()
    blocks = [f"# {escape_markdown(page.title)}", *parts, MADE_BY_KVMARK]
    return "\n\n".join(blocks) + "\n"


def page_parts(page: Page, figures: str | None = None) -> dict[str, str]:
    """What stands below the title, by name: `top`, `belief`, the page's own parts, `provenance`."""
    parts = {
        "top": _top(page),
        "belief": ["## Can it be believed?", *map(_doubt, page.doubts)],
        **{part.name: _part(part, figures) for part in page.parts},
        "provenance": ["## Provenance", *(text for one in page.sources for text in _source(one))],
    }
    if not page.doubts:
        parts["belief"] = ["## Can it be believed?", "Every check was passed."]
    return {
        name: "\n\n".join(block.strip() for block in blocks if block.strip())
        for name, blocks in parts.items()
    }


def write_markdown(page: Page, path: Path) -> None:
    """Writes the page to a file, and its figures into a folder of the same name beside it."""
    folder = path.with_suffix("")
    figures = [figure for part in page.parts for figure in part.figures]
    if figures:
        own_folder(folder)
    for figure in figures:
        figure.save_svg(folder / f"{figure.name}.svg")
    write_output(path, markdown(page, folder.name if figures else None), page=True)


def _top(page: Page) -> Iterable[str]:
    """The question, where and when it was asked, the answer, and what was varied."""
    yield escape_markdown(page.asked)
    commands = dict.fromkeys(shlex.join(source.provenance.command) for source in page.sources)
    again = [f"- Command: `{one}`" for one in commands if one and page.top]
    yield "\n".join([_facts(page.top), *again])
    yield f"**{escape_markdown(page.answer)}**"
    yield _facts(page.facts)


def _facts(facts: Iterable[Fact]) -> str:
    return "\n".join(
        f"- {escape_markdown(fact.label)}: {escape_markdown(fact.text)}" for fact in facts
    )


def _doubt(doubt: Doubt) -> str:
    reason = doubt.reason
    lines = [f"- **{reason.level.value}** `{reason.code}`: {escape_markdown(reason.sentence)}"]
    lines.append(f"  Advice: {escape_markdown(reason.advice)}.")
    if doubt.held:
        lines.append(f"  Holds for {escape_markdown(doubt.where)}.")
    return "\n".join(lines)


def _part(part: Section, figures: str | None) -> Iterable[str]:
    yield f"## {escape_markdown(part.title)}"
    yield _facts(part.facts)
    yield escape_markdown(part.answer)
    yield from (to_markdown(grid) for grid in part.grids)
    for figure in part.figures:
        yield f"### {escape_markdown(figure.title)}"
        yield escape_markdown(figure.caption)
        if figures:
            yield f"![{escape_markdown(figure.title)}]({figures}/{figure.name}.svg)"


def _source(source: Origin) -> Iterable[str]:
    provenance = source.provenance
    if source.title:
        yield f"### {escape_markdown(source.title)}"
    yield _facts(provenance.facts)
    yield _fenced(shlex.join(provenance.command), "sh")
    for title, document in provenance.documents.items():
        if not document:
            continue
        yield f"{escape_markdown(title)}:"
        yield _fenced(json.dumps(document, indent=2, ensure_ascii=False), "json")


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
