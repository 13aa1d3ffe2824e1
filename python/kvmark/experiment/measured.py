"""A run that has ended, closed and judged: what every study's answer is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvmark.analysis import Verdict, judge, save_verdict
from kvmark.records import Records, Run, recover
from kvmark.run.execution import Carried

__all__ = ["Measured", "measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A closed run and its verdict."""

    run: Run
    verdict: Verdict


def measured(ended: Iterable[Carried], records: Records) -> list[Measured]:
    """Closes and judges runs.

    Raises:
        KvmarkError: a run's records couldn't be written; what was measured is kept.
    """
    return [_measured(carried, records) for carried in ended]


def _measured(carried: Carried, records: Records) -> Measured:
    run = recover(carried.folder.path)
    verdict = judge(run)
    save_verdict(records, run, verdict)
    return Measured(run, verdict)
