"""Runs of a study whose servers hadn't been warm yet, found by their places after a start.

The rounds of a warm-up say when throughput rises no more. Whether it did is seen in what was
measured: the same case comes at another place after a start in each repetition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from kvmark.analysis.compare.metrics import run_value
from kvmark.analysis.verdict.evidence import percent, reason
from kvmark.analysis.verdict.rules import Reason
from kvmark.records import Run
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Estimate, Placed, warming

__all__ = ["cold_runs"]

_ORDINALS: Final = {1: "1st", 2: "2nd", 3: "3rd"}


def cold_runs(cases: Iterable[Mapping[int, Run]]) -> Mapping[str, Reason]:
    """Why runs are slower than they would be later after their servers' start, by their ids.

    Args:
        cases: the runs of each case that can be used, by repetition. Only those without a rate say
            how fast servers were, and each kind of system is looked at by itself.

    Raises:
        RecordsError: a run's files can't be read.
    """
    placed: dict[str, dict[str, Placed]] = {}
    for number, runs in enumerate(cases):
        for repetition, run in runs.items():
            place = _place(run)
            value = None if place is None or _is_paced(run) else run_value(run, THROUGHPUT)
            if place is not None and value:
                own = Placed(str(number), repetition, place, value)
                placed.setdefault(_system(run), {})[run.id] = own
    found: dict[str, Reason] = {}
    for each in placed.values():
        effect = warming(list(each.values()))
        if effect is None or effect.high is None or effect.high >= 0:
            continue
        reasons = {run: _reason(one.place, effect) for run, one in each.items()}
        found |= {run: why for run, why in reasons.items() if why is not None}
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
    place = run.manifest.study.get("after_start")
    return place if isinstance(place, int) and place > 0 else None


def _is_paced(run: Run) -> bool:
    """Whether a group of its clients keeps to a rate or to a trace."""
    groups = run.manifest.plan.get("groups", ())
    return any(group.get("arrival", {}).get("process") != "closed" for group in groups)


def _system(run: Run) -> str:
    """The kind of servers: some are warm at once."""
    kind = (run.manifest.testbed or {}).get("system")
    return str(kind or run.manifest.plan.get("system", {}).get("driver"))
