"""One run with its verdict: what every study is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvmark.analysis import Verdict, judge, save_verdict
from kvmark.errors import KvmarkError
from kvmark.plan.model import Plan
from kvmark.records import Records, Run
from kvmark.run import Progress, Setting, carry_out

__all__ = ["Measured", "measure"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A closed run, its verdict, and why it ended early if it did."""

    run: Run
    verdict: Verdict
    failure: KvmarkError | None

    def or_raise(self) -> Run:
        """The run, if it came to its end.

        Raises:
            KvmarkError: what ended it early. The run is kept all the same.
        """
        if self.failure is not None:
            raise self.failure
        return self.run


def measure(
    plan: Plan,
    spec: Mapping[str, Any],
    records: Records,
    setting: Setting,
    progress: Progress,
    *,
    repetitions: int = 1,
) -> Measured:
    """Carries out a plan and judges its run; ``repetitions`` is how often its case is run in all.

    Raises:
        KvmarkError: the run couldn't begin, or its records couldn't be written.
    """
    carried = carry_out(plan, spec, records, setting, progress)
    verdict = judge(carried.run, repetitions)
    save_verdict(records, carried.run, verdict)
    return Measured(carried.run, verdict, carried.failure)
