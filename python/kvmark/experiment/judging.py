"""Closes and judges runs that have ended. What was judged before is read from beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kvmark.analysis import Judgement, Level, Verdict, judge, save_verdict
from kvmark.analysis.verdict.checks_precision import INSUFFICIENT_DATA
from kvmark.errors import KvmarkError
from kvmark.interrupts import check
from kvmark.records import Records, Run
from kvmark.records.verdicts import kept_verdict

CUT_SHORT: Final = frozenset({"interrupted", "recovered"})
"""Codes of the reasons that a run has which didn't come to its end."""


class Usability(Enum):
    """What a run is to its case when its study goes on."""

    #: It was cut short, can't be read, or is INVALID: it is made again.
    AGAIN = "again"
    #: INVALID since it says too little, and for nothing else: made again at its length it would
    #: say no more. Its case is judged by all of its runs, and it enters no effect.
    INSUFFICIENT_DATA = "too_little"
    USABLE = "usable"


def usability(records: Records, run: str) -> Usability:
    """What a run is to its case."""
    verdict = _verdict(records, run)
    if verdict is None:
        return Usability.AGAIN
    codes = {reason.code for reason in verdict.reasons}
    invalid = {reason.code for reason in verdict.reasons if reason.level is Level.INVALID}
    if codes & CUT_SHORT or invalid - INSUFFICIENT_DATA:
        return Usability.AGAIN
    return Usability.INSUFFICIENT_DATA if invalid else Usability.USABLE


def has_insufficient_data(records: Records, run: str) -> bool:
    """Whether a run that came to its end may say more when it is longer."""
    verdict = _verdict(records, run)
    if verdict is None:
        return False
    codes = {reason.code for reason in verdict.reasons}
    insufficient = verdict.judgement is Judgement.INVALID or not codes.isdisjoint(INSUFFICIENT_DATA)
    return insufficient and codes.isdisjoint(CUT_SHORT)


def _verdict(records: Records, run: str) -> Verdict | None:
    """The verdict beside a run, where it is kept from now on; none where it can't be judged."""
    try:
        kept = kept_verdict(records, run)
        if kept is not None:
            return Verdict.of_json(kept)
        opened = records.open(run)
        verdict = judge(opened)
        save_verdict(records, opened, verdict)
    except KvmarkError:
        return None
    return verdict


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A closed run and its verdict."""

    run: Run
    verdict: Verdict


def close_and_judge(ended: Iterable[str], records: Records) -> list[JudgedRun]:
    """Closes and judges runs, by their ids.

    Raises:
        KvmarkError: a run's records couldn't be written; what was measured is kept.
        KeyboardInterrupt: the user has asked to stop.
    """
    return [_measured(run, records) for run in ended]


def _measured(name: str, records: Records) -> JudgedRun:
    check()
    run = records.open(name)
    verdict = judge(run)
    save_verdict(records, run, verdict)
    return JudgedRun(run, verdict)
