"""Runs of a study whose servers hadn't been warm yet, found by their places after a start.

The rounds of a warm-up say when throughput stands still. Whether it did is seen in what was
measured: the same case comes at another place after a start in each repetition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.compare.metrics import run_value
from kvmark.analysis.verdict.evidence import percent, reason
from kvmark.analysis.verdict.rules import Reason
from kvmark.records import Run
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Estimate, warming

__all__ = ["cold_runs"]

_ORDINALS: Final = {1: "1st", 2: "2nd", 3: "3rd"}


@dataclass(frozen=True, slots=True)
class _Placed:
    """A run's id, its place after its servers' start, and operations per second."""

    run: str
    place: int
    throughput: float


def cold_runs(cases: Iterable[Sequence[Run]]) -> Mapping[str, Reason]:
    """Why runs are slower than they would be later after their servers' start, by their ids.

    Args:
        cases: the runs of each case that can be used. Only cases that came at different places say
            something, and each kind of system is looked at by itself.

    Raises:
        RecordsError: a run's files can't be read.
    """
    placed: dict[str, list[list[_Placed]]] = {}
    for runs in cases:
        own: dict[str, list[_Placed]] = {}
        for run in runs:
            place, value = _place(run), run_value(run, THROUGHPUT)
            if place is not None and value:
                own.setdefault(_system(run), []).append(_Placed(run.id, place, value))
        for system, known in own.items():
            placed.setdefault(system, []).append(known)
    found: dict[str, Reason] = {}
    for each in placed.values():
        effect = warming([[(one.place, one.throughput) for one in case] for case in each])
        if effect is None or effect.high is None or effect.high >= 0:
            continue
        for one in (one for case in each for one in case):
            why = _reason(one.place, effect)
            if why is not None:
                found[one.run] = why
    return found


def _reason(place: int, effect: Estimate) -> Reason | None:
    lost = -math.expm1(effect.value * 2.0 ** (1 - place))
    first = -math.expm1(effect.value)
    return reason(
        "cold_servers",
        lost,
        f"it was the {_ORDINALS.get(place, f'{place}th')} run after its servers' start, and there"
        f" the study's runs are slower by {percent(lost)} than later",
        {"place": place, "lost_share": lost, "lost_share_first": first, "runs": effect.n},
    )


def _place(run: Run) -> int | None:
    """The run's place after its servers' start, from 1; none where nobody noted it."""
    place = (run.manifest.spec.get("study") or {}).get("after_start")
    return place if isinstance(place, int) and place > 0 else None


def _system(run: Run) -> str:
    """The kind of servers: some are warm at once."""
    kind = (run.manifest.testbed or {}).get("system")
    return str(kind or run.manifest.plan.get("system", {}).get("driver"))
