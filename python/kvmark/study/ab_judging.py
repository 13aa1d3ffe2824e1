"""What decides between blocks, in a process of its own.

Reading a run and Student's t bring libraries whose memory would count as the generator's in the
runs that follow. So one process measures, and another one closes, judges and decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, Self, TypeVar

from kvmark.errors import RunError
from kvmark.records import Records
from kvmark.spec.metric import Metric
from kvmark.study.ab import Precision, Standing
from kvmark.study.apart import apart
from kvmark.study.judging import CUT_SHORT

__all__ = ["Found", "Judge", "decided", "found_in", "needed_apart"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_MOST_STARTS: Final = 3
"""How often a question is put to a new process before it is given up."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run says: its figure, none where it can't be used, and why it can't."""

    value: float | None
    problem: str


class Judge:
    """The process that decides, as a context.

    It doesn't hear the user's interrupt, which goes to the one that measures; and where it is
    killed, another one takes its place, since all that it knows is on the disk.
    """

    def __init__(
        self, records: Records, metric: Metric, precision: Precision, *, allow_invalid: bool
    ) -> None:
        self._root = records.root
        self._metric = metric
        self._precision = precision
        self._allow_invalid = allow_invalid
        self._apart = apart()

    def __enter__(self) -> Self:
        """Starts the process, so that its start disturbs no run."""
        self._ask(decided, (0.0,), self._precision)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self._apart.shutdown()

    def found(self, run: str) -> Found:
        """Closes and judges a run, and says its figure, or why it can't be used.

        Raises:
            KvmarkError: the run can't be closed or read.
        """
        return self._ask(found_in, self._root, run, self._metric, self._allow_invalid)

    def standing(self, log_ratios: Sequence[float]) -> Standing:
        """Whether the blocks so far are enough."""
        return self._ask(decided, tuple(log_ratios), self._precision)

    def _ask(
        self, work: Callable[Given, Answer], *given: Given.args, **more: Given.kwargs
    ) -> Answer:
        for _ in range(_MOST_STARTS):
            try:
                return self._apart.submit(work, *given, **more).result()
            except BrokenProcessPool:
                self._apart.shutdown()
                self._apart = apart()
        raise RunError(
            f"the process that judges was killed {_MOST_STARTS} times: look in the kernel's log"
            " whether the memory is too small for it"
        )


def needed_apart(cases: Sequence[Sequence[float]], precision: Precision) -> list[int]:
    """How many repetitions each case needs, from the figures of its first stage, all above 0."""
    logs = [tuple(map(math.log, figures)) for figures in cases]
    with apart() as other:
        found = other.map(partial(decided, precision=precision), logs, chunksize=len(logs))
        return [standing.needed or standing.blocks for standing in found]


def decided(log_ratios: Sequence[float], precision: Precision) -> Standing:
    """Whether the blocks are enough, as plain values."""
    from kvmark.stats import Asked, decide  # noqa: PLC0415

    asked = Asked(precision.within, precision.find, precision.most_blocks, precision.first_stage)
    found = decide(log_ratios, asked)
    return Standing(len(log_ratios), found.needed, found.wanted, found.done)


def found_in(root: Path, run: str, metric: Metric, allow_invalid: bool) -> Found:  # noqa: FBT001
    """Closes and judges a run, and says its figure, or why it can't be used.

    Raises:
        KvmarkError: the run can't be closed or read.
    """
    from kvmark.analysis import Judgement, judge, save_verdict  # noqa: PLC0415
    from kvmark.analysis.metrics import run_value  # noqa: PLC0415

    records = Records(root)
    opened = records.open(run)
    verdict = judge(opened)
    save_verdict(records, opened, verdict)
    codes = {reason.code for reason in verdict.reasons}
    if not codes.isdisjoint(CUT_SHORT):
        return Found(None, f"run {run} was cut short")
    if verdict.judgement is Judgement.INVALID and not allow_invalid:
        reason = verdict.reasons[0].sentence.rstrip(".")
        advice = "mend it, or go on with --allow invalid"
        return Found(None, f"run {run} is INVALID ({reason}): {advice}")
    value = run_value(opened, metric)
    if value is None:
        few = f"run {run} has too few operations for its {metric.name}"
        return Found(None, f"{few}: measure longer blocks with --duration")
    return Found(value, "")
