"""The documents as a site: what is checked beside what its generator checks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import website

import setup


def test_a_page_that_the_navigation_does_not_name_is_found() -> None:
    navigation = [{"Start": ["README.md", {"Installing": "guide/installing.md"}]}]
    pages = ["README.md", "decisions/0001-a.md", "guide/installing.md", "guide/redis.md"]
    assert website.unlisted(navigation, pages) == ["guide/redis.md"]


def test_what_a_page_fetches_from_elsewhere_is_found() -> None:
    links = '<a href="https://example.org">a</a> <img src="b.svg"> <script>"//c"</script>'
    assert website.fetched(links) == []
    fetching = '<link rel=x href="https://a/b.css"> <script async src=//c/d.js></script>'
    assert website.fetched(links + fetching) == ["https://a/b.css", "//c/d.js"]


def test_a_link_that_leads_nowhere_is_told_without_the_generator_s_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "\x1b[33mWarning:\x1b[0m page does not exist\nTraceback (most recent call last)\n"
    failed = subprocess.CompletedProcess[str]([], 1, stdout="Build started\n", stderr=said)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(setup.Failed, match=r"\AWarning: page does not exist\nThe site isn't built"):
        website.build()


def test_what_the_site_is_made_of_is_there() -> None:
    assert website.LOCK.exists()
    for name in ("iframe-worker.js", "site.css"):
        assert name in website.CONFIG.read_text()
        assert Path(website.DOCS, "assets", name).exists()
