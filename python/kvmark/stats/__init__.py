"""Pure mathematics: estimates, intervals, quantiles and tests.

Nothing here reads a file or knows what a benchmark is. Samples are sequences of numbers, counts are
:class:`Counts`; what comes out is an :class:`Estimate` or a small frozen result.
"""

from kvmark.stats.counts import Counts, least_observations, rank_interval
from kvmark.stats.estimate import CONFIDENCE, Estimate
from kvmark.stats.mean import mean_interval, paired_ratio, unpaired_ratio
from kvmark.stats.proportions import MixTest, kish_effective_size, mix_test
from kvmark.stats.series import (
    cassandra_stress_stderr,
    effective_sample_size,
    relative_stderr,
    series_mean_interval,
)
from kvmark.stats.trend import Drift, drift

__all__ = [
    "CONFIDENCE",
    "Counts",
    "Drift",
    "Estimate",
    "MixTest",
    "cassandra_stress_stderr",
    "drift",
    "effective_sample_size",
    "kish_effective_size",
    "least_observations",
    "mean_interval",
    "mix_test",
    "paired_ratio",
    "rank_interval",
    "relative_stderr",
    "series_mean_interval",
    "unpaired_ratio",
]
