from __future__ import annotations

import base64
import dataclasses
import hashlib
import html as escaping
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from synthetic import intervals, run_answer, sequence_answer

from kvmark.analysis import Case
from kvmark.report.format.html import html
from kvmark.report.format.markdown import write_markdown
from kvmark.report.model.answers import RunCourse
from kvmark.report.model.page import Page, run_page, runs_page, sequence_page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NAMESPACES = ("http://www.w3.org/",)


class Outline(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = tag == "script"
        if self._script:
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name)) is not None]

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for found, attrs in self.tags if found == tag]


def pages() -> dict[str, Page]:
    return {
        "sequence": sequence_page(sequence_answer()),
        "run": run_page(run_answer()),
        "runs": runs_page([run_answer(), run_answer("ycsb/f again")]),
    }


@pytest.fixture(params=pages().items(), ids=lambda item: item[0])
def text(request: pytest.FixtureRequest) -> str:
    return html(request.param[1])


def test_a_page_loads_nothing(text: str) -> None:
    outline = Outline(text)
    sources = [
        value
        for name in ("src", "srcset", "action", "data", "poster", "xlink:href")
        for value in outline.attributes(name)
    ]
    assert sources == []
    assert not outline.named("link")
    assert all(value.startswith("#") for value in outline.attributes("href"))
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_a_page_names_no_address_outside_the_drawing_library(text: str) -> None:
    library = max(Outline(text).scripts, key=len)
    addresses = re.findall(r"https?://[^\s\"'<>]+", text.replace(library, ""))
    assert [
        a for a in addresses if not a.startswith((*NAMESPACES, "https://vega.github.io/"))
    ] == []


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else(text: str) -> None:
    outline = Outline(text)
    policy = next(attrs["content"] for attrs in outline.named("meta") if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    _, *executed = outline.scripts
    for script in executed:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == len(executed) == 2


def test_the_drawing_library_is_there_once(text: str) -> None:
    assert len([script for script in Outline(text).scripts if len(script) > 500_000]) == 1


def test_a_page_is_small(text: str) -> None:
    assert len(text.encode()) < 2_000_000


def test_headings_go_down_one_level_at_a_time(text: str) -> None:
    levels = [int(tag[1]) for tag, _ in Outline(text).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_page_can_be_read_aloud(text: str) -> None:
    outline = Outline(text)
    assert outline.named("html")[0]["lang"] == "en"
    assert len(outline.named("caption")) == len(outline.named("table")) > 0
    assert all(attrs.get("scope") for attrs in outline.named("th"))
    scrolling = [a for a in outline.named("div") if a.get("class") == "scroll"]
    assert all(a["tabindex"] == "0" and a["role"] == "region" for a in scrolling)
    drawings = [a for a in outline.named("div") if a.get("class") == "drawing"]
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)


def test_identifiers_are_unique_and_links_lead_somewhere(text: str) -> None:
    outline = Outline(text)
    names = outline.attributes("id")
    assert len(names) == len(set(names))
    assert {href.removeprefix("#") for href in outline.attributes("href")} <= set(names)


def test_each_place_for_a_drawing_has_its_specification(text: str) -> None:
    outline = Outline(text)
    specifications = json.loads(outline.scripts[0])
    places = outline.attributes("data-figure")
    assert [figure["name"] for figure in specifications] == places
    assert places


def test_hostile_names_are_only_text() -> None:
    answer = sequence_answer(HOSTILE)
    row = dataclasses.replace(answer.rows[0], case=Case(HOSTILE, HOSTILE, 1_000))
    curves = tuple(dataclasses.replace(curve, panel=HOSTILE) for curve in answer.curves)
    facts = tuple(dataclasses.replace(f, text=HOSTILE) for f in answer.provenance.facts)
    provenance = dataclasses.replace(
        answer.provenance, facts=facts, command=(HOSTILE,), documents={HOSTILE: {HOSTILE: HOSTILE}}
    )
    answer = dataclasses.replace(
        answer, rows=(row, *answer.rows[1:]), curves=curves, provenance=provenance
    )
    text = html(sequence_page(answer))
    outline = Outline(text)
    assert not outline.named("img")
    assert len(outline.scripts) == 3
    assert HOSTILE not in text
    assert escaping.escape(HOSTILE) in text
    assert HOSTILE in str(json.loads(outline.scripts[0]))


def test_a_page_without_figures_runs_no_script() -> None:
    nothing = {"curves": tuple, "intervals": pl.DataFrame(), "course": RunCourse}
    run = dataclasses.replace(run_answer(), **nothing)
    outline = Outline(html(run_page(run)))
    assert outline.scripts == []
    policy = next(attrs["content"] for attrs in outline.named("meta") if "http-equiv" in attrs)
    assert "script-src 'none'" in str(policy)


def test_an_hour_of_intervals_stays_under_five_megabytes() -> None:
    minute = intervals()
    parts = [minute.with_columns(pl.col("start_ns", "end_ns") + n * 60 * 10**9) for n in range(60)]
    run = dataclasses.replace(run_answer(), intervals=pl.concat(parts))
    assert len(html(run_page(run)).encode()) < 5_000_000


def test_a_page_gives_the_answer_before_the_table(text: str) -> None:
    places = [text.index(mark) for mark in ('id="answer"', 'id="belief"', "<table", "<figure")]
    assert places == sorted(places)


def test_the_provenance_quotes_the_command_as_a_shell_takes_it() -> None:
    run = run_answer()
    provenance = dataclasses.replace(run.provenance, command=("kvmark", "run", "a file.yaml"))
    text = html(run_page(dataclasses.replace(run, provenance=provenance)))
    assert "kvmark run &#39;a file.yaml&#39;" in text


def test_markdown_has_its_figures_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_markdown(sequence_page(sequence_answer()), path)
    text = path.read_text()
    links = re.findall(r"\]\((.+?\.svg)\)", text)
    assert links == ["report/throughput.svg", "report/runtime.svg", "report/quantiles.svg"]
    assert all((tmp_path / link).read_text().startswith("<svg") for link in links)
    assert text.startswith("# YCSB on RocksDB\n")
    assert "| workload | store | records |" in text
