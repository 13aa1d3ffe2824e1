"""Runs that have ended, closed and judged: what every experiment's answer is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvmark.analysis import Verdict, judge, save_verdict
from kvmark.interrupts import check
from kvmark.records import Records, Run

__all__ = ["Measured", "measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A closed run and its verdict."""

    run: Run
    verdict: Verdict


def measured(ended: Iterable[str], records: Records) -> list[Measured]:
    """Closes and judges runs, by their ids.

    Raises:
        KvmarkError: a run's records couldn't be written; what was measured is kept.
        KeyboardInterrupt: the user has asked to stop.
    """
    return [_measured(run, records) for run in ended]


def _measured(name: str, records: Records) -> Measured:
    check()
    run = records.open(name)
    verdict = judge(run)
    save_verdict(records, run, verdict)
    return Measured(run, verdict)
