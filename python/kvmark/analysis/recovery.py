"""Whether a service returns to its level after a trigger, and at what cost in attempts.

The level is the goodput before the trigger: successful operations per second. Windows of
`TOGETHER` intervals are compared with it. A window is at the level if its goodput isn't below the
prediction interval for such a window, or not by more than 5 %, and no more arrivals wait to be
issued than before. The service has recovered from the first window at the level after which no more
than `TOGETHER` in succession are below it: one slow interval is in as many windows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, stdev
from typing import Any, Final, Literal

from kvmark.analysis.summary.sums import NS_PER_S, interval_sums, window_rows
from kvmark.errors import AnswerIsNo
from kvmark.records import PhaseRecord, Run
from kvmark.stats.estimate import t_quantile

RecoveryOutcome = Literal["recovered", "not recovered", "not carried", "generator"]
"""The service returned to its level; it didn't within the limit; it didn't carry the base rate
before the trigger; the generator was the limit."""

LEAST_BEFORE: Final = 10
"""Intervals before the trigger without which there is no level."""
TOGETHER: Final = 5
"""Intervals of a window, and the fewest after the trigger."""
_CERTAIN: Final = 0.999
_NEAR: Final = 0.95
"""Share of the level that counts as the level, and share of the base rate that is carried."""
_Row = Mapping[str, Any]
"""An interval, as of `interval_sums`."""


@dataclass(frozen=True, slots=True)
class RecoveryPart:
    """The service before, during or after the trigger, whole intervals long."""

    name: Literal["before", "trigger", "after", "end"]
    #: Since the begin of the measurement.
    start_ns: int
    end_ns: int
    #: Successful operations per second.
    goodput: float
    #: Failed operations per second.
    failed: float
    #: Attempts per second; the operations where no policy asks for further attempts.
    attempts: float

    @property
    def wasted(self) -> float | None:
        """The share of attempts without success; none without attempts."""
        return max(0.0, 1 - self.goodput / self.attempts) if self.attempts else None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a run around its trigger."""

    run: str
    #: Operations per second offered before and after the trigger.
    rate: float
    outcome: RecoveryOutcome
    #: The reason for an outcome that isn't about the time after the trigger.
    reason: str
    #: Goodput from which on a window is at the level.
    least: float
    #: From the end of the trigger; none where the service didn't recover.
    recovery_ns: int | None
    #: Attempts without success from the begin of the trigger on.
    wasted_attempts: int
    #: Before, the trigger, after it, and the last quarter of that.
    parts: tuple[RecoveryPart, ...]


def recovery(
    run: Run, phase: PhaseRecord, rate: float, trigger_ns: tuple[int, int], limited: str = ""
) -> Recovery:
    """The result of a run whose trigger lasted between two instants of the measurement.

    Args:
        run: a closed run.
        phase: its measurement.
        rate: the base rate.
        trigger_ns: begin and end of the trigger, since the begin of the measurement.
        limited: why the generator was the limit; empty where it wasn't.

    Raises:
        AnswerIsNo: too little was measured before or after the trigger.
    """
    rows = interval_sums(window_rows(run, phase)).to_dicts()
    rows = [{**row, **_times(row, phase.start_ns)} for row in rows]
    begun_ns, over_ns = trigger_ns
    before = [row for row in rows if row["end_ns"] <= begun_ns]
    after = [row for row in rows if row["start_ns"] >= over_ns]
    if len(before) < LEAST_BEFORE or len(after) < TOGETHER:
        raise AnswerIsNo(
            f"run {run.id} has {len(before)} intervals before the trigger and {len(after)} after"
            f" it, and needs {LEAST_BEFORE} and {TOGETHER}: raise --before or --limit, or give a"
            " shorter --interval"
        )
    between = [row for row in rows if row["end_ns"] > begun_ns and row["start_ns"] < over_ns]
    least, backlog = least_goodput(before), max(int(row["backlog"]) for row in before)
    first = _first_at_level(after, least, backlog)
    later = [*between, *after]
    named = {
        "before": before,
        "trigger": between,
        "after": after,
        "end": after[-(len(after) // 4 or 1) :],
    }
    parts = tuple(_part(name, of) for name, of in named.items() if of)  # type: ignore[arg-type]
    carried = _carries(parts[0], rate)
    reason = limited
    if not carried and not limited:
        reason = f"{parts[0].goodput:,.0f} of {rate:,.0f} ops/s succeeded before the trigger"
    return Recovery(
        run=run.id,
        rate=rate,
        outcome=_outcome(first, carried=carried, limited=bool(limited)),
        reason=reason,
        least=least,
        recovery_ns=None if first is None else max(0, after[first]["start_ns"] - over_ns),
        wasted_attempts=sum(_attempts(row) - int(row["succeeded"]) for row in later),
        parts=parts,
    )


def least_goodput(before: Sequence[_Row]) -> float:
    """The least goodput of a window at the level of these intervals."""
    rates = [float(row["rate"]) for row in before]
    error = stdev(rates) * math.sqrt(1 / TOGETHER + 1 / len(rates))
    mean = fmean(rates)
    return min(_NEAR * mean, mean - t_quantile(len(rates) - 1, _CERTAIN) * error)


def _carries(before: RecoveryPart, rate: float) -> bool:
    """Whether the goodput is the base rate, within three standard errors of Poisson arrivals."""
    error = math.sqrt(rate * NS_PER_S / (before.end_ns - before.start_ns))
    return before.goodput + 3 * error >= _NEAR * rate


def _outcome(first: int | None, *, carried: bool, limited: bool) -> RecoveryOutcome:
    if limited:
        return "generator"
    if not carried:
        return "not carried"
    return "not recovered" if first is None else "recovered"


def _times(row: _Row, start_ns: int) -> dict[str, int]:
    return {name: int(row[name]) - start_ns for name in ("start_ns", "end_ns")}


def _first_at_level(after: Sequence[_Row], least: float, backlog: int) -> int | None:
    """The first window from which on the service is at its level."""
    windows = [after[at : at + TOGETHER] for at in range(len(after) - TOGETHER + 1)]
    at_level = [
        fmean(row["rate"] for row in window) >= least and window[-1]["backlog"] <= backlog
        for window in windows
    ]
    first, place = None, 0
    for is_at_level, stretch in groupby(at_level):
        length = len(list(stretch))
        if not is_at_level and length > TOGETHER:
            first = None
        elif is_at_level and first is None:
            first = place
        place += length
    return first


def _attempts(row: _Row) -> int:
    return int(row["attempts"] or row["succeeded"] + row["failed"])


def _part(name: Literal["before", "trigger", "after", "end"], rows: Sequence[_Row]) -> RecoveryPart:
    start_ns, end_ns = rows[0]["start_ns"], rows[-1]["end_ns"]
    per_s = NS_PER_S / (end_ns - start_ns)
    return RecoveryPart(
        name,
        start_ns,
        end_ns,
        goodput=sum(row["succeeded"] for row in rows) * per_s,
        failed=sum(row["failed"] for row in rows) * per_s,
        attempts=sum(map(_attempts, rows)) * per_s,
    )
