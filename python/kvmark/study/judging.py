"""Closing and judging a study's runs in a process of its own.

Judging brings libraries whose memory would count as the generator's in the runs that follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from kvmark.errors import KvmarkError
from kvmark.records import Records

__all__ = ["usable", "usable_apart"]


def usable_apart(records: Records, runs: Sequence[str], repetitions: int) -> Mapping[str, bool]:
    """Whether each run can stand for its case: it came to its end and isn't INVALID.

    A run that was killed or interrupted is closed and kept, and can't.
    """
    if not runs:
        return {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        return apart.submit(_usable, records.root, tuple(runs), repetitions).result()


def usable(records: Records, runs: Sequence[str], repetitions: int) -> Mapping[str, bool]:
    """The same in this process, when nothing is measured any more."""
    return {run: _is_usable(records, run, repetitions) for run in runs}


def _usable(root: Path, runs: Sequence[str], repetitions: int) -> Mapping[str, bool]:
    return usable(Records(root), runs, repetitions)


def _is_usable(records: Records, run: str, repetitions: int) -> bool:
    from kvmark.analysis import Judgement, judge, save_verdict  # noqa: PLC0415

    try:
        opened = records.open(run)
        verdict = judge(opened, repetitions)
        save_verdict(records, opened, verdict)
    except KvmarkError:
        return False
    whole = opened.manifest.closed_by == "engine" and not opened.manifest.engine.interrupted
    return whole and verdict.judgement is not Judgement.INVALID
