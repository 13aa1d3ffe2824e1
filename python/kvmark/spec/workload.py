"""A workload: the records it works on and the groups of clients that work on them.

`load_workload` reads the YAML file that `docs` and the catalogue show; the models are its grammar.
Attributes carry their unit in the name, keys in the file carry it in the value (`think_time: 5ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from kvmark.spec import curve, quantity, yaml_file
from kvmark.spec.faults import FaultSpec
from kvmark.spec.laws import ArrivalProcess, Between, Constant, Even, Keys, Length
from kvmark.spec.retry import retry_text
from kvmark.spec.statements import ArgumentSpec, StatementSpec
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.yaml_file import Count, Duration, Mistake, Strict

LARGEST_U32: Final = 2**32 - 1
LOAD_GROUP: Final = "load"
"""The name of the group that loads the dataset; no other group can have it."""
VERIFY_GROUP: Final = "verify"
"""The name of the group that reads back what was written."""


_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]


class LinesFrom(Strict):
    """The lines of a text file, or a column of a CSV file with names in its first line."""

    file: Annotated[str, Field(min_length=1)]
    """Path of the file, from the folder of the workload file."""
    column: Annotated[str, Field(min_length=1)] | None = None
    """Name of the CSV column; whole lines by default."""


def _from_file(value: object) -> bool:
    names = value.keys() if isinstance(value, Mapping) else ()
    return isinstance(value, LinesFrom) or "file" in names or "column" in names


class Compressible(Strict):
    """Random values that compress."""

    compressible: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False, strict=True)]
    """Share of the bytes that LZ4 and Zstd remove, within 6 % of values from 100 bytes; 18 bytes of
    a value stay."""
    text: bool = False
    """Whether the bytes are printable, of which Zstd removes further 18 %, as text columns need."""


def _values_kind(value: object) -> str:
    if _from_file(value):
        return "of_lines"
    return "that_compress" if isinstance(value, Mapping | Compressible) else "by_name"


Values: TypeAlias = Annotated[
    Annotated[Literal["random", "integrity"], Tag("by_name")]
    | Annotated[Compressible, Tag("that_compress")]
    | Annotated[LinesFrom, Tag("of_lines")],
    Discriminator(_values_kind),
]
"""What the fields of records have."""


class Key(Strict):
    """How a record's number becomes its key."""

    prefix: str = "user"
    """Text before the number."""
    order: Literal["hashed", "ordered"] = "hashed"
    """Whether the number is hashed, as in YCSB, or written as it is."""
    zero_padding: Annotated[int, Field(ge=0, le=1000, strict=True)] = 1
    """Smallest number of digits."""


class Fields(Strict):
    """The fields of a record."""

    count: Annotated[Count, Field(ge=1, le=1_000_000)] = 10
    """Number of fields."""
    name_prefix: str = "field"
    """Text before a field's number, which together are its name."""
    length: Length = Constant(distribution="constant", size=100)
    """Bytes of a field."""


class DatasetSpec(Strict):
    """The records that the workload works on."""

    table: Annotated[str, Field(min_length=1)] = "usertable"
    """Table that has the records."""
    start: Count = 0
    """Number of the first record."""
    records: Annotated[Count, Field(ge=1)] = 1000
    """Number of records; `--records` overrides it."""
    loaded: bool = True
    """Whether the records are loaded before the clients start; if not, the clients insert them."""
    present: Count = 0
    """With `loaded: false`: number of records that an earlier run has inserted."""
    bounded: bool = False
    """Whether the number of records is fixed: further inserts become updates."""
    key: Annotated[
        Annotated[Key, Tag("of_numbers")] | Annotated[LinesFrom, Tag("of_lines")],
        Discriminator(lambda value: "of_lines" if _from_file(value) else "of_numbers"),
    ] = Key()
    """How a record's number becomes its key."""
    fields: Fields = Fields()
    """The fields of a record."""
    values: Values = "random"
    """`random`, `integrity` (every byte can be checked, with `check_values: full`),
    `{compressible: 0.5}`, or the lines of a file, such as `{file: words.txt}`."""

    def _mistakes(self) -> Iterator[Mistake]:
        if self.start + self.records > quantity.LARGEST:
            yield "records", "start and records together must stay below 2^63"
        if self.present > (0 if self.loaded else self.records):
            text = "present is for records that aren't loaded, and at most all of them"
            yield "present", text
        if self.values == "integrity" and not isinstance(self.fields.length, Constant):
            yield "values", "integrity values need a constant field length"
        if isinstance(self.values, LinesFrom) and "length" in self.fields.model_fields_set:
            yield ("fields", "length"), "values from a file are as long as its lines; remove length"


_Weight = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False, strict=True)]


class Mix(Strict):
    """Relative weights of the operation kinds and of the workload's statements."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, _Weight]

    read: _Weight = 0.0
    update: _Weight = 0.0
    insert: _Weight = 0.0
    scan: _Weight = 0.0
    read_modify_write: _Weight = 0.0
    delete: _Weight = 0.0

    @model_validator(mode="after")
    def _does_something(self) -> Mix:
        if sum(self.weights().values()) <= 0:
            raise yaml_file.complaint("one of the weights must be above 0")
        return self

    @model_validator(mode="before")
    @classmethod
    def _knows_every_key(cls, value: object) -> object:
        """Which statements there are, the workload knows."""
        return value

    @property
    def statements(self) -> tuple[str, ...]:
        """The names that aren't kinds of operation."""
        return tuple(self.__pydantic_extra__)

    def weights(self) -> dict[str, float]:
        """What occurs and its weight: the kinds in the plan's order, then the statements."""
        named = {name: float(getattr(self, name)) for name in type(self).model_fields}
        named.update(self.__pydantic_extra__)
        return {name: weight for name, weight in named.items() if weight > 0}


def _rate(value: object, read: Callable[[str], object] = quantity.rate) -> object:
    is_written = isinstance(value, int | float | str) and not isinstance(value, bool)
    return yaml_file.parsed(value, read) if is_written else value


def rate_or_curve(value: object) -> object:
    """A rate or a curve as on a command line, for a field; `max` is None, and so is nothing."""
    return _rate(value, curve.pace)


def _rate_or_zero(value: object) -> object:
    """A ramp may begin at 0, a rate on its own must be above it."""
    return 0.0 if not isinstance(value, bool) and value in (0, "0") else _rate(value)


class RatePoint(Strict):
    """The rate at one instant of a phase; between points it moves linearly."""

    at_ns: Duration = Field(alias="at")
    """Time since the beginning of the phase."""
    rate: Annotated[_Weight, BeforeValidator(_rate_or_zero)]
    """Operations per second at this time."""


def _rate_law(value: object) -> object:
    """One rate, points in time, or a curve's text."""
    read = rate_or_curve(value)
    return ({"at": "0s", "rate": read},) if isinstance(read, float) else read


class KeyRange(Strict):
    """Keys `start .. start + count`, in the order in which records are inserted."""

    start: Count = 0
    """Number of the first key."""
    count: Annotated[Count, Field(ge=1)]
    """Number of keys."""

    def _mistakes(self) -> Iterator[Mistake]:
        if self.start + self.count > quantity.LARGEST:
            yield "count", "start and count together must stay below 2^63"


def retry_policy(value: object) -> object:
    """A retry policy as on a command line, for a field."""
    return value if value is None else yaml_file.parsed(str(value), retry_text)


FieldNames = Literal["all", "one", "all_by_name"]
ValueCheck = Literal["none", "tag", "full"]
"""What values that are read must be: anything, of the record by their number, lengths and tags, or
those that must be there byte by byte. A statement's are checked in full or not at all."""


class GroupSpec(Strict):
    """Clients that behave alike."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")] = "clients"
    """Name of the group, for `--group` and the table of results."""
    clients: Annotated[Count, Field(ge=1, le=LARGEST_U32)] | None = None
    """Number of clients; one, or `--clients`, by default."""
    mix: Mix
    """Relative weights of `read`, `update`, `insert`, `scan`, `read_modify_write`, `delete` and the
    names of statements."""
    keys: Keys = Even(distribution="uniform")
    """How keys are chosen."""
    key_range: KeyRange | None = None
    """Keys to choose from; all records by default."""
    read_fields: FieldNames = "all"
    """Fields that a read asks for: all, one, or all by their names."""
    write_fields: FieldNames = "one"
    """Fields that an update writes."""
    scan_length: Length = Between(distribution="uniform", min=1, max=1000)
    """Records of a scan."""
    think_time_ns: Duration = Field(default=0, alias="think_time")
    """Pause of a client between a reply and its next operation."""
    rates: Annotated[tuple[RatePoint, ...] | str | None, BeforeValidator(_rate_law)] = Field(
        default=None, alias="rate"
    )
    """Open model: one rate, a curve such as `1k..50k`, or a list of points in time."""
    arrival: ArrivalProcess | None = None
    """How the starts of an open model are spread; evenly by default."""
    check_values: ValueCheck = "tag"
    """Check of values that are read: none, lengths and tags, or every byte."""
    on_miss: str | None = None
    """Write of the record after a read that found nothing (cache-aside): `insert`, or the name of a
    statement that inserts or updates."""
    retry: Annotated[str | None, BeforeValidator(retry_policy)] = None
    """How failed operations are tried again, such as `3,backoff=50ms..1s,jitter,timeout=100ms`."""
    operations: Annotated[Count, Field(ge=1)] | None = None
    """Number of operations that ends the group's part, unless the run has one."""

    def _mistakes(self) -> Iterator[Mistake]:
        for name, purpose in ((LOAD_GROUP, "loading"), (VERIFY_GROUP, "reading back")):
            if self.name == name:
                yield "name", f"the name '{name}' is kept for {purpose} the records"
        if self.rates is None and self.arrival is not None:
            yield "arrival", f"arrival '{self.arrival}' needs a rate; add the key 'rate'"
        if self.rates is not None and self.think_time_ns:
            yield "think_time", "think_time is for clients without a rate; remove one"
        if isinstance(self.rates, tuple):
            if not self.rates or self.rates[0].at_ns != 0:
                yield "rate", "the first rate must be at 0s"
            if any(one.at_ns >= next_.at_ns for one, next_ in pairwise(self.rates)):
                yield "rate", "the times of the rates must rise"
            if self.rates[-1].rate <= 0:
                yield "rate", "the last rate must be above 0"


class WorkloadSpec(Strict):
    """A workload file."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "workload"
    """Name in results."""
    description: str = ""
    """One sentence, for `kvmark workloads`."""
    dataset: DatasetSpec = DatasetSpec()
    """The records that the workload works on."""
    prepare: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Statements sent once, in order, before anything else."""
    arguments: Mapping[str, ArgumentSpec] = {}
    """Arguments that every statement can name."""
    statements: Mapping[_Name, StatementSpec] = {}
    """Operations in the system's own language, by the names that `mix` uses."""
    load: str | None = None
    """Statement that inserts the records; by default as the driver stores records."""
    probe: str | None = None
    """Statement that finds a record; by default as the driver stores records."""
    faults: tuple[FaultSpec, ...] = ()
    """Faults to inject during the measurement."""
    expect_misses: bool = False
    """Whether misses are meant, as of keys that clients delete, and no reason in a verdict."""
    once_per_record: bool = False
    """Whether a run ends by default after as many operations as there are records."""
    groups: Annotated[tuple[GroupSpec, ...], Field(min_length=1)]
    """Groups of clients, which work at the same time."""

    def with_files_in(self, folder: Path) -> WorkloadSpec:
        """The workload, with paths of keys' and values' files from a folder."""
        files = {
            name: one.model_copy(update={"file": str(folder / one.file)})
            for name, one in (("key", self.dataset.key), ("values", self.dataset.values))
            if isinstance(one, LinesFrom)
        }
        return self.model_copy(update={"dataset": self.dataset.model_copy(update=files)})

    @property
    def fills(self) -> bool:
        """Whether clients write records that they don't find."""
        return any(group.on_miss for group in self.groups)

    @property
    def is_loaded_first(self) -> bool:
        """Whether the records are put in place before the clients start."""
        own = any(set(group.mix.weights()) - set(self.statements) for group in self.groups)
        return self.dataset.loaded and (own or self.load is not None)

    def _unknown_names(self) -> Iterator[Mistake]:
        known = [*Mix.model_fields, *self.statements]
        for number, group in enumerate(self.groups):
            for name in group.mix.statements:
                if name not in self.statements:
                    text = f"unknown key {shown(name)}{did_you_mean(name, known)}"
                    yield ("groups", number, "mix", name), text
        for name, statement in self.statements.items():
            if name in Mix.model_fields:
                text = f"{shown(name)} is a kind of operation; name the statement otherwise"
                yield ("statements", name), text
            unknown = statement.unknown_name(self.arguments)
            if unknown is not None:
                yield ("statements", name, unknown[0]), unknown[1]
            other = statement.when_full
            place = ("statements", name, "when_full")
            if other is None:
                continue
            if statement.does != "insert" or not self.dataset.bounded:
                yield place, "when_full is for an insert, where the dataset is bounded"
            if other not in self.statements or self.statements[other].does != "update":
                hint = did_you_mean(other, self.statements)
                yield place, f"there is no statement {shown(other)} that does update{hint}"
        for key, use, does in (("load", self.load, "insert"), ("probe", self.probe, "read")):
            if use is not None:
                yield from ((key, sentence) for sentence in self._misuses(key, use, does))

    def _does(self, name: str) -> str:
        """What a name in a mix does to the records."""
        statement = self.statements.get(name)
        return name if statement is None else statement.does

    def _checks_itself(self, group: GroupSpec) -> bool:
        """Whether reads of the group are checked by their statements, not by fields."""
        reads = [name for name in group.mix.weights() if self._does(name) == "read"]
        own = [self.statements[name] for name in reads if name in self.statements]
        return len(own) == len(reads) and all(one.holds_no_field(self.arguments) for one in own)

    def _misuses(self, key: str, name: str, does: str) -> Iterator[str]:
        statement = self.statements.get(name)
        if statement is None:
            yield f"there is no statement {shown(name)}{did_you_mean(name, self.statements)}"
            return
        usable = {"insert", "update"} if does == "insert" else {does}
        if statement.does not in usable:
            yield f"{shown(name)} does {statement.does}, and {key} needs one that does {does}"
        if statement.pipelines:
            yield f"{shown(name)} sends several commands; {key} needs one that sends one"

    def _mistakes(self) -> Iterator[Mistake]:
        yield from self._unknown_names()
        names = [group.name for group in self.groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield "groups", f"two groups are named '{twice}'; names must differ"
        checked = [group for group in self.groups if group.check_values == "full"]
        by_fields = not all(map(self._checks_itself, checked))
        if by_fields and self.dataset.values != "integrity":
            yield "groups", "check_values: full needs 'values: integrity' in the dataset"
        for number, group in enumerate(self.groups):
            if group.on_miss is not None:
                place = ("groups", number, "on_miss")
                yield from ((place, text) for text in self._wrong_fills(group, group.on_miss))
        does = {self._does(name) for group in self.groups for name in group.mix.weights()}
        if (
            isinstance(self.dataset.key, LinesFrom)
            and "insert" in does
            and not self.dataset.bounded
        ):
            text = "inserts go on behind the last line of the keys' file; add 'bounded: true'"
            yield "dataset", text
        if not (self.dataset.loaded or self.dataset.present or self.fills or "insert" in does):
            text = "'loaded: false' starts without records, so one of the groups must insert"
            yield "dataset", text

    def _wrong_fills(self, group: GroupSpec, fill: str) -> Iterator[str]:
        """Why a group can't write the records that it doesn't find."""
        does = {self._does(name) for name in group.mix.weights()}
        if "read" not in does or "read_modify_write" in does:
            yield "on_miss is for groups that read, without read_modify_write"
        named = [self.statements.get(name) for name in group.mix.statements]
        if any(one and one.does == "read" and one.pipelines for one in named):
            yield "on_miss is for reads of one record, and one of the group sends several commands"
        if fill == "update":
            yield "an update changes only records that exist; write 'on_miss: insert'"
        elif fill != "insert":
            yield from self._misuses("on_miss", fill, "insert")


def parse_workload(text: str, file: str) -> WorkloadSpec:
    """Reads a workload from YAML text; `file` is the name that errors show."""
    return yaml_file.parse_yaml(text, file, WorkloadSpec)


def load_workload(path: Path) -> WorkloadSpec:
    """Reads a workload file. A file that does not name its workload gives it its own name."""
    workload = parse_workload(yaml_file.read_text(path), str(path))
    named: dict[str, Any] = {} if "name" in workload.model_fields_set else {"name": path.stem}
    return workload.with_files_in(path.parent).model_copy(update=named)
