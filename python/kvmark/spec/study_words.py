"""What a study file can say of one run.

The words are those of `kvmark run`, without dashes. All may be left out: what is not said is
decided as for that command.
"""

from __future__ import annotations

import random
import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.faults import Action, Amount, FaultSpec, Others, Target, check_words
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.suggest import shown
from kvmark.spec.workload import rate_or_curve
from kvmark.spec.yaml_file import Count, Duration, Strict

__all__ = ["RunWords", "StudyFault"]

_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)%(?:\.\.(\d+(?:\.\d+)?)%)?")


def _instant(value: object) -> object:
    """A duration, a share of the measurement such as `25%`, or a range `10%..40%` of shares."""
    if isinstance(value, str) and _SHARE.fullmatch(value.strip()):
        return value.strip()
    try:
        quantity.duration_ns(str(value))
    except SpecError:
        text = f"{shown(str(value))} is neither a duration such as 5s nor a share such as 25%"
        raise PydanticCustomError("quantity", "{s}", {"s": text}) from None
    return value


_Instant = Annotated[str, BeforeValidator(_instant)]


class StudyFault(Strict):
    """One thing that is broken on purpose, at times that may depend on how long is measured."""

    at: _Instant
    do: Action
    node: Target
    by: Amount | None = None
    others: Others = Field(default=(), alias="from")
    for_: _Instant | None = Field(default=None, alias="for")

    @model_validator(mode="after")
    def _says_what_its_action_needs(self) -> StudyFault:
        check_words(self.do, self.node, self.by, self.others)
        return self

    def resolved(self, duration_ns: int | None, chance: random.Random) -> FaultSpec:
        """The fault in a measurement of that length; of a range of shares one is drawn.

        Raises:
            SpecError: a share is asked for and the length isn't known.
        """
        at_ns = _nanoseconds(self.at, duration_ns, chance)
        for_ns = None if self.for_ is None else _nanoseconds(self.for_, duration_ns, chance)
        lasting = {} if for_ns is None else {"for": f"{max(for_ns, 1)}ns"}
        what = {"do": self.do, "node": self.node, "by": self.by, "from": self.others}
        return FaultSpec.model_validate({"at": f"{at_ns}ns", **what, **lasting})


def _nanoseconds(text: str, duration_ns: int | None, chance: random.Random) -> int:
    share = _SHARE.fullmatch(text)
    if share is None:
        return quantity.duration_ns(text)
    if duration_ns is None:
        raise SpecError(f"faults: {text} is a share of the duration; say how long is measured")
    low = float(share[1])
    high = low if share[2] is None else float(share[2])
    return int(duration_ns * chance.uniform(low, high) / 100)


class RunWords(Strict):
    """One run, in the words of `kvmark run`."""

    clients: Count | None = None
    rate: Annotated[float | str | None, BeforeValidator(rate_or_curve)] = None
    arrival: ArrivalProcess | None = None
    duration_ns: Duration | None = Field(default=None, alias="duration")
    operations: Count | None = None
    until_stderr: float | None = None
    until_rule: Literal["cassandra-stress", "autocorrelated"] | None = None
    warmup_ns: Duration | None = Field(default=None, alias="warmup")
    warmup_until: Literal["stationary"] | None = None
    interval_ns: Duration | None = Field(default=None, alias="interval")
    timeout_ns: Duration | None = Field(default=None, alias="timeout")
    drain_limit_ns: Duration | None = Field(default=None, alias="drain_limit")
    pin: tuple[int, ...] | None = None
    workers: Count | None = None
    load: Literal["auto", "always", "never"] | None = None
    settle: bool | None = None
    records: Count | None = None
    groups: tuple[str, ...] | None = None
    pipeline_depth: Count | None = None
    verify: bool | None = None
    faults: tuple[StudyFault, ...] = ()

    @property
    def can_be_longer(self) -> bool:
        """Whether a length is said that something else doesn't decide."""
        return self.until_stderr is None and bool(self.duration_ns or self.operations)

    def lengthened(self, times: int) -> RunWords:
        """The same, so many times as long."""
        lengths = {"duration_ns": self.duration_ns, "operations": self.operations}
        longer = {name: value * times for name, value in lengths.items() if value is not None}
        return self.model_copy(update=longer)

    def as_spec(self, chance: random.Random) -> dict[str, Any]:
        """The fields of a `RunSpec` that are said."""
        names = type(self).model_fields.keys() - {"faults"}
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        faults = tuple(fault.resolved(self.duration_ns, chance) for fault in self.faults)
        return {**said, "faults": faults}
