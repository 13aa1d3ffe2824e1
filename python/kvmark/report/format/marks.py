"""Marked blocks of a Markdown file: found, and filled without touching what is around them.

    <!-- kvmark: table tag=nightly workload=a,b -->
    … is written by kvmark …
    <!-- /kvmark -->

Marks inside a fenced code block are text like any other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.errors import SpecError

__all__ = ["MarkedBlock", "blocks", "filled"]

_OPENS: Final = re.compile(r"<!--\s+kvmark:\s+(.*?)\s*-->\s*")
_CLOSES: Final = re.compile(r"<!--\s+/kvmark\s+-->\s*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")


@dataclass(frozen=True, slots=True)
class MarkedBlock:
    """A block: what is asked for, and where its content stands."""

    #: The line of its opening mark, from 1.
    line: int
    kind: str
    options: Mapping[str, str]
    #: Offsets of the content in the text: from behind the opening mark's line to the closing mark.
    start: int
    end: int


def blocks(text: str) -> tuple[MarkedBlock, ...]:
    """The marked blocks of a text, in order.

    Raises:
        SpecError: a mark has no partner or can't be read; with its line.
    """
    found: list[MarkedBlock] = []
    opened: tuple[int, str, Mapping[str, str], int] | None = None
    fence, offset = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        marks = _FENCE.match(line)
        if marks and opened is None and not fence:
            fence = marks[1]
        elif marks and fence and line.strip() == marks[1] and marks[1].startswith(fence):
            fence = ""
        elif not fence:
            begins, ends = _OPENS.fullmatch(line), _CLOSES.fullmatch(line)
            if begins and opened is not None:
                raise SpecError(
                    f"the block of line {opened[0]} has no <!-- /kvmark --> before the next one",
                    line=number,
                )
            if begins:
                opened = (number, *_asked(begins[1], number), offset + len(line))
            elif ends and opened is None:
                raise SpecError("this <!-- /kvmark --> closes no block", line=number)
            elif ends and opened is not None:
                at, kind, options, start = opened
                found.append(MarkedBlock(at, kind, options, start, offset))
                opened = None
        offset += len(line)
    if opened is not None:
        raise SpecError("this block has no <!-- /kvmark -->", line=opened[0])
    return tuple(found)


def filled(text: str, found: Sequence[MarkedBlock], contents: Sequence[str]) -> str:
    """The text with other contents in its blocks, their lines ending as the text's do."""
    newline = "\r\n" if "\r\n" in text else "\n"
    for block, content in reversed(list(zip(found, contents, strict=True))):
        written = newline.join(["", *content.strip("\n").split("\n"), "", ""])
        text = text[: block.start] + written + text[block.end :]
    return text


def _asked(words: str, line: int) -> tuple[str, Mapping[str, str]]:
    try:
        kind, *others = shlex.split(words)
    except ValueError as problem:
        raise SpecError(f"this mark can't be read: {problem}", line=line) from None
    options: dict[str, str] = {}
    for word in others:
        name, equals, value = word.partition("=")
        if not equals or name in options:
            raise SpecError(f"'{word}' is no option: write name=value, each name once", line=line)
        options[name] = value
    return kind, options
