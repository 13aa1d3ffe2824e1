"""Warm-up of servers that were just started.

A Java server compiles its code for minutes, which a run's own warm-up of seconds doesn't detect. So
the servers are loaded in rounds until throughput levels off. Where a compiler shares a core with
the requests, it gets little of it: servers are lent other cores first. The loads are short runs of
the study's own cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""Executes a load in a round, numbered from 1, and returns its speed."""

MOST_ROUNDS: Final = 20
BOUND: Final = 0.03
"""Largest gain of the last two rounds over the best two before them."""
_CLIENTS: Final = 64
"""Enough clients to fill a server; more only lengthen its queue."""
_READS: Final = frozenset({"read", "scan"})
_PLAIN: Final[Mapping[str, Any]] = {
    "clients": None, "rate": None, "arrival": None, "operations": None, "until_stderr": None,
    "precision": None, "warmup_ns": 0, "warmup_until": None, "interval_ns": None, "faults": (),
    "verify": False,
}  # fmt: skip
"""The options of a run that a load of the warm-up doesn't have."""


@dataclass(frozen=True, slots=True)
class ServerWarmup:
    """The course of a warm-up."""

    took_s: float
    rounds: tuple[float, ...]
    """The speed of each round on the servers' own cores, relative to the last one."""
    rounds_on_all_cores: tuple[float, ...] = ()
    """The speeds of earlier rounds with lent cores."""

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
    """Executes rounds of all loads until throughput levels off, or the limits are reached.

    A load that fails is excluded together with the rounds before; its own case reports the failure.

    Args:
        loads: by their titles.
        longest_s: limit for the begin of a round, after the first round, which loads records.
        clock_s: a monotonic clock.
        say: displays a sentence.
        on_all_cores: lends the servers more cores, for their compiler, until throughput levels
            off, for at most half of all rounds.

    Returns:
        The course of the warm-up; None where no load is left.

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
    how = "rises no more" if has_levelled(found.rounds) else "still rises"
    say(f"throughput {how} after {duration_text(found.took_s * 1e9)} of warm-up")
    return found


@dataclass
class _Rounds:
    """Rounds of loads, with one counter and one time limit."""

    left: dict[str, Load]
    clock_s: Callable[[], float]
    say: Callable[[str], None]
    _number: int = 0
    _first_ended_s: float | None = None

    def until_no_rise(self, most: int, longest_s: float, where: str = "") -> tuple[float, ...]:
        """The mean speeds of rounds until throughput levels off, or a limit is reached.

        At least one round; empty where no load is left.
        """
        means: list[float] = []
        while self.left:
            self._number += 1
            self.say(f"warming up servers{where}, round {self._number} of {MOST_ROUNDS} at most")
            speeds = {}
            for title, load in self.left.items():
                try:
                    speeds[title] = load(self._number)
                except (Interrupted, RunError):
                    raise
                except KvmarkError as problem:
                    # The sentence about stored records is dropped: these aren't stored.
                    self.say(f"{title} warms nothing up: {str(problem).partition('; ')[0]}")
            if self._first_ended_s is None:
                self._first_ended_s = self.clock_s()
            if speeds.keys() != self.left.keys():
                # Only means of the same loads are comparable.
                self.left, means = {title: self.left[title] for title in speeds}, []
            if not speeds:
                break
            # Each load has the same weight, whatever its speed.
            means.append(math.exp(math.fsum(map(math.log, speeds.values())) / len(speeds)))
            over = self._number >= most or self.clock_s() >= self._first_ended_s + longest_s
            # One pair of rounds that has levelled may be chance.
            if over or (has_levelled(means[:-2]) and has_levelled(means)):
                break
        return tuple(means)


def has_levelled(speeds: Sequence[float]) -> bool:
    """Whether the last two exceed the best two before by less than the bound."""
    risen = warmup_gain(speeds)
    return risen is not None and risen < BOUND


def _shares(speeds: Sequence[float]) -> tuple[float, ...]:
    return tuple(one / speeds[-1] for one in speeds)


def client_speed(manifest: Manifest) -> float:
    """Operations per second of one client's time.

    Unlike throughput it doesn't depend on the last operation of a round: a full scan may take a
    tenth of it.

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
    """The places of the runs that warm servers up for all of them.

    For each workload the fewest runs that cover its operations, those with the most operations
    first, then those whose clients best fill a server. Runs that can't be repeated are excluded.
    """
    able = []
    for place, spec in enumerate(specs):
        if spec.replay is None and not spec.workload.once_per_record:
            plan = compile_run(spec)
            operations = frozenset(operation_names(plan))
            clients = sum(group.clients for group in _measured(plan))
            # Of equal runs the last one: levels rise in most files.
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
    """The same load in the closed model without pauses and faults, for a duration.

    At a rate or with pauses, the speed wouldn't show whether a server is warm.
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
    workload = spec.workload.model_copy(update={"groups": tuple(groups)})
    return replace(spec, **_PLAIN, workload=workload, duration_ns=duration_ns, settle=settle)


def is_read_only(spec: RunSpec) -> bool:
    """Whether a run leaves the records unchanged."""
    groups = _measured(compile_run(spec))
    return {operation.kind for group in groups for operation in group.mix} <= _READS


def _measured(plan: Plan) -> list[Group]:
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    return [plan.groups[active.group] for active in measured.groups]
