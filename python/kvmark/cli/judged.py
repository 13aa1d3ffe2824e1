"""Lines of a list with figures and verdicts; missing ones are computed on all cores."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Final

from kvmark.analysis.verdict.judge import Judge, known_line, known_verdict
from kvmark.interrupts import check
from kvmark.records import Records, RunLine

_LOOK_S: Final = 0.1
_WORTH_A_PROCESS: Final = 8
"""Runs per further process: its start takes as long as judging a few."""


def judged_lines(records: Records, lines: Sequence[RunLine]) -> list[RunLine]:
    """The lines with figures and judgements of closed runs, which are stored beside the runs."""
    judge_line = partial(known_line, records, keep=True)
    waiting = [line for line in lines if line.entry.state == "closed" and line.judgement is None]
    processes = min(len(os.sched_getaffinity(0)), len(waiting) // _WORTH_A_PROCESS)
    if processes < 2:
        return [judge_line(line) for line in lines]
    # Not forked: a library's threads may hold locks that are never released in the fork.
    with ProcessPoolExecutor(processes, get_context("spawn"), _belong_to_command) as pool:
        try:
            pending = [pool.submit(judge_line, line) for line in waiting]
            while wait(pending, _LOOK_S).not_done:
                check()
            judged = dict(zip(waiting, (one.result() for one in pending), strict=True))
        except BrokenProcessPool:
            # A process was killed, mostly for memory: one at a time needs less.
            return [judge_line(line) for line in lines]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [judged.get(line, line) for line in lines]


def judge_and_keep(records: Records, runs: Iterable[str]) -> Judge:
    """Judges runs without a valid stored verdict, and returns a reader of verdicts."""
    judged_lines(records, [records.line(run) for run in runs])
    return partial(known_verdict, records)


def _belong_to_command() -> None:
    """Ends with the command, which handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    command = parent_process()
    if command is not None:
        command.join()
        os._exit(1)
