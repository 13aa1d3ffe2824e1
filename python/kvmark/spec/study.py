"""A study file: a question, and the cases that answer it.

Settings of all cases are at the top; `factors` name the varied ones. A level of a factor changes
values by their path: an option of `kvmark run` by its name (`clients`), everything else from the
top of the file (`workload.dataset.fields.length`, `options.cql.consistency`, `testbed.nodes`,
`testbed.set.concurrent_reads`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from kvmark.errors import SpecError
from kvmark.spec import quantity, yaml_file
from kvmark.spec.metric import THROUGHPUT, parse_comparable
from kvmark.spec.observe import ServerSource
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemName, system_name
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import Count, Duration, Mistake, Size, Strict

ROOTS: Final = ("system", "options", "testbed", "workload", "through")
"""The possible beginnings of a path; everything else is an option of `kvmark run`."""

THROUGH: Final = "through"
"""The factor whose levels are ways to the system."""
DIRECT: Final = "direct"
"""Its level without a proxy."""

# Roots below which the last part may have dots: names of settings have them.
_DEPTH: Final = {"testbed": 3, "options": 3}

NAME: Final = r"^[a-z][a-z0-9._-]{0,63}$"


def word(value: object) -> str:
    """The label of a level that is a plain value, as one writes it in YAML."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value}"


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a factor: its name, and what it changes."""

    label: str
    changes: Mapping[str, Any]
    """Values by path."""
    place: tuple[str | int, ...]
    """Its place in the file."""


def _labelled(value: object) -> object:
    for number, item in enumerate(value) if isinstance(value, list) else ():
        if isinstance(item, list | dict):
            text = "a level that is no plain value needs a name; write levels as `name: value`"
            raise yaml_file.at_key((number,), text)
    return value


class FactorSpec(Strict):
    """A thing varied on purpose."""

    path: str | None = None
    """What plain levels change; None for the value that the factor is named after."""
    levels: Annotated[list[Any] | dict[str, Any], BeforeValidator(_labelled), Field(min_length=1)]

    def named(self, name: str) -> tuple[Level, ...]:
        """The levels in the file's order; `name` is the factor's."""
        path, place = self.path or name, ("factors", name, "levels")
        written: Iterable[tuple[Any, Any]] = (
            self.levels.items() if isinstance(self.levels, dict) else enumerate(self.levels)
        )
        found = []
        for key, value in written:
            changes = dict(value) if isinstance(value, dict) else {path: value}
            for named in changes.keys() & {"system", THROUGH}:
                # A system that a level names is none that is printed whole.
                changes[named] = system_name(changes[named])
            label = key if isinstance(key, str) else word(value)
            found.append(Level(label, changes, (*place, key)))
        return tuple(found)


def _named(value: object) -> object:
    """A text as the name of a system."""
    if isinstance(value, str | SystemName):
        return system_name(value)
    raise yaml_file.complaint(f"{shown(str(value))} is not the URL of a system")


_Named = Annotated[SystemName, PlainValidator(_named)]


def _words(value: object) -> object:
    items = value if isinstance(value, list) else [value]
    return [word(item) for item in items]


Labels = Annotated[tuple[str, ...], BeforeValidator(_words), Field(min_length=1)]
"""One label of a factor, or several."""
Choice = Mapping[str, Labels]
"""Cases: for each factor named, one of these levels."""
_Label = Annotated[str, BeforeValidator(word)]


def _comparable(value: object) -> object:
    """A figure of a run that has a ratio, as it was written."""
    yaml_file.parsed(value, parse_comparable)
    return value


class EffectSpec(Strict):
    """What changes when some factors go from one level to another, all others kept."""

    title: Annotated[str, Field(min_length=1)]
    from_: Mapping[str, _Label] = Field(alias="from")
    to: Mapping[str, _Label]
    within: Choice = Field(default={})
    """Only cases with these levels."""
    of: Annotated[str, BeforeValidator(_comparable)] = THROUGHPUT.name

    def _mistakes(self) -> Iterator[Mistake]:
        if self.from_.keys() != self.to.keys() or not self.to:
            yield "to", "from and to must name the same factors"
        if self.from_ == self.to:
            yield "to", "from and to are the same levels; change one"


class ScaleSpec(Strict):
    """What `--scale` multiplies."""

    default: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """The default scale; 1 is the size that the file gives."""
    of: Annotated[tuple[str, ...], Field(min_length=1)]
    """Paths of counts and durations."""


PublishedFigure = Literal[
    "throughput", "p50_ms", "p95_ms", "p99_ms", "max_ms", "operations", "seconds",
]  # fmt: skip


class ThroughPublishedSpec(Strict):
    """What somebody else published of the way through proxies."""

    source: Annotated[str, Field(min_length=1)]
    file: Annotated[str, Field(pattern=r"^[^/].*\.csv$")]
    """A CSV file beside the study's, or one that comes with kvmark; its row without a proxy is the
    straight way."""


class PublishedSpec(ThroughPublishedSpec):
    """Figures that somebody else published for the same cases."""

    factors: Mapping[str, str]
    """The column that holds each factor's level."""
    figures: Mapping[PublishedFigure, str]
    where: Choice = Field(default={})
    """Only rows that have one of these values in these columns; rows of one case are added up."""
    table: str | None = None
    """The column that names the published table in which a row stands."""
    quantity: str | None = None
    """The column that names the row of an application's table: its mean, min, max,
    stddev, median and p1 to p99 over intervals are shown next to ours."""
    operations: Mapping[Literal["operation", "mean_us", "p99_us"], str] = {}
    """The columns of a workload's operations and their times in microseconds."""

    def _mistakes(self) -> Iterator[Mistake]:
        missing = {"operation", "mean_us", "p99_us"} - self.operations.keys()
        if self.operations and missing:
            yield "operations", f"the columns of operations lack {shown(min(missing))}"


_LEVELS: Final = yaml_file.wrapped(list, lambda levels: {"levels": levels})
_ALONE: Final = yaml_file.wrapped(dict, lambda one: [one])


class ThroughSpec(Strict):
    """The ways to the system: straight, and through proxies. They are levels of `through`."""

    proxies: Mapping[str, _Named] = {}
    """URLs or `up:NAME`, by the name of the level; none where `--through` must say them."""
    published: ThroughPublishedSpec | None = None


class FigureSpec(Strict):
    """How the cases are drawn."""

    across: str
    """The factor on the horizontal axis."""
    series: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    times: tuple[Literal["mean", "p50", "p95", "p99", "p999", "max"], ...] = ("p99",)
    """The response times that have a figure each."""


class FromDiskSpec(Strict):
    """Cases whose operations have to read from the servers' disks, or they fail."""

    cases: Choice
    least: Annotated[Size, Field(gt=0)]
    """Bytes that an operation reads on average at the least."""


class StudySpec(Strict):
    """A study file."""

    name: Annotated[str, Field(pattern=NAME)]
    question: Annotated[str, Field(min_length=1)]
    description: str = ""
    system: _Named | None = None
    """URL of the system or `up:NAME`; None where the study starts a testbed."""
    testbed: Mapping[str, Any] | None = None
    """The options of `kvmark up` for the study's own servers, which know themselves what they
    mean."""
    observe: Mapping[str, _Named] = {}
    """Observed servers by name: sources as of `--observe`."""
    options: Mapping[str, Mapping[str, str | int | float | bool]] = {}
    """Options of the system's URL, by driver."""
    workload: str | None = None
    """A name in `workloads`, a ready one, or a file; None where each level of a factor names it."""
    workloads: Mapping[str, WorkloadSpec] = {}
    run: RunWords = RunWords()
    factors: Mapping[str, Annotated[FactorSpec, _LEVELS]] = {}
    include: tuple[Choice, ...] = ()
    """Only cases that have all levels of one of these; empty for every combination."""
    exclude: tuple[Choice, ...] = ()
    through: ThroughSpec | None = None
    """Ways to the system that are compared; None for the straight one alone."""
    repetitions: Annotated[Count, Field(ge=1)] = 1
    once: tuple[Choice, ...] = ()
    """Cases that only the first repetition has."""
    lengthen: Annotated[int, Field(ge=0, le=6, strict=True)] = 0
    """How often a run that is INVALID or imprecise is made again, twice as long each time."""
    order: Literal["random", "written"] = "random"
    """The order of cases within a block."""
    blocks: Literal["study", "testbed"] = "study"
    """Whether a block is one repetition of all cases, or of those on the same servers, which stay
    up until they have had all their blocks."""
    seed: Annotated[int, Field(ge=0, strict=True)] = 1
    dataset: Literal["reuse", "fresh"] = "reuse"
    """Whether a case finds what others loaded, or an empty system."""
    server_warmup_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, alias="server_warmup"
    )
    """How long servers are loaded at most before the first case on them, until they don't get
    faster any more; None for cases that begin at once."""
    limit_ns: Annotated[Duration, Field(gt=0)] | None = Field(default=None, alias="limit")
    """How long a case may take in all; None for as long as it takes."""
    measure: Literal["operations", "records"] = "operations"
    """What throughput counts."""
    scale: ScaleSpec | None = None
    effects: tuple[EffectSpec, ...] = ()
    published: Annotated[tuple[PublishedSpec, ...], _ALONE] = ()
    """Tables that others published; a case has its figures from the first that knows it."""
    figure: FigureSpec | None = None
    columns: tuple[Literal["operations", "seconds", "mean", "p999"], ...] = ()
    """Additional columns of the table."""
    disk_reads: bool = False
    """Whether the table shows what the servers read from their disks for an operation."""
    from_disk: FromDiskSpec | None = None
    """What the page cache must not answer."""
    notes: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Sentences that stand under the table."""

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """The levels of each factor."""
        found = {name: factor.named(name) for name, factor in self.factors.items()}
        if self.through is None:
            return found
        place, proxies = ("through", "proxies"), self.through.proxies.items()
        levels = (Level(name, {THROUGH: url}, (*place, name)) for name, url in proxies)
        return {**found, THROUGH: (Level(DIRECT, {}, place), *levels)}

    @property
    def sources(self) -> tuple[ServerSource, ...]:
        """The observed servers."""
        return tuple(ServerSource.named(name, place) for name, place in self.observe.items())

    def _mistakes(self) -> Iterator[Mistake]:
        for name, place in self.observe.items():
            try:
                ServerSource.named(name, place)
            except SpecError as problem:
                yield ("observe", name), problem.message
        if self.system is not None and self.testbed is not None:
            yield "testbed", "a study has either a system or a testbed; remove one of them"
        varied = any("system" in level.changes for one in self.levels.values() for level in one)
        if self.system is None and self.testbed is None and not varied:
            yield "name", "the study names no system; add 'system' or 'testbed'"
        if self.through is not None and THROUGH in self.factors:
            yield ("factors", THROUGH), "the ways through proxies are a factor already"
        for name, levels in self.levels.items():
            labels = [level.label for level in levels]
            twice = next((one for one in labels if labels.count(one) > 1), None)
            if twice is not None:
                yield ("factors", name), f"the level {shown(twice)} is given twice"
        yield from self._unknown_names()

    def _unknown_names(self) -> Iterator[Mistake]:
        for key in ("include", "exclude", "once"):
            for number, choice in enumerate(getattr(self, key)):
                yield from self._unknown_labels(choice, (key, number))
        for number, effect in enumerate(self.effects):
            place = ("effects", number)
            for side, chosen in (("from", effect.from_), ("to", effect.to)):
                yield from self._unknown_labels(
                    {name: (one,) for name, one in chosen.items()}, (*place, side)
                )
            yield from self._unknown_labels(effect.within, (*place, "within"))
        if self.from_disk is not None:
            yield from self._unknown_labels(self.from_disk.cases, ("from_disk", "cases"))
        for key in ("across", "series", "panels") if self.figure is not None else ():
            names = getattr(self.figure, key)
            for name in (names,) if isinstance(names, str) else names:
                yield from self._unknown_factor(name, ("figure", key))
        for number, table in enumerate(self.published):
            for name in table.factors:
                yield from self._unknown_factor(name, ("published", number, "factors", name))

    def _unknown_labels(
        self, choice: Mapping[str, Any], place: tuple[str | int, ...]
    ) -> Iterator[Mistake]:
        for name, labels in choice.items():
            yield from self._unknown_factor(name, (*place, name))
            known = [level.label for level in self.levels[name]]
            for label in labels:
                if label not in known:
                    sentence = f"{name} has no level {shown(label)}{did_you_mean(label, known)}"
                    yield (*place, name), sentence

    def _unknown_factor(self, name: str, place: tuple[str | int, ...]) -> Iterator[Mistake]:
        if name not in self.levels:
            yield place, f"there is no factor {shown(name)}{did_you_mean(name, self.factors)}"


@dataclass(frozen=True)
class StudyFile:
    """A study with its text, from which the values of a case are made."""

    spec: StudySpec
    text: str
    """The file as it may be kept and printed: without the credentials of systems."""
    folder: Path | None
    """Where the files that it names are; None for a ready study."""
    document: yaml_file.Document

    @property
    def raw(self) -> Mapping[str, Any]:
        """The file's plain values."""
        value = self.document.value
        return value if isinstance(value, Mapping) else {}


def _systems(spec: StudySpec) -> Iterator[tuple[str | int, ...]]:
    """Places of systems in the file."""
    yield ("system",)
    yield from (("observe", name) for name in spec.observe)
    for levels in spec.levels.values():
        for level in levels:
            named = (path for path, value in level.changes.items() if isinstance(value, SystemName))
            yield from ((*level.place, path) for path in named)


def parse_study(text: str, file: str, folder: Path | None = None) -> StudyFile:
    """Reads a study from YAML text; `file` is the name that errors show."""
    document = yaml_file.Document(text, file)
    spec = document.check(StudySpec)
    return StudyFile(spec, document.text_without(_systems(spec)), folder, document)


def load_study(path: Path) -> StudyFile:
    """Reads a study file. Errors name file and line."""
    return parse_study(yaml_file.read_text(path), str(path), path.parent)


def split(path: str) -> tuple[str, ...]:
    """The parts of a path from the top of a file; an option of `kvmark run` is below `run`."""
    root = path.partition(".")[0]
    if root not in ROOTS:
        return ("run", path.removeprefix("run."))
    return tuple(path.split(".", _DEPTH.get(root, 0) - 1 if root in _DEPTH else -1))


def changed(values: Any, parts: tuple[str, ...], value: object) -> Any:
    """A copy of plain values in which the one at a path is another.

    A part names a key of a mapping; an element of a list by its number or by its `name`.

    Raises:
        SpecError: the path leads nowhere.
    """
    if not parts:
        return value
    first, rest = parts[0], parts[1:]
    if values is None or isinstance(values, Mapping):
        known = values or {}
        return {**known, first: changed(known.get(first), rest, value)}
    if isinstance(values, list):
        place = _place(values, first)
        return [*values[:place], changed(values[place], rest, value), *values[place + 1 :]]
    raise SpecError(f"there is nothing below {shown(str(values))} that {shown(first)} could name")


def value_at(values: Any, parts: tuple[str, ...]) -> Any:
    """The value at a path; None where there is none."""
    for part in parts:
        if isinstance(values, Mapping):
            values = values.get(part)
        elif isinstance(values, list):
            values = values[_place(values, part)]
        else:
            return None
    return values


def multiplied(value: Any, scale: float) -> Any:
    """A count or a duration, as one writes it, times a scale: at least 1 and at least 1 ms.

    Raises:
        SpecError: it is neither.
    """
    if scale == 1:
        return value
    with suppress(SpecError):
        return max(1, round(quantity.count(str(value)) * scale))
    with suppress(SpecError):
        return f"{max(10**6, round(quantity.duration_ns(str(value)) * scale))}ns"
    raise SpecError(f"{shown(str(value))} is neither a count nor a duration, so it has no scale")


def _place(values: list[Any], part: str) -> int:
    names = [str(one.get("name", number)) if isinstance(one, Mapping) else str(number)
             for number, one in enumerate(values)]  # fmt: skip
    if part in names:
        return names.index(part)
    if re.fullmatch(r"[0-9]{1,9}", part) and int(part) < len(values):
        return int(part)
    raise SpecError(f"there is no {shown(part)}{did_you_mean(part, names)}")
