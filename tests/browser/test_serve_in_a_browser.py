"""The application in a real browser: the list, a report, a run that goes until it is closed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from chromium import DRAWN, NEEDS_CHROMIUM, Chromium

from kvmark.records import Records
from runs_on_disk import begun, close, closed, engine_record, two_runs, write_second

pytestmark = NEEDS_CHROMIUM
KVMARK = [sys.executable, "-c", "import sys; from kvmark.cli import main; sys.exit(main())"]
ROWS = "document.querySelectorAll('tbody tr').length"
VISIBLE = "[...document.querySelectorAll('tbody tr')].filter(row => row.offsetHeight).length"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return two_runs(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def entrance(records: Records) -> Iterator[str]:
    words = ["serve", "--runs", str(records.root), "--port", "0", "--json"]
    process = subprocess.Popen([*KVMARK, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def address(browser: Chromium, entrance: str) -> str:
    """The application for a browser that was at its entrance."""
    place, _, _ = entrance.partition("/?")
    page = browser.open(entrance)
    page.wait_for(f"location.href === '{place}/'")
    page.close()
    return place


def test_runs_are_found_opened_and_compared(browser: Chromium, address: str) -> None:
    page = browser.open(f"{address}/")
    assert page.see(ROWS) == 2
    page.see("document.querySelector('[name=words]').value = 'ycsb/e'")
    page.click("form.narrow button")
    page.wait_for(f"{ROWS} === 1")
    page.click("tbody a")
    page.wait_for("document.querySelector('h1')?.textContent.includes('ycsb/e')")
    page.wait_for(DRAWN)
    page.click(".kicker a")
    page.wait_for(f"{ROWS} === 2")
    page.click("tbody:nth-of-type(1) input")
    page.click("tbody:nth-of-type(2) input")
    page.click("form[action='/compare'] button")
    page.wait_for("document.querySelector('h1')?.textContent === '2 runs'")
    page.wait_for(DRAWN)
    assert page.console == []
    assert all(each.startswith(address) for each in page.requests)
    page.close()


def test_a_narrow_list_unfolds_and_does_not_scroll(
    browser: Chromium, address: str, records: Records
) -> None:
    for _ in range(2):
        closed(records, name="ycsb/f", tags=("study:20260101-000000-a-sweep-0123-4567",))
    page = browser.open(f"{address}/?words=ycsb/f", width=390)
    assert page.see(VISIBLE) == 1
    page.click(".fold")
    page.wait_for(f"{VISIBLE} === 3")
    assert page.see("document.documentElement.scrollWidth") == 390
    page.close()


def test_a_run_is_followed_to_its_end(browser: Chromium, address: str, records: Records) -> None:
    going = begun(records, name="ycsb/a")
    write_second(going, 0)
    page = browser.open(f"{address}/runs/{going.id}")
    page.wait_for("document.querySelectorAll('.drawing[data-state=drawn]').length === 2")
    write_second(going, 1, failed=7)
    page.wait_for("document.getElementById('now').textContent.includes('7 timeout')")
    close(going, engine_record(2))
    page.wait_for("document.getElementById('belief')?.textContent.includes('believed')")
    page.wait_for(DRAWN)
    assert page.console == []
    page.close()
