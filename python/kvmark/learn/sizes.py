"""How long values are: always the same, or a histogram of equal steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark.learn.drawn import Numbers

__all__ = ["SizesFit", "fit_sizes"]

_BUCKETS: Final = 500
_STEPS: Final = 2**0.25
_WEIGHTS: Final = 100_000
_OFF: Final = 0.02
"""So far off, the coarsest steps are taken."""


@dataclass(frozen=True, slots=True)
class SizesFit:
    """The law of lengths, in the words of a workload's file, and how far it is from the trace."""

    law: dict[str, Any] | int
    off: float
    """By how much of the mean a value is longer or shorter in the law, in the mean."""
    mean: float
    law_mean: float


def fit_sizes(sizes: Numbers) -> SizesFit:
    """The law that is nearest to these bytes, of which there is one at least."""
    values, counts = np.unique(sizes, return_counts=True)
    mean = float(np.average(values, weights=counts))
    if len(values) == 1:
        return SizesFit(int(values[0]), 0.0, mean, mean)
    # From steps of which four reach the longest value to those of a byte.
    widest = max(1.0, float(values[-1]) / 4)
    widths = sorted({max(1, int(np.ceil(widest / _STEPS**one))) for one in range(96)})
    fits = [_of_width(values, counts, width) for width in reversed(widths)]
    return next((one for one in fits if one.off <= _OFF), min(fits, key=lambda one: one.off))


def _of_width(values: Numbers, counts: Numbers, width: int) -> SizesFit:
    places = np.clip(np.floor(values / width + 0.5).astype(np.int64), 1, _BUCKETS)
    moved = np.abs(places * width - values)
    mean = float(np.average(values, weights=counts))
    weights = np.bincount(places - 1, weights=counts)
    scaled = np.rint(weights * (_WEIGHTS / weights.sum())).astype(np.int64)
    law_mean = float(np.average(np.arange(1, len(weights) + 1) * width, weights=weights))
    law = {
        "distribution": "histogram",
        "block_size": width,
        "weights": [int(one) for one in scaled],
    }
    off = float(np.average(moved, weights=counts)) / max(mean, 1.0)
    return SizesFit(law, off, mean, law_mean)
