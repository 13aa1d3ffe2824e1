"""Closing and judging a study's runs. What was judged before is read from beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvmark.analysis import Level, judge, save_verdict
from kvmark.analysis.verdict.checks_precision import IMPRECISE
from kvmark.errors import KvmarkError
from kvmark.records import Records
from kvmark.records.verdicts import kept_verdict

__all__ = ["CUT_SHORT", "says_too_little", "usable"]

CUT_SHORT: Final = frozenset({"interrupted", "recovered"})
"""Codes of the reasons that a run has which didn't come to its end."""


def usable(records: Records, runs: Sequence[str]) -> Mapping[str, bool]:
    """Whether each run can stand for its case: it came to its end and isn't INVALID.

    A run that was killed or interrupted is closed and kept, and can't. One that is INVALID for its
    precision alone can: made again at its length it would say no more, and its case is judged by
    all of its runs.
    """
    known = _known(records, runs)
    rest = (run for run in runs if run not in known)
    return {**known, **{run: _is_usable(records, run) for run in rest}}


def says_too_little(records: Records, run: str) -> bool:
    """Whether a run that came to its end may say more when it is longer."""
    try:
        verdict = kept_verdict(records, run) or _judged(records, run)
    except KvmarkError:
        return False
    codes = {reason["code"] for reason in verdict["reasons"]}
    too_little = verdict["judgement"] == "INVALID" or IMPRECISE in codes
    return too_little and codes.isdisjoint(CUT_SHORT)


def _known(records: Records, runs: Sequence[str]) -> dict[str, bool]:
    """What the verdicts say that are kept."""
    kept = {run: kept_verdict(records, run) for run in runs}
    return {run: _can_stand(verdict) for run, verdict in kept.items() if verdict is not None}


def _is_usable(records: Records, run: str) -> bool:
    try:
        return _can_stand(_judged(records, run))
    except KvmarkError:
        return False


def _judged(records: Records, run: str) -> Mapping[str, Any]:
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    return verdict.to_json()


def _can_stand(verdict: Mapping[str, Any]) -> bool:
    return not any(
        reason["code"] in CUT_SHORT
        or (reason["level"] == Level.INVALID.value and reason["code"] != IMPRECISE)
        for reason in verdict["reasons"]
    )
