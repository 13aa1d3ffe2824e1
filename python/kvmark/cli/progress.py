"""The engine's progress as the live display takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvmark.cli.live import LiveDisplay, Update

__all__ = ["show"]

_NS_PER_S = 1e9


def show(display: LiveDisplay) -> Callable[[Mapping[str, Any]], None]:
    """A function that hands the engine's progress to the display."""

    def interval(progress: Mapping[str, Any]) -> None:
        expected_ns = progress["expected_ns"]
        display.interval(
            Update(
                phase=str(progress["phase_name"]).replace("_", "-"),
                phase_elapsed_s=progress["elapsed_ns"] / _NS_PER_S,
                phase_expected_s=None if expected_ns is None else expected_ns / _NS_PER_S,
                completed=progress["completed"],
                expected_operations=progress["expected_operations"],
                rate_per_s=progress["rate_per_s"],
                response_ns_p99=progress["response_ns_p99"],
                errors=progress["failed"],
                misses=progress["missed"],
                backlog=progress["backlog"],
            )
        )

    return interval
