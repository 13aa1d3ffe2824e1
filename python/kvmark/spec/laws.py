"""The laws of a file: how long something is, and which of many is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from kvmark.spec import quantity
from kvmark.spec.yaml_file import Count, Mistake, Size, Strict

ArrivalProcess: TypeAlias = Literal["constant", "poisson"]
"""How the starts of an open model are spread: evenly, or as independent users come."""


def _tagged(tag: str, key: str | None = None) -> BeforeValidator:
    """Reads a bare value as a mapping: `uniform` is `{distribution: uniform}`."""

    def expand(value: object) -> object:
        return {tag: value} if key is None else {tag: "constant", key: value}

    return BeforeValidator(
        lambda value: expand(value) if type(value) in {str, int, float} else value
    )


class Constant(Strict):
    """Always the same length."""

    distribution: Literal["constant"]
    size: Size


class Between(Strict):
    """From `min` to `max`: each length equally likely, or zipfian, the shortest the most likely."""

    min: Size
    max: Size
    distribution: Literal["uniform", "zipfian"]

    def _mistakes(self) -> Iterator[Mistake]:
        if self.min > self.max:
            yield "min", f"min ({self.min}) must not be above max ({self.max})"


class Histogram(Strict):
    """Bucket i, from 0, has length `(i + 1) * block_size`."""

    distribution: Literal["histogram"]
    block_size: Size
    weights: tuple[Count, ...]

    def _mistakes(self) -> Iterator[Mistake]:
        if not any(self.weights):
            yield "weights", "one of the weights must be above 0"
        if self.block_size * len(self.weights) > quantity.LARGEST:
            yield "block_size", "the largest bucket's length is above 2^63"


Length = Annotated[
    Annotated[Constant | Between | Histogram, Field(discriminator="distribution")],
    _tagged("distribution", "size"),
]
"""A law for lengths in bytes or records; a bare number is constant."""


_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
_Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class Even(Strict):
    """Each key equally likely; or operation n takes key n, and starts again at the end."""

    distribution: Literal["uniform", "sequential"]


class YcsbZipfian(Strict):
    """YCSB's scrambled zipfian: drawn from 10^10 items, hashed, folded into the key space."""

    distribution: Literal["ycsb_zipfian"]
    expected_new: Count | None = None
    """Keys the run is expected to insert, which widen the range; None to work it out."""


class Zipfian(Strict):
    """Exact zipfian over the records; `scrambled` spreads the popular ones over the key space."""

    distribution: Literal["zipfian"]
    theta: _Above0 = 0.99
    scrambled: bool = True


class Latest(Strict):
    """The newest acknowledged record is the most likely."""

    distribution: Literal["latest"]


class Newest(Strict):
    """A uniform choice among this number of the newest acknowledged records."""

    distribution: Literal["newest"]
    window: Annotated[Count, Field(ge=1)]


class Hotspot(Strict):
    """A share of the operations goes to a share of the keys."""

    distribution: Literal["hotspot"]
    data_fraction: _Share = 0.2
    operation_fraction: _Share = 0.8


class Exponential(Strict):
    """`percentile` percent of the operations fall in the newest `fraction` of the keys."""

    distribution: Literal["exponential"]
    percentile: Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)] = 95.0
    fraction: _Above0 = 0.8571428571


class Head(Strict):
    """The most popular keys have given shares, the others fall as `rank^-theta`."""

    distribution: Literal["head"]
    shares: tuple[_Share, ...]
    theta: _Above0 = 0.99

    def _mistakes(self) -> Iterator[Mistake]:
        if sum(self.shares) > 1:
            yield "shares", "the shares must have a sum up to 1"


_Fixed: TypeAlias = Even | Zipfian | Head | Hotspot
"""Laws that don't start at the newest record."""


class Again(Strict):
    """A share of the operations asks for the key of an earlier one, the others for one by a law.

    Weight i of the gaps is how often that one is from 2^i to below 2^(i+1) operations earlier.
    """

    distribution: Literal["again"]
    share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False, strict=True)]
    gaps: Annotated[tuple[Count, ...], Field(max_length=63)]
    of: Annotated[Annotated[_Fixed, Field(discriminator="distribution")], _tagged("distribution")]

    def _mistakes(self) -> Iterator[Mistake]:
        if not any(self.gaps):
            yield "gaps", "one of the weights must be above 0"


_OfNewest: TypeAlias = YcsbZipfian | Latest | Newest | Exponential
Keys = Annotated[
    Annotated[_Fixed | _OfNewest | Again, Field(discriminator="distribution")],
    _tagged("distribution"),
]
"""A law by which keys are chosen; a bare word is the law with its defaults."""
