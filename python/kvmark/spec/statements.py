"""Operations in the user's own words: commands and statements, and what is put into them.

`{name}` in a text is the place of an argument, `{{` and `}}` are braces. The part in square
brackets is repeated once per item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import TypeAliasType

from kvmark.spec.laws import Constant, Even, Keys, Length
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.yaml_file import Count, Duration, Mistake, Strict, at_key, complaint, wrapped

RECORD: Final = ("key", "ordinal")
"""Arguments that every statement has: the text of the record's key, and its number."""

_FORMAT_PLACE: Final = re.compile(r"\{([A-Za-z_]\w*)(?::0?(\d{1,3}))?\}")
_EXPIRY: Final = re.compile(
    r"(?<![\w{])(EX|PX|EXAT|PXAT|P?EXPIRE(AT)?|P?SETEX|GETEX|TTL)(?![\w}])", re.IGNORECASE
)
"""The keyword of a command that sets a time to live."""
_PLACE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[\[\]]")


class _Generated(Strict):
    each: Literal["operation", "command", "item"] | None = None
    """When a new value is drawn; None for each repetition of its context."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The arguments that it is made of."""
        return ()


class FieldArgument(_Generated):
    """What the record's field of this index holds."""

    generator: Literal["field"]
    field: Count = 0


class _Numbers(_Generated):
    start: Count = 0
    count: Annotated[Count, Field(ge=1)] | None = None
    """None for as many as there are records."""
    law: Keys = Even(distribution="uniform")


class NumberArgument(_Numbers):
    """A whole number `start .. start + count` by a law."""

    generator: Literal["number"]


class NameArgument(_Numbers):
    """A prefix and such a number."""

    generator: Literal["name"]
    prefix: str = ""
    order: Literal["hashed", "ordered"] = "ordered"
    zero_padding: Annotated[int, Field(ge=0, le=1000, strict=True)] = 1


_Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1, strict=True)]
_Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


class GaussianArgument(_Generated):
    """A whole number, normally distributed.

    Unless said, the range is three deviations to each side, as in cassandra-stress.
    """

    generator: Literal["gaussian"]
    min: _Whole
    max: _Whole
    mean: _Number | None = None
    stddev: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None

    def _mistakes(self) -> Iterator[Mistake]:
        if self.min >= self.max:
            yield "min", f"min ({self.min}) must be below max ({self.max})"


class FractionArgument(_Generated):
    """A number with a fraction from `min` up to, but without, `max`."""

    generator: Literal["fraction"]
    min: _Number = 0.0
    max: _Number = 1.0

    def _mistakes(self) -> Iterator[Mistake]:
        if self.min > self.max:
            yield "min", f"min ({self.min:g}) must not be above max ({self.max:g})"


class NoiseArgument(_Generated):
    """Random printable characters of this number, or bytes of any value."""

    generator: Literal["text", "blob"]
    length: Length


class PlainArgument(_Generated):
    """The record's key or number, a truth value, a random UUID, or the length of a traced scan."""

    generator: Literal["key", "ordinal", "boolean", "uuid", "scan_length"]


def _instant(value: object) -> object:
    """Milliseconds since 1970, from a number or an instant such as 2026-01-31T12:00:00Z."""
    if not isinstance(value, str):
        return value
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        text = f"{shown(value)} is not an instant such as 2026-01-31T12:00:00Z"
        raise complaint(text) from None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class TimestampArgument(_Generated):
    """An instant, `step` later for each element drawn before."""

    generator: Literal["timestamp"]
    start_ms: Annotated[_Whole, BeforeValidator(_instant)] = Field(default=0, alias="start")
    step_ns: Duration = Field(default=1_000_000, alias="step")

    def _mistakes(self) -> Iterator[Mistake]:
        if self.step_ns % 1_000_000:
            yield "step", "a step must be a whole number of milliseconds"


class TtlArgument(_Generated):
    """The time to live that a replayed trace says, in whole units and at least one."""

    generator: Literal["ttl"]
    unit: Literal["s", "ms"] = "s"


class ComputedArgument(_Generated):
    """A whole number: `start + x / divide % modulo * times`, and `step` more for each before.

    x is the record's number, the operation's, or the place within the operation.
    """

    generator: Literal["computed"]
    of: Literal["ordinal", "operation", "place"] = "ordinal"
    divide: Annotated[Count, Field(ge=1)] = 1
    modulo: Annotated[Count, Field(ge=1)] | None = None
    times: _Whole = 1
    start: _Whole = 0
    step: _Whole = 0


class SplitArgument(_Generated):
    """One of two numbers that add up to the record's; each operation divides it differently."""

    generator: Literal["split"]
    part: Literal["first", "rest"]


class FormatArgument(_Generated):
    """Text with other arguments in it: `val:{ordinal}`, with leading zeros `{series:05}`."""

    generator: Literal["format"]
    text: Annotated[str, Field(min_length=1)]

    @property
    def parts(self) -> tuple[tuple[str, str | None, int], ...]:
        """Literals, the argument behind each, and its least number of digits."""
        # Literals, names and digits in turn; the last literal has no argument behind it.
        found = [*_FORMAT_PLACE.split(self.text), None, None]
        parts = zip(found[::3], found[1::3], found[2::3], strict=True)
        return tuple((literal or "", name, int(digits or 1)) for literal, name, digits in parts)

    @property
    def needs(self) -> tuple[str, ...]:
        """The arguments in the text."""
        return tuple(name for _, name, _ in self.parts if name is not None)

    def _mistakes(self) -> Iterator[Mistake]:
        for literal, _, _ in self.parts:
            if "{" in literal or "}" in literal:
                shape = "write an argument in braces, as in {ordinal} or {ordinal:05}"
                yield "text", f"{shown(literal)} has a single brace; {shape}"


class CheckedArgument(_Generated):
    """A value that carries its own checksum, as the YugabyteDB sample applications make them."""

    generator: Literal["checked"]
    prefix: str
    """The argument that the value begins with, behind its marker, if it is long enough."""
    length: Length
    ascii: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """The argument at its begin."""
        return (self.prefix,)


class ListArgument(_Generated):
    """Several of one kind."""

    generator: Literal["list", "set"]
    of: ArgumentSpec
    length: Length


class TupleArgument(_Generated):
    """Several of different kinds: a tuple, or the fields of a user-defined type."""

    generator: Literal["tuple", "udt"]
    of: Annotated[tuple[ArgumentSpec, ...], Field(min_length=1)]


class MapArgument(_Generated):
    """Keys and their values."""

    generator: Literal["map"]
    keys: ArgumentSpec
    values: ArgumentSpec
    length: Length


_Figures: TypeAlias = NumberArgument | GaussianArgument | FractionArgument | ComputedArgument
_Texts: TypeAlias = NameArgument | NoiseArgument | FormatArgument | CheckedArgument
_Others: TypeAlias = PlainArgument | FieldArgument | SplitArgument | TimestampArgument | TtlArgument
_Several: TypeAlias = ListArgument | TupleArgument | MapArgument
ArgumentSpec = TypeAliasType(
    "ArgumentSpec",
    Annotated[
        Annotated[_Figures | _Texts | _Others | _Several, Field(discriminator="generator")],
        wrapped(str, lambda word: {"generator": word}),
    ],
)
"""How an argument is drawn; a bare word is the generator with its defaults."""


class CheckSpec(Strict):
    """Requirements on the rows that a statement returns; columns are counted from 0."""

    rows: Count | None = None
    """The exact number of rows, unless bounds are given too."""
    least: Count | None = None
    """The smallest number of rows."""
    most: Count | None = None
    """The largest number of rows."""
    column: Annotated[Count, Field(le=2**32 - 1)] | None = None
    """The column that is checked."""
    equals: str | None = None
    """The argument that each row's value in the column equals."""
    sum: str | None = None
    """The argument that the column's values add up to."""
    same: bool = False
    """Whether all rows have the same value in the column."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> CheckSpec:
        counts = self.rows is not None or self.least is not None or self.most is not None
        compares = [self.equals is not None, self.sum is not None, self.same]
        if [counts, *compares].count(True) != 1 or counts == (self.column is not None):
            raise complaint("a check is rows, least or most, or a column with equals, sum or same")
        return self

    @property
    def argument(self) -> str | None:
        """The argument that values are held against."""
        return self.equals or self.sum


_ONE: Final = Constant(distribution="constant", size=1)


class StatementSpec(Strict):
    """An operation in the system's own language."""

    does: Literal["read", "update", "insert", "scan", "delete"]
    """Effect on the record, which decides the key and what a miss is."""
    run: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        wrapped(str, lambda text: (text,)),
        Field(min_length=1),
    ]
    """One text, or several that are sent in order."""
    commands: Length = _ONE
    """Repetitions of the texts in one operation: depth of a pipeline, size of a batch."""
    items: Length = _ONE
    """Repetitions of the part in square brackets."""
    arguments: Mapping[str, ArgumentSpec] = {}
    """Arguments that only this statement can name."""
    expect: tuple[str, ...] = ()
    """Arguments that the values of each reply must equal, in order."""
    check: tuple[CheckSpec, ...] = ()
    """Requirements on the rows that a read returns."""
    record: Literal["operation", "command"] = "command"
    """Whether each command has its own record, or all commands of an operation share one."""
    when_full: str | None = None
    """Of an insert: the statement that replaces it once all records exist."""
    options: Mapping[str, str | int | float | bool] = {}
    """Options for the driver, such as a consistency level."""

    def is_told(self, more: Mapping[str, ArgumentSpec]) -> bool:
        """Whether it takes what only a trace says; `more` are the workload's arguments."""
        described = {**more, **self.arguments}
        drawn = (described.get(name) for name in self.named(more))
        return any(one is not None and one.generator in {"ttl", "scan_length"} for one in drawn)

    def _mistakes(self) -> Iterator[Mistake]:
        for name in self.arguments:
            if name in RECORD:
                yield "arguments", f"{shown(name)} is the record's own; name it otherwise"
        for text in self.run:
            for _ in places(text):
                pass

    @property
    def expires(self) -> bool:
        """Whether what it writes has a time to live."""
        return self.does != "read" and any(_EXPIRY.search(text) for text in self.run)

    @property
    def pipelines(self) -> bool:
        """Whether the file sets the number of commands per request, so that it can be changed.

        Several commands about one record are what the record needs.
        """
        return "commands" in self.model_fields_set and self.record == "command"

    def named(self, shared: Mapping[str, Any]) -> tuple[str, ...]:
        """The arguments that texts, expectations and checks name, and those these are made of.

        Each occurs once, after its parts.
        """
        found = [name for text in self.run for name, _ in places(text)]
        described = {**shared, **self.arguments}
        ordered: dict[str, None] = {}
        for name in (*found, *self.expect, *self._checked):
            _add_with_parts(name, described, ordered, ())
        return tuple(ordered)

    @property
    def _checked(self) -> list[str]:
        return [one.argument for one in self.check if one.argument is not None]

    def holds_no_field(self, shared: Mapping[str, Any]) -> bool:
        """Whether replies are held against something, and nothing of it is a record's field."""
        described = {**shared, **self.arguments}
        expected = [described.get(name) for name in self.expect]
        fields = any(isinstance(one, FieldArgument) for one in expected)
        return bool(self.expect or self.check) and not fields

    def unknown_name(self, shared: Mapping[str, Any]) -> tuple[str, str] | None:
        """The key that names an undescribed argument, and the error."""
        known = [*RECORD, *self.arguments, *shared]
        uses = (("expect", self.expect), ("check", self._checked), ("run", self.named(shared)))
        for key, names in uses:
            for name in names:
                if name not in known:
                    return key, f"{shown(name)} is not an argument{did_you_mean(name, known)}"
        return None

    def each(self, name: str) -> Literal["command", "item"]:
        """How often an argument is drawn that doesn't say it itself."""
        if "items" not in self.model_fields_set:
            return "command"
        inside = {within for text in self.run for found, within in places(text) if found == name}
        return "item" if inside == {True} else "command"


def _add_with_parts(
    name: str, described: Mapping[str, Any], ordered: dict[str, None], within: tuple[str, ...]
) -> None:
    """Adds an argument behind those that it is made of."""
    if name in within:
        raise at_key("arguments", f"{shown(name)} is made of itself")
    for part in described[name].needs if name in described else ():
        _add_with_parts(part, described, ordered, (*within, name))
    ordered.setdefault(name)


def places(text: str) -> Iterator[tuple[str, bool]]:
    """The arguments of a text, and whether each is in square brackets."""
    depth = 0
    for match in _PLACE.finditer(text):
        found, name = match[0], match[1]
        if name is not None:
            if not name.isidentifier():
                raise at_key("run", f"{shown(found)} names no argument; write {{{{ for a brace")
            yield name, depth > 0
        elif found in "[]":
            depth += 1 if found == "[" else -1
        elif found in "{}":
            raise at_key("run", f"a single {found} in {shown(text)}; write {found * 2} for a brace")
