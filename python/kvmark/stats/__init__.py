"""Pure mathematics: estimates, intervals, quantiles and tests.

Nothing here reads a file or knows what a benchmark is. Samples are sequences of numbers, counts are
:class:`Counts`; what comes out is an :class:`Estimate` or a small frozen result.
"""

from kvmark.stats.change_points import ChangePoint, change_points, could_be_seen, least_points
from kvmark.stats.counts import Counts, least_observations, rank_interval
from kvmark.stats.crossing import crossing
from kvmark.stats.estimate import CONFIDENCE, Estimate
from kvmark.stats.level import Effect, Level, combined, contrast, difference, holm, level_of
from kvmark.stats.mean import mean_interval, paired_ratio, two_stage_mean, unpaired_ratio
from kvmark.stats.proportions import MixTest, kish_effective_size, mix_test
from kvmark.stats.resampling import (
    block_bootstrap,
    jackknife,
    paired_difference_of,
    paired_jackknife,
)
from kvmark.stats.sequential import Asked, Decision, decide
from kvmark.stats.series import (
    cassandra_stress_stderr,
    effective_sample_size,
    relative_stderr,
    series_mean_interval,
)
from kvmark.stats.trend import Drift, drift
from kvmark.stats.usl import UslFit, fit_usl

__all__ = [
    "CONFIDENCE",
    "Asked",
    "ChangePoint",
    "Counts",
    "Decision",
    "Drift",
    "Effect",
    "Estimate",
    "Level",
    "MixTest",
    "UslFit",
    "block_bootstrap",
    "cassandra_stress_stderr",
    "change_points",
    "combined",
    "contrast",
    "could_be_seen",
    "crossing",
    "decide",
    "difference",
    "drift",
    "effective_sample_size",
    "fit_usl",
    "holm",
    "jackknife",
    "kish_effective_size",
    "least_observations",
    "least_points",
    "level_of",
    "mean_interval",
    "mix_test",
    "paired_difference_of",
    "paired_jackknife",
    "paired_ratio",
    "rank_interval",
    "relative_stderr",
    "series_mean_interval",
    "two_stage_mean",
    "unpaired_ratio",
]
