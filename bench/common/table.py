"""What was measured as one document to keep, and the tables that are computed from it.

`kvmark doc` computes the same tables of the same document.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from bench.common.blocks import Repetition
from bench.common.figures import Bound, Compared, Figure
from bench.common.process import PeerFailedError

from kvmark.analysis.peers import (
    SCHEMA,
    PeerBound,
    PeerCase,
    PeerFigure,
    PeerRun,
    Peers,
)
from kvmark.report.format.grid import to_text
from kvmark.report.views.peers import medians_grid, ratios_grid
from kvmark.testbed.host import describe_host

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 160


def peers_of(
    subject: str,
    system: str,
    figures: Sequence[PeerFigure],
    cases: Sequence[PeerCase],
    runs: Iterable[PeerRun],
    versions: Mapping[str, str] | None = None,
) -> Peers:
    """Everything that was measured, with where and when; cases that nobody did are left out."""
    made = tuple(runs)
    done = {run.case for run in made}
    place = Path(sys.argv[0]).resolve().relative_to(ROOT).with_suffix("")
    module = ".".join(place.parts).removesuffix(".__main__")
    return Peers(
        schema=SCHEMA,
        subject=subject,
        system=system,
        created=datetime.now(UTC).isoformat(),
        commit=commit(),
        command=("python", "-m", module, *sys.argv[1:]),
        host=describe_host(),
        versions=versions or {},
        figures=tuple(figures),
        cases=tuple(case for case in cases if case.name in done),
        runs=made,
    )


@cache
def commit() -> str | None:
    """The clone's commit, and whether more than documents changed since; none without Git.

    It is that of the first look, which is before anything is measured.
    """
    head = _git("rev-parse", "--short=12", "HEAD").stdout.strip()
    changed = _git("diff", "--quiet", "HEAD", "--", ".", ":(exclude)docs").returncode
    return f"{head}-dirty" if head and changed else head or None


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    """What Git says of this clone."""
    command = ["git", *words]
    return subprocess.run(  # noqa: S603 - of this clone
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


def text_of_peers(peers: Peers) -> str:
    """Both tables for a terminal."""
    grids = (medians_grid(peers), ratios_grid(peers))
    return "\n\n".join(to_text(grid, WIDTH).plain for grid in grids) + "\n"


def figure_of(figure: Figure) -> PeerFigure:
    """A figure as it is kept."""
    return PeerFigure(name=figure.name, heading=figure.head)


def case_of(case: Compared) -> PeerCase:
    """A case as it is kept."""
    bounds = tuple(map(bound_of, case.bounds))
    return PeerCase(name=case.name, programs=case.peers, bounds=bounds)


def bound_of(bound: Bound) -> PeerBound:
    """A bound as it is kept."""
    return PeerBound(figure=bound.figure.name, peer=bound.peer, limit=bound.limit, most=bound.most)


def attempt(
    block: int, case: str, program: str, measure: Callable[[], Mapping[str, float]]
) -> PeerRun:
    """What a program measures by the figures' names, or why nothing was measured."""
    try:
        return PeerRun(block=block, case=case, program=program, figures=measure())
    except PeerFailedError as failure:
        return PeerRun(block=block, case=case, program=program, figures=None, failed=str(failure))


def run_of(one: Repetition, figures: Sequence[Figure]) -> PeerRun:
    """A repetition as it is kept."""
    found = None
    if one.measured is not None:
        found = {figure.name: figure.of(one.measured) for figure in figures}
    return PeerRun(
        block=one.block, case=one.case, program=one.peer, figures=found, failed=one.failed
    )
