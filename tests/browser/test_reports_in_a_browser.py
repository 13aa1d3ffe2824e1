"""A report opened from disk in a real browser, with no network behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from chromium import DRAWN, NEEDS_CHROMIUM, Chromium
from synthetic import run_answer, sequence_answer

from kvmark.report.format import write_html
from kvmark.report.views.pages import runs_page, sequence_page

pytestmark = NEEDS_CHROMIUM
LINES = "[...document.querySelectorAll('#response .mark-line path')].length"
SERIES = "#response .switches button:nth-child(2)"
DRAWINGS = """[...document.querySelectorAll('.drawing')].map(each => ({
    name: each.dataset.figure, paths: each.querySelectorAll('path').length,
    themed: each.innerHTML.includes('var(--series-1)'),
    columns: new Set([...each.querySelectorAll('.role-scope.cell > g > path.background')]
        .map(path => Math.round(path.getBoundingClientRect().x))).size}))"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "sequence": sequence_page(sequence_answer()),
        "run": runs_page([run_answer()]),
        "runs": runs_page([run_answer(), run_answer("ycsb/f again")]),
    }
    for name, page in pages.items():
        write_html(page, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in pages}


def drawings(browser: Chromium, path: Path, width: int, scheme: Any) -> list[dict[str, Any]]:
    """The drawings of a page that neither writes to the console nor makes requests."""
    page = browser.open(path.as_uri(), width=width, scheme=scheme)
    page.wait_for(DRAWN)
    found: list[dict[str, Any]] = page.see(DRAWINGS)
    assert page.console == []
    assert page.requests == [path.as_uri()]
    page.close()
    return found


@pytest.mark.parametrize(
    ("name", "width", "scheme", "figures"),
    [
        ("sequence", 1280, "light", 2),
        ("sequence", 390, "dark", 2),
        ("run", 1280, "dark", 7),
        ("runs", 390, "light", 17),
    ],
)
def test_every_figure_is_drawn_without_an_error_and_without_a_network(
    browser: Chromium, pages: dict[str, Path], name: str, width: int, scheme: str, figures: int
) -> None:
    drawn = drawings(browser, pages[name], width, scheme)
    assert len(drawn) == figures
    assert all(each["paths"] > 10 and each["themed"] for each in drawn)


def test_panels_are_side_by_side_with_room(browser: Chromium, pages: dict[str, Path]) -> None:
    for width, columns in ((1280, 3), (500, 2)):
        first = drawings(browser, pages["sequence"], width, "light")[0]
        assert (first["name"], first["columns"]) == ("throughput", columns)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_series_is_switched_off_and_on_by_hand_and_by_key(
    browser: Chromium, pages: dict[str, Path], scheme: Literal["light", "dark"]
) -> None:
    page = browser.open(pages["run"].as_uri(), scheme=scheme)
    page.wait_for(DRAWN)
    before = page.see(LINES)
    page.click(SERIES)
    page.wait_for(f"{LINES} === {before - 1}")
    assert page.see(f"document.querySelector('{SERIES}').getAttribute('aria-pressed')") == "false"
    page.see(f"document.querySelector('{SERIES}').focus()")
    page.press_enter()
    page.wait_for(f"{LINES} === {before}")
    assert page.console == []
    assert page.requests == [pages["run"].as_uri()]
    page.close()


def test_a_point_shows_its_numbers(browser: Chromium, pages: dict[str, Path]) -> None:
    page = browser.open(pages["run"].as_uri())
    page.wait_for(DRAWN)
    shown = "document.querySelector('#vg-tooltip-element.visible') !== null"
    page.point_at("#rate .mark-symbol path:nth-child(30)", shown)
    text = page.see("document.getElementById('vg-tooltip-element').textContent")
    assert "at second" in text
    assert "ops/s" in text
    page.close()


def test_a_report_on_a_telephone_has_switches(browser: Chromium, pages: dict[str, Path]) -> None:
    page = browser.open(pages["run"].as_uri(), width=390, height=800)
    page.wait_for(DRAWN)
    assert page.see("document.documentElement.scrollWidth") <= 390
    assert page.see("document.querySelectorAll('.role-legend').length") == 0
    assert page.see("document.querySelectorAll('#response .switches button').length") == 3
    page.close()
