"""When servers that were just started are as fast as they will be.

A Java server compiles what it runs for minutes, and a run's own warm-up of seconds can't see a
drift of minutes. So the servers are loaded in rounds, until a few rounds in a row are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvmark.analysis.summary.run import mean_service_ns
from kvmark.errors import Interrupted, KvmarkError, RunError, SystemUnderTestError
from kvmark.records import Manifest

__all__ = ["MOST_ROUNDS", "Load", "ServerWarmup", "speed", "warmed_up"]

Load = Callable[[int], float]
"""Carries a load out in the round of a number, from 1, and says how fast it was."""

MOST_ROUNDS: Final = 10
ALIKE: Final = 3
"""So many rounds in a row must be alike: what gets faster steadily has moved over three."""
BOUND: Final = 0.05
"""How far the fastest of them may be above the slowest."""


@dataclass(frozen=True, slots=True)
class ServerWarmup:
    """How the warm-up of servers went."""

    took_s: float
    rounds: tuple[float, ...]
    """The speed of each round, as a share of the last one's."""

    @property
    def spread(self) -> float | None:
        """How far the fastest of the last rounds is above the slowest; none for too few."""
        last = self.rounds[-ALIKE:]
        return max(last) / min(last) - 1 if len(last) == ALIKE else None

    @property
    def is_stationary(self) -> bool:
        """Whether the last rounds are alike."""
        return self.spread is not None and self.spread < BOUND

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the manifests of the runs that follow."""
        return {
            "took_s": round(self.took_s, 3),
            "rounds": [round(speed, 4) for speed in self.rounds],
            "spread": None if self.spread is None else round(self.spread, 4),
            "is_stationary": self.is_stationary,
        }


def warmed_up(
    loads: Mapping[str, Load],
    longest_s: float,
    clock_s: Callable[[], float],
    say: Callable[[str], None],
) -> ServerWarmup | None:
    """Carries out rounds of all loads until the last few are alike, or there were enough of them.

    A load that fails is left out from then on, and the rounds begin anew: its own case will tell.

    Args:
        loads: by their titles.
        longest_s: no round begins later after the first, in which records are loaded too.
        clock_s: seconds since some instant.
        say: takes what is worth knowing.

    Returns:
        How it went; none where no load is left.

    Raises:
        Interrupted: the user stopped it.
        RunError: records can't be written.
    """
    left, means, begun_s = dict(loads), list[float](), clock_s()
    until_s = math.inf
    while left:
        say(f"warming up servers, round {len(means) + 1} of {MOST_ROUNDS} at most")
        speeds = dict(_speeds(left, len(means) + 1, say))
        until_s = min(until_s, clock_s() + longest_s)
        if speeds.keys() != left.keys():
            left, means = {title: left[title] for title in speeds}, []
            continue
        # Loads are of different speeds: each has the same weight.
        means.append(math.exp(math.fsum(map(math.log, speeds.values())) / len(speeds)))
        found = ServerWarmup(clock_s() - begun_s, tuple(mean / means[-1] for mean in means))
        if found.is_stationary or len(means) == MOST_ROUNDS or clock_s() >= until_s:
            still = "stands still" if found.is_stationary else "still moves"
            say(f"throughput {still} after {found.took_s:.0f} s of warm-up")
            return found
    return None


def _speeds(
    loads: Mapping[str, Load], number: int, say: Callable[[str], None]
) -> Iterator[tuple[str, float]]:
    for title, load in loads.items():
        try:
            yield title, load(number)
        except (Interrupted, RunError):
            raise
        except KvmarkError as problem:
            # Its records aren't kept, whatever the problem says of them.
            say(f"{title} warms nothing up: {str(problem).partition('; ')[0]}")


def speed(manifest: Manifest) -> float:
    """Operations a second of one client's time.

    It doesn't depend on whether an operation more or less had its end in a round: a full scan may
    take a tenth of it.

    Raises:
        SystemUnderTestError: none succeeded.
    """
    counted = {phase.index for phase in manifest.engine.counted}
    ok = [
        total
        for total in manifest.engine.totals
        if total.phase in counted and total.outcome == "ok" and not total.part
    ]
    mean_ns = mean_service_ns(ok)
    if not mean_ns:
        raise SystemUnderTestError("no operation succeeded")
    return 1e9 / mean_ns
