"""What decides between blocks, in a process of its own.

Reading a run and Student's t bring libraries whose memory would count as the generator's in the
runs that follow. So one process measures, and another one closes, judges and decides.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Self

from kvmark.errors import AnswerIsNo, RunError
from kvmark.records import Records
from kvmark.spec.metric import Metric
from kvmark.study.ab import Precision, Standing

__all__ = ["Judge", "decided", "needed_apart"]


@dataclass(frozen=True, slots=True)
class _Found:
    """What a run says: its figure, none where it has none, and why it may not be used."""

    value: float | None
    invalid: str


class Judge:
    """The process that decides, as a context."""

    def __init__(
        self, records: Records, metric: Metric, precision: Precision, *, allow_invalid: bool
    ) -> None:
        self._root = records.root
        self._metric = metric
        self._precision = precision
        self._allow_invalid = allow_invalid
        self._apart = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def __enter__(self) -> Self:
        """Starts the process, so that its start disturbs no run."""
        self._apart.submit(decided, (0.0,), self._precision).result()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self._apart.shutdown()

    def value(self, run: str) -> float:
        """Closes and judges a run, and returns its figure.

        Raises:
            AnswerIsNo: the run is INVALID and that wasn't allowed.
            RunError: it has no such figure.
        """
        found = self._apart.submit(_value, self._root, run, self._metric).result()
        if found.invalid and not self._allow_invalid:
            raise AnswerIsNo(
                f"run {run} is INVALID ({found.invalid}), so the sides can't be compared: mend it,"
                " or go on with --allow invalid"
            )
        if found.value is None:
            raise RunError(
                f"run {run} has too few operations for its {self._metric.name}: measure longer"
                " blocks with --duration"
            )
        return found.value

    def standing(self, log_ratios: Sequence[float]) -> Standing:
        """Whether the blocks so far are enough."""
        return self._apart.submit(decided, tuple(log_ratios), self._precision).result()


def needed_apart(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """How many repetitions each case needs, from the figures of its first stage, all above 0."""
    logs = [tuple(map(math.log, figures)) for figures in cases]
    with ProcessPoolExecutor(
        1,
        mp_context=get_context("spawn"),
        # An interrupt from a terminal reaches every process; this one has nothing to say to it.
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    ) as apart:
        found = apart.map(partial(decided, precision=precision), logs, chunksize=len(logs))
        return [standing.needed or standing.blocks for standing in found]


def decided(log_ratios: Sequence[float], precision: Precision) -> Standing:
    """Whether the blocks are enough, as plain values."""
    from kvmark.stats import Asked, decide  # noqa: PLC0415

    asked = Asked(precision.within, precision.find, precision.most_blocks, precision.first_stage)
    found = decide(log_ratios, asked)
    return Standing(len(log_ratios), found.needed, found.wanted, found.done)


def _value(root: Path, run: str, metric: Metric) -> _Found:
    from kvmark.analysis import Judgement, judge, save_verdict  # noqa: PLC0415
    from kvmark.analysis.metrics import run_value  # noqa: PLC0415

    records = Records(root)
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    invalid = verdict.judgement is Judgement.INVALID
    reason = verdict.reasons[0].sentence.rstrip(".") if invalid else ""
    return _Found(run_value(opened, metric), reason)
