"""The steps of a Dockerfile, for a machine without Docker to carry out.

Only what this project's own file uses is known; anything else is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KNOWN = ("FROM", "RUN", "COPY", "ENV", "WORKDIR", "ENTRYPOINT", "CMD")


@dataclass(frozen=True)
class Step:
    """One instruction, its line continuations joined."""

    instruction: str
    words: str


def steps(text: str) -> list[Step]:
    """The instructions in their order.

    Raises ValueError for one that isn't known.
    """
    found = []
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        instruction, _, words = line.strip().partition(" ")
        if instruction not in KNOWN:
            raise ValueError(f"the Dockerfile's {instruction} can't be carried out here")
        found.append(Step(instruction, words.strip()))
    return found
