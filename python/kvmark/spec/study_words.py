"""The settings of one run in a study file.

The keys are the options of `kvmark run` without dashes. All are optional: a missing one is
decided as for that command.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.faults import FaultAction, FaultSpec
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.replay import KeptOrder, ReplaySpec, parse_scale_keys, parse_speed
from kvmark.spec.suggest import shown
from kvmark.spec.workload import rate_or_curve, retry_policy
from kvmark.spec.yaml_file import Count, Duration, StallLimit, Strict, complaint, parsed, wrapped

_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)%(?:\.\.(\d+(?:\.\d+)?)%)?")


_OF_TRACES: Final = {
    "speed": "speed", "keep_order": "order", "skip": "skip", "from_ns": "from_ns",
    "until_ns": "until_ns", "scale_keys": "scale_keys", "loop": "loops",
}  # fmt: skip
"""Options of a replay, and their fields in `ReplaySpec`."""


def _speed(value: object) -> object:
    parsed(value, parse_speed)
    return str(value)


def _instant(value: object) -> object:
    """A duration, a share of the measurement such as `25%`, or a range `10%..40%` of shares."""
    if isinstance(value, str) and _SHARE.fullmatch(value.strip()):
        return value.strip()
    try:
        quantity.duration_ns(str(value))
    except SpecError:
        text = f"{shown(str(value))} is neither a duration such as 5s nor a share such as 25%"
        raise complaint(text) from None
    return value


_KEYS: Final = BeforeValidator(lambda value: parsed(value, parse_scale_keys))
_Instant = Annotated[str, BeforeValidator(_instant)]


class StudyFault(FaultAction):
    """One thing that is broken on purpose, at times that may depend on how long is measured."""

    at: _Instant
    for_: _Instant | None = Field(default=None, alias="for")

    def resolved(self, duration_ns: int | None, chance: random.Random) -> FaultSpec:
        """The fault in a measurement of that length; of a range of shares one is drawn.

        Raises:
            SpecError: a share of an unknown length.
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
        raise SpecError(f"faults: {text} is a share of the duration; give the duration")
    low = float(share[1])
    high = low if share[2] is None else float(share[2])
    return int(duration_ns * chance.uniform(low, high) / 100)


class RunWords(Strict):
    """One run, by the options of `kvmark run`."""

    clients: Count | None = None
    rate: Annotated[float | str | None, BeforeValidator(rate_or_curve)] = None
    arrival: ArrivalProcess | None = None
    duration_ns: Duration | None = Field(default=None, alias="duration")
    operations: Count | None = None
    until_stderr: float | None = None
    precision: Annotated[float | None, wrapped(str, quantity.share)] = None
    warmup_ns: Duration | None = Field(default=None, alias="warmup")
    warmup_until: Literal["stationary"] | None = None
    interval_ns: Duration | None = Field(default=None, alias="interval")
    timeout_ns: Duration | None = Field(default=None, alias="timeout")
    retry: Annotated[str | None, BeforeValidator(retry_policy)] = None
    drain_limit_ns: Duration | None = Field(default=None, alias="drain_limit")
    stall_limit_ns: StallLimit | None = Field(default=None, alias="stall_limit")
    pin: tuple[int, ...] | None = None
    workers: Count | None = None
    load: Literal["auto", "always", "never"] | None = None
    settle: bool | None = None
    records: Count | None = None
    groups: tuple[str, ...] | None = None
    pipeline_depth: Count | None = None
    verify: bool | None = None
    speed: Annotated[str | None, BeforeValidator(_speed)] = None
    keep_order: KeptOrder | None = None
    skip: tuple[str, ...] | None = None
    from_ns: Duration | None = Field(default=None, alias="from")
    until_ns: Duration | None = Field(default=None, alias="until")
    scale_keys: Annotated[float | None, _KEYS] = None
    loop: Count | None = None
    map: str | None = None
    """A file beside the study's: the statements by which a trace is replayed."""
    faults: tuple[StudyFault, ...] = ()

    @property
    def can_be_longer(self) -> bool:
        """Whether a length is given that nothing else decides."""
        is_timed = self.until_stderr is None and self.precision is None
        return is_timed and bool(self.duration_ns or self.operations)

    def lengthened(self, times: int) -> RunWords:
        """The same with its length multiplied."""
        lengths = {"duration_ns": self.duration_ns, "operations": self.operations}
        longer = {name: value * times for name, value in lengths.items() if value is not None}
        return self.model_copy(update=longer)

    def as_spec(self, chance: random.Random) -> dict[str, Any]:
        """The given fields of a `RunSpec`, without those of a replay."""
        names = type(self).model_fields.keys() - {"faults", "map", *_OF_TRACES}
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        faults = tuple(fault.resolved(self.duration_ns, chance) for fault in self.faults)
        return {**said, "faults": faults}

    def as_replay(self, trace: Path) -> ReplaySpec:
        """How a trace is replayed.

        Raises:
            SpecError: the words are impossible together.
        """
        said = {own: getattr(self, name) for name, own in _OF_TRACES.items()}
        known = {own: value for own, value in said.items() if value is not None}
        if self.speed is not None:
            known["speed"] = parse_speed(self.speed)
        return ReplaySpec(trace=trace, **known)

    @property
    def of_a_trace(self) -> str | None:
        """A given option that needs a trace."""
        return next((
            (field.alias or name)
            for name, field in type(self).model_fields.items()
            if name in {*_OF_TRACES, "map"} and getattr(self, name) is not None
        ), None)  # fmt: skip
