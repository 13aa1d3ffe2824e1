"""A study as it will be carried out: its file, what the user asked for, its ways and cases."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Final, Self

from kvmark import _engine
from kvmark.drivers import schemes
from kvmark.errors import SpecError, UsageError
from kvmark.experiment.study.cases import (
    Case,
    combinations,
    content,
    matches,
    ordered,
    parse_choice,
    place_of,
    run_spec,
)
from kvmark.experiment.study.published import PublishedCase, read_published
from kvmark.experiment.study.testbed_words import TestbedWords
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.study import DIRECT, THROUGH, Level, StudyFile, StudySpec, ThroughSpec
from kvmark.spec.study_paths import split
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url, system_name
from kvmark.spec.yaml_file import read_text
from kvmark.testbed.systems import SYSTEMS
from kvmark.trace import Trace

_Resolve = Callable[[SystemName], SystemUrl]
"""Makes a system of what a user names: a URL, or `up:NAME`."""

_PUBLISHED: Final = "published"
"""The choice of the cases that somebody published figures for."""

_UP: Final = "up:"
_NAMED: Final = re.compile(r"([a-z0-9][a-z0-9._-]*)=(?=[a-z]+:)(.+)", re.DOTALL)
_HOSTS: Final = re.compile(r"^[a-z]+://([^/?]+)")
_PLACE: Final = ("through", "published", "file")
_COLUMNS: Final = (
    "proxy", "build", "threads", "ops_per_s", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "memory_mb",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What the user said beside the file; None where the file decides."""

    system: SystemName | None = None
    scale: float | None = None
    only: tuple[str, ...] = ()
    repetitions: int | None = None
    seed: int | None = None
    through: tuple[SystemName, ...] = ()
    """Proxies to go through too: URLs or `up:NAME`, `LEVEL=` before them where that is given."""
    pin: tuple[int, ...] = ()
    """Cores for the load of every case."""

    def as_json(self) -> dict[str, Any]:
        """The words as plain values, to be kept."""
        said = {name: getattr(self, name) for name in self.__slots__}
        system = None if self.system is None else str(self.system)
        return {**said, "system": system, "through": tuple(map(str, self.through))}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Self:
        """The words as they were kept; a password among them isn't."""
        known = {name: value for name, value in kept.items() if name in cls.__slots__}
        lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        through = tuple(map(SystemName, kept.get("through") or ()))
        system = system_name(kept.get("system"))
        return cls(**{**known, **lists, "system": system, "through": through})


@dataclass(frozen=True)
class Study:
    """A study with its cases. Making one of these reads nothing but the study's own files."""

    file: StudyFile
    asked: StudyRequest
    resolve: _Resolve

    def __post_init__(self) -> None:
        """Checks what the spec leaves to those who know: the words of the study's own testbed."""
        if self.file.spec.testbed is not None:
            self.file.document.check(TestbedWords, "testbed")

    @cached_property
    def spec(self) -> StudySpec:
        """The file, with the ways to the system that the user named."""
        return _with_proxies(self.file.spec, self.asked.through)

    @property
    def name(self) -> str:
        """The study's name."""
        return self.spec.name

    @property
    def repetitions(self) -> int:
        """How often each case is run."""
        return self.asked.repetitions or self.spec.repetitions

    @property
    def seed(self) -> int:
        """Fixes the order and every run's own seeds."""
        return self.spec.seed if self.asked.seed is None else self.asked.seed

    @property
    def scale(self) -> float:
        """What the counts and durations that the file names are multiplied by."""
        if self.asked.scale is not None:
            return self.asked.scale
        return self._own_scale

    @property
    def _own_scale(self) -> float:
        """The scale when the user says none."""
        return 1.0 if self.spec.scale is None else self.spec.scale.default

    @property
    def server_warmup_ns(self) -> int | None:
        """How long servers are loaded at most before the first case on them.

        A study that is asked to be smaller than its file has it is a try, and as much smaller here.
        """
        longest_ns, part = self.spec.server_warmup_ns, self.scale / self._own_scale
        return None if longest_ns is None else math.ceil(longest_ns * min(part, 1.0))

    @cached_property
    def published(self) -> tuple[PublishedCase, ...]:
        """The figures that somebody published for cases of this study."""
        return read_published(self.file)

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors that change something of the system that is measured."""
        return tuple(name for name in self.spec.levels if name not in self.without_effect)

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """Factors whose levels are all the same here: another system has been named."""
        found = []
        for name, levels in self.spec.levels.items():
            applied = [self._applied(level) for level in levels]
            if len(levels) > 1 and all(one == applied[0] for one in applied):
                found.append(name)
        return tuple(found)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The cases, in the file's order.

        Raises:
            SpecError: a choice names what there is not.
            UsageError: no case is left, or ways to the system are missing.
        """
        _check_through(self.spec, self.asked.system)
        words = [word for word in self.asked.only if word != _PUBLISHED]
        only = [parse_choice(word, self.spec.levels) for word in words]
        found = combinations(self.spec, self.factors, only)
        if _PUBLISHED in self.asked.only:
            found = tuple(case for case in found if self._is_published(case))
        if not found:
            raise UsageError(f"{self.name}: no case is left; let --only choose more of them")
        return found

    def repetitions_of(self, case: Case) -> int:
        """How often a case is run."""
        once = any(matches(case.labels, choice) for choice in self.spec.once)
        return 1 if once else self.repetitions

    def most_lengthened(self, case: Case) -> int:
        """How often the length of a case's run may be doubled."""
        content = self.content(case)
        words = self.file.document.check_part(dict(content["run"] or {}), RunWords)
        spec = run_spec(self, case, self._stand_in(case), 0)
        # A trace ends where it ends. A fault at a time would be another part of a longer run, and
        # servers that are killed are warmed up for each.
        longer = words.can_be_longer and spec.replay is None and not spec.faults
        return self.spec.lengthen if longer else 0

    def runs(self) -> Iterator[tuple[int, Case]]:
        """Every run in its order, as a repetition from 0 and its case."""
        shuffled = self.spec.order == "random"
        together = {case.title: self._together(case) for case in self.cases}
        every = ordered(
            self.cases, self.repetitions, self.seed, lambda case: together[case.title],
            shuffled=shuffled,
        )  # fmt: skip
        return (one for one in every if one[0] < self.repetitions_of(one[1]))

    def testbed(self, case: Case) -> TestbedWords | None:
        """The servers that the study starts for a case; None where it measures others."""
        content = self.content(case)
        if self.asked.system is not None or content.get("testbed") is None:
            return None
        place = place_of(case, "testbed")
        return self.file.document.check_part(content["testbed"], TestbedWords, *place)

    def system_name(self, case: Case) -> SystemName:
        """The system of a case as it was named, or the proxy before it; for a testbed, its kind."""
        way = case.levels.get(THROUGH)
        if way is not None and THROUGH in way.changes:
            named: SystemName = way.changes[THROUGH]
            return named
        if self.asked.system is not None:
            return self.asked.system
        testbed = self.testbed(case)
        found = testbed.system if testbed else self.content(case)["system"]
        return found if isinstance(found, SystemName) else SystemName(str(found))

    def content(self, case: Case) -> dict[str, Any]:
        """The file's values with a case's levels, as far as they apply."""
        return content(self.file, case, self._applies, self.scale)

    def check(self) -> None:
        """Checks every case before the first one begins.

        Raises:
            KvmarkError: a case can't be carried out.
        """
        for case in self.cases:
            if THROUGH in case.levels:
                self._check_way(case)
            _engine.check_plan(self.plan(case).to_json())

    def cases_beside(self, case: Case) -> tuple[Case, ...]:
        """The cases that are measured on the same servers, itself too."""
        same = (self._together(case), self.system_name(case))
        return tuple(
            one for one in self.cases if (self._together(one), self.system_name(one)) == same
        )

    def plan(self, case: Case) -> Plan:
        """The plan of a case's first run, on a system that needn't be there."""
        return compile_run(run_spec(self, case, self._stand_in(case), 0))

    def request_title(self, case: Case, repetition: int) -> str:
        """One of its runs in words."""
        several = self.repetitions_of(case) > 1
        return f"{case.title}, repetition {repetition + 1}" if several else case.title

    def digest(self) -> str:
        """Changes when any run of the study would; more repetitions change none of them."""
        parts: list[object] = [self.file.text, self.seed]
        for case in self.cases:
            system = self._stand_in(case)
            asked = run_spec(self, case, system, 0)
            named = {**asked.as_json(), "system": str(self.system_name(case))}
            testbed = self.testbed(case)
            words = None if testbed is None else testbed.model_dump(mode="json")
            parts.append([case.title, named, dict(system.options), words])
            if asked.replay is not None:
                parts.append(Trace.open(asked.replay.trace).digest)
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _check_way(self, case: Case) -> None:
        """Makes sure that a way leads to the kind of system that is measured."""
        way, driver = self._stand_in(case), self._driver
        if driver is not None and way.driver != driver:
            label = case.levels[THROUGH].label
            raise UsageError(
                f"through: {label} takes {way.driver} operations and the system {driver} ones; name"
                " a proxy before the very system that is measured"
            )

    def _stand_in(self, case: Case) -> SystemUrl:
        """The system of a case; one that is nowhere for a testbed, which isn't there yet."""
        testbed = self.testbed(case)
        if testbed is not None:
            driver = SYSTEMS[testbed.system].driver
            usual = next(one for one in schemes().values() if one.driver.name == driver)
            return parse_system_url(f"{usual.beginning}127.0.0.1:{usual.driver.port}")
        return self.resolve(self.system_name(case))

    def _together(self, case: Case) -> str:
        testbed = self.testbed(case)
        return "" if testbed is None else testbed.model_dump_json()

    def _applied(self, level: Level) -> dict[str, Any]:
        return {path: value for path, value in level.changes.items() if self._applies(path)}

    def _applies(self, path: str) -> bool:
        """Whether a path means something for the system that is measured."""
        parts = split(path)
        own = self.asked.system is None
        match parts[0]:
            case "system" | "testbed":
                return own
            case "options":
                return self._driver is None or parts[1:2] == (self._driver,)
        if parts == ("run", "faults"):
            return (own and self.spec.testbed is not None) or self._is_up
        return True

    @cached_property
    def _driver(self) -> str | None:
        """The driver of all cases; None where that is a factor itself."""
        name = self.asked.system or self.spec.system
        if name is not None:
            return self.resolve(name).driver
        return None if self.spec.testbed is None else SYSTEMS[self.spec.testbed["system"]].driver

    @property
    def _is_up(self) -> bool:
        return str(self.asked.system or self.spec.system or "").startswith(_UP)

    def _is_published(self, case: Case) -> bool:
        return any(_matches_published(case.labels, one) for one in self.published)


def _matches_published(labels: Mapping[str, str], published: PublishedCase) -> bool:
    """Whether figures were published for a case: all factors that they name are the case's."""
    return all(labels.get(name) == label for name, label in published.levels.items())


def published_for(
    labels: Mapping[str, str], published: Sequence[PublishedCase]
) -> PublishedCase | None:
    """The figures published for a case, where there are some."""
    return next((one for one in published if _matches_published(labels, one)), None)


def named_proxies(names: Sequence[SystemName]) -> Mapping[str, SystemName]:
    """Reads `URL`, `up:NAME` or `LEVEL=URL`, as they stand on a command line, by their level.

    Without a name a level is called as the testbed is, or by the proxy's host and port.

    Raises:
        SpecError: two have the same name, or one has that of the straight way.
    """
    found: dict[str, SystemName] = {}
    for one in names:
        named = _NAMED.fullmatch(one.reveal())
        url = SystemName(named[2]) if named else one
        name = named[1] if named else _name_of(str(one))
        if name in found or name == DIRECT:
            raise SpecError(
                f"through: two ways are called {shown(name)}; give one another name, as in"
                f" other={shown(str(url))}"
            )
        found[name] = url
    return found


def _with_proxies(spec: StudySpec, names: Sequence[SystemName]) -> StudySpec:
    """The study with these proxies in place of those that its file names."""
    if not names:
        return spec
    through = spec.through or ThroughSpec()
    proxies = {"proxies": named_proxies(names)}
    return spec.model_copy(update={"through": through.model_copy(update=proxies)})


def _check_through(spec: StudySpec, system: SystemName | None) -> None:
    """Makes sure that ways are named, and lead to a system that is there.

    Raises:
        UsageError: they aren't, or don't.
    """
    if spec.through is None:
        return
    if not spec.through.proxies:
        raise UsageError(
            f"study {spec.name} compares ways to a system: name a proxy before it with --through,"
            " such as up:haproxy for one that kvmark up proxy started"
        )
    if system is None and spec.testbed is not None:
        raise UsageError(
            f"study {spec.name} starts its own servers, before which no proxy can stand yet: name"
            " the system behind the proxy with --system"
        )


def read_published_ways(file: StudyFile) -> tuple[Mapping[str, str], ...]:
    """The rows of what was published of ways through proxies, the straight way first.

    Raises:
        SpecError: there is no such file, or a column or the straight way is missing.
    """
    asked = file.spec.through.published if file.spec.through else None
    if asked is None:
        return ()
    reader = csv.DictReader(_text(file, asked.file).splitlines())
    rows = sorted(reader, key=lambda row: bool(row.get("proxy")))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing or not rows or rows[0]["proxy"]:
        what = f"column '{missing[0]}'" if missing else "row without a proxy"
        raise file.document.problem(f"{asked.file} has no {what}", *_PLACE)
    return tuple(rows)


def _text(file: StudyFile, name: str) -> str:
    if file.folder is not None and (file.folder / name).exists():
        return read_text(file.folder / name)
    try:
        return resources.files("kvmark").joinpath("published", name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        sentence = f"there is no file {name} beside the study or among kvmark's own"
        raise file.document.problem(sentence, *_PLACE) from None


def _name_of(text: str) -> str:
    if text.startswith(_UP):
        return text.removeprefix(_UP).partition("?")[0] or "proxy"
    hosts = _HOSTS.match(text)
    return hosts[1] if hosts else text
