"""Rules for the project as a whole: documents, versions, the Makefile."""

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from findings import Finding, Source

FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)")
IMAGE = re.compile(r"<(?:img|source)[^>]* src(?:set)?=\"(?!\w+:)([^\"]+)\"")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
RELEASE = re.compile(r"^## \[?(\d+\.\d+\.\d+)", re.MULTILINE)
RULE = re.compile(r"^([a-z][\w-]*):(?!=)(.*)$")


def prose(source: Source) -> str:
    """A document without its code blocks, lines kept."""
    return FENCED.sub(lambda found: "\n" * found[0].count("\n"), source.text)


def titles(source: Source) -> Iterator[Finding]:
    """A document has one title, on top."""
    lines = prose(source).split("\n")
    found = [number for number, line in enumerate(lines, 1) if line.startswith("# ")]
    if len(found) != 1:
        yield source.find(1, f"{len(found)} titles, there must be one")
    elif any(line.strip() for line in lines[: found[0] - 1]):
        yield source.find(found[0], "the title must be on top")


def links(source: Source) -> Iterator[tuple[int, str]]:
    """What a document links to and shows, with its lines."""
    for number, line in enumerate(prose(source).split("\n"), 1):
        for target in LINK.findall(line) + IMAGE.findall(line):
            yield number, target


def dead_links(source: Source, root: Path) -> Iterator[Finding]:
    """Links to files, or to headings of documents, that aren't there."""
    here = root / source.path
    for number, target in links(source):
        name, _, anchor = target.partition("#")
        place = here.parent / name if name else here
        if name and not place.exists():
            yield source.find(number, f"{target} isn't there")
        elif anchor and place.suffix == ".md":
            page = Source(name, place.read_text(encoding="utf-8")) if name else source
            if anchor not in anchors(page):
                yield source.find(number, f"{target}: there is no such heading")


def anchors(source: Source) -> set[str]:
    """What the headings of a document are linked by, on Git hosts and in the site alike."""
    titles = (re.sub(r"\]\([^)]*\)", "", title) for title in HEADING.findall(prose(source)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links_out(source: Source, folder: str) -> Iterator[Finding]:
    """Links of a page of the site to what isn't part of it."""
    for number, target in links(source):
        named = os.path.normpath(Path(source.path).parent / target)
        if not named.startswith(folder):
            yield source.find(number, f"{target} isn't part of the site: name its path as code")


def versions(changelog: Source, cargo: Source, pyproject: Source) -> Iterator[Finding]:
    """Cargo, Python and the changelog name one version."""
    version = tomllib.loads(cargo.text)["workspace"]["package"]["version"]
    newest = RELEASE.search(changelog.text)
    if newest is None or newest[1] != version:
        yield changelog.find(1, f"the newest version must be {version}, as in {cargo.path}")
    project = tomllib.loads(pyproject.text)["project"]
    if "version" not in project.get("dynamic", []) and project.get("version") != version:
        yield pyproject.find(1, f"the version must be {version}, as in {cargo.path}")


def recipes(makefile: Source) -> Iterator[Finding]:
    """Each target says what it is for and is phony; a command of a recipe is one line."""
    known = " ".join(re.findall(r"^\.PHONY: (.*)$", makefile.text, re.MULTILINE)).split()
    for number, line in enumerate(makefile.lines, 1):
        rule = RULE.match(line)
        if rule and "## " not in rule[2]:
            yield makefile.find(number, f"`{rule[1]}` needs a text after ##")
        if rule and rule[1] not in known:
            yield makefile.find(number, f"`{rule[1]}` must be among .PHONY")
        if line.startswith("\t") and re.search(r"\\$|&&|;", line):
            yield makefile.find(number, "longer than a line: make it a program in scripts/")
