"""What a list shows of a run: its manifest in short, its figures, and the judgement on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

__all__ = ["Entry", "Judgement", "RunLine", "State"]

State = Literal["closed", "ended", "going", "killed", "broken"]
"""What has ended or was killed is closed when it is opened."""


class Judgement(Enum):
    """What a run may be used for."""

    #: As it is.
    VALID = "VALID"
    #: With the reasons beside it.
    SUSPECT = "SUSPECT"
    #: Not at all; comparisons refuse it.
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in a list: what its manifest says in short, or what is wrong with it."""

    id: str
    path: Path
    state: State
    created: str
    name: str = ""
    system: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    commit: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list. Figures and judgement are none where a run isn't closed or isn't judged."""

    entry: Entry
    #: Operations a second in the first counted phase.
    throughput: float | None = None
    response_ns_p99: int | None = None
    judgement: Judgement | None = None
