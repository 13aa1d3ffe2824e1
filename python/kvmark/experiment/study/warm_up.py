"""When servers that were just started are as fast as they will be.

A Java server compiles what it runs for minutes, and a run's own warm-up of seconds can't see a
drift of minutes. So the servers are loaded in rounds, until throughput rises no more over a few of
them. Where a compiler shares a core with what is served, it gets little of it: servers are lent
other cores first. The load is that of the study's own cases, cut short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from kvmark.analysis.summary.run import mean_service_ns
from kvmark.errors import Interrupted, KvmarkError, RunError, SystemUnderTestError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Group, Plan
from kvmark.plan.names import operation_names
from kvmark.records import Manifest
from kvmark.spec.quantity import duration_text
from kvmark.spec.run import RunSpec
from kvmark.stats import warmup_gain

Load = Callable[[int], float]
"""Carries a load out in the round of a number, from 1, and says how fast it was."""

MOST_ROUNDS: Final = 20
BOUND: Final = 0.03
"""How far the last two rounds may be above the best two before them."""
_CLIENTS: Final = 64
"""Enough to fill a server; of more it is their queue that grows."""
_READS: Final = frozenset({"read", "scan"})


@dataclass(frozen=True, slots=True)
class ServerWarmup:
    """How the warm-up of servers went."""

    took_s: float
    rounds: tuple[float, ...]
    """The speed of each round on the servers' own cores, as a share of the last one's."""
    rounds_on_all_cores: tuple[float, ...] = ()
    """Those before them, in which they were lent more cores."""

    @property
    def has_levelled(self) -> bool:
        """Whether the last rounds are no faster than those before."""
        return has_levelled(self.rounds)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the manifests of the runs that follow."""
        return {
            "took_s": round(self.took_s, 3),
            "rounds_on_all_cores": [round(speed, 4) for speed in self.rounds_on_all_cores],
            "rounds": [round(speed, 4) for speed in self.rounds],
        }


def warm_up_servers(
    loads: Mapping[str, Load],
    longest_s: float,
    clock_s: Callable[[], float],
    say: Callable[[str], None],
    on_all_cores: Callable[[], AbstractContextManager[None]] | None = None,
) -> ServerWarmup | None:
    """Carries out rounds of all loads until throughput rises no more, or there were enough of them.

    A load that fails is left out from then on, as are the rounds before: its own case will tell.

    Args:
        loads: by their titles.
        longest_s: no round begins later after the first, in which records are loaded too.
        clock_s: seconds since some instant.
        say: takes what is worth knowing.
        on_all_cores: lends the servers more cores than they have, on which their compiler doesn't
            wait for what they serve: until throughput rises no more, for half of all rounds.

    Returns:
        How it went; none where no load is left.

    Raises:
        Interrupted: the user stopped it.
        RunError: records can't be written.
        SystemUnderTestError: cores can't be lent.
    """
    rounds, begun_s = _Rounds(dict(loads), clock_s, say), clock_s()
    lent: tuple[float, ...] = ()
    if on_all_cores is not None:
        with on_all_cores():
            lent = rounds.until_no_rise(MOST_ROUNDS // 2, longest_s / 2, " on all cores")
    speeds = rounds.until_no_rise(MOST_ROUNDS, longest_s)
    if not speeds:
        return None
    found = ServerWarmup(clock_s() - begun_s, _shares(speeds), _shares(lent))
    how = "rises no more" if found.has_levelled else "still rises"
    say(f"throughput {how} after {duration_text(found.took_s * 1e9)} of warm-up")
    return found


@dataclass
class _Rounds:
    """Rounds of loads, counted and timed from the first one on."""

    left: dict[str, Load]
    clock_s: Callable[[], float]
    say: Callable[[str], None]
    _number: int = 0
    _first_ended_s: float | None = None

    def until_no_rise(self, most: int, longest_s: float, where: str = "") -> tuple[float, ...]:
        """Rounds until throughput rises no more, the time is over, or there were so many in all.

        Returns:
            Their mean speeds, of one at least; nothing where no load is left.
        """
        means: list[float] = []
        while self.left:
            self._number += 1
            self.say(f"warming up servers{where}, round {self._number} of {MOST_ROUNDS} at most")
            speeds = dict(self._speeds())
            if self._first_ended_s is None:
                self._first_ended_s = self.clock_s()
            if speeds.keys() != self.left.keys():
                # Means are of the same loads.
                self.left, means = {title: self.left[title] for title in speeds}, []
            if not speeds:
                break
            # Loads are of different speeds: each has the same weight.
            means.append(math.exp(math.fsum(map(math.log, speeds.values())) / len(speeds)))
            over = self._number >= most or self.clock_s() >= self._first_ended_s + longest_s
            if over or may_stop(means):
                break
        return tuple(means)

    def _speeds(self) -> Iterator[tuple[str, float]]:
        for title, load in self.left.items():
            try:
                yield title, load(self._number)
            except (Interrupted, RunError):
                raise
            except KvmarkError as problem:
                # Its records aren't kept, whatever the problem says of them.
                self.say(f"{title} warms nothing up: {str(problem).partition('; ')[0]}")


def has_levelled(speeds: Sequence[float]) -> bool:
    """Whether the last two are no more than the bound above the best two before."""
    risen = warmup_gain(speeds)
    return risen is not None and risen < BOUND


def may_stop(speeds: Sequence[float]) -> bool:
    """Whether neither of the last two pairs is above what was before it: one may be chance.

    Args:
        speeds: of the rounds so far.
    """
    return has_levelled(speeds[:-2]) and has_levelled(speeds)


def _shares(speeds: Sequence[float]) -> tuple[float, ...]:
    return tuple(one / speeds[-1] for one in speeds)


def client_speed(manifest: Manifest) -> float:
    """Operations a second of one client's time.

    It doesn't depend on whether an operation more or less had its end in a round: a full scan may
    take a tenth of it.

    Raises:
        SystemUnderTestError: none succeeded.
    """
    counted = {phase.index for phase in manifest.counted}
    ok = [
        total
        for total in manifest.engine.totals
        if total.phase in counted and total.outcome == "ok" and not total.part
    ]
    mean_ns = mean_service_ns(ok)
    if not mean_ns:
        raise SystemUnderTestError("no operation succeeded")
    return 1e9 / mean_ns


def warm_up_places(specs: Iterable[RunSpec]) -> list[int]:
    """Which of these runs warm servers up for all of them, by their places.

    Of each workload as few as have all its operations, those with the most first, and of equals the
    one whose clients are nearest to what fills a server. What can't be repeated at will warms
    nothing up.
    """
    able = []
    for place, spec in enumerate(specs):
        if spec.replay is None and not spec.workload.once_per_record:
            plan = compile_run(spec)
            operations = frozenset(operation_names(plan))
            clients = sum(group.clients for group in _measured(plan))
            # Of several the last one: levels rise in most files, and more copies are more work.
            worth = (len(operations), -abs(math.log(clients / _CLIENTS)), place)
            able.append((worth, spec.workload.name, operations))
    covered: dict[str, set[str]] = {}
    chosen = []
    for (*_, place), workload, operations in sorted(able, reverse=True):
        known = covered.setdefault(workload, set())
        if not operations <= known:
            known |= operations
            chosen.append(place)
    return sorted(chosen)


def shorten(spec: RunSpec, duration_ns: int, *, settle: bool) -> RunSpec:
    """The same load for so long, as fast as its clients go, and with nothing broken.

    At a rate, or with pauses, a server is as fast when it isn't warm.
    """
    plan = compile_run(spec)
    clients = {group.name: group.clients for group in plan.groups}
    groups = [
        one.model_copy(
            update={
                "rates": None, "arrival": None, "think_time_ns": 0, "operations": None,
                "clients": clients.get(one.name, one.clients),
            }
        )
        for one in spec.workload.groups
    ]  # fmt: skip
    return replace(
        spec,
        workload=spec.workload.model_copy(update={"groups": tuple(groups)}),
        clients=None,
        rate=None,
        arrival=None,
        duration_ns=duration_ns,
        operations=None,
        until_stderr=None,
        precision=None,
        warmup_ns=0,
        warmup_until=None,
        interval_ns=None,
        settle=settle,
        faults=(),
        verify=False,
    )


def is_read_only(spec: RunSpec) -> bool:
    """Whether the records are afterwards as they were."""
    groups = _measured(compile_run(spec))
    return {operation.kind for group in groups for operation in group.mix} <= _READS


def _measured(plan: Plan) -> list[Group]:
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    return [plan.groups[active.group] for active in measured.groups]
