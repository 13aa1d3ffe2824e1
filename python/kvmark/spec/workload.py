"""A workload: the records it works on and the groups of clients that work on them.

`load_workload` reads the YAML file that `docs` and the catalogue show; the models are its grammar.
Attributes carry their unit in the name, keys in the file carry it in the value (`think_time: 5ms`).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.yaml_file import Count, Duration, Size, Strict, at_key, parse_yaml, read_text

__all__ = [
    "Constant",
    "DatasetSpec",
    "Exponential",
    "FieldNames",
    "Fields",
    "GroupSpec",
    "Histogram",
    "Hotspot",
    "Key",
    "KeyRange",
    "Keys",
    "Latest",
    "Length",
    "Mix",
    "Point",
    "Sequential",
    "Uniform",
    "UniformLength",
    "WorkloadSpec",
    "YcsbZipfian",
    "Zipfian",
    "ZipfianLength",
    "load_workload",
    "parse_workload",
]

LARGEST_U32: Final = 2**32 - 1
LOAD_GROUP: Final = "load"
"""The name of the group that loads the dataset; no other group can have it."""


def _tagged(tag: str, key: str | None = None) -> BeforeValidator:
    """Lets a bare value stand for a mapping: `uniform` for `{distribution: uniform}`."""

    def expand(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        return {tag: value} if key is None else {tag: "constant", key: value}

    return BeforeValidator(expand)


class Constant(Strict):
    """Always the same length."""

    distribution: Literal["constant"]
    size: Size


class _Between(Strict):
    min: Size
    max: Size

    @model_validator(mode="after")
    def _in_order(self) -> _Between:
        if self.min > self.max:
            raise at_key("min", f"min ({self.min}) must not be above max ({self.max})")
        return self


class UniformLength(_Between):
    """Each length from `min` to `max` equally likely."""

    distribution: Literal["uniform"]


class ZipfianLength(_Between):
    """Zipfian from `min` to `max`, the shortest the most likely."""

    distribution: Literal["zipfian"]


class Histogram(Strict):
    """Bucket i, from 0, has length `(i + 1) * block_size`."""

    distribution: Literal["histogram"]
    block_size: Size
    weights: tuple[Count, ...]

    @model_validator(mode="after")
    def _has_a_weight(self) -> Histogram:
        if not any(self.weights):
            raise at_key("weights", "one of the weights must be above 0")
        if self.block_size * len(self.weights) > quantity.LARGEST:
            raise at_key("block_size", "the largest bucket's length is above 2^63")
        return self


Length = Annotated[
    Annotated[
        Constant | UniformLength | ZipfianLength | Histogram, Field(discriminator="distribution")
    ],
    _tagged("distribution", "size"),
]
"""A law for lengths in bytes or records; a bare number is constant."""


class Key(Strict):
    """How a record's number becomes its key."""

    prefix: str = "user"
    order: Literal["hashed", "ordered"] = "hashed"
    zero_padding: Annotated[int, Field(ge=0, le=1000, strict=True)] = 1


class Fields(Strict):
    """The fields of a record."""

    count: Annotated[Count, Field(ge=1, le=LARGEST_U32)] = 10
    name_prefix: str = "field"
    length: Length = Constant(distribution="constant", size=100)


class DatasetSpec(Strict):
    """The records that the workload works on."""

    table: Annotated[str, Field(min_length=1)] = "usertable"
    start: Count = 0
    records: Annotated[Count, Field(ge=1)] = 1000
    loaded: bool = True
    """Whether the records are there when the clients start; if not, the clients insert them."""
    key: Key = Key()
    fields: Fields = Fields()
    values: Literal["random", "integrity"] = "random"

    @model_validator(mode="after")
    def _can_be_made(self) -> DatasetSpec:
        if self.start + self.records > quantity.LARGEST:
            raise at_key("records", "start and records together must stay below 2^63")
        if self.values == "integrity" and not isinstance(self.fields.length, Constant):
            raise at_key("values", "integrity values need a constant field length")
        return self


_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]


class Uniform(Strict):
    """Each key equally likely."""

    distribution: Literal["uniform"]


class YcsbZipfian(Strict):
    """YCSB's scrambled zipfian: drawn from 10^10 items, hashed, folded into the key space."""

    distribution: Literal["ycsb_zipfian"]
    expected_new: Count | None = None
    """Keys the run is expected to insert, which widen the range; None to work it out."""


class Zipfian(Strict):
    """Exact zipfian over the records; `scrambled` spreads the popular ones over the key space."""

    distribution: Literal["zipfian"]
    theta: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] = 0.99
    scrambled: bool = True


class Latest(Strict):
    """The newest acknowledged record is the most likely."""

    distribution: Literal["latest"]


class Hotspot(Strict):
    """A share of the operations goes to a share of the keys."""

    distribution: Literal["hotspot"]
    data_fraction: _Share = 0.2
    operation_fraction: _Share = 0.8


class Sequential(Strict):
    """Operation n takes key n, and starts again at the end."""

    distribution: Literal["sequential"]


class Exponential(Strict):
    """`percentile` percent of the operations fall in the newest `fraction` of the keys."""

    distribution: Literal["exponential"]
    percentile: Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)] = 95.0
    fraction: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] = 0.8571428571


Keys = Annotated[
    Annotated[
        Uniform | YcsbZipfian | Zipfian | Latest | Hotspot | Sequential | Exponential,
        Field(discriminator="distribution"),
    ],
    _tagged("distribution"),
]
"""A law by which keys are chosen; a bare word is the law with its defaults."""

_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Mix(Strict):
    """Relative weights of the operation kinds."""

    read: _Weight = 0.0
    update: _Weight = 0.0
    insert: _Weight = 0.0
    scan: _Weight = 0.0
    read_modify_write: _Weight = 0.0
    delete: _Weight = 0.0

    @model_validator(mode="after")
    def _does_something(self) -> Mix:
        if sum(self.weights().values()) <= 0:
            raise PydanticCustomError("value_error", "one of the weights must be above 0")
        return self

    def weights(self) -> dict[str, float]:
        """The kinds that occur and their weights, in the plan's order of kinds."""
        named = {name: float(getattr(self, name)) for name in type(self).model_fields}
        return {name: weight for name, weight in named.items() if weight > 0}


def _rate(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return quantity.rate(str(value))
    except SpecError as problem:
        raise PydanticCustomError("quantity", "{s}", {"s": problem.message}) from None


def _rate_or_zero(value: object) -> object:
    """A ramp may begin at 0, a rate on its own must be above it."""
    return 0.0 if not isinstance(value, bool) and value in (0, "0") else _rate(value)


class Point(Strict):
    """The rate at one instant of a phase; between points it moves linearly."""

    at_ns: Duration = Field(alias="at")
    rate: Annotated[_Weight, BeforeValidator(_rate_or_zero)]


def _rate_law(value: object) -> object:
    read = _rate(value)
    return ({"at": "0s", "rate": read},) if isinstance(read, float) else read


class KeyRange(Strict):
    """Keys `start .. start + count`, in the order in which records are inserted."""

    start: Count = 0
    count: Annotated[Count, Field(ge=1)]

    @model_validator(mode="after")
    def _stays_countable(self) -> KeyRange:
        if self.start + self.count > quantity.LARGEST:
            raise at_key("count", "start and count together must stay below 2^63")
        return self


FieldNames = Literal["all", "one", "all_by_name"]


class GroupSpec(Strict):
    """Clients that behave alike."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")] = "clients"
    clients: Annotated[Count, Field(ge=1, le=LARGEST_U32)] | None = None
    mix: Mix
    keys: Keys = Uniform(distribution="uniform")
    key_range: KeyRange | None = None
    """The keys to choose from; None for all records."""
    read_fields: FieldNames = "all"
    write_fields: FieldNames = "one"
    scan_length: Length = UniformLength(distribution="uniform", min=1, max=1000)
    think_time_ns: Duration = Field(default=0, alias="think_time")
    rates: Annotated[tuple[Point, ...] | None, BeforeValidator(_rate_law)] = Field(
        default=None, alias="rate"
    )
    arrival: Literal["constant", "poisson"] | None = None
    check_values: bool = False

    @model_validator(mode="after")
    def _is_possible(self) -> GroupSpec:
        if self.name == LOAD_GROUP:
            raise at_key("name", f"the name '{LOAD_GROUP}' is kept for loading the records")
        if self.rates is None and self.arrival is not None:
            raise at_key("arrival", f"arrival '{self.arrival}' needs a rate; add the key 'rate'")
        if self.rates is not None and self.think_time_ns:
            raise at_key("think_time", "think_time is for clients without a rate; remove one")
        if self.rates is not None:
            _check_rates(self.rates)
        return self


def _check_rates(rates: tuple[Point, ...]) -> None:
    if not rates or rates[0].at_ns != 0:
        raise at_key("rate", "the first rate must be at 0s")
    if any(one.at_ns >= next_.at_ns for one, next_ in pairwise(rates)):
        raise at_key("rate", "the times of the rates must rise")
    if rates[-1].rate <= 0:
        raise at_key("rate", "the last rate must be above 0")


class WorkloadSpec(Strict):
    """A workload file."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "workload"
    description: str = ""
    dataset: DatasetSpec = DatasetSpec()
    once_per_record: bool = False
    """Whether a run ends after as many operations as there are records, unless it is told else."""
    groups: Annotated[tuple[GroupSpec, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _holds_together(self) -> WorkloadSpec:
        names = [group.name for group in self.groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise at_key("groups", f"two groups are named '{twice}'; each needs a name of its own")
        checked = any(group.check_values for group in self.groups)
        if checked and self.dataset.values != "integrity":
            raise at_key("groups", "check_values needs 'values: integrity' in the dataset")
        only_inserts = all(list(group.mix.weights()) == ["insert"] for group in self.groups)
        if not self.dataset.loaded and not only_inserts:
            raise at_key("dataset", "'loaded: false' starts without records, so it can only insert")
        return self


def parse_workload(text: str, file: str) -> WorkloadSpec:
    """Reads a workload from YAML text; `file` is the name that errors show."""
    return parse_yaml(text, file, WorkloadSpec)


def load_workload(path: Path) -> WorkloadSpec:
    """Reads a workload file. A file that does not name its workload gives it its own name."""
    workload = parse_workload(read_text(path), str(path))
    named: dict[str, Any] = {} if "name" in workload.model_fields_set else {"name": path.stem}
    return workload.model_copy(update=named)
