"""The highest rate at which an objective holds: bracketed, bisected, confirmed.

A closed model says about how much the system does at most. From half of that the rate is doubled
until the objective is missed, or halved until it holds; between the two the logarithm of the rate
is bisected until both are as near as was asked. At each end runs with other seeds follow, and all
runs at a rate are judged as one: their histograms are merged, so that what one run says by chance
counts for its share. An end that then turns out to be on the other side moves on by a step.

A rate can be missed because all clients, the limit of operations in flight, were busy. Then it is
tried with twice as many, as long as that makes a difference.

Here is the search alone; `runs` has the runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from kvmark.errors import UsageError
from kvmark.spec.objective import Objective
from kvmark.stats import Estimate, crossing

Outcome = Literal["holds", "missed", "generator", "too few"]
"""Of a run: the objective held; it was missed; the generator and not the system was the limit; it
had too few operations to tell."""
Stage = Literal["bracket", "bisect", "confirm"]
_Found = Literal["found", "nowhere", "generator", "clients", "open"]
"""Of a search: an interval; the objective holds at no rate; up to where the generator is the limit,
or the number of clients; no upper end, because none was found at which it is missed."""

_MOST_DOUBLINGS: Final = 20
_MOST_HALVINGS: Final = 20
_MOST_MOVES: Final = 8
_MORE: Final = 1.05
"""A throughput that is so many times as high, or a time so many times as short, is a difference."""
_NEAR: Final = 1.5
"""Runs so many steps beyond either end still count: a line describes no more than that."""


@dataclass(frozen=True, slots=True)
class RateRun:
    """One run at a rate, and whether everything held."""

    #: Operations per second offered.
    rate: float
    stage: Stage
    run: str
    outcome: Outcome
    #: Why it isn't "holds", a sentence each.
    reasons: tuple[str, ...]
    #: Each objective's figure by its text: nanoseconds, a share, or ops/s; none where unknown.
    figures: Mapping[str, float | None]
    #: Successful operations per second.
    throughput: float
    notes: tuple[str, ...] = ()
    #: The limit of operations in flight, and whether so many waited for it that it may be the
    #: reason why an objective was missed.
    clients: int = 0
    held_back: bool = False

    @property
    def holds(self) -> bool:
        """Whether every objective held and nothing was dropped."""
        return self.outcome == "holds"


class _Attempts(Protocol):
    """Who makes the runs."""

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        """One run at a rate, judged."""

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        """All runs at a rate, judged as one."""


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """How exact the answer is to be."""

    #: Most distance of both ends, a share of the lower one.
    within: float
    #: Runs that confirm each end, beside the one that found it.
    confirm: int
    #: The number of clients to begin with, and the most; equal where the number is given.
    clients: int
    most_clients: int

    def __post_init__(self) -> None:
        """Checks the values."""
        if not 0.001 <= self.within <= 1:
            raise UsageError(f"within: must be from 0.1% to 100%, not {self.within:.3g}")
        if not 0 <= self.confirm <= 100:
            raise UsageError(f"confirm: must be from 0 to 100 runs, not {self.confirm}")

    @property
    def steps(self) -> int:
        """About how many runs it takes: for a display."""
        bisections = math.ceil(math.log2(math.log(2) / math.log1p(self.within)))
        return 2 + max(bisections, 0) + 2 * self.confirm


@dataclass(frozen=True, slots=True)
class Capacity:
    """The answer. Rates are operations per second."""

    found: _Found
    #: The highest rate at which its runs together held; none when there is none.
    low: float | None
    #: The next rate, at which they didn't; none when there is none.
    high: float | None
    #: Why there is no capacity, or no upper end; empty when there are both.
    reason: str
    runs: tuple[RateRun, ...]
    #: The limit of operations in flight with which the ends were found.
    clients: int


@dataclass
class _Search:
    """Rates that were tried."""

    attempts: _Attempts
    asked: CapacityRequest
    clients: int
    runs: list[RateRun] = field(default_factory=list)
    #: The lowest rate that was missed no less with twice as many clients.
    enough_at: float = math.inf

    def at(self, rate: float, stage: Stage) -> RateRun:
        one = self._try(rate, stage, self.clients)
        while one.outcome == "missed" and one.held_back and self._may_be_limit(rate):
            more = min(2 * self.clients, self.asked.most_clients)
            if more == self.clients:
                break
            wider = self._try(rate, stage, more)
            if not _makes_a_difference(one, wider):
                self.enough_at = min(self.enough_at, rate)
                break
            self.clients, one = more, wider
        return one

    def _try(self, rate: float, stage: Stage, clients: int) -> RateRun:
        one = self.attempts.attempt(rate, stage, clients)
        self.runs.append(one)
        return one

    def _may_be_limit(self, rate: float) -> bool:
        """Whether the number of clients may be why a rate is missed.

        A system that gains nothing by more clients at a rate gains nothing at higher ones.
        """
        return rate < self.enough_at

    def _same(self, rate: float) -> list[RateRun]:
        """The runs at a rate with the clients that there are now."""
        return [one for one in self.runs if (one.rate, one.clients) == (rate, self.clients)]

    def bracket(self, first: float) -> tuple[float | None, float | None]:
        """A rate that holds and one, at most twice as high, that doesn't; or what there is."""
        one = self.at(first, "bracket")
        if one.holds:
            for rate in _powers(first, 2.0, _MOST_DOUBLINGS):
                if not self.at(rate, "bracket").holds:
                    return rate / 2, rate
            return first * 2.0**_MOST_DOUBLINGS, None
        for rate in _powers(first, 0.5, _MOST_HALVINGS):
            one = self.at(rate, "bracket")
            if one.holds:
                return rate, rate * 2
            if one.outcome == "too few":
                break
        return None, self.runs[-1].rate

    def bisect(self, low: float, high: float) -> tuple[float, float]:
        """Both ends as near as was asked."""
        while high / low > 1 + self.asked.within:
            middle = math.sqrt(low * high)
            if self.at(middle, "bisect").holds:
                low = middle
            else:
                high = middle
        return low, high

    def confirm(self, low: float, high: float) -> Capacity:
        """Both ends with more runs at each."""
        step, moved = 1 + self.asked.within, False
        for _ in range(_MOST_MOVES):
            if self._confirmed(low).holds:
                break
            high, low, moved = low, low / step, True
        else:
            return self.answer("nowhere", None, high, f"runs miss it down to {high:,.4g} ops/s")
        if moved:
            return self._bounded(low, high)
        for _ in range(_MOST_MOVES):
            if not self._confirmed(high).holds:
                return self._bounded(low, high)
            low, high = high, high * step
        return self.answer("open", low, None, f"runs hold up to {low:,.4g} ops/s")

    def _confirmed(self, rate: float) -> RateRun:
        """All runs at a rate as one, after as many more as were asked for."""
        for _ in range(max(self.asked.confirm, 0 if self._same(rate) else 1)):
            self.at(rate, "confirm")
        return self.attempts.together(self._same(rate))

    def _bounded(self, low: float, high: float) -> Capacity:
        above = self._same(high) or [one for one in self.runs if one.rate == high]
        limited = [one for one in above if one.outcome == "generator"]
        if len(limited) * 2 > len(above):
            return self.answer("generator", low, None, "; ".join(limited[0].reasons))
        held_back = [one for one in above if one.held_back]
        if len(held_back) * 2 > len(above) and self._may_be_limit(high):
            return self.answer("clients", low, None, _all_busy(high, self.clients))
        return self.answer("found", low, high, "")

    def answer(self, found: _Found, low: float | None, high: float | None, reason: str) -> Capacity:
        return Capacity(found, low, high, reason, tuple(self.runs), self.clients)


def search(attempts: _Attempts, first: float, asked: CapacityRequest) -> Capacity:
    """The highest rate that holds, looked for from `first` ops/s."""
    tried = _Search(attempts, asked, asked.clients)
    low, high = tried.bracket(first)
    if low is None:
        return tried.answer("nowhere", None, high, _nowhere(tried.runs))
    if high is None:
        return tried.answer("open", low, None, "no rate was found at which the objective is missed")
    return tried.confirm(*tried.bisect(low, high))


def _makes_a_difference(one: RateRun, wider: RateRun) -> bool:
    """Whether a run with more clients did better than one at the same rate, or had clients free."""
    if wider.holds or not wider.held_back or wider.throughput > one.throughput * _MORE:
        return True
    known = [(value, wider.figures.get(name)) for name, value in one.figures.items()]
    times = [(value, other) for value, other in known if value is not None and other is not None]
    # Figures of throughputs rise only with the throughput itself.
    return bool(times) and all(other * _MORE < value for value, other in times)


def _all_busy(rate: float, clients: int) -> str:
    number = "the one client was" if clients == 1 else f"all {clients} clients were"
    return (
        f"at {rate:,.4g} ops/s {number} busy, and more of them may carry more: raise --clients, or"
        " leave it out to have their number found"
    )


def _nowhere(runs: Sequence[RateRun]) -> str:
    """What the lowest rate with an answer missed."""
    telling = [one for one in runs if one.outcome != "too few"]
    if not telling:
        return "; ".join(runs[-1].reasons)
    lowest = min(telling, key=lambda one: one.rate)
    reasons = "; ".join(lowest.reasons)
    below = "" if len(telling) == len(runs) else f", and lower: {'; '.join(runs[-1].reasons)}"
    return f"even at {lowest.rate:,.3g} ops/s {reasons}{below}"


def _powers(first: float, factor: float, count: int) -> Iterator[float]:
    for power in range(1, count + 1):
        yield first * factor**power


def estimated(capacity: Capacity, objectives: Sequence[Objective]) -> Estimate | None:
    """The capacity in ops/s; none where there is none.

    The logarithm of the worst figure over its bound rises with that of the rate, and where a line
    through the runs near the ends crosses 0 the objective is just met. Where the rate itself was
    not carried, or the line's slope may be 0, it is the highest rate that held: both ends of the
    search enclose the capacity, and say nothing of how surely.
    """
    low, high = capacity.low, capacity.high
    if low is None or high is None:
        return None
    step = (high / low) ** _NEAR
    same = [one for one in capacity.runs if one.clients == capacity.clients]
    near = [one for one in same if low / step <= one.rate <= high * step]
    held = Estimate.alone(low, "ops/s", "highest rate that held", len(near))
    over = [_over(one, objectives) for one in near]
    known = [(math.log(one.rate), y) for one, y in zip(near, over, strict=True) if y is not None]
    if len(known) < len(near):
        return held
    found = crossing([x for x, _ in known], [y for _, y in known], "ops/s")
    if found is None or found.low is None or found.high is None:
        return held
    if not low / step <= math.exp(found.value) <= high * step:
        return held
    return found.put(math.exp, "ops/s")


def _over(one: RateRun, objectives: Sequence[Objective]) -> float | None:
    """The logarithm of the worst figure over its bound; none where figures aren't the reason."""
    ratios = []
    for objective in objectives:
        value = one.figures.get(objective.text)
        if value is None:
            return None
        if value > 0 and objective.bound > 0:
            ratio = math.log(value / objective.bound)
            ratios.append(-ratio if objective.measure == "throughput" else ratio)
    worst = max(ratios, default=None)
    if worst is None or (worst < 0 and not one.holds):
        return None
    return worst
