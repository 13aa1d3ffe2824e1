"""A program beside its peers: every repetition as it was kept, medians, ratios and bounds of them.

Repetitions are in blocks: each block has every case with every program once, so that a ratio is
that of the pairs within a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvmark.errors import RecordsError
from kvmark.stats import Estimate, keeps_within, mean_interval, paired_ratio

SCHEMA: Final = "kvmark/peers/1"
_HELD: Final[Mapping[bool | None, Literal["met", "open", "NOT met"]]] = {
    True: "met", False: "NOT met", None: "open",
}  # fmt: skip


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PeerFigure(_Kept):
    """What is measured."""

    name: str
    #: As a table's heading, with the unit.
    heading: str


class PeerBound(_Kept):
    """What the first program of a case is held to."""

    figure: str
    #: Of the ratio to this peer's figure; of the figure itself where there is none.
    peer: str | None = None
    limit: float
    #: Whether it must not be above the limit; else it must not be below.
    most: bool = True


class PeerCase(_Kept):
    """A case and who does it."""

    name: str
    #: The first is divided by each of the others.
    programs: tuple[str, ...]
    bounds: tuple[PeerBound, ...] = ()


class PeerRun(_Kept):
    """What one program did in one case of one block."""

    block: int
    case: str
    program: str
    #: By the figures' names; none where nothing was measured.
    figures: Mapping[str, float] | None
    failed: str = ""


@dataclass(frozen=True, slots=True)
class PeerRow:
    """A program's medians over the blocks."""

    case: str
    program: str
    figures: Mapping[str, float | None]
    blocks: int


@dataclass(frozen=True, slots=True)
class PeerRatio:
    """The first program's figure over a peer's, or by itself, and how its bound came out."""

    case: str
    figure: str
    peer: str | None
    estimate: Estimate
    bound: PeerBound | None

    @property
    def held(self) -> Literal["met", "open", "NOT met"] | None:
        """How the bound came out, by the whole interval; none where there is no bound."""
        if self.bound is None:
            return None
        found, bound = self.estimate, self.bound
        return _HELD[keeps_within(found.low, found.high, bound.limit, most=bound.most)]


class Peers(_Kept):
    """A comparison, whole: what a document's table is computed from."""

    kind: Literal["kvmark/peers/1"] = Field(alias="schema")
    #: Such as `kvmark beside latte and YCSB`.
    subject: str
    #: The system, its version and its resources, in a sentence.
    system: str
    created: str
    commit: str | None
    command: tuple[str, ...]
    host: Mapping[str, Any]
    #: Of every program, by its name.
    versions: Mapping[str, str]
    figures: tuple[PeerFigure, ...]
    cases: tuple[PeerCase, ...]
    runs: tuple[PeerRun, ...]

    def values(self, case: str, program: str, figure: str) -> dict[int, float]:
        """A figure of one program in one case, for the blocks in which it was measured."""
        return {
            run.block: run.figures[figure]
            for run in self.runs
            if (run.case, run.program) == (case, program)
            and run.figures is not None
            and figure in run.figures
        }

    def rows(self) -> Iterator[PeerRow]:
        """Each program's medians, of those that measured something."""
        for case in self.cases:
            for program in case.programs:
                found = {
                    one.name: self.values(case.name, program, one.name) for one in self.figures
                }
                blocks = max(map(len, found.values()), default=0)
                medians = {name: median(of.values()) if of else None for name, of in found.items()}
                if blocks:
                    yield PeerRow(case.name, program, medians, blocks)

    def ratios(self) -> Iterator[PeerRatio]:
        """The first program over each other, and what is held to a bound by itself."""
        for case in self.cases:
            first = case.programs[0]
            for peer, figure in product(case.programs[1:], (one.name for one in self.figures)):
                ours = self.values(case.name, first, figure)
                theirs = self.values(case.name, peer, figure)
                both = sorted(ours.keys() & theirs.keys())
                if both and all(theirs[block] and ours[block] for block in both):
                    ratio = paired_ratio([theirs[n] for n in both], [ours[n] for n in both])
                    bounds = (
                        one for one in case.bounds if (one.peer, one.figure) == (peer, figure)
                    )
                    yield PeerRatio(case.name, figure, peer, ratio, next(bounds, None))
            for bound in case.bounds:
                own = list(self.values(case.name, first, bound.figure).values())
                if bound.peer is None and own:
                    yield PeerRatio(case.name, bound.figure, None, mean_interval(own, ""), bound)


def read_peers(path: Path) -> Peers:
    """A comparison that was kept.

    Raises:
        RecordsError: the file can't be read or is none.
    """
    try:
        return Peers.model_validate_json(path.read_bytes())
    except OSError as problem:
        raise RecordsError(f"{path} can't be read: {problem.strerror}") from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordsError(
            f"{path} is no comparison with peers: {place}: {first['msg']}; make it again with"
            " --results"
        ) from problem
