"""The popularity and the reuse of keys: laws fitted by the engine's draws.

A law of popularity and a law of copies (repetitions of recent keys) are fitted alternately.
Popularity is fitted so that the draws, copies included, have the trace's counts and number of
distinct keys. Copies at each gap are increased by the returns that the trace has there and the
draws lack, until both are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import scipy

from kvmark.learn.drawn import Numbers, Shares, counts_of, gaps_of, keys_of_workload
from kvmark.spec.workload import DatasetSpec, Fields, GroupSpec, Mix, WorkloadSpec

_SEED: Final = 7
_THETAS: Final = (0.05, 2.5)
_NARROW: Final = 0.05
_STEP: Final = 0.02
"""The tolerance of theta."""
_ROUNDS: Final = 6
_HEAD: Final = 64
"""The most popular ranks, with individual shares if a zipfian law doesn't fit."""
_HEAD_NEEDED: Final = 0.02
"""The difference of a zipfian law at which individual shares are tried."""
_AGAIN_NEEDED: Final = 0.01
"""The difference of gaps at which copies are added."""
_RECORDS_MAX: Final = 10_000
"""The most records as a multiple of the trace's keys; larger numbers are indistinguishable."""
_WEIGHTS: Final = 1_000_000
_SHARE_MAX: Final = 0.99
_EXACT: Final = 4096


@dataclass(frozen=True, slots=True)
class KeysFit:
    """The law of keys in the form of a workload's file, and its distance from the trace."""

    law: dict[str, Any]
    records: int
    popularity_off: float
    """The largest difference of the cumulative shares of the most popular keys."""
    gaps_off: float
    """The largest difference of the shares of operations whose key returns within a gap."""


@dataclass(frozen=True, slots=True)
class _Popularity:
    theta: float
    shares: tuple[float, ...]
    records: int
    off: float = 0.0

    @property
    def law(self) -> dict[str, Any]:
        if self.shares:
            return {"distribution": "head", "shares": list(self.shares), "theta": self.theta}
        return {"distribution": "zipfian", "theta": self.theta}


def fit_keys(keys: Numbers) -> KeysFit:
    """The laws whose draws are most similar to a trace."""
    fit = _Fit(keys)
    copies = np.zeros_like(fit.gaps)
    popularity = fit.popularity(copies, _THETAS)
    off, missing = fit.gaps_off(popularity, copies)
    tried = [(off, copies, popularity)]
    if off > _AGAIN_NEEDED:
        for _ in range(_ROUNDS):
            copies = np.clip(copies + missing, 0.0, None)
            copies *= min(1.0, _SHARE_MAX / max(float(copies.sum()), _SHARE_MAX))
            near = popularity.theta - _NARROW, popularity.theta + _NARROW
            popularity = fit.popularity(copies, near, popularity.shares)
            off, missing = fit.gaps_off(popularity, copies)
            tried.append((off, copies, popularity))
    # If no law fits the trace's popularity, copies can increase the distance.
    off, copies, popularity = min(tried, key=lambda one: one[0] + one[2].off)
    return KeysFit(_copied(popularity.law, copies), popularity.records, popularity.off, off)


class _Fit:
    """A trace's keys, and the laws that are tried."""

    def __init__(self, keys: Numbers) -> None:
        self.operations = len(keys)
        self.gaps = gaps_of(keys)
        self.counts = counts_of(keys)
        self.different = len(self.counts)
        self.upto = np.cumsum(self.counts) / self.operations

    def popularity(
        self, copies: Shares, between: tuple[float, float], shares: Sequence[float] = ()
    ) -> _Popularity:
        """The law of popularity with these copies and a theta between two values."""
        plain = self._best(copies, between, tuple(shares))
        if shares or plain.off <= _HEAD_NEEDED or self.different <= 2 * _HEAD:
            return plain
        popular = self.counts[:_HEAD] / self.operations
        headed = self._best(copies, between, tuple(float(f"{one:.4g}") for one in popular))
        return headed if headed.off < plain.off / 2 else plain

    def _best(
        self, copies: Shares, between: tuple[float, float], shares: tuple[float, ...]
    ) -> _Popularity:
        def tried(theta: float) -> _Popularity:
            theta = float(f"{max(theta, _THETAS[0]):.4g}")
            law = _Popularity(theta, shares, self._records(theta, shares, copies))
            upto = np.ones(self.different)
            counts = counts_of(self._drawn(law, copies))[: self.different]
            upto[: len(counts)] = np.cumsum(counts) / self.operations
            return replace(law, off=float(np.abs(upto - self.upto).max()))

        # A bounded search; laws are deterministic, so the best one can be drawn again.
        best = scipy.optimize.minimize_scalar(
            lambda theta: tried(theta).off,
            bounds=between,
            method="bounded",
            options={"xatol": _STEP},
        )
        return tried(float(best.x))

    def gaps_off(self, popularity: _Popularity, copies: Shares) -> tuple[float, Shares]:
        """The largest difference of the draws, and the missing share of operations at each gap."""
        missing = self.gaps - gaps_of(self._drawn(popularity, copies))
        return float(np.abs(np.cumsum(missing)).max()), missing

    def _drawn(self, popularity: _Popularity, copies: Shares) -> Numbers:
        law = _copied(popularity.law, copies)
        dataset = DatasetSpec(records=popularity.records, fields=Fields(count=1), loaded=True)
        group = GroupSpec.model_validate({"mix": Mix(read=1.0), "keys": law})
        spec = WorkloadSpec(dataset=dataset, groups=(group,))
        return keys_of_workload(spec, self.operations, _SEED)

    def _records(self, theta: float, shares: tuple[float, ...], copies: Shares) -> int:
        """The number with the trace's number of distinct keys as its expectation."""
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
    """The expected number of distinct keys in a number of draws; large ranks are grouped."""
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
    """A law with copies added, if there are any."""
    share = float(copies.sum())
    weights = np.rint(copies * _WEIGHTS).astype(int)
    if not weights.any():
        return law
    gaps = [int(one) for one in np.trim_zeros(weights, "b")]
    return {"distribution": "again", "share": float(f"{share:.4g}"), "gaps": gaps, "of": law}
