"""A report page and its parts, before they become HTML, Markdown or text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl
import vl_convert

from kvmark.analysis.verdict.rules import Reason
from kvmark.outputs import write_output
from kvmark.records import Judgement
from kvmark.report.model import units
from kvmark.report.model.tables import Grid

#: A Vega-Lite specification.
Spec = dict[str, Any]

#: The MIME type in notebooks of the Vega-Lite version that Altair writes.
_VEGA_LITE: Final = "application/vnd.vegalite.v6+json"


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and its text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of figures, sufficient to reproduce them."""

    #: Versions, host, seeds and the like, in order.
    facts: tuple[Fact, ...]
    #: The arguments of the command line.
    command: tuple[str, ...]
    #: Plans and configurations as JSON values by title.
    documents: Mapping[str, object] = field(default_factory=dict)
    #: Date, commit and machine, for the top of the page.
    top: tuple[Fact, ...] = ()
    #: The run, on a page of several.
    run: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its title and caption."""

    #: Identifier within a page.
    name: str
    title: str
    #: The figure's content and how to read it.
    caption: str
    #: The rows drawn.
    data: pl.DataFrame
    spec: Spec

    def svg(self) -> str:
        """The figure as SVG; deterministic."""
        text: str = vl_convert.vegalite_to_svg(self.by_light())
        return text

    def save(self, path: Path) -> None:
        """Writes the figure as .svg, .png or .pdf, or its rows as .csv.

        Raises:
            ValueError: another suffix.
            RunError: the file can't be written.
        """
        contents: dict[str, Callable[[], str | bytes]] = {
            ".svg": self.svg,
            ".png": lambda: vl_convert.vegalite_to_png(self.by_light(), scale=2.0),
            ".pdf": lambda: vl_convert.vegalite_to_pdf(self.by_light()),
            ".csv": self.data.write_csv,
        }
        if path.suffix not in contents:
            raise ValueError(f"{path} ends in none of .svg, .png, .pdf and .csv")
        write_output(path, contents[path.suffix]())

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The figure for notebooks: the specification, SVG and plain text."""
        return {
            _VEGA_LITE: self.by_light(),
            "image/svg+xml": self.svg(),
            "text/plain": f"{self.title}. {self.caption}",
        }

    def in_page(self) -> Spec:
        """The specification in the colours of an HTML page: by light, by dark or on paper."""
        return {**self.spec, "config": json.loads(template_text("figure.json"))}

    def by_light(self) -> Spec:
        """The specification in the colours that a page has by light."""
        return {**self.spec, "config": json.loads(_light_style())}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with its own heading."""

    #: Identifier within the page.
    name: str
    title: str
    facts: tuple[Fact, ...] = ()
    answer: str = ""
    grids: tuple[Grid, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A case or a run with a verdict reason, and the reason's sentence there."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Caveat:
    """A verdict reason as at its first place, and all its places."""

    reason: Reason
    #: Empty on a page of one case or run.
    places: tuple[Place, ...]
    #: The places in words; empty on a page of one case or run.
    scope: str
    #: The number of places: `12 of 35 cases`.
    portion: str = ""

    @property
    def where(self) -> str:
        """The scope; notes if the printed figures are those of the first place only."""
        differ = len({place.sentence for place in self.places}) > 1
        return f"{self.scope} (figures of the first)" if differ else self.scope

    @property
    def evidence(self) -> str:
        """The numbers behind the reason."""
        return ", ".join(
            f"{name.replace('_', ' ')}"
            f" {units.significant(value) if isinstance(value, float) else value}"
            for name, value in self.reason.evidence.items()
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A report."""

    title: str
    #: The question, or the run and its date.
    question: str
    answer: str
    parts: tuple[Section, ...]
    sources: tuple[Provenance, ...]
    facts: tuple[Fact, ...] = ()
    #: The subjects of the verdicts: cases or runs.
    subjects: Literal["cases", "runs"] = "cases"
    counts: Mapping[Judgement, int] = field(default_factory=dict)
    #: In order of severity.
    caveats: tuple[Caveat, ...] = ()

    @property
    def top(self) -> tuple[Fact, ...]:
        """Date, commit, machine and verdicts."""
        texts: dict[str, dict[str, None]] = {}
        for source in self.sources:
            for fact in source.top:
                texts.setdefault(fact.label, {})[fact.text] = None
        facts = [Fact(label, "; ".join(of_label)) for label, of_label in texts.items()]
        verdicts = verdict_summary(self.caveats, self.counts, self.subjects)
        return (*facts, *([Fact("Verdicts", verdicts)] if verdicts else []))

    @property
    def figures(self) -> list[Figure]:
        """The figures of all parts."""
        return [figure for part in self.parts for figure in part.figures]

    def with_first(self, part: Section) -> Page:
        """The page of an experiment: its answer is the headline, and its part comes first."""
        first = replace(part, answer="")
        title, answer = f"{part.title}, {self.title}", part.answer or self.answer
        return replace(self, title=title, answer=answer, parts=(first, *self.parts))


def verdict_summary(
    caveats: tuple[Caveat, ...], counts: Mapping[Judgement, int], subjects: str
) -> str:
    """The verdicts in a sentence: `46 of 52 cases are SUSPECT: too_short (46); 6 are VALID`.

    Empty without a verdict.
    """
    clauses: list[str] = []
    total = sum(counts.values())
    for judgement in (Judgement.INVALID, Judgement.SUSPECT, Judgement.VALID):
        count = counts.get(judgement, 0)
        if not count:
            continue
        of = "" if clauses else f" of {units.whole(total)} {subjects}"
        number = units.every(total, subjects) if count == total else f"{count}{of}"
        verb = "is" if count == 1 else "are"
        clauses.append(f"{number} {verb} {judgement.value}{_codes(caveats, judgement)}")
    return "; ".join(clauses)


def _codes(caveats: tuple[Caveat, ...], judgement: Judgement) -> str:
    """The reasons of a judgement with their number of places, the most frequent first."""
    numbers = {
        caveat.reason.code: len({place.name for place in caveat.places}) or 1
        for caveat in caveats
        if caveat.reason.level.value == judgement.value
    }
    codes = sorted(numbers, key=lambda code: -numbers[code])
    named = ", ".join(f"{code} ({units.whole(numbers[code])})" for code in codes)
    return f": {named}" if named else ""


def template_text(name: str) -> str:
    """A template, style or script of pages."""
    return files("kvmark.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _light_style() -> str:
    # The first colours of the sheet are those by light.
    colours = dict(reversed(re.findall(r"--([\w-]+): (#\w{6});", template_text("page.css"))))
    style = template_text("figure.json").replace("transparent", colours["paper"])
    return re.sub(r"var\(--([\w-]+)\)", lambda variable: colours[variable[1]], style)
