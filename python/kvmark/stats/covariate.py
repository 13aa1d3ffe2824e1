"""Figures with less scatter, by a covariate that no treatment changes (CUPED).

Deng, Xu, Kohavi, Walker, Improving the Sensitivity of Online Controlled Experiments by Utilizing
Pre-Experiment Data, WSDM 2013. The covariate here is the speed of the machine beside each sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.estimate import Estimate, t_quantile
from kvmark.stats.series import indicators

_LEAST_BLOCKS: Final = 5
_LEAST_FREEDOM: Final = 10
_LEAST_WEIGHT: Final = 1e-12
"""A sum of squares that is more than rounding."""
_MOVED_P_VALUE: Final = 0.01
_METHOD: Final = "mean, adjusted by a covariate (CUPED), t-interval"


@dataclass(frozen=True, slots=True)
class Covaried:
    """A value above 0 with its case, its block, and a covariate above 0."""

    case: str
    block: int
    value: float
    covariate: float


@dataclass(frozen=True, slots=True)
class Adjustment:
    """How values follow a covariate within cases."""

    slope: Estimate
    """Of the value's logarithm over the covariate's."""
    usual: float
    """The geometric mean of the covariate, to which values are adjusted."""

    def factor(self, covariate: float) -> float:
        """What a value is multiplied by."""
        return float((covariate / self.usual) ** -self.slope.value)

    def mean(self, values: Sequence[Covaried], unit: str, floor: float = 0.0) -> Estimate:
        """The mean of one case at the usual covariate.

        The error of the slope counts with the distance of the case's covariates. `floor` is the
        least standard error.

        Raises:
            ValueError: fewer than two values.
        """
        if len(values) < 2:
            raise ValueError("an adjusted mean needs two values")
        adjusted = np.array([one.value * self.factor(one.covariate) for one in values])
        n, mean = len(adjusted), float(adjusted.mean())
        away = float(np.mean(np.log([one.covariate / self.usual for one in values])))
        of_slope = (self.slope.error or 0.0) / t_quantile(self.slope.n - 1) * away * mean
        stderr = max(math.hypot(float(adjusted.std(ddof=1)) / n**0.5, of_slope), floor)
        half = stderr * t_quantile(n - 1)
        return Estimate(mean, mean - half, mean + half, n, unit, _METHOD)


def adjustment(values: Sequence[Covaried]) -> Adjustment | None:
    """The slope within cases, with an interval from the blocks, whose values vary together.

    Returns:
        None with too few values, if the interval of the slope includes 0, or if the covariate
        differs by case within blocks (F-test, p < 0.01): then a treatment may have changed it.
    """
    blocks = sorted({one.block for one in values})
    in_case = indicators([one.case for one in values])
    if len(blocks) < _LEAST_BLOCKS or len(values) - in_case.shape[1] < _LEAST_FREEDOM:
        return None
    in_block = indicators([str(one.block) for one in values])
    covariates = np.log([one.covariate for one in values])
    if _p_of_cases(covariates, in_case, in_block) < _MOVED_P_VALUE:
        return None
    x, y = (
        series - in_case @ ((in_case.T @ series) / in_case.sum(axis=0))
        for series in (covariates, np.log([one.value for one in values]))
    )
    weight = float(x @ x)
    if weight < _LEAST_WEIGHT:
        return None
    slope = float(x @ y) / weight
    scores = in_block.T @ (x * (y - slope * x))
    n = len(blocks)
    half = math.sqrt(float(scores @ scores) * n / (n - 1)) / weight * t_quantile(n - 1)
    found = Estimate(slope, slope - half, slope + half, n, "", "least squares, errors by block")
    is_known = abs(slope) > half
    return Adjustment(found, math.exp(float(covariates.mean()))) if is_known else None


def _p_of_cases(
    series: NDArray[np.float64], in_case: NDArray[np.float64], in_block: NDArray[np.float64]
) -> float:
    """The probability of such differences between cases by chance, blocks apart (F-test)."""
    left, ranks = [], []
    for factors in (in_block, np.hstack([in_block, in_case])):
        solved, _, rank, _ = np.linalg.lstsq(factors, series, rcond=None)
        residuals = series - factors @ solved
        left.append(float(residuals @ residuals))
        ranks.append(int(rank))
    more, freedom = ranks[1] - ranks[0], len(series) - ranks[1]
    if more < 1 or freedom < 1 or left[1] <= 0:
        return 1.0
    return float(scipy.special.fdtrc(more, freedom, (left[0] - left[1]) / more / left[1] * freedom))
