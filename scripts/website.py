"""Builds the documents as a site into `site/`, as configured in zensical.toml.

Dead links and anchors fail, and so do pages that the navigation doesn't name, pictures without a
text for those who don't see them, and what is fetched from another host.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import progress
import target_folder

import setup

LOCK = setup.ROOT / "requirements-site.lock"
CONFIG = setup.ROOT / "zensical.toml"
DOCS = setup.ROOT / "docs"
SITE = setup.ROOT / "site"
# Its own page lists them.
LISTED_ELSEWHERE = "decisions/"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FETCHING = r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="
FETCHED = re.compile(FETCHING + r"\"?((?:https?:)?//[^\s\">]+)")
PICTURE = re.compile(r"<img\b[^>]*>")
TEXT = re.compile(r"\balt=(?:\"[^\"]+\"|'[^']+'|[^\s\"'>]+)")


def is_installed() -> bool:
    """Whether the generator that is locked is in `.venv`."""
    return setup.is_done("site", target_folder.digest([LOCK], sys.version))


def build() -> None:
    """Writes the site. Raises Failed for dead links and anchors."""
    command = [str(setup.PYTHON), "-m", "zensical", "build", "--clean", "--strict"]
    command += ["--config-file", str(CONFIG)]
    built = subprocess.run(command, cwd=setup.ROOT, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        message, _, _ = COLOUR.sub("", built.stderr).partition("Traceback")
        raise setup.Failed(f"{message.strip()}\nThe site isn't built: fix that and try again.")


def unlisted(navigation: object, pages: list[str]) -> list[str]:
    """The pages that the navigation doesn't name, where nothing else lists them."""
    named = set(named_in(navigation))
    return [page for page in pages if page not in named and not page.startswith(LISTED_ELSEWHERE)]


def named_in(navigation: object) -> Iterator[str]:
    """The pages that a navigation, or a part of it, names."""
    match navigation:
        case str():
            yield navigation
        case list():
            for entry in navigation:
                yield from named_in(entry)
        case dict():
            yield from named_in(list(navigation.values()))


def fetched(page: str) -> list[str]:
    """The addresses of other hosts that a browser fetches for this page."""
    return FETCHED.findall(page)


def textless(page: str) -> list[str]:
    """The pictures of this page without a text."""
    return [picture for picture in PICTURE.findall(page) if not TEXT.search(picture)]


def check() -> None:
    """Raises Failed for a page that isn't listed, needs a network, or has a textless picture."""
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    navigation = tomllib.loads(CONFIG.read_text())["project"]["nav"]
    if missing := unlisted(navigation, pages):
        raise setup.Failed(f"The navigation in {CONFIG.name} doesn't name {', '.join(missing)}.")
    for page in sorted(SITE.rglob("*.html")):
        if others := fetched(page.read_text()):
            raise setup.Failed(f"{page.relative_to(SITE)} fetches {', '.join(others)}.")
        if pictures := textless(page.read_text()):
            raise setup.Failed(f"{page.relative_to(SITE)}: no text for {', '.join(pictures)}.")


def main() -> None:
    """Builds the site and prints its first page."""
    setup.install("site", LOCK)
    build()
    check()
    print(SITE.relative_to(setup.ROOT) / Path("index.html"))


if __name__ == "__main__":
    sys.exit(progress.exit_code(main, setup.Failed))
