"""A report opened from disk in a real browser, with no network behind it."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from chromium import FLAGS, PROGRAM, Chromium
from synthetic import run_answer, sequence_answer

from kvmark.report.format.html import write_html
from kvmark.report.model.page import runs_page, sequence_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="chromium isn't installed"),
]
ALONE = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=20000",
    "--enable-logging=stderr",
)
DARK = "--blink-settings=preferredColorScheme=0"
LIGHT = "--blink-settings=preferredColorScheme=1"


@dataclass(frozen=True)
class Opened:
    """What a browser made of a page."""

    document: str
    console: tuple[str, ...]
    requests: tuple[str, ...]

    def drawings(self) -> dict[str, str]:
        """Each figure's drawing by name."""
        parts = self.document.partition("<script")[0].split('data-figure="')[1:]
        return {part.partition('"')[0]: part.partition("</svg>")[0] for part in parts}


def opened(page: Path, folder: Path, width: int, scheme: str) -> Opened:
    """The page after its scripts have run."""
    assert PROGRAM is not None
    log = folder / "net.json"
    command = [
        PROGRAM,
        *FLAGS,
        *ALONE,
        scheme,
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        f"--window-size={width},1000",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    console = re.findall(r"CONSOLE:\d+\] (.*)", done.stderr)
    return Opened(done.stdout, tuple(console), tuple(requests_of_pages(log)))


def requests_of_pages(log: Path) -> list[str]:
    """Addresses that a page asked for; what the browser wants for itself has no page behind it."""
    text = log.read_text().rstrip().rstrip(",")
    try:
        events = json.loads(text)["events"]
    except ValueError:  # The browser was gone before it closed the list.
        events = json.loads(text + "]}")["events"]
    started = [event.get("params", {}) for event in events]
    return [
        params["url"]
        for params in started
        if params.get("initiator", "not an origin") != "not an origin" and "url" in params
    ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {
        "sequence": sequence_page(sequence_answer()),
        "run": runs_page([run_answer()]),
        "runs": runs_page([run_answer(), run_answer("ycsb/f again")]),
    }
    for name, page in found.items():
        write_html(page, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in found}


@pytest.mark.parametrize(
    ("name", "width", "scheme", "figures"),
    [
        ("sequence", 1280, LIGHT, 3),
        ("sequence", 390, DARK, 3),
        ("run", 1280, DARK, 7),
        ("runs", 390, LIGHT, 17),
    ],
)
def test_every_figure_is_drawn_without_a_complaint_and_without_a_network(
    pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: str, figures: int
) -> None:
    seen = opened(pages[name], tmp_path, width, scheme)
    assert seen.console == ()
    assert seen.requests == ()
    assert len(seen.drawings()) == figures
    for drawing in seen.drawings().values():
        assert 'data-state="drawn"' in drawing
        assert drawing.count("<path") > 10
        assert "var(--series-1)" in drawing


def test_a_page_that_would_fetch_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><title>x</title><img src="http://kvmark.invalid/x.png">')
    assert opened(page, tmp_path, 800, LIGHT).requests


def test_a_page_that_complains_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><title>x</title><script>console.error("no")</script>')
    assert opened(page, tmp_path, 800, LIGHT).console


def test_panels_stand_side_by_side_only_where_there_is_room(
    pages: dict[str, Path], tmp_path: Path
) -> None:
    def panel_places(width: int) -> set[str]:
        drawing = opened(pages["sequence"], tmp_path, width, LIGHT).drawings()["throughput"]
        cells = drawing.partition("role-scope cell")[2].partition("role-legend")[0]
        return set(
            re.findall(r'<g transform="translate\((\d+),\d+\)"><path class="background"', cells)
        )

    assert len(panel_places(1280)) == 3
    assert len(panel_places(500)) == 2


DRAWN = "document.querySelectorAll('.drawing:not([data-state=drawn])').length === 0"
LINES = "[...document.querySelectorAll('#response .mark-line path')].length"
SERIES = "#response .switches button:nth-child(2)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_series_is_switched_off_and_on_by_hand_and_by_key(
    browser: Chromium, pictures: Path, pages: dict[str, Path], scheme: Literal["light", "dark"]
) -> None:
    page = browser.open(pages["run"].as_uri(), scheme=scheme)
    page.wait_for(DRAWN)
    page.screenshot(pictures / f"report-{scheme}.png")
    before = page.see(LINES)
    page.click(SERIES)
    page.wait_for(f"{LINES} === {before - 1}")
    assert page.see(f"document.querySelector('{SERIES}').getAttribute('aria-pressed')") == "false"
    page.see(f"document.querySelector('{SERIES}').focus()")
    page.press("Enter", 13)
    page.wait_for(f"{LINES} === {before}")
    assert page.console == []
    assert page.requests == [pages["run"].as_uri()]
    page.close()


def test_a_point_tells_its_numbers(browser: Chromium, pages: dict[str, Path]) -> None:
    page = browser.open(pages["run"].as_uri())
    page.wait_for(DRAWN)
    shown = "document.querySelector('#vg-tooltip-element.visible') !== null"
    page.point_at("#rate .mark-symbol path:nth-child(30)", shown)
    text = page.see("document.getElementById('vg-tooltip-element').textContent")
    assert "at second" in text
    assert "ops/s" in text
    page.close()


def test_a_legend_is_not_drawn_twice(browser: Chromium, pages: dict[str, Path]) -> None:
    page = browser.open(pages["run"].as_uri())
    page.wait_for(DRAWN)
    assert page.see("document.querySelectorAll('.role-legend').length") == 0
    assert page.see("document.querySelectorAll('#response .switches button').length") == 3
    page.close()


def test_a_report_is_read_on_a_telephone(
    browser: Chromium, pictures: Path, pages: dict[str, Path]
) -> None:
    page = browser.open(pages["run"].as_uri(), width=390, height=800)
    page.wait_for(DRAWN)
    page.screenshot(pictures / "report-telephone.png")
    assert page.see("document.documentElement.scrollWidth") <= 390
    page.close()
