"""A user's words in sentences: the nearest known one, how to show one, whether it is text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kvmark.errors import SpecError
from kvmark.foreign_text import printable

MOST_LISTED = 20
LONGEST_SHOWN = 60


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to append to "unknown …": the nearest known word, else the known ones if few."""
    choices = sorted(map(printable, known))
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower()[:LONGEST_SHOWN], by_lower, n=1, cutoff=0.6)
    if near:
        return f" — did you mean '{by_lower[near[0]]}'?"
    if 0 < len(choices) <= MOST_LISTED:
        return f"; known are {', '.join(choices)}"
    return ""


def is_text(text: str) -> bool:
    """Whether the characters can be written as UTF-8; bytes of a command line may not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def without_credentials(text: str) -> str:
    """A word without the user and password of a URL in it; one that has no URL is as it was.

    A password can have any character: the last @ ends it.
    """
    before, mark, rest = text.partition("://")
    return f"{before}://{rest.rpartition('@')[2]}" if mark else text


def refuse_credentials(option: str, address: str, instead: str) -> None:
    """Refuses a user or password in an address that isn't a URL, and doesn't repeat them.

    Raises:
        SpecError: one is in it.
    """
    if "@" in address:
        raise SpecError(f"{option}: takes no user and password within addresses; give {instead}")


def shown(text: str) -> str:
    """A user's text, quoted for a sentence: printable, not too long, a URL without credentials."""
    text = without_credentials(text)
    plain = printable(text)
    return f"'{plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 1] + '…'}'"
