"""The highest rate at which an objective holds: bracketed, bisected, confirmed.

A closed model gives a first maximum. From half of it the rate is doubled until the objective is
missed, or halved until it holds; between the two the logarithm of the rate is bisected down to the
requested distance. Runs with other seeds confirm each end, and all runs at a rate are judged as one
with merged histograms. An end that changes its result moves by a step.

A rate can be missed because all clients, the limit of operations in flight, were busy. Then the
number of clients is doubled, as long as that makes a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from kvmark.errors import UsageError
from kvmark.spec.objective import Objective
from kvmark.stats import Estimate, crossing

Outcome = Literal["holds", "missed", "generator", "too few"]
"""The objective held; it was missed; the generator, not the system, was the limit; there were too
few operations."""
Stage = Literal["bracket", "bisect", "confirm"]
_Found = Literal["found", "nowhere", "generator", "clients", "open"]
"""An interval; no rate holds; the generator or the number of clients is the limit; no rate was
missed."""

_MOST_DOUBLINGS: Final = 20
_MOST_HALVINGS: Final = 20
_MOST_MOVES: Final = 8
_MORE: Final = 1.05
"""Factor by which a throughput or a time must improve to make a difference."""
_NEAR: Final = 1.5
"""Steps beyond either end within which runs count for the fitted line."""


@dataclass(frozen=True, slots=True)
class RateRun:
    """The result of a run, or of several runs, at a rate."""

    #: Operations per second offered.
    rate: float
    stage: Stage
    run: str
    outcome: Outcome
    #: Sentences with the reasons for another outcome than "holds".
    reasons: tuple[str, ...]
    #: Each objective's figure by its text: nanoseconds, a share, or ops/s; none where unknown.
    figures: Mapping[str, float | None]
    #: Successful operations per second.
    throughput: float
    notes: tuple[str, ...] = ()
    #: The limit of operations in flight, and whether enough operations waited for it to explain a
    #: missed objective.
    clients: int = 0
    held_back: bool = False

    @property
    def holds(self) -> bool:
        """Whether every objective held and nothing was dropped."""
        return self.outcome == "holds"


class _Attempts(Protocol):
    """Measures and judges runs."""

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun: ...

    def together(self, runs: Sequence[RateRun]) -> RateRun: ...


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """The precision of a search."""

    #: Largest distance of the ends, a share of the lower one.
    within: float
    #: Runs that confirm each end, besides the first.
    confirm: int
    #: First and largest number of clients; equal where the number is given.
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
        """Expected number of runs, for the display."""
        bisections = math.ceil(math.log2(math.log(2) / math.log1p(self.within)))
        return 2 + max(bisections, 0) + 2 * self.confirm


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of a search. Rates are operations per second."""

    found: _Found
    #: The highest rate that holds.
    low: float | None
    #: The next rate, which is missed.
    high: float | None
    #: The reason for a missing end.
    reason: str
    runs: tuple[RateRun, ...]
    #: The limit of operations in flight at the ends.
    clients: int


@dataclass
class _Search:
    """A search and its runs."""

    attempts: _Attempts
    asked: CapacityRequest
    clients: int
    runs: list[RateRun] = field(default_factory=list)
    #: The lowest rate at which twice as many clients made no difference.
    enough_at: float = math.inf

    def at(self, rate: float, stage: Stage) -> RateRun:
        one = self._attempt(rate, stage, self.clients)
        while one.outcome == "missed" and one.held_back and self._may_be_limit(rate):
            more = min(2 * self.clients, self.asked.most_clients)
            if more == self.clients:
                break
            wider = self._attempt(rate, stage, more)
            if not _makes_a_difference(one, wider):
                self.enough_at = min(self.enough_at, rate)
                break
            self.clients, one = more, wider
        return one

    def _attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        one = self.attempts.attempt(rate, stage, clients)
        self.runs.append(one)
        return one

    def _may_be_limit(self, rate: float) -> bool:
        """Whether more clients may help: where they don't at a rate, they don't at higher ones."""
        return rate < self.enough_at

    def _same(self, rate: float) -> list[RateRun]:
        """The runs at a rate with the present number of clients."""
        return [one for one in self.runs if (one.rate, one.clients) == (rate, self.clients)]

    def bracket(self, first: float) -> tuple[float | None, float | None]:
        """A rate that holds and one, at most twice as high, that is missed; None where missing."""
        one = self.at(first, "bracket")
        if one.holds:
            for rate in (first * 2.0**power for power in range(1, _MOST_DOUBLINGS + 1)):
                if not self.at(rate, "bracket").holds:
                    return rate / 2, rate
            return first * 2.0**_MOST_DOUBLINGS, None
        for rate in (first * 0.5**power for power in range(1, _MOST_HALVINGS + 1)):
            one = self.at(rate, "bracket")
            if one.holds:
                return rate, rate * 2
            if one.outcome == "too few":
                break
        return None, self.runs[-1].rate

    def bisect(self, low: float, high: float) -> tuple[float, float]:
        """Both ends within the requested distance."""
        while high / low > 1 + self.asked.within:
            middle = math.sqrt(low * high)
            if self.at(middle, "bisect").holds:
                low = middle
            else:
                high = middle
        return low, high

    def confirm(self, low: float, high: float) -> Capacity:
        """Both ends, confirmed by more runs."""
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
        """All runs at a rate as one, after the confirming runs."""
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
    """The highest rate that holds, from a first rate in ops/s."""
    tried = _Search(attempts, asked, asked.clients)
    low, high = tried.bracket(first)
    if low is None:
        return tried.answer("nowhere", None, high, _nowhere(tried.runs))
    if high is None:
        return tried.answer("open", low, None, "no rate was found at which the objective is missed")
    return tried.confirm(*tried.bisect(low, high))


def _makes_a_difference(one: RateRun, wider: RateRun) -> bool:
    """Whether more clients improved a run at the same rate, or were not all busy."""
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
    """The reasons at the lowest conclusive rate."""
    conclusive = [one for one in runs if one.outcome != "too few"]
    if not conclusive:
        return "; ".join(runs[-1].reasons)
    lowest = min(conclusive, key=lambda one: one.rate)
    reasons = "; ".join(lowest.reasons)
    below = "" if len(conclusive) == len(runs) else f", and lower: {'; '.join(runs[-1].reasons)}"
    return f"even at {lowest.rate:,.3g} ops/s {reasons}{below}"


def estimated(capacity: Capacity, objectives: Sequence[Objective]) -> Estimate | None:
    """The capacity in ops/s; none where there is none.

    The logarithm of the worst figure over its bound rises with that of the rate, and the objective
    is just met where a line through the runs near the ends crosses 0. Where the rate itself was not
    carried, or the line's slope may be 0, it is the highest rate that held, without an interval.
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
    """Logarithm of the worst figure over its bound; None where a missed rate has another reason."""
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
