"""The cases of a study: combinations of levels, and the values of the study's file for each.

The key `testbed` has the options of `kvmark up` for the servers that the study starts. They are
written without dashes, with the defaults of that command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BeforeValidator, create_model, model_validator

from kvmark import catalog, records
from kvmark.errors import SpecError
from kvmark.spec.replay import ReplaySpec, is_trace
from kvmark.spec.study import ROOTS, Level, StudyFile, changed, multiplied, split, value_at, word
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import Count, Document, Strict, at_key, read_text
from kvmark.testbed.system import SYSTEMS, YES_OR_NO, option_specs

# Settings of servers whose value is a password.
_SECRET: Final = re.compile(r"(pass|password|auth|^user)$")


@dataclass(frozen=True)
class Case:
    """One combination of levels of a study's file."""

    file: StudyFile
    levels: Mapping[str, Level]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each factor's level."""
        return {name: level.label for name, level in self.levels.items()}

    @cached_property
    def title(self) -> str:
        """The case's title, unique within the study."""
        return records.Case.of_levels(self.labels).title

    def place(self, root: str) -> tuple[str | int, ...]:
        """The place of the last level that changes a value below a root, or else the root."""
        places = [
            level.place
            for level in self.levels.values()
            if any(split(path)[0] == root for path in level.changes)
        ]
        return places[-1] if places else (root,)

    def problem(self, sentence: str, root: str) -> SpecError:
        """An error of the case's values below a root."""
        return self.file.document.problem(f"{self.title}: {sentence}", *self.place(root))

    def content(self, applies: Callable[[str], bool], scale: float) -> dict[str, Any]:
        """The file's values with the changes of the levels, scaled, and the workload's content.

        Raises:
            SpecError: a path doesn't exist; with its place.
        """
        file = self.file
        values: dict[str, Any] = {name: file.raw.get(name) for name in (*ROOTS, "run")}
        values |= {"system": file.spec.system, "through": None}
        # The workload is selected before its content is changed.
        for deep in (False, True):
            for level in self.levels.values():
                for path, value in level.changes.items():
                    parts = split(path)
                    inside = parts[0] == "workload" and len(parts) > 1
                    if inside is deep and applies(path):
                        try:
                            values = changed(values, parts, value)
                        except SpecError as problem:
                            sentence = f"{path}: {problem.message}"
                            raise file.document.problem(sentence, *level.place) from None
            if not deep:
                values["workload"] = self._named_workload(values["workload"]).value
        return _scaled(file, values, scale)

    def run_words(self, run: Mapping[str, Any]) -> RunWords:
        """The options of a run; each level's own are checked first, for the place of errors."""
        for level in self.levels.values():
            split_paths = ((split(path), value) for path, value in level.changes.items())
            own = {parts[1]: value for parts, value in split_paths if parts[0] == "run"}
            self.file.document.check_part(own, RunWords, *level.place)
        return self.file.document.check_part(dict(run), RunWords, *self.place("run"))

    def workload_and_replay(
        self, value: object, driver: str, words: RunWords
    ) -> tuple[WorkloadSpec, ReplaySpec | None]:
        """The workload, and for a trace the options of its replay."""
        if not is_trace(value):
            if words.of_a_trace is not None:
                raise self.problem(f"{words.of_a_trace} is for a trace, X.trace", "run")
            return self._workload(value), None
        folder = self.file.folder or Path()
        trace = folder / str(value)
        try:
            statements = None if words.map is None else folder / words.map
            return catalog.of_trace(trace, driver, statements), words.as_replay(trace)
        except SpecError as cause:
            raise self.problem(cause.message, "run") from None

    def _workload(self, value: object) -> WorkloadSpec:
        file, name = self.file, self.file.raw.get("workload")
        for level in self.levels.values():
            name = level.changes.get("workload", name)
        named = self._named_workload(name)
        if named.value == value and named.document is not None:
            # The unchanged file, so that errors have their line.
            workload = named.document.check(WorkloadSpec)
        else:
            is_named = named.value == value
            place = ("workloads", word(name)) if is_named else self.place("workload")
            workload = file.document.check_part(value, WorkloadSpec, *place)
        update = {} if "name" in workload.model_fields_set else {"name": Path(word(name)).stem}
        # A file's paths begin at its folder, also if a level changes the workload.
        path = word(name) if word(name).endswith((".yaml", ".yml")) else ""
        own = workload.with_files_in((file.folder or Path()) / Path(path).parent)
        return own.model_copy(update=update)

    def _named_workload(self, name: object) -> _NamedWorkload:
        """A workload by its name in the study's file or the catalogue, or from a file."""
        file = self.file
        if name is None:
            raise file.document.problem(f"{self.title}: the key 'workload' is missing", "name")
        text = word(name)
        own = file.raw.get("workloads") or {}
        if is_trace(text):
            return _NamedWorkload(text)
        if text in own:
            return _NamedWorkload({"name": f"{file.spec.name}/{text}", **own[text]})
        if text.endswith((".yaml", ".yml")) and file.folder is not None:
            path = file.folder / text
            document = Document(read_text(path), str(path))
        else:
            try:
                document = _ready(text)
            except SpecError as problem:
                place = self.place("workload")
                raise file.document.problem(problem.message, *place) from None
        return _NamedWorkload(document.value, document)


class _NamedWorkload(NamedTuple):
    """A workload's content, or a trace's path; its file where it has one of its own."""

    value: Any
    document: Document | None = None


@cache
def _ready(name: str) -> Document:
    """A ready workload, whose file doesn't change."""
    return Document(catalog.text(name), f"{name}.yaml")


def _scaled(file: StudyFile, values: dict[str, Any], scale: float) -> dict[str, Any]:
    if file.spec.scale is None or scale == 1:
        return values
    for number, path in enumerate(file.spec.scale.of):
        parts = split(path)
        try:
            value = value_at(values, parts)
            if value is not None:
                values = changed(values, parts, multiplied(value, scale))
        except SpecError as problem:
            place = ("scale", "of", number)
            raise file.document.problem(f"{path}: {problem.message}", *place) from None
    return values


def matches(labels: Mapping[str, str], choice: Mapping[str, Sequence[str]]) -> bool:
    """Whether each named factor has one of the labels; other factors of the choice match."""
    return all(name not in labels or labels[name] in wanted for name, wanted in choice.items())


def parse_choice(text: str, levels: Mapping[str, Sequence[Level]]) -> dict[str, tuple[str, ...]]:
    """Parses `factor=level,level`.

    Raises:
        SpecError: the form is wrong, or there is no such factor or level.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise SpecError(f"only: {shown(text)} names no level; write factor=level,level")
    if name not in levels:
        raise SpecError(f"only: there is no factor {shown(name)}{did_you_mean(name, levels)}")
    known = [level.label for level in levels[name]]
    wanted = tuple(part.strip() for part in listed.split(","))
    for label in wanted:
        if label not in known:
            hint = did_you_mean(label, known)
            raise SpecError(f"only: {name} has no level {shown(label)}{hint}")
    return {name: wanted}


def _text(value: object) -> object:
    """A setting's value as the text after `--set key=`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_Text = Annotated[str, BeforeValidator(_text)]
_TYPES: Final[Mapping[Any, Any]] = {int: Count, str: _Text, YES_OR_NO: bool}


_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {
        each.name: _TYPES.get(each.type, each.type)
        for each in option_specs(system.options).values()
        if each.in_studies
    }
    for name, system in SYSTEMS.items()
    if system.driver
}
_ALL: Final[Mapping[str, Any]] = {
    name: (kind | None, None) for options in _OPTIONS.values() for name, kind in options.items()
}


class _TestbedWords(Strict):
    """Servers that the study starts and stops, with options of `kvmark up`."""

    system: str
    tls: bool = False
    network: bool = False
    cores: tuple[int, ...] = ()
    set: Mapping[str, _Text] = {}

    @model_validator(mode="after")
    def _fits_its_system(self) -> Self:
        for name in self.said():
            if name not in _OPTIONS[self.system]:
                raise at_key(name, f"{name} is no option of {self.system}; leave it out")
        return self

    @model_validator(mode="after")
    def _holds_no_secret(self) -> Self:
        secret = next((name for name in self.set if _SECRET.search(name)), None)
        if secret is not None:
            raise at_key(
                ("set", secret),
                f"{secret} is a secret, and a study is kept: start the servers with kvmark up"
                " --password-file and name them with system: up:NAME",
            )
        return self

    def said(self) -> dict[str, Any]:
        """The given options of the kind of system."""
        values = {name: getattr(self, name) for name in sorted(_ALL)}
        return {name: value for name, value in values.items() if value is not None}


if TYPE_CHECKING:
    TestbedWords = _TestbedWords
else:
    TestbedWords = create_model(
        "TestbedWords", __base__=_TestbedWords, system=(Literal[tuple(_OPTIONS)], ...), **_ALL
    )
