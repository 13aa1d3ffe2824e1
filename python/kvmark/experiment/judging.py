"""Closing and judging a study's runs. What was judged before is read from beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from kvmark.analysis import Level, judge, save_verdict
from kvmark.analysis.verdict.checks_precision import TOO_LITTLE
from kvmark.errors import KvmarkError
from kvmark.records import Records
from kvmark.records.verdicts import kept_verdict

__all__ = ["CUT_SHORT", "Usability", "says_too_little", "usability"]

CUT_SHORT: Final = frozenset({"interrupted", "recovered"})
"""Codes of the reasons that a run has which didn't come to its end."""


class Usability(Enum):
    """What a run is to its case when its study goes on."""

    #: It was cut short, can't be read, or is INVALID: it is made again.
    AGAIN = "again"
    #: INVALID since it says too little, and for nothing else: made again at its length it would
    #: say no more. Its case is judged by all of its runs, and it enters no effect.
    TOO_LITTLE = "too_little"
    USABLE = "usable"


def usability(records: Records, runs: Sequence[str]) -> Mapping[str, Usability]:
    """What each run is to its case."""
    return {run: _usability(records, run) for run in runs}


def says_too_little(records: Records, run: str) -> bool:
    """Whether a run that came to its end may say more when it is longer."""
    try:
        verdict = kept_verdict(records, run) or _judged(records, run)
    except KvmarkError:
        return False
    codes = {reason["code"] for reason in verdict["reasons"]}
    too_little = verdict["judgement"] == "INVALID" or codes & TOO_LITTLE
    return bool(too_little) and codes.isdisjoint(CUT_SHORT)


def _usability(records: Records, run: str) -> Usability:
    try:
        verdict = kept_verdict(records, run) or _judged(records, run)
    except KvmarkError:
        return Usability.AGAIN
    codes = {reason["code"] for reason in verdict["reasons"]}
    invalid = {one["code"] for one in verdict["reasons"] if one["level"] == Level.INVALID.value}
    if codes & CUT_SHORT or invalid - TOO_LITTLE:
        return Usability.AGAIN
    return Usability.TOO_LITTLE if invalid else Usability.USABLE


def _judged(records: Records, run: str) -> Mapping[str, Any]:
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    return verdict.to_json()
