"""Prints what the engine costs on this machine, beside the bounds it is held to.

python -m bench.engine [--times 5] [--only TEXT] [--results FOLDER] [--anyway]

Each figure is of a run of `kvmark run` in a process of its own, or of a program of the engine's;
they are taken in turn, so that a slow minute of the machine is in one repetition of each. What is
counted and not timed is counted once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.common.console import carried_out, publish, repeating, say
from bench.common.table import attempt, peers_of
from bench.engine.cases import CASES, Case

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun

VALUE = PeerFigure(name="value", heading="value")


def main() -> int:
    """Measures every case and prints; 1 when the machine is too busy, 3 when a run failed."""
    parser = repeating(__doc__, 5, "figure is taken")
    parser.add_argument("--only", default="", help="figures with this text in their name")
    given = parser.parse_args()
    cases = [case for case in CASES if given.only in case.name]
    return carried_out(lambda: _measure(cases, given.times, given.results), anyway=given.anyway)


def _measure(cases: Sequence[Case], times: int, results: Path | None) -> bool:
    measured: list[PeerRun] = []
    for block in range(times):
        for case in (case for case in cases if block == 0 or not case.is_counted):
            measured.append(attempt(block, case.title, "kvmark", partial(_value, case)))
            say(f"{block + 1}/{times}  {case.title}: {measured[-1].figures or measured[-1].failed}")
    peers = peers_of(
        "What the engine costs",
        "the null driver and simulated ones",
        (VALUE,),
        [PeerCase(name=one.title, programs=("kvmark",), bounds=_bounds(one)) for one in cases],
        measured,
    )
    publish(peers, "bench-engine", results)
    return not any(one.failed for one in measured)


def _value(case: Case) -> dict[str, float]:
    return {VALUE.name: case.measure()}


def _bounds(case: Case) -> tuple[PeerBound, ...]:
    if case.bound is None:
        return ()
    return (PeerBound(figure=VALUE.name, limit=case.bound, most=case.most),)


if __name__ == "__main__":
    sys.exit(main())
