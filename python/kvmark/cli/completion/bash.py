"""Words with colons in bash, which cuts them there: `up:redis` reaches a completion as three.

Typer splits and answers as if a word were one; so the pieces are put together before it asks, and
of the answers only what belongs to the last piece is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO

__all__ = ["joined", "whole_words"]

_WORDS = "COMP_WORDS"
_PLACE = "COMP_CWORD"


@contextmanager
def whole_words() -> Iterator[None]:
    """Asks for completions of whole words while bash cuts them, and prints what bash adds."""
    words = os.environ.get(_WORDS, "").split("\n")
    place = os.environ.get(_PLACE, "")
    if not place.isdigit():
        yield
        return
    whole, before = joined(words[: int(place) + 1])
    os.environ.update({_WORDS: "\n".join(whole), _PLACE: str(len(whole) - 1)})
    answer = StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        lines = answer.getvalue().splitlines()
        sys.stdout.write("".join(f"{line.removeprefix(before)}\n" for line in lines))


def joined(words: Sequence[str]) -> tuple[list[str], str]:
    """Words as they were typed, and of the last one what bash takes for words before it."""
    whole: list[str] = []
    glued = False
    for word in words:
        if whole and (glued or word.startswith(":")):
            whole[-1] += word
        else:
            whole.append(word)
        glued = word.endswith(":")
    last = whole[-1] if whole else ""
    cut = last.rfind(":") + 1
    return whole, last[:cut]
