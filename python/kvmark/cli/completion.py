"""Shell completion of runs, tags, workloads, studies and systems.

The shell waits for it, so nothing here reads a manifest or loads a library. Where something can't
be read, nothing is offered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO

import typer

from kvmark import catalog
from kvmark.errors import KvmarkError
from kvmark.testbed import SAVED, names_of_testbeds, testbeds_root

_WORDS = "COMP_WORDS"
_PLACE = "COMP_CWORD"
_Completer = Callable[[typer.Context, str], Iterable[str]]


@contextmanager
def whole_words() -> Iterator[None]:
    """Completes whole words that bash cuts at colons, and prints the part that bash adds."""
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
    """Words as typed, and the part of the last one that bash takes for earlier words."""
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


def offered(words: _Completer) -> Callable[[typer.Context, str], list[str]]:
    """The words that begin with the incomplete word."""

    # Typer passes arguments by these annotations.
    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [word for word in words(ctx, incomplete) if word.startswith(incomplete)]
        except (KvmarkError, OSError, ValueError):
            return []

    return offered


@offered
def one_run(ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """`last`, and all runs by id, newest first."""
    from kvmark.records.store import Records

    yield "last"
    yield from sorted(Records.at(ctx.params.get("folder")).ids(), reverse=True)


@offered
def several_runs(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The last of several runs separated by commas: an id, tag or study."""
    before, comma, word = incomplete.rpartition(",")
    if word.startswith("tag:"):
        names = [f"tag:{tag}" for tag in _tags(ctx)]
    elif word.startswith("study:"):
        names = [tag for tag in _tags(ctx) if tag.startswith("study:")]
    else:
        names = one_run(ctx, word)
    yield from (f"{before}{comma}{one}" for one in names)


@offered
def system(_ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """The beginnings of URLs, and the testbeds."""
    from kvmark.drivers import schemes

    yield from sorted(scheme.beginning for scheme in schemes().values())
    yield from (f"up:{name}" for name in names_of_testbeds(testbeds_root()))


def _tags(ctx: typer.Context) -> list[str]:
    from kvmark.records.store import Records

    entries = Records.at(ctx.params.get("folder")).list()
    return sorted({tag for entry in entries for tag in entry.tags})


tag = offered(lambda ctx, _: _tags(ctx))
"""The tags of the runs."""
workload = offered(lambda *_: catalog.names())
"""The ready workloads; the shell adds files where none matches."""
study = offered(lambda *_: catalog.study_names())
"""The ready studies."""
testbed = offered(lambda *_: names_of_testbeds(testbeds_root()))
"""The testbeds."""
dataset = offered(lambda *_: names_of_testbeds(testbeds_root() / SAVED))
"""The saved datasets."""
