"""Sanitizing of foreign text, such as errors of servers, names of hosts, tags and files."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?[\d.,]+(e[+-]?\d+)?( ?[%\w/]+)?")
_CREDENTIALS: Final = re.compile(r"""(\b[A-Za-z][\w+.-]{0,20}:/+)[^\s"/:@]*:(?:\\.|[^\s"\\])*@""")


def printable(text: str, kept: str = "") -> str:
    """The text without control characters for a terminal, except those in ``kept``."""
    return "".join(
        sign if sign.isprintable() or sign in kept else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def without_passwords(text: str) -> str:
    """The text without the user and password of each URL in it, in a sentence or in JSON.

    A password can contain anything but spaces and quotes: the last @ ends it.
    """
    return _CREDENTIALS.sub(r"\1", text)


def cell_text(text: str) -> str:
    """The text as a CSV cell that no spreadsheet evaluates as a formula."""
    begins = text[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{text}" if begins and not _NUMBER.fullmatch(text) and len(text) > 1 else text
