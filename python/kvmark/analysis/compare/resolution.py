"""What runs can't tell apart however often they are repeated: their clock's step, an operation."""

from __future__ import annotations

from collections.abc import Iterable

from kvmark.records import Run

__all__ = ["clock_step_ns", "rate_resolution"]


def clock_step_ns(runs: Iterable[Run]) -> float:
    """The largest step of the clocks that measured them; 0 where none is known."""
    clocks = (run.manifest.engine.clock for run in runs)
    return max((float(clock.resolution_ns) for clock in clocks if clock is not None), default=0.0)


def rate_resolution(runs: Iterable[Run]) -> float:
    """As a share of the rate: half an operation, or the clock's step in the counted windows."""
    return max((_rate_resolution(run) for run in runs), default=0.0)


def _rate_resolution(run: Run) -> float:
    window_ns = sum(phase.window_ns for phase in run.counted)
    operations = sum(run.manifest.engine.succeeded(phase) for phase in run.counted)
    if not window_ns or not operations:
        return 0.0
    return max(0.5 / operations, clock_step_ns([run]) / window_ns)
