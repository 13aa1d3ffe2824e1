"""Pages as HTML, Markdown and folders: complete, self-contained, safe and small."""

from __future__ import annotations

import base64
import csv
import hashlib
import html as escaping
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from synthetic import DRIFT, estimate, intervals, run_answer, sequence_answer

from kvmark.records import Case
from kvmark.report.format import FolderFormat, html, write_folder, write_markdown
from kvmark.report.model.answers import RunAnswer
from kvmark.report.model.page import Fact, Page
from kvmark.report.views.figures import course_figures
from kvmark.report.views.pages import (
    run_page,
    runs_page,
    sequence_page,
    side_by_side_figures,
    side_by_side_grid,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NAMESPACES = ("http://www.w3.org/", "https://vega.github.io/")


class Outline(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name)) is not None]

    def elements(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def policy(self) -> str:
        return next(str(a["content"]) for a in self.elements("meta") if "http-equiv" in a)


def many(count: int, groups: int = 300) -> list[RunAnswer]:
    """Runs that share a plan."""
    run = run_answer()
    documents = {"Plan": {"groups": list(range(groups))}, "Host": {}}
    provenance = replace(run.provenance, documents=documents)
    summaries = (replace(run.summary, id=f"run-{number}") for number in range(count))
    return [replace(run, summary=one, provenance=provenance) for one in summaries]


@pytest.fixture(
    params=[
        sequence_page(sequence_answer()),
        run_page(run_answer()),
        runs_page([run_answer(), run_answer("ycsb/f again")]),
    ],
    ids=["sequence", "run", "runs"],
)
def text(request: pytest.FixtureRequest) -> str:
    return html(request.param)


def test_a_page_loads_nothing(text: str) -> None:
    outline = Outline(text)
    loading = ("src", "srcset", "action", "data", "poster", "xlink:href")
    assert [value for name in loading for value in outline.attributes(name)] == []
    assert not outline.elements("link")
    assert all(value.startswith("#") for value in outline.attributes("href"))
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"url\(|@import", style)
    library = max(outline.scripts, key=len)
    addresses = re.findall(r"https?://[^\s\"'<>]+", text.replace(library, ""))
    assert all(address.startswith(NAMESPACES) for address in addresses)
    # It is small, and has the drawing library once.
    assert len([script for script in outline.scripts if len(script) > 500_000]) == 1
    assert len(text.encode()) < 2_000_000


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else(text: str) -> None:
    outline = Outline(text)
    assert outline.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in outline.policy
    _, *executed = outline.scripts
    for script in executed:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in outline.policy
    assert outline.policy.count("sha256-") == len(executed) == 2


def test_a_page_is_accessible(text: str) -> None:
    outline = Outline(text)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert outline.elements("html")[0]["lang"] == "en"
    assert len(outline.elements("caption")) == len(outline.elements("table")) > 0
    assert all(attrs.get("scope") for attrs in outline.elements("th"))
    scrolling = [a for a in outline.elements("div") if a.get("class") == "scroll"]
    assert all(a["tabindex"] == "0" and a["role"] == "region" for a in scrolling)
    drawings = [a for a in outline.elements("div") if a.get("class") == "drawing"]
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)


def test_identifiers_are_unique_and_links_figures_and_order_are_right(text: str) -> None:
    outline = Outline(text)
    names = outline.attributes("id")
    assert len(names) == len(set(names))
    assert {href.removeprefix("#") for href in outline.attributes("href")} <= set(names)
    places = outline.attributes("data-figure")
    assert [figure["name"] for figure in json.loads(outline.scripts[0])] == places != []
    # The answer is before the table.
    marks = [text.index(mark) for mark in ('id="answer"', 'id="belief"', "<table", "<figure")]
    assert marks == sorted(marks)


def test_hostile_names_are_only_text() -> None:
    answer = sequence_answer(HOSTILE)
    row = replace(answer.rows[0], case=Case(HOSTILE, HOSTILE, 1_000))
    provenance = replace(
        answer.provenance,
        facts=tuple(replace(fact, text=HOSTILE) for fact in answer.provenance.facts),
        command=(HOSTILE,),
        documents={HOSTILE: {HOSTILE: HOSTILE}},
    )
    curves = tuple(replace(curve, panel=HOSTILE) for curve in answer.curves)
    rows = (row, *answer.rows[1:])
    text = html(sequence_page(replace(answer, rows=rows, curves=curves, provenance=provenance)))
    outline = Outline(text)
    assert (outline.elements("img"), len(outline.scripts)) == ([], 3)
    assert HOSTILE not in text
    assert escaping.escape(HOSTILE) in text
    assert HOSTILE in str(json.loads(outline.scripts[0]))


def test_a_page_without_figures_runs_no_script() -> None:
    none = pl.DataFrame()
    run = replace(
        run_answer(), curves=(), intervals=none, resources=none, failures=none, spread=none
    )
    assert list(course_figures(run)) == []
    provenance = replace(run.provenance, command=("kvmark", "run", "a file.yaml"))
    text = html(run_page(replace(run, provenance=provenance)))
    # The command is quoted as a shell takes it.
    assert "kvmark run &#39;a file.yaml&#39;" in text
    outline = Outline(text)
    assert outline.scripts == []
    assert "script-src 'none'" in outline.policy


def large_pages() -> dict[str, Page]:
    """An hour of intervals, and 200 cases with plans."""
    minute, sequence = intervals(), sequence_answer()
    hour = [minute.with_columns(pl.col("start_ns", "end_ns") + n * 60 * 10**9) for n in range(60)]
    plans = {f"Plan of case {n}": {"format": 1, "seeds": list(range(500))} for n in range(200)}
    cases = replace(
        sequence,
        rows=(sequence.rows * 6)[:200],
        curves=sequence.curves * 6,
        provenance=replace(sequence.provenance, documents=plans),
    )
    return {
        "hour": run_page(replace(run_answer(), intervals=pl.concat(hour))),
        "cases": sequence_page(cases),
    }


@pytest.mark.parametrize("page", large_pages().values(), ids=large_pages())
def test_a_large_page_stays_under_five_megabytes(page: Page) -> None:
    assert len(html(page).encode()) < 5_000_000


def test_many_runs_have_sections_without_figures_or_no_sections() -> None:
    parts = runs_page(many(100)).parts
    assert (len(parts), parts[0].facts) == (101, ())
    assert [len(part.figures) > 0 for part in parts[:3]] == [True, False, False]
    page = runs_page(many(500))
    assert len(html(page).encode()) <= 4_000_000
    (part,) = page.parts
    assert "no section for each run" in part.answer
    assert {row[0].text for row in part.grids[0].rows} == {str(n) for n in range(1, 501)}
    # Nor curves.
    names = [figure.name for figure in side_by_side_figures(many(51))]
    assert names == ["throughputs", "response-quantiles"]


def test_a_document_that_several_runs_have_is_on_their_page_once() -> None:
    first, _, same = many(3)
    (_, other) = many(2, groups=0)
    sources = runs_page([first, other, same]).sources
    plans = [source.documents.get("Plan") for source in sources]
    assert plans == [first.provenance.documents["Plan"], {"groups": []}, None]
    assert sources[2].facts[-1] == Fact("Plan", "same as run-0")
    assert sources[0].facts == first.provenance.facts


def test_runs_are_side_by_side_with_their_intervals() -> None:
    slow = run_answer("slow")
    throughput = estimate(9_000.0, 0.05, 50, "ops/s")
    phase = replace(slow.summary.phases[0], throughput=throughput)
    slow = replace(slow, summary=replace(slow.summary, phases=(phase,)))
    runs = [run_answer(), slow]
    texts = {cell.text for row in side_by_side_grid(runs).rows for cell in row}
    assert {"51,870 ± 410", "9,000 ± 450", "READ", "SCAN"} <= texts
    rates, *_, curves = (figure.data for figure in side_by_side_figures(runs))
    assert rates["value"].to_list() == [51_873.0, 9_000.0]
    assert rates["low"].to_list() == pytest.approx([51_873.0 * 0.992, 8_550.0])
    assert rates["run"].to_list() == ["1", "2"]
    assert curves["time"].unique().sort().to_list() == ["run 1", "run 2"]
    assert curves["panel"].unique().sort().to_list() == ["READ", "READ-MODIFY-WRITE"]


def test_differences_of_runs_are_named_once_or_in_the_titles_of_many() -> None:
    request = (Fact("Workload", "ycsb/a"), Fact("Load", "closed model, 10 clients"))
    few = replace(run_answer("one"), request=request)
    larger = (request[0], Fact("Load", "closed model, 400 clients"))
    runs = [few, replace(few, request=larger)]
    part, *_ = runs_page(runs).parts
    text = "closed model, 10 clients (run 1); closed model, 400 clients (run 2)"
    assert (part.facts, part.answer) == ((Fact("Load", text),), "The runs differ in load.")
    for copies, title in ((1, "one"), (5, "one, closed model, 400 clients")):
        assert side_by_side_grid(copies * runs).rows[-1][1].text == title


def test_markdown_has_its_figures_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_markdown(sequence_page(sequence_answer()), path)
    text = path.read_text()
    links = re.findall(r"\]\((.+?\.svg)\)", text)
    assert links == ["report/throughput.svg", "report/quantiles.svg"]
    assert all((tmp_path / link).read_text().startswith("<svg") for link in links)
    assert text.startswith("# YCSB on RocksDB\n")
    # Each reason is there once, with its advice.
    assert text.count(DRIFT.sentence) == text.count(f"Advice: {DRIFT.advice}.") == 1
    assert "Holds for all 36 cases." in text
    assert "| workload | store | records |" in text
    assert re.search(
        r"\| load \| 1000 \| 2,337 \| 400,000 ± 8,000 \| 171\.1 ± 3\.4 \| VALID \|", text
    )


@pytest.mark.parametrize("form", ["png", "svg", "pdf", "csv"])
def test_a_report_is_a_folder_of_files_too(tmp_path: Path, form: FolderFormat) -> None:
    page = run_page(run_answer())
    paths = write_folder(page, tmp_path / "report", form)
    pictures = [path.stem for path in paths if not path.stem.startswith("table-")]
    assert pictures == [figure.name for figure in page.figures]
    assert all(path.stat().st_size > 0 for path in paths)
    if form == "csv":
        with (tmp_path / "report/table-operations-1.csv").open(newline="") as file:
            heading, *rows = csv.reader(file)
        assert "response time p99" in heading
        assert [row[0] for row in rows] == ["READ", "READ-MODIFY-WRITE", "READ", "UPDATE", "SCAN"]
