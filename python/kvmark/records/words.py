"""The runs that one word of a user means: one, or all of a tag, a study or a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from kvmark.errors import RecordsError
from kvmark.records.listed import Entry, State
from kvmark.records.store import Records

__all__ = ["ANY", "USABLE", "entries_of"]

USABLE: Final[Collection[State]] = ("closed", "ended", "killed")
"""States of runs that can be read, once they are closed."""
ANY: Final[Collection[State]] = (*USABLE, "going", "broken")

_TAG: Final = "tag:"
_COMMIT: Final = "commit:"
_STUDY: Final = "study:"


def entries_of(
    records: Records, word: str, states: Collection[State], *, bare_tags: bool
) -> list[Entry]:
    """The runs that a word means, of several only those in these states, newest first.

    A word is an id or the beginning of one, `last` or `last~1`, `tag:NAME`, `study:ID` or
    `commit:ID`; with ``bare_tags`` also a tag alone, where no run is called so.

    Raises:
        RecordsError: it means none.
    """
    word = word.strip()

    def all_that(holds: Callable[[Entry], bool]) -> list[Entry]:
        return [entry for entry in records.list() if entry.state in states and holds(entry)]

    if word.startswith(_COMMIT):
        commit = word.removeprefix(_COMMIT)
        found = all_that(lambda entry: bool(commit) and (entry.commit or "").startswith(commit))
    elif word.startswith((_TAG, _STUDY)):
        tag = word.removeprefix(_TAG)
        found = all_that(lambda entry: tag in entry.tags)
    else:
        try:
            return [records.find(word)]
        except RecordsError:
            found = all_that(lambda entry: word in entry.tags) if bare_tags else []
            if not found:
                raise
    if not found:
        raise RecordsError(f"there is no run with {word} in {records.root}; see kvmark runs")
    return found
