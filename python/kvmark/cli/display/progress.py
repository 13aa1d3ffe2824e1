"""The engine's progress, and what the run's logs say, as the live display takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvmark.cli.display.live import LiveDisplay, Update
from kvmark.records import RunFolder
from kvmark.records.watch import SeenRun, Watch

__all__ = ["show", "update_of"]

_NS_PER_S = 1e9


def show(display: LiveDisplay) -> Callable[[RunFolder, Mapping[str, Any]], None]:
    """A function that hands the progress of one run after the other to the display."""
    watched: list[Watch] = []

    def interval(folder: RunFolder, progress: Mapping[str, Any]) -> None:
        if display.quiet:
            return
        if not watched or watched[0].folder != folder.path:
            watched[:] = [Watch(folder.path)]
        seen = watched[0].look()
        display.interval(update_of(progress, seen), seen)

    return interval


def update_of(progress: Mapping[str, Any], seen: SeenRun) -> Update:
    """What is known; the logs' rate and p99 go before the engine's, which are one group's."""
    expected_ns = progress["expected_ns"]
    silent_ns = progress["silent_ns"]
    rate, p99_ns = seen.succeeded_per_s, seen.response_ns_p99
    return Update(
        phase=str(progress["phase_name"]).replace("_", "-"),
        phase_elapsed_s=progress["elapsed_ns"] / _NS_PER_S,
        phase_expected_s=None if expected_ns is None else expected_ns / _NS_PER_S,
        completed=progress["completed"],
        expected_operations=progress["expected_operations"],
        rate_per_s=progress["rate_per_s"] if rate is None else rate,
        response_ns_p99=progress["response_ns_p99"] if rate is None else p99_ns,
        errors=progress["failed"],
        misses=progress["missed"],
        backlog=progress["backlog"],
        silent_s=None if silent_ns is None else silent_ns / _NS_PER_S,
    )
