"""Documents have one title and links that lead somewhere, and the project has one version."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from sources import ROOT, Source, repository

import kvmark

FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)|<(?:img|source)[^>]* src(?:set)?=\"(?!\w+:)([^\"]+)\"")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def prose(text: str) -> str:
    """A document without its code blocks."""
    return FENCED.sub("", text)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, on Git hosts and in the site alike."""
    titles = (re.sub(r"\]\([^)]*\)", "", title) for title in HEADING.findall(prose(text)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(source: Source, root: Path) -> Iterator[str]:
    """Links to missing files and headings, and links of the site's pages that leave the site."""
    for match in LINK.finditer(prose(source.text)):
        target = match[1] or match[2]
        name, _, anchor = target.partition("#")
        place = (root / source.path).parent / name if name else root / source.path
        leaves = source.path.startswith("docs/") and root / "docs" not in place.resolve().parents
        text = place.read_text() if place.suffix == ".md" and place.exists() else ""
        text = text if name else source.text
        if leaves or not place.exists() or (anchor and text and anchor not in anchors(text)):
            yield f"{source.path}: {target}"


DOCUMENTS = [source for source in repository() if source.path.endswith(".md")]


def test_documents_have_one_title_on_top() -> None:
    assert not [source.path for source in DOCUMENTS if not is_titled(source.text)]


def is_titled(text: str) -> bool:
    """Whether the first line, and no other, is a title."""
    lines = prose(text).lstrip().split("\n")
    return [number for number, line in enumerate(lines) if line.startswith("# ")] == [0]


def test_a_document_with_no_title_or_two_is_found() -> None:
    assert is_titled("# A\n\n## B\n\n```sh\n# a comment\n```\n")
    assert not is_titled("## A\n")
    assert not is_titled("# A\n# B\n")


def test_links_lead_somewhere() -> None:
    assert not [link for source in DOCUMENTS for link in dead_links(source, ROOT)]


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "there.md").write_text("# A `--word`, and [more](x.md)\n")
    (tmp_path / "docs/a.md").write_text("")
    (tmp_path / "a.md").write_text("")
    good = "# Part\n[a](there.md#a---word-and-more) [b](https://example.org) [c](#part)\n"
    text = f"{good}![d](gone.svg)\n[e](there.md#part)\n[f](#parts)\n"
    dead = ["a.md: gone.svg", "a.md: there.md#part", "a.md: #parts"]
    assert list(dead_links(Source("a.md", text), tmp_path)) == dead
    page = Source("docs/a.md", "# Part\n[a](../there.md) [b](#part) [c](a.md)")
    assert list(dead_links(page, tmp_path)) == ["docs/a.md: ../there.md"]


def test_cargo_python_and_the_changelog_have_one_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changelog = re.search(r"(?m)^## \[?(\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())
    assert changelog is not None
    assert kvmark.__version__ == cargo == python == changelog[1]
