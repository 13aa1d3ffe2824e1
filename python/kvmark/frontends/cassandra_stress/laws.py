"""cassandra-stress's laws, as it spells them: `gaussian(1..1M)`, `~exp(1..10)`, `fixed(5)`."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import log
from statistics import NormalDist
from typing import Final, Literal

from kvmark.errors import SpecError
from kvmark.spec.quantity import LARGEST
from kvmark.spec.suggest import did_you_mean, shown

Shape = Literal["uniform", "gaussian", "exponential", "extreme", "quantized_extreme", "sequence"]

_NAMES: Final[dict[str, Shape | Literal["fixed"]]] = {
    "exp": "exponential",
    "extr": "extreme",
    "extreme": "extreme",
    "qextr": "quantized_extreme",
    "qextreme": "quantized_extreme",
    "gaussian": "gaussian",
    "gauss": "gaussian",
    "normal": "gaussian",
    "norm": "gaussian",
    "uniform": "uniform",
    "fixed": "fixed",
    "seq": "sequence",
}
_LAW: Final = re.compile(r"(~?)([A-Za-z]+)\((.+)\)")
_COUNT: Final = re.compile(r"(-?[0-9]+)([kmb]?)", re.IGNORECASE)
_TIMES: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_DEVIATIONS: Final = 3.0
"""Standard deviations from the middle of a normal law to its ends, unless said."""
_BATCH_MAX: Final = 65_535
_PARAMETERS: Final = {
    "exponential": (1,),
    "extreme": (2,),
    "quantized_extreme": (3,),
    "gaussian": (1, 2, 3),
    "uniform": (1,),
    "sequence": (1,),
}


@dataclass(frozen=True, slots=True)
class Law:
    """How likely the whole numbers from `min` to `max` are."""

    min: int
    max: int
    shape: Shape = "uniform"
    mean: float = 0.0
    """Of a gaussian."""
    stddev: float = 0.0
    """Of a gaussian."""
    exponent: float = 0.0
    """Shape of an extreme one."""
    steps: int = 0
    """Of a quantized one."""
    inverted: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether it always gives the same number."""
        return self.min == self.max

    @property
    def average(self) -> int:
        """The average as cassandra-stress has it (`generate/Distribution.average`)."""
        if self.is_fixed:
            return self.min
        values, share = [], 0.0
        while share <= 1:
            values.append(min(max(int(self._quantile(share)), self.min), self.max))
            (share,) = struct.unpack("f", struct.pack("f", share + 0.02))
        average = sum(values) / len(values)
        return int(self.min + self.max - average if self.inverted else average)

    def _quantile(self, share: float) -> float:
        """Below which it stays with this probability."""
        width = self.max - self.min
        if self.shape == "gaussian":
            inside = min(max(share, 1e-9), 1 - 1e-9)
            return NormalDist(self.mean, self.stddev).inv_cdf(inside)
        if self.shape in ("uniform", "sequence"):
            end = self.max + (self.shape == "uniform")
            return share * end + (1 - share) * self.min
        if share >= 1 or width == 1:
            return self.max
        reached: float = (-log(1 - share) / (log(width) / 2)) ** (1 / (self.exponent or 1))
        return self.min + width * reached


@dataclass(frozen=True, slots=True)
class Ratio:
    """A draw divided by a number."""

    law: Law
    divisor: int


def fixed(value: int) -> Law:
    """Always the same number."""
    return Law(value, value)


def uniform(low: int, high: int) -> Law:
    """Each number alike."""
    return Law(low, high)


def parse_count(text: str) -> int:
    """A whole number with k, m or b for thousands, millions and billions.

    Raises:
        SpecError: it is none, or too large.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"{shown(text)} is not a whole number such as 1000, 10k or 1M")
    count = int(match[1]) * _TIMES[match[2].lower()]
    if abs(count) >= LARGEST:
        raise SpecError(f"{shown(text)} must stay below 2^63")
    return count


def parse_law(text: str) -> Law:
    """A law.

    Raises:
        SpecError: it isn't one, or its numbers can't be.
    """
    match = _LAW.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"{shown(text)} is not a law such as uniform(1..1M) or fixed(5)")
    name = _NAMES.get(match[2].lower())
    if name is None:
        raise SpecError(f"{shown(match[2])} is not a law{did_you_mean(match[2], _NAMES)}")
    parameters = [part.strip() for part in match[3].split(",")]
    inverted = bool(match[1])
    if name == "fixed":
        if len(parameters) != 1:
            raise SpecError(f"{shown(text)} needs one number, such as fixed(5)")
        return fixed(parse_count(parameters[0]))
    if len(parameters) not in _PARAMETERS[name]:
        wanted = " or ".join(map(str, _PARAMETERS[name]))
        raise SpecError(f"{shown(text)} has {len(parameters)} parameters; {match[2]} has {wanted}")
    return _law(name, parameters, text, inverted=inverted)


def parse_partitions(text: str) -> Law:
    """How many partitions an operation has.

    Raises:
        SpecError: it isn't a law, or they can't be so many.
    """
    law = parse_law(text)
    if law.min < 1 or law.max > _BATCH_MAX:
        raise SpecError(
            f"{shown(text)} must stay between 1 and {_BATCH_MAX:,} partitions, as many statements"
            " as a batch can hold"
        )
    return law


def _law(shape: Shape, parameters: list[str], text: str, *, inverted: bool) -> Law:
    ends = re.split(r"\.\.+", parameters[0])
    if len(ends) != 2:
        raise SpecError(f"{shown(text)} needs two ends, such as 1..100")
    low, high = map(parse_count, ends)
    if low > high:
        raise SpecError(f"{shown(text)} begins above its end; write the smaller number first")
    more = [_number(one, text) for one in parameters[1:]]
    if shape == "gaussian":
        mean, stddev = _moments(low, high, more)
        if stddev <= 0 and low < high:
            raise SpecError(f"{shown(text)} needs a standard deviation above 0")
        return Law(low, high, shape, mean=mean, stddev=stddev, inverted=inverted)
    if more and more[0] <= 0:
        raise SpecError(f"{shown(text)} needs a shape above 0")
    if shape == "quantized_extreme" and not (more[1] >= 1 and more[1].is_integer()):
        raise SpecError(f"{shown(text)} needs a whole number of quantas from 1")
    exponent = more[0] if more else 0.0
    steps = int(more[1]) if len(more) > 1 else 0
    return Law(low, high, shape, exponent=exponent, steps=steps, inverted=inverted)


def _moments(low: int, high: int, more: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of a gaussian."""
    if len(more) == 2:
        return more[0], more[1]
    deviations = more[0] if more else _DEVIATIONS
    return (low + high) / 2, (high - low) / 2 / deviations if deviations > 0 else 0.0


def _number(text: str, law: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise SpecError(f"{shown(text)} in {shown(law)} is not a number")
    return number


def parse_ratio(text: str) -> Ratio:
    """A law and what it is divided by: `fixed(1)/4`.

    Raises:
        SpecError: it isn't one.
    """
    law, slash, divisor = text.rpartition("/")
    if not slash:
        raise SpecError(f"{shown(text)} is not a ratio such as fixed(1)/4")
    by = parse_count(divisor)
    if by < 1:
        raise SpecError(f"{shown(text)} can't be divided by {by}")
    drawn = parse_law(law)
    if drawn.min < 0 or drawn.max > by:
        raise SpecError(f"{shown(text)} must stay between 0 and 1")
    return Ratio(drawn, by)


def parse_select(text: str) -> Ratio:
    """A share of a partition's rows.

    Raises:
        SpecError: it isn't one, or is never above 0.
    """
    share = parse_ratio(text)
    if share.law.max == 0:
        raise SpecError(f"{shown(text)} selects no row; give more than 0")
    return share
