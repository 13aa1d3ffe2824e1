"""How popular keys are and how soon they return: laws fitted by what the engine draws from them.

Popularity and copies are fitted in turn. Copies cluster, so that counts of keys are those of fewer
draws than there are operations: popularity is the one under which what is drawn, copies included,
has the trace's counts and as many different keys. Copies at each gap grow by the returns that the
trace has there and what is drawn hasn't, until both have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark.learn.drawn import (
    Numbers,
    Shares,
    counts_of,
    gaps_of,
    keys_of_workload,
)
from kvmark.spec.workload import DatasetSpec, Fields, GroupSpec, Mix, WorkloadSpec

_SEED: Final = 7
_THETAS: Final = (0.05, 2.5)
_NARROW: Final = 0.05
_STEP: Final = 0.02
"""So near to each other are the last thetas that are tried."""
_ROUNDS: Final = 6
_HEAD: Final = 64
"""Ranks of their own, where a zipfian law is off."""
_HEAD_NEEDED: Final = 0.02
"""So far off is a zipfian law that one with ranks of their own is tried."""
_AGAIN_NEEDED: Final = 0.01
"""So far off are gaps without copies that there are copies."""
_RECORDS_MAX: Final = 10_000
"""Times the keys that a trace has; what is more can't be told from it."""
_WEIGHTS: Final = 1_000_000
_SHARE_MAX: Final = 0.99
_EXACT: Final = 4096
_GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class KeysFit:
    """The law of keys, in the words of a workload's file, and how far it is from the trace."""

    law: dict[str, Any]
    records: int
    popularity_off: float
    """The largest difference between the shares of the most popular keys, at any rank."""
    gaps_off: float
    """The largest difference between the shares of operations whose key returns within a gap."""
    gaps_off_alone: float
    """The same of the law of popularity alone."""


@dataclass(frozen=True, slots=True)
class _Popularity:
    theta: float
    records: int
    off: float
    shares: tuple[float, ...] = ()

    @property
    def law(self) -> dict[str, Any]:
        if self.shares:
            return {"distribution": "head", "shares": list(self.shares), "theta": self.theta}
        return {"distribution": "zipfian", "theta": self.theta}


def fit_keys(keys: Numbers) -> KeysFit:
    """The laws under which what is drawn is likest to a trace."""
    fit = _Fit(keys)
    copies = np.zeros_like(fit.gaps)
    popularity = fit.popularity(copies, _THETAS)
    off_alone, missing = fit.gaps_off(popularity, copies)
    tried = [(off_alone, copies, popularity)]
    if off_alone > _AGAIN_NEEDED:
        for _ in range(_ROUNDS):
            copies = np.clip(copies + missing, 0.0, None)
            copies *= min(1.0, _SHARE_MAX / max(float(copies.sum()), _SHARE_MAX))
            near = popularity.theta - _NARROW, popularity.theta + _NARROW
            popularity = fit.popularity(copies, near, popularity.shares)
            off, missing = fit.gaps_off(popularity, copies)
            tried.append((off, copies, popularity))
    # Where no law is like the trace's popularity, copies can lead away from it.
    off, copies, popularity = min(tried, key=lambda one: one[0] + one[2].off)
    return KeysFit(
        _copied(popularity.law, copies), popularity.records, popularity.off, off, off_alone
    )


class _Fit:
    """A trace's keys, and laws tried on them."""

    def __init__(self, keys: Numbers) -> None:
        self.operations = len(keys)
        self.gaps = gaps_of(keys)
        self.counts = counts_of(keys)
        self.different = len(self.counts)
        self.upto = np.cumsum(self.counts) / self.operations

    def popularity(
        self, copies: Shares, between: tuple[float, float], shares: Sequence[float] = ()
    ) -> _Popularity:
        """The law of popularity beside these copies, its theta between two."""
        found = self._best(copies, between, tuple(shares))
        if shares or found.off <= _HEAD_NEEDED or self.different <= 2 * _HEAD:
            return found
        popular = self.counts[:_HEAD] / self.operations
        headed = self._best(copies, between, tuple(float(f"{one:.4g}") for one in popular))
        return headed if headed.off < found.off / 2 else found

    def _best(
        self, copies: Shares, between: tuple[float, float], shares: tuple[float, ...]
    ) -> _Popularity:
        def tried(theta: float) -> _Popularity:
            theta = float(f"{max(theta, _THETAS[0]):.4g}")
            records = self._records(theta, shares, copies)
            law = _Popularity(theta, records, 0.0, shares)
            upto = np.ones(self.different)
            found = counts_of(self._drawn(law, copies))[: self.different]
            upto[: len(found)] = np.cumsum(found) / self.operations
            return _Popularity(theta, records, float(np.abs(upto - self.upto).max()), shares)

        return _least(tried, *between)

    def gaps_off(self, popularity: _Popularity, copies: Shares) -> tuple[float, Shares]:
        """How far what is drawn is off, and by what share of the operations at each gap."""
        missing = self.gaps - gaps_of(self._drawn(popularity, copies))
        return float(np.abs(np.cumsum(missing)).max()), missing

    def _drawn(self, popularity: _Popularity, copies: Shares) -> Numbers:
        law = _copied(popularity.law, copies)
        dataset = DatasetSpec(records=popularity.records, fields=Fields(count=1), loaded=True)
        group = GroupSpec.model_validate({"mix": Mix(read=1.0), "keys": law})
        spec = WorkloadSpec(dataset=dataset, groups=(group,))
        return keys_of_workload(spec, self.operations, _SEED)

    def _records(self, theta: float, shares: tuple[float, ...], copies: Shares) -> int:
        """As many as let be expected the trace's number of different keys."""
        # What would be copied from before the first operation is drawn.
        cut = np.minimum(1.0, 1.5 * np.exp2(np.arange(len(copies))) / self.operations)
        draws = self.operations * (1.0 - float(np.sum(copies * (1.0 - cut))))
        low, high = np.log([self.different, self.different * float(_RECORDS_MAX)])
        while high - low > 1e-4:
            middle = (low + high) / 2
            expected = _different(theta, shares, float(np.exp(middle)), draws)
            low, high = (middle, high) if expected < self.different else (low, middle)
        return max(self.different, round(float(np.exp(low))))


def _different(theta: float, shares: tuple[float, ...], records: float, draws: float) -> float:
    """Different keys expected of so many draws, the ranks far out taken together."""
    first = len(shares)
    exact = np.arange(first + 1, first + 1 + min(records - first, _EXACT), dtype=np.float64)
    ranks, many = exact, np.ones_like(exact)
    if records - first > _EXACT:
        edges = np.geomspace(exact[-1] + 0.5, records + 0.5, 400)
        ranks = np.concatenate([exact, np.sqrt(edges[1:] * edges[:-1])])
        many = np.concatenate([many, np.diff(edges)])
    likely = ranks**-theta
    likely *= (1.0 - sum(shares)) / float(np.sum(likely * many))
    head = -np.expm1(-draws * np.asarray(shares, dtype=np.float64))
    return float(head.sum() + np.sum(many * -np.expm1(-draws * likely)))


def _copied(law: dict[str, Any], copies: Shares) -> dict[str, Any]:
    """A law with copies around it, where there are any."""
    share = float(copies.sum())
    weights = np.rint(copies * _WEIGHTS).astype(int)
    if not weights.any():
        return law
    gaps = [int(one) for one in np.trim_zeros(weights, "b")]
    return {"distribution": "again", "share": float(f"{share:.4g}"), "gaps": gaps, "of": law}


def _least(tried: Callable[[float], _Popularity], low: float, high: float) -> _Popularity:
    """The best of what is tried by golden sections, until these are narrow."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = tried(left), tried(right)
    while high - low > _STEP:
        if at_left.off < at_right.off:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = tried(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = tried(right)
    return min(at_left, at_right, key=lambda one: one.off)
