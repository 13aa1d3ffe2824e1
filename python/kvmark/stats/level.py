"""The level of a figure on a logarithmic scale, and the difference between two levels.

Figures of a benchmark are compared as ratios. On logarithms a ratio is a difference, its interval
is symmetric, and exchanging baseline and candidate only inverts the answer.

This module also has means and their intervals from Student's t, and the number of blocks that a
comparison needs. ``floor`` is the resolution of the instrument, in the unit of the samples or, of a
ratio, as a share: no error is smaller, even if all samples are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from kvmark.stats.estimate import CONFIDENCE, Estimate, t_quantile

#: The share of differences of the smallest detectable size that a comparison finds.
POWER = 0.8
#: The share of differences of a requested size that a comparison finds.
_FIND_POWER = 0.95


@dataclass(frozen=True, slots=True)
class Level:
    """The logarithm of a figure and the scatter of its samples.

    ``spread`` is the standard deviation of one unit on the logarithmic scale, ``units`` the number
    of independent ones. A unit is a run if ``between_runs``, else a part of a single run. Without a
    spread the error is unknown. ``floor`` is the resolution of the instrument as a share of the
    figure, the least error of any number of units.
    """

    log: float
    spread: float | None
    units: float
    between_runs: bool
    method: str
    floor: float = 0.0
    #: Number of samples, such as intervals; 0 for the number of units.
    samples: int = 0

    @property
    def value(self) -> float:
        """The figure itself."""
        # Removes the rounding of the logarithm and back.
        return float(f"{math.exp(self.log):.12g}")

    @property
    def stderr(self) -> float | None:
        """The standard error of the logarithm; none if unknown."""
        return None if self.spread is None else max(self.spread / self.units**0.5, self.floor)

    @property
    def n(self) -> int:
        """Number of samples behind it."""
        return self.samples or round(self.units)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the spread."""
        return self.units - 1

    def estimate(self, unit: str, confidence: float = CONFIDENCE) -> Estimate:
        """The figure with its interval, which is symmetric on the logarithmic scale."""
        bounds = _bounds(self.log, self.stderr, self.freedom, confidence)
        return Estimate(self.value, *bounds, self.n, unit, self.method, confidence)

    def plain(self, unit: str, confidence: float = CONFIDENCE) -> Estimate:
        """The figure with an interval that is symmetric on the linear scale, for a ±."""
        low = high = None
        if self.stderr and self.freedom > 0:
            half = t_quantile(self.freedom, 0.5 + confidence / 2) * self.stderr * self.value
            low, high = self.value - half, self.value + half
        return Estimate(self.value, low, high, self.n, unit, self.method, confidence)


@dataclass(frozen=True, slots=True)
class Effect:
    """Candidate ÷ baseline. All fields but ``ratio`` are none if the error is unknown."""

    ratio: Estimate
    #: Probability of a ratio at least as far from 1 without any difference.
    p_value: float | None
    #: The smallest change, as a share, that 8 of 10 such comparisons find.
    detectable: float | None
    #: Standard error of the ratio's logarithm, and its degrees of freedom.
    stderr: float | None = None
    freedom: float | None = None
    #: The p-value adjusted for all changes reported together; none for a single change.
    family_p_value: float | None = None

    @property
    def change(self) -> float:
        """The change as a share: 0.05 is 5 % more."""
        return self.ratio.value - 1

    def significant(self) -> bool:
        """Whether chance alone doesn't explain the ratio, at the error level of the interval.

        In a family (:func:`as_family`) it is the level of the family, so that an interval without 1
        can belong to a ratio that isn't significant.
        """
        p_value = self.p_value if self.family_p_value is None else self.family_p_value
        return p_value is not None and p_value < 1 - self.ratio.confidence


def level_of(samples: Sequence[float], floor: float = 0.0) -> Level:
    """The level of independent runs: their geometric mean.

    Raises:
        ValueError: there is no sample, or one isn't above 0.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0 or not bool(np.all(values > 0)):
        raise ValueError("a level needs samples above 0")
    logs = np.log(values)
    spread = float(logs.std(ddof=1)) if len(logs) > 1 else None
    method = "runs, t-interval on logs"
    return Level(float(logs.mean()), spread, float(len(logs)), len(logs) > 1, method, floor)


def level_of_stages(first: Sequence[float], second: Sequence[float], floor: float = 0.0) -> Level:
    """The level of runs whose number was decided by the scatter of the first stage.

    Its error is Stein's, from the scatter of the first stage alone, or that of all runs if that
    interval is wider, or if a stage is missing.

    Raises:
        ValueError: there is no sample, or one isn't above 0.
    """
    plain = level_of([*first, *second], floor)
    spread = level_of(first).spread if len(first) and len(second) else None
    if spread is None:
        return plain
    stein = replace(
        plain,
        spread=spread * (len(first) / plain.units) ** 0.5,
        units=float(len(first)),
        method="runs in two stages, Stein's interval on logs",
        samples=round(plain.units),
    )
    return max(stein, plain, key=lambda one: (one.stderr or 0.0) * t_quantile(one.freedom, 0.975))


def difference(baseline: Level, candidate: Level, confidence: float = CONFIDENCE) -> Effect:
    """Candidate ÷ baseline by Welch's test on logarithms.

    A single run against several is assumed to scatter like those: its intervals don't show the
    differences between runs.
    """
    change = candidate.log - baseline.log
    sides = (baseline, candidate)
    repeated = [
        (side.spread, side.units) for side in sides if side.between_runs and side.spread is not None
    ]
    if len(repeated) == 1:
        ((spread, runs),) = repeated
        floor = math.hypot(baseline.floor, candidate.floor)
        error = max(spread * (1 + 1 / runs) ** 0.5, floor)
        method = "log-ratio of one run and several, t-interval"
        # One variance, with the degrees of freedom of the several runs.
        return effect(change, error, runs - 1, round(runs) + 1, method, confidence)
    method = "log-ratio, Welch's interval" if repeated else "log-ratio within one run of each side"
    n = round(baseline.units + candidate.units)
    errors = [(side.stderr, side.freedom) for side in sides if side.stderr is not None]
    if len(errors) < len(sides):
        return effect(change, None, 0.0, n, method, confidence)
    # The degrees of freedom of the sum are Welch and Satterthwaite's.
    variance = sum(error**2 for error, _ in errors)
    below = sum(error**4 / max(freedom, 1e-9) for error, freedom in errors)
    freedom = variance**2 / below if below else 0.0
    return effect(change, variance**0.5, freedom, n, method, confidence)


def paired_difference(
    samples: Sequence[float],
    log: float | None = None,
    confidence: float = CONFIDENCE,
    floor: float = 0.0,
) -> Effect:
    """Candidate ÷ baseline from the log-ratios of blocks; ``log`` replaces their mean.

    ``floor`` is the least error: the resolution of the instrument as a share.

    Raises:
        ValueError: there is no sample.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("a difference needs at least one block")
    # Rounding errors of equal blocks are no scatter.
    values = np.round(values, 12)
    error = None
    if len(values) > 1:
        error = max(float(values.std(ddof=1)) / len(values) ** 0.5, floor)
    centre = float(values.mean()) if log is None else log
    method = "log-ratio of blocks, t-interval"
    return effect(centre, error, len(values) - 1.0, len(values), method, confidence)


def effect(
    log: float, error: float | None, freedom: float, n: int, method: str, confidence: float
) -> Effect:
    """The effect of a log-ratio with its standard error; an error of 0 counts as unknown."""
    bounds = _bounds(log, error, freedom, confidence)
    ratio = Estimate(math.exp(log), *bounds, n, "ratio", method, confidence)
    if not error or bounds[0] is None:
        return Effect(ratio, None, None)
    p_value = 2 * float(scipy.special.stdtr(freedom, -abs(log) / error))
    return Effect(ratio, p_value, _detectable(error, freedom, confidence), error, freedom)


def as_family(effects: Sequence[Effect]) -> list[Effect]:
    """Effects that are reported together, at one error level for all of them.

    Without any difference, the probability that one of them is significant is at most the level of
    their intervals: p-values are adjusted by Holm's method. ``detectable`` becomes the smallest
    change that is found even if no other effect changed. Effects without an error take no share of
    the level.
    """
    p_values = holm([one.p_value for one in effects if one.p_value is not None])
    adjusted = iter(p_values)

    def in_family(one: Effect) -> Effect:
        if one.p_value is None or one.stderr is None or one.freedom is None:
            return one
        confidence = shared_confidence(one.ratio.confidence, len(p_values))
        detectable = _detectable(one.stderr, one.freedom, confidence)
        return replace(one, family_p_value=next(adjusted), detectable=detectable)

    return list(map(in_family, effects))


def shared_confidence(confidence: float, claims: int) -> float:
    """The confidence of each of several claims with a common confidence (Bonferroni)."""
    return 1 - (1 - confidence) / max(claims, 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted so that the probability of any false claim stays within the level.

    Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    order, n = np.argsort(p_values, kind="stable"), len(p_values)
    adjusted = np.empty(n)
    raised = np.asarray(p_values)[order] * np.arange(n, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(p_value) for p_value in adjusted]


def _detectable(error: float, freedom: float, confidence: float) -> float:
    reach = t_quantile(freedom, 0.5 + confidence / 2) + t_quantile(freedom, POWER)
    return math.expm1(min(reach * error, 700.0))


def _bounds(
    log: float, error: float | None, freedom: float, confidence: float
) -> tuple[float | None, float | None]:
    if not error or freedom <= 0:
        return None, None
    half = t_quantile(freedom, 0.5 + confidence / 2) * error
    # Larger ratios exceed a floating-point number.
    if half + abs(log) > 700:
        return None, None
    return math.exp(log - half), math.exp(log + half)


def mean_interval(
    samples: Sequence[float], unit: str, confidence: float = CONFIDENCE, floor: float = 0.0
) -> Estimate:
    """The mean of independent samples with its t-interval; unbounded for a single sample.

    Raises:
        ValueError: there is no sample.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("a mean needs at least one sample")
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, None, None, n, unit, "single value", confidence)
    error = max(float(values.std(ddof=1)) / n**0.5, floor) * t_quantile(n - 1, 0.5 + confidence / 2)
    return Estimate(mean, mean - error, mean + error, n, unit, "mean, t-interval", confidence)


def two_stage_mean(
    first: Sequence[float],
    second: Sequence[float],
    unit: str,
    confidence: float = CONFIDENCE,
    floor: float = 0.0,
) -> Estimate:
    """The mean of samples whose number was decided by the scatter of the first stage.

    The interval is Stein's, from the scatter of the first stage alone, or the ordinary one of all
    samples if that is wider, or if a stage is missing: a small scatter by chance in the first
    stage doesn't narrow it.

    Raises:
        ValueError: there is no sample.
    """
    plain = mean_interval([*first, *second], unit, confidence, floor)
    early = mean_interval(first, unit, confidence).error if len(first) and len(second) else None
    if early is None or plain.error is None:
        return plain
    error = early * (len(first) / plain.n) ** 0.5
    if plain.error >= error:
        return plain
    low, high = plain.value - error, plain.value + error
    return replace(plain, low=low, high=high, method="mean, two stages, Stein")


def paired_ratio(
    baseline: Sequence[float],
    candidate: Sequence[float],
    confidence: float = CONFIDENCE,
    floor: float = 0.0,
) -> Estimate:
    """The geometric mean of candidate ÷ baseline over pairs measured together.

    On logarithms, exchanging baseline and candidate inverts the answer.

    Raises:
        ValueError: the lengths differ, there is no pair, or a value isn't above 0.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"pairs need equal lengths, not {len(baseline)} and {len(candidate)}")
    if not all(value > 0 for value in (*baseline, *candidate)):
        raise ValueError("a ratio needs values above 0")
    logs = [math.log(after / before) for before, after in zip(baseline, candidate, strict=True)]
    return paired_difference(logs, confidence=confidence, floor=floor).ratio


@dataclass(frozen=True, slots=True)
class PrecisionTarget:
    """The precision that ends a comparison: one of ``within`` and ``find``.

    ``within`` is half the width of the interval as a share: 0.01 is ± 1 %. ``find`` is the size of
    a difference that is to be found if it exists.
    """

    within: float | None
    find: float | None
    most_blocks: int
    #: Blocks before their scatter decides the number: with fewer, Student's t needs far more after.
    first_stage: int = 12
    #: Number of effects that share the error level.
    claims: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """The state of a comparison after some blocks."""

    #: Number of blocks; none during the first stage.
    needed: int | None
    #: Number of blocks without the limit; none during the first stage.
    wanted: int | None
    done: bool
    #: The effect so far; before the end it is preliminary.
    effect: Effect


def decide(
    log_ratios: Sequence[float],
    target: PrecisionTarget,
    floor: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Decision:
    """Whether the blocks so far suffice, without bias by early looks.

    In Stein's two stages (A Two-Sample Test for a Linear Hypothesis whose Power is Independent of
    the Variance, 1945) the scatter of the first stage alone decides the number of blocks, and the
    interval at the end uses the same scatter. Mean and scatter of normal samples are independent,
    so a decision by scatter doesn't depend on the answer: the error level is exact for any noise.

    If the noise grew after the first stage, the ordinary t-interval of all blocks is wider and
    replaces Stein's. ``floor`` is the least error: the resolution of the instrument as a share.

    Raises:
        ValueError: there is no block.
    """
    plain = paired_difference(log_ratios, confidence=confidence, floor=floor)
    n, first = len(log_ratios), min(target.first_stage, target.most_blocks)
    if n < max(first, 2):
        return Decision(None, None, done=False, effect=plain)
    values = np.round(log_ratios, 12)
    early, freedom = float(values[:first].std(ddof=1)), first - 1.0
    error = max(early / n**0.5, floor)
    stein = effect(float(values.mean()), error, freedom, n, "two stages, Stein", confidence)
    wanted = _blocks_needed(early, freedom, target, confidence)
    needed = min(max(wanted, first), target.most_blocks)
    # Both have the same centre. Without an interval the error is unknown.
    widths = [math.inf if one.ratio.error is None else one.ratio.error for one in (stein, plain)]
    wider = stein if widths[0] >= widths[1] else plain
    return Decision(needed, wanted, done=n >= needed, effect=wider)


def _blocks_needed(
    spread: float, freedom: float, target: PrecisionTarget, confidence: float
) -> int:
    """Number of blocks for a target and this scatter of log-ratios."""
    if target.find is not None:
        quantile = t_quantile(freedom, 0.5 + shared_confidence(confidence, target.claims) / 2)
        reach = (quantile + t_quantile(freedom, _FIND_POWER)) * spread
        return math.ceil((reach / math.log1p(target.find)) ** 2)
    if target.within is None:
        return target.most_blocks
    half = t_quantile(freedom, 0.5 + confidence / 2) * spread
    return math.ceil((half / math.log1p(target.within)) ** 2)
