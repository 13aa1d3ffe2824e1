"""Closes and judges runs that have ended. Stored verdicts are read from beside the runs."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kvmark.analysis.verdict.checks_run import INSUFFICIENT_DATA
from kvmark.analysis.verdict.judge import Verdict, judge, save_verdict
from kvmark.analysis.verdict.rules import Level
from kvmark.errors import KvmarkError
from kvmark.interrupts import check
from kvmark.records import Records, Run
from kvmark.records.store import Judgement, kept_verdict

CUT_SHORT: Final = frozenset({"interrupted", "recovered"})
"""Codes of reasons of a run that didn't come to its end."""


class Usability(Enum):
    """What a run is worth for its case when its study is resumed."""

    #: It was cut short, can't be read, or is INVALID: it is repeated.
    AGAIN = "again"
    #: INVALID for insufficient data alone, which a repetition of the same length wouldn't change.
    #: It counts in its case's verdict, and in no effect.
    INSUFFICIENT_DATA = "insufficient_data"
    USABLE = "usable"


class JudgedRun(NamedTuple):
    """A closed run and its verdict."""

    run: Run
    verdict: Verdict


def close_and_judge(records: Records, run: str) -> JudgedRun:
    """Closes and judges a run by its id, and stores the verdict.

    Raises:
        KvmarkError: the run's records can't be read or written; what was measured is kept.
        KeyboardInterrupt: the user asked to stop.
    """
    check()
    closed = records.open(run)
    verdict = judge(closed)
    save_verdict(records, closed, verdict)
    return JudgedRun(closed, verdict)


def usability(records: Records, run: str) -> Usability:
    """What a run is worth for its case."""
    verdict = _verdict(records, run)
    if verdict is None:
        return Usability.AGAIN
    codes = {reason.code for reason in verdict.reasons}
    invalid = {reason.code for reason in verdict.reasons if reason.level is Level.INVALID}
    if codes & CUT_SHORT or invalid - INSUFFICIENT_DATA:
        return Usability.AGAIN
    return Usability.INSUFFICIENT_DATA if invalid else Usability.USABLE


def has_insufficient_data(records: Records, run: str) -> bool:
    """Whether a run came to its end and may be conclusive when it is longer."""
    verdict = _verdict(records, run)
    if verdict is None:
        return False
    codes = {reason.code for reason in verdict.reasons}
    insufficient = verdict.judgement is Judgement.INVALID or not codes.isdisjoint(INSUFFICIENT_DATA)
    return insufficient and codes.isdisjoint(CUT_SHORT)


def _verdict(records: Records, run: str) -> Verdict | None:
    """The verdict of a run, stored from now on; None where it can't be judged."""
    try:
        stored = kept_verdict(records, run)
        if stored is not None:
            return Verdict.of_json(stored)
        return close_and_judge(records, run).verdict
    except KvmarkError:
        return None
