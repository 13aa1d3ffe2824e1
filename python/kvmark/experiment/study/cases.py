"""The cases of a study: combinations of levels, their order, and the run of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from kvmark import catalog, records
from kvmark.errors import SpecError
from kvmark.spec.replay import ReplaySpec, is_trace
from kvmark.spec.run import RunSpec
from kvmark.spec.study import (
    ROOTS,
    Level,
    StudyFile,
    StudySpec,
    changed,
    multiplied,
    split,
    value_at,
    word,
)
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemUrl, check_options
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import Document, read_text

if TYPE_CHECKING:
    from kvmark.experiment.study.definition import Study

_Choice = Mapping[str, Sequence[str]]
_Key = TypeVar("_Key")
_SEEDS_APART: Final = 1_000_003


@dataclass(frozen=True)
class Case:
    """One combination of levels."""

    levels: Mapping[str, Level]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each factor's level."""
        return {name: level.label for name, level in self.levels.items()}

    @cached_property
    def title(self) -> str:
        """The case's title, unique within the study."""
        return records.Case.of_levels(self.labels).title


def combinations(
    spec: StudySpec, factors: Sequence[str], only: Sequence[_Choice] = ()
) -> tuple[Case, ...]:
    """The selected combinations of these factors' levels, in the study's order.

    Rules about other factors have no effect.
    """
    levels = spec.levels
    rules = [rule for rule in spec.exclude if rule.keys() <= set(factors)]
    cases = (
        Case(dict(zip(factors, chosen, strict=True)))
        for chosen in product(*(levels[name] for name in factors))
    )
    return tuple(
        case
        for case in cases
        if (not spec.include or any(matches(case.labels, wanted) for wanted in spec.include))
        and not any(matches(case.labels, rule) for rule in rules)
        and all(matches(case.labels, choice) for choice in only)
    )


def matches(labels: Mapping[str, str], choice: _Choice) -> bool:
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


def ordered(
    cases: Sequence[Case],
    repetitions: int,
    seed: int,
    together: Callable[[Case], _Key],
    *,
    shuffled: bool,
) -> Iterator[tuple[int, Case]]:
    """All runs: the repetition from 0, and the case.

    Each repetition is a block, so that drift of the machine affects all cases. Within a block,
    cases with the same value of `together` are consecutive, because a change is expensive: it
    restarts a cluster. The order of these parts and the order within them are random in each block.
    """
    parts: dict[_Key, list[Case]] = {}
    for case in cases:
        parts.setdefault(together(case), []).append(case)
    if len(cases) == 1:
        yield from ((repetition, cases[0]) for repetition in range(repetitions))
        return
    for repetition in range(repetitions):
        chance = random.Random(f"{seed} {repetition}")  # noqa: S311 - an order, not a secret
        blocks = [list(block) for block in parts.values()]
        if shuffled:
            chance.shuffle(blocks)
        for block in blocks:
            if shuffled:
                chance.shuffle(block)
            yield from ((repetition, case) for case in block)


def content(
    file: StudyFile, case: Case, applies: Callable[[str], bool], scale: float
) -> dict[str, Any]:
    """The file's values with the changes of a case's levels, scaled, and the workload's content.

    Raises:
        SpecError: a path doesn't exist; with its place.
    """
    values: dict[str, Any] = {name: file.raw.get(name) for name in (*ROOTS, "run")}
    values |= {"system": file.spec.system, "through": None}
    # The workload is selected before its content is changed.
    for deep in (False, True):
        for level in case.levels.values():
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
            values["workload"] = _named_workload(file, case, values["workload"]).value
    return _scaled(file, values, scale)


def place_of(case: Case, root: str) -> tuple[str | int, ...]:
    """The place of the last level that changes a value below a root, or else the root."""
    places = [
        level.place
        for level in case.levels.values()
        if any(split(path)[0] == root for path in level.changes)
    ]
    return places[-1] if places else (root,)


def run_spec(
    study: Study,
    case: Case,
    system: SystemUrl,
    repetition: int,
    load: str = "auto",
    lengthened: int = 0,
) -> RunSpec:
    """One run of a case on a system.

    Args:
        study: the study.
        case: one of its cases.
        system: where the case is measured.
        repetition: which of the runs of the case, from 0.
        load: whether to load the records first, if the file has no `load`.
        lengthened: how many times its length is doubled.

    Raises:
        SpecError: the values can't be executed; with their place.
    """
    values = study.content(case)
    words = _run_words(study.file, case, values["run"] or {}).lengthened(2**lengthened)
    workload, replay = _workload_and_replay(
        study.file, case, system.driver, values["workload"], words
    )
    chance = random.Random(f"{study.seed} {repetition} {case.title}")  # noqa: S311
    options = {**words.as_spec(chance), "replay": replay}
    if study.asked.pin:
        changed = {split(path)[:2] for one in case.levels.values() for path in one.changes}
        if ("run", "pin") in changed:
            sentence = (
                f"{case.title}: a level has its own pin, which --pin would undo; leave it out"
            )
            raise study.file.document.problem(sentence, *place_of(case, "run"))
        options["pin"] = study.asked.pin
    if workload.is_loaded_first:
        options.setdefault("load", load)
    # Cases of one block share their seeds, so that chance makes no difference between them.
    options["seed"] = study.seed * _SEEDS_APART + repetition
    options["faults"] = (*workload.faults, *options["faults"])
    system = _with_options(system, (values["options"] or {}).get(system.driver, {}))
    try:
        return RunSpec(workload=workload, system=system, **options)
    except SpecError as problem:
        sentence = f"{case.title}: {problem.message}"
        raise study.file.document.problem(sentence, *place_of(case, "run")) from None


def _run_words(file: StudyFile, case: Case, run: Mapping[str, Any]) -> RunWords:
    """The options of a run; each level's own are checked first, for the place of errors."""
    for level in case.levels.values():
        split_paths = ((split(path), value) for path, value in level.changes.items())
        own = {parts[1]: value for parts, value in split_paths if parts[0] == "run"}
        file.document.check_part(own, RunWords, *level.place)
    return file.document.check_part(dict(run), RunWords, *place_of(case, "run"))


def _workload_and_replay(
    file: StudyFile, case: Case, driver: str, value: object, words: RunWords
) -> tuple[WorkloadSpec, ReplaySpec | None]:
    """A case's workload, and for a trace the options of its replay."""

    def problem(sentence: str) -> SpecError:
        return file.document.problem(f"{case.title}: {sentence}", *place_of(case, "run"))

    if not is_trace(value):
        if words.of_a_trace is not None:
            raise problem(f"{words.of_a_trace} is for a trace, X.trace")
        return _workload(file, case, value), None
    folder = file.folder or Path()
    trace = folder / str(value)
    try:
        statements = None if words.map is None else folder / words.map
        return catalog.of_trace(trace, driver, statements), words.as_replay(trace)
    except SpecError as cause:
        raise problem(cause.message) from None


def _workload(file: StudyFile, case: Case, value: object) -> WorkloadSpec:
    name = file.raw.get("workload")
    for level in case.levels.values():
        name = level.changes.get("workload", name)
    named = _named_workload(file, case, name)
    if named.value == value and named.document is not None:
        # The unchanged file, so that errors have their line.
        workload = named.document.check(WorkloadSpec)
    else:
        place = ("workloads", word(name)) if named.value == value else place_of(case, "workload")
        workload = file.document.check_part(value, WorkloadSpec, *place)
    update = {} if "name" in workload.model_fields_set else {"name": Path(word(name)).stem}
    return workload.model_copy(update=update)


class _NamedWorkload(NamedTuple):
    """A workload's content, or a trace's path; its file where it has one of its own."""

    value: Any
    document: Document | None = None


def _named_workload(file: StudyFile, case: Case, name: object) -> _NamedWorkload:
    """A workload by its name in the study's file or the catalogue, or from a file."""
    if name is None:
        raise file.document.problem(f"{case.title}: the key 'workload' is missing", "name")
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
            raise file.document.problem(problem.message, *place_of(case, "workload")) from None
    return _NamedWorkload(document.value, document)


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


def _with_options(system: SystemUrl, options: Mapping[str, Any]) -> SystemUrl:
    """The system with further options of its driver, which override those of the URL."""
    if not options:
        return system
    check_options(options, system.driver)
    texts = {name: word(value) for name, value in options.items()}
    head, _, query = system.text.partition("?")
    kept = [part for part in query.split("&") if part and part.partition("=")[0] not in texts]
    added = [f"{name}={quote(text, safe=':,/')}" for name, text in texts.items()]
    url = f"{head}?{'&'.join([*kept, *added])}"
    return SystemUrl(system.driver, {**system.options, **texts}, url, system.password)
