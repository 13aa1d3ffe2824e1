"""The documents as a site, opened from disk in a real browser, with no network behind it."""

from __future__ import annotations

import pytest
import website
from chromium import NEEDS_CHROMIUM, Chromium

pytestmark = [
    NEEDS_CHROMIUM,
    pytest.mark.skipif(not website.is_installed(), reason="`make site` installs its generator"),
]
SEARCH = "document.activeElement.shadowRoot"
SECTION = 'a[href*="how-it-measures.html"][href$="#coordinated-omission"]'
FOUND = f"{SEARCH}.querySelector('{SECTION}')"


def test_the_search_finds_a_section_in_a_page_that_is_a_file(browser: Chromium) -> None:
    website.build()
    page = browser.open((website.SITE / "index.html").as_uri())
    page.click(".md-search__button")
    page.wait_for(f"{SEARCH}?.activeElement?.tagName === 'INPUT'")
    assert not page.see(f"{FOUND} !== null")
    page.call("Input.insertText", {"text": "coordinated omission"})
    page.wait_for(f"{FOUND} !== null")
    assert not page.console
    assert all(request.startswith(("file:", "data:")) for request in page.requests)


def test_pages_fit_a_phone_and_no_name_in_a_table_is_broken(browser: Chromium) -> None:
    website.build()
    names = "[...document.querySelectorAll('td:first-child code')]"
    for name in ("index", "method/verdict", "reference/commands/run", "results/hcassandra"):
        page = browser.open((website.SITE / f"{name}.html").as_uri(), width=390)
        assert page.see("document.documentElement.scrollWidth") == 390, name
        assert page.see(f"{names}.every(name => name.getClientRects().length === 1)"), name
