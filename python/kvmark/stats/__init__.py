"""Pure mathematics: estimates, intervals, quantiles and tests.

Nothing here reads a file or depends on benchmarks. Samples are sequences of numbers, or
:class:`Counts`; results are an :class:`Estimate` or a small frozen value.

Write `scipy.special` in full: SciPy loads its parts on first use, which takes a quarter of a
second, and many commands don't need them.
"""

from kvmark.stats.change_points import change_points, could_be_seen, least_points
from kvmark.stats.counts import BEYOND, Counts, least_observations
from kvmark.stats.distributions import mix_test, rise_of_share
from kvmark.stats.estimate import CONFIDENCE, Estimate, crossing, keeps_within
from kvmark.stats.level import (
    Decision,
    Effect,
    Level,
    PrecisionTarget,
    as_family,
    decide,
    difference,
    level_of,
    level_of_stages,
    mean_interval,
    paired_ratio,
    two_stage_mean,
)
from kvmark.stats.resampling import jackknife, paired_difference_of, paired_jackknife
from kvmark.stats.series import (
    LEAST_INTERVALS,
    Drift,
    Placed,
    drift,
    quantile_of_intervals,
    rate_of_intervals,
    warming,
    warmup_gain,
)
from kvmark.stats.usl import UslFit, fit_usl
