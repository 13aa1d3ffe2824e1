"""What a document says outside its marked blocks: numbers that look measured, and pictures.

A number looks measured that has a unit, a `±` or an interval, and every number of a table. Settings
and published figures are said in a comment, each with where it comes from:

    <!-- kvmark given
    1 GiB: the heap of each node, as set
    47,000 ops/s: published, hydra-cassandra-3.0.6.csv
    -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvmark.errors import SpecError
from kvmark.report.format.marks import MarkedBlock

__all__ = ["GivenNumber", "Prose", "Said", "numerals", "prose_of"]

_NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_NUMERAL: Final = re.compile(_NUMBER)
_UNIT: Final = (
    r"%|×|times|percent|(?:ops|records|rows|operations|requests|MB|GB)/s|/s|[nµm]s|s|min|h"
    r"|minutes?|seconds?|hours?|[kMG]i?B|KiB|bytes?|B|(?:operations|records|requests) a second"
)
_RATES: Final = ("/s", "a second")
_MEASURED: Final = re.compile(
    rf"(?<![\w.,/-])(?P<number>{_NUMBER})(?:\s*±\s*(?P<error>{_NUMBER}))?"
    rf"(?:\s?(?P<unit>{_UNIT})(?![\w/]))?"
)
_INTERVAL: Final = re.compile(rf"\[\s*[−-]?({_NUMBER}),\s+[−-]?({_NUMBER})\s*\]")
_CODE: Final = re.compile(r"`[^`]*`|<[^>]*>")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)(\w*)")
_OF_TEXT: Final = ("", "text")
"""Languages of fenced blocks that hold what a program printed."""
_GIVEN: Final = re.compile(r"^<!--\s+kvmark given\s*\n(.*?)-->", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Said:
    """A number of the prose as it stands there, and what its paragraph links to."""

    line: int
    text: str
    numbers: tuple[str, ...]
    links: tuple[str, ...]
    #: Whether hardly anything but a measurement looks like it: it has an error or an interval, or
    #: is so much a second.
    surely: bool


@dataclass(frozen=True, slots=True)
class GivenNumber:
    """A number that isn't measured here, and where it comes from."""

    line: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Prose:
    """What stands outside the blocks of a document."""

    said: tuple[Said, ...]
    given: tuple[GivenNumber, ...]
    #: The files of pictures, with their lines.
    pictures: tuple[tuple[int, str], ...]


@dataclass
class _Paragraph:
    lines: list[tuple[int, str]] = field(default_factory=list)
    #: What a program printed: every number of it looks measured.
    printed: bool = False


def prose_of(text: str, blocks: Sequence[MarkedBlock]) -> Prose:
    """The prose of a document with these blocks.

    Raises:
        SpecError: a line of a list of given numbers can't be read; with its line.
    """
    given = tuple(_given(text))
    for block in reversed(blocks):
        text = text[: block.start] + _blank(text[block.start : block.end]) + text[block.end :]
    text = _GIVEN.sub(lambda found: _blank(found[0]), text)
    paragraphs = list(_paragraphs(text))
    pictures = tuple(
        (line, found[1])
        for paragraph in paragraphs
        for line, content in paragraph.lines
        for found in _PICTURE.finditer(content)
    )
    said = tuple(one for paragraph in paragraphs for one in _said(paragraph))
    return Prose(said, given, pictures)


def numerals(text: str) -> frozenset[str]:
    """All numbers of a text, as they are compared: without the commas of thousands."""
    return frozenset(map(_plain, _NUMERAL.findall(text)))


def _given(text: str) -> Iterator[GivenNumber]:
    for found in _GIVEN.finditer(text):
        first = text[: found.start(1)].count("\n") + 1
        for number, line in enumerate(found[1].splitlines(), start=first):
            if not line.strip():
                continue
            said, colon, source = line.partition(": ")
            if not colon or not numerals(said) or not source.strip():
                raise SpecError(
                    f"'{line.strip()}' gives no number: write it as 1 GiB: where it comes from",
                    line=number,
                )
            yield GivenNumber(number, said.strip(), source.strip())


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """Runs of lines without an empty one; code is left out, but for what a program printed."""
    paragraph, fence, printed = _Paragraph(), "", False
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, printed = mark[1], mark[2] in _OF_TEXT
        elif mark and mark[1] == fence:
            fence = ""
        is_code = line.startswith("    ") and not paragraph.lines
        is_kept = printed if fence else not is_code
        if line.strip() and not mark and is_kept:
            paragraph.printed = bool(fence)
            paragraph.lines.append((number, line))
        elif paragraph.lines:
            yield paragraph
            paragraph = _Paragraph()
    if paragraph.lines:
        yield paragraph


def _said(paragraph: _Paragraph) -> Iterator[Said]:
    links = tuple(link for _, line in paragraph.lines for link in _LINK.findall(line))
    for number, line in paragraph.lines:
        plain = _CODE.sub(" ", _LINK.sub("]", line))
        is_row = paragraph.printed or plain.lstrip().startswith("|")
        for found in _INTERVAL.finditer(plain):
            ends = tuple(map(_plain, found.groups()))
            yield Said(number, found[0], ends, links, surely=not paragraph.printed)
        for found in _MEASURED.finditer(_INTERVAL.sub(" ", plain)):
            if found["unit"] or found["error"] or is_row:
                numbers = tuple(_plain(one) for one in (found["number"], found["error"]) if one)
                is_rate = (found["unit"] or "").endswith(_RATES)
                surely = not paragraph.printed and (found["error"] is not None or is_rate)
                yield Said(number, found[0].strip(), numbers, links, surely=surely)


def _plain(number: str) -> str:
    return number.replace(",", "")


def _blank(text: str) -> str:
    """As many lines with nothing in them."""
    return "\n" * text.count("\n")
