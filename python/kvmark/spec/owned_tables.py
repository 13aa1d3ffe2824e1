"""Tables that kvmark makes for the tools that it imitates, and drops or empties as they do.

The comment of such a table has kvmark's mark, which proves that kvmark created it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

TABLE_MARK: Final = "made by kvmark, which may drop it with all rows"
_COMMENT: Final = re.compile(r"(\bcomment\s*=\s*'(?:[^']|'')*)'", re.IGNORECASE)
_OPTIONS: Final = re.compile(r"\)\s*WITH\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableRemoval:
    """A table or view that a command drops or empties before it begins."""

    name: str
    """With its keyspace: `keyspace.table`, as the system keeps both."""
    drops: bool
    """Whether it goes itself, or its rows alone."""
    kind: Literal["TABLE", "MATERIALIZED VIEW"] = "TABLE"

    @property
    def verb(self) -> str:
        """What is done to it, for people."""
        return "drop" if self.drops else "empty"


def marked(create: str) -> str:
    """A statement that creates a table or view, with kvmark's mark in the comment."""
    if _COMMENT.search(create):
        return _COMMENT.sub(rf"\1; {TABLE_MARK}'", create, count=1)
    joined = "AND" if _OPTIONS.search(create) else "WITH"
    # The statement may end with a comment.
    return f"{create}\n{joined} comment = '{TABLE_MARK}'"
