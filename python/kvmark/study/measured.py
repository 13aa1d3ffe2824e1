"""A run that has ended, closed and judged: what every study's answer is made of.

It brings Polars and SciPy: nothing here is imported while an engine runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvmark.analysis import Verdict, judge, save_verdict
from kvmark.records import Records, Run, recover
from kvmark.run import Carried

__all__ = ["Measured", "measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A closed run and its verdict."""

    run: Run
    verdict: Verdict


def measured(ended: Iterable[Carried], records: Records) -> list[Measured]:
    """Closes and judges runs. Those of one case of a sequence are its repetitions.

    Raises:
        KvmarkError: a run's records couldn't be written; what was measured is kept.
    """
    ended = list(ended)
    repetitions = Counter(map(_case, ended))
    return [_measured(carried, records, repetitions[_case(carried)]) for carried in ended]


def _case(carried: Carried) -> tuple[object, ...]:
    step = carried.manifest.spec.get("sequence")
    if step is None:
        return (carried.folder.id,)
    return step["workload"], step["records"], step["target"]


def _measured(carried: Carried, records: Records, repetitions: int) -> Measured:
    run = recover(carried.folder.path)
    verdict = judge(run, repetitions)
    save_verdict(records, run, verdict, repetitions)
    return Measured(run, verdict)
