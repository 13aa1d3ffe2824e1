"""When operations are due: a constant rate, one that follows the trace's, or bursts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from kvmark.analysis.trace import Rate, rates
from kvmark.spec.curve import parse_curve
from kvmark.trace import Trace

__all__ = ["ArrivalFit", "fit_arrivals"]

_S: Final = 10**9
_FINE_NS: Final = 10**7
_SLOTS_MAX: Final = 200_000
_PIECES_MAX: Final = 500
_PIECES_LEAST: Final = 4
_SCALES: Final = {"10 ms": 10**7, "1 s": _S, "10 s": 10 * _S}
_MOVES: Final = 2.0
"""Variance over mean of counts from which on a rate moves, where 1 is a Poisson process."""
_EVEN: Final = 0.5
_COUNTED: Final = 8.0
"""Operations in a slot in the mean, so that bursts are told from chance."""
_SEED: Final = 7

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ArrivalFit:
    """The rate in the words of a workload's file, and how its counts scatter."""

    rate: float | str
    process: Literal["constant", "poisson"]
    dispersion: Mapping[str, tuple[float, float]]
    """Variance over mean of the counts in slots of each length, of the trace and of the law."""
    words: str

    @property
    def off(self) -> float:
        """The largest factor between both, as its logarithm."""
        pairs = self.dispersion.values()
        return max((abs(math.log((1 + law) / (1 + own))) for own, law in pairs), default=0.0)


def fit_arrivals(trace: Trace, rate: Rate) -> ArrivalFit | None:
    """The law whose counts scatter likest; None where all operations are at one instant.

    Raises:
        UsageError: a file is damaged.
    """
    end_ns = trace.info.end_ns
    if rate.mean is None or end_ns < _FINE_NS:
        return None
    slot_ns = max(_FINE_NS, -(-end_ns // _SLOTS_MAX))
    found = np.array([one for _, one in rates(trace, slot_ns)]) * (slot_ns / _S)
    # The last slot isn't whole.
    counts = found[:-1] if len(found) > 1 else found
    steps, length = _steps(counts, slot_ns)
    within = _within(counts, steps, length)
    process: Literal["constant", "poisson"] = "constant" if within < _EVEN else "poisson"
    law: float | str = float(f"{rate.mean:.6g}")
    if len(steps) > 1:
        law = _held(steps * (_S / slot_ns), length * slot_ns)
    fits = [_fit(law, process, rate, end_ns)]
    if within > _MOVES:
        bursts = _bursts(counts, slot_ns)
        if bursts is not None:
            fits.append(_fit(bursts, process, rate, end_ns))
    return min(fits, key=lambda one: one.off)


def _steps(counts: Shares, slot_ns: int) -> tuple[Shares, int]:
    """Mean counts of the slots of each piece, and how many slots these are.

    One piece where the rate doesn't move.
    """
    length = max(1, round(_S / slot_ns), -(-len(counts) // _PIECES_MAX))
    pieces = len(counts) // length
    if pieces < _PIECES_LEAST:
        return np.array([counts.mean()]), len(counts)
    summed = counts[: pieces * length].reshape(pieces, length).sum(axis=1)
    if summed.var(ddof=1) <= _MOVES * summed.mean():
        return np.array([counts.mean()]), len(counts)
    return summed / length, length


def _within(counts: Shares, steps: Shares, length: int) -> float:
    """Variance over mean of the counts about their piece's mean."""
    expected = np.repeat(steps, length)
    apart = counts[: len(expected)] - expected
    return float(np.mean(apart**2) / max(float(expected.mean()), 1e-12))


def _held(each: Shares, length_ns: int) -> str:
    """A curve that holds each rate for a time."""
    return "steps:" + ",".join(f"{_rate(one)}/{length_ns // 1000}us" for one in each)


def _rate(rate: float) -> str:
    return f"{rate:.3f}".rstrip("0").rstrip(".")


def _bursts(counts: Shares, slot_ns: int) -> str | None:
    """Two rates in turn, told apart by the counts of slots that hold some operations each."""
    together = max(1, math.ceil(_COUNTED / max(float(counts.mean()), 1e-9)))
    slots = len(counts) // together
    if slots < 2 * _PIECES_LEAST:
        return None
    summed = counts[: slots * together].reshape(slots, together).sum(axis=1)
    middle = float(summed.mean())
    for _ in range(20):
        high = summed > middle
        if high.all() or not high.any():
            return None
        middle = float(summed[high].mean() + summed[~high].mean()) / 2
    changes = np.flatnonzero(high[1:] != high[:-1])
    lengths = np.diff(changes)
    if len(lengths) < _PIECES_LEAST:
        return None
    # Stretches in turn: the first whole one is of the state behind the first change.
    is_high = high[changes[0] + 1]
    ons, offs = (lengths[::2], lengths[1::2]) if is_high else (lengths[1::2], lengths[::2])
    slot_us = slot_ns * together / 1000
    words = []
    for state, held in ((high, ons), (~high, offs)):
        rate = float(summed[state].mean()) / slot_us * 1e6
        words.append(f"{_rate(rate)}/{round(float(held.mean()) * slot_us)}us")
    return "onoff:" + ",".join(words)


def _fit(
    law: float | str, process: Literal["constant", "poisson"], rate: Rate, end_ns: int
) -> ArrivalFit:
    own = 1.0 if process == "poisson" else 0.0
    scales = {name: _SCALES[name] for name in rate.dispersion}
    found = {
        name: (rate.dispersion[name], own + _moved(law, length_ns, end_ns))
        for name, length_ns in scales.items()
    }
    words = law if isinstance(law, str) else f"{law:g} ops/s"
    form, _, steps = words.partition(":")
    shown = f"{steps.count(',') + 1} steps" if form == "steps" else words
    return ArrivalFit(law, process, found, f"{shown}, {process} arrivals")


def _moved(law: float | str, length_ns: int, end_ns: int) -> float:
    """Variance over mean of the operations expected in slots of a length."""
    if not isinstance(law, str):
        return 0.0
    points = parse_curve(law).points(end_ns, _SEED)
    at_ns, rate = (np.array(one, dtype=np.float64) for one in zip(*points, strict=True))
    due = np.concatenate([[0.0], np.cumsum(np.diff(at_ns) * (rate[1:] + rate[:-1]) / 2)]) / _S
    edges = np.arange(0, end_ns + 1, length_ns, dtype=np.float64)
    expected = np.diff(np.interp(edges, at_ns, due))
    return float(expected.var(ddof=1) / expected.mean()) if len(expected) > 1 else 0.0
