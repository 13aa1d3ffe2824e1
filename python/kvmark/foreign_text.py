"""Text from outside, such as errors of servers, names of hosts, tags and files, made harmless."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?[\d.,]+(e[+-]?\d+)?( ?[%\w/]+)?")
_CREDENTIALS: Final = re.compile(r"""(\b[A-Za-z][\w+.-]{0,20}:/+)[^\s"/:@]*:(?:\\.|[^\s"\\])*@""")


def printable(text: str, kept: str = "") -> str:
    """The text without anything that commands a terminal, but for the signs that are kept."""
    return "".join(
        sign if sign.isprintable() or sign in kept else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def without_passwords(text: str) -> str:
    """The text without the user and password of each URL in it, in a sentence or in JSON.

    Whatever stands in a password but spaces and quotes: the last @ ends it.
    """
    return _CREDENTIALS.sub(r"\1", text)


def cell_text(text: str) -> str:
    """The text as a cell of CSV that no spreadsheet takes for a formula."""
    begins = text[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{text}" if begins and not _NUMBER.fullmatch(text) and len(text) > 1 else text
