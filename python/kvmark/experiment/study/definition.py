"""A study: its file, the user's request, its ways and cases."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final, Self
from urllib.parse import quote

from kvmark import _engine
from kvmark.drivers import schemes
from kvmark.errors import SpecError, UsageError
from kvmark.experiment.study.cases import Case, TestbedWords, matches, parse_choice
from kvmark.experiment.study.published import PublishedCase, read_published
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.study import (
    DIRECT,
    THROUGH,
    Choice,
    Level,
    StudyFile,
    StudySpec,
    ThroughSpec,
    split,
    word,
)
from kvmark.spec.study_words import RunWords
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, SystemUrl, check_options, parse_system_url, system_name
from kvmark.testbed.system import SYSTEMS
from kvmark.trace.folder import Trace

_Resolve = Callable[[SystemName], SystemUrl]
"""The system of a URL or of `up:NAME`."""

_PUBLISHED: Final = "published"
"""Selects the cases with published figures."""

_SEEDS_APART: Final = 1_000_003
_UP: Final = "up:"
_FAULTS: Final = ("run", "faults")
_NAMED: Final = re.compile(r"([a-z0-9][a-z0-9._-]*)=(?=[a-z]+:)(.+)", re.DOTALL)
_HOSTS: Final = re.compile(r"^[a-z]+://([^/?]+)")


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """The user's options; None where the file decides."""

    system: SystemName | None = None
    scale: float | None = None
    only: tuple[str, ...] = ()
    repetitions: int | None = None
    seed: int | None = None
    through: tuple[SystemName, ...] = ()
    """Further proxies: URLs or `up:NAME`, behind `LEVEL=` where that is given."""
    pin: tuple[int, ...] = ()
    """Cores for the workers of every case."""

    def as_json(self) -> dict[str, Any]:
        """The request as plain values, without passwords."""
        values = {name: getattr(self, name) for name in self.__slots__}
        system = None if self.system is None else str(self.system)
        return {**values, "system": system, "through": tuple(map(str, self.through))}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Self:
        """The stored request."""
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.items()
            if name in cls.__slots__
        }
        through = tuple(map(SystemName, stored.get("through") or ()))
        return cls(**{**values, "system": system_name(stored.get("system")), "through": through})


@dataclass(frozen=True)
class Study:
    """A study with its cases. Construction reads only the study's own files."""

    file: StudyFile
    asked: StudyRequest
    resolve: _Resolve

    def __post_init__(self) -> None:
        """Checks the options of the study's own testbed."""
        if self.file.spec.testbed is not None:
            self.file.document.check(TestbedWords, "testbed")

    @cached_property
    def spec(self) -> StudySpec:
        """The file, with the user's proxies instead of its own."""
        spec = self.file.spec
        if not self.asked.through:
            return spec
        proxies = {"proxies": named_proxies(self.asked.through)}
        through = (spec.through or ThroughSpec()).model_copy(update=proxies)
        return spec.model_copy(update={"through": through})

    @property
    def name(self) -> str:
        """The study's name."""
        return self.spec.name

    @property
    def repetitions(self) -> int:
        """Repetitions of each case."""
        return self.asked.repetitions or self.spec.repetitions

    @property
    def seed(self) -> int:
        """The seed of the order and of every run."""
        return self.spec.seed if self.asked.seed is None else self.asked.seed

    @property
    def scale(self) -> float:
        """The factor for the counts and durations that the file scales."""
        return self._default_scale if self.asked.scale is None else self.asked.scale

    @property
    def _default_scale(self) -> float:
        return 1.0 if self.spec.scale is None else self.spec.scale.default

    @property
    def server_warmup_ns(self) -> int | None:
        """Longest warm-up of servers before their first case.

        It is scaled down with a study that is smaller than by default.
        """
        longest_ns, part = self.spec.server_warmup_ns, self.scale / self._default_scale
        return None if longest_ns is None else math.ceil(longest_ns * min(part, 1.0))

    @cached_property
    def published(self) -> tuple[PublishedCase, ...]:
        """The published figures of this study's cases."""
        return read_published(self.file)

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors that have an effect on the measured system."""
        return tuple(name for name in self.spec.levels if name not in self.without_effect)

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """Factors whose levels are equal for the system that the user named."""

        def applied(level: Level) -> dict[str, Any]:
            # What else a level changes belongs to its faults.
            if any(split(path) == _FAULTS and not self._applies(path) for path in level.changes):
                return {}
            return {path: value for path, value in level.changes.items() if self._applies(path)}

        return tuple(
            name
            for name, levels in self.spec.levels.items()
            if len(levels) > 1 and all(applied(one) == applied(levels[0]) for one in levels)
        )

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The cases, in the file's order.

        Raises:
            SpecError: a choice names an unknown factor or level.
            UsageError: no case is left, or ways to the system are missing.
        """
        spec = self.spec
        if spec.through is not None and not spec.through.proxies:
            raise UsageError(
                f"study {spec.name} compares ways to a system: name a proxy before it with"
                " --through, such as up:haproxy for one that kvmark up proxy started"
            )
        if spec.through is not None and self.asked.system is None and spec.testbed is not None:
            raise UsageError(
                f"study {spec.name} starts its own servers, before which no proxy can stand yet:"
                " name the system behind the proxy with --system"
            )
        words = [word for word in self.asked.only if word != _PUBLISHED]
        only = [parse_choice(word, spec.levels) for word in words]
        levels = [spec.levels[name] for name in self.factors]
        every = (
            Case(self.file, dict(zip(self.factors, one, strict=True))) for one in product(*levels)
        )
        cases = tuple(case for case in every if self._is_chosen(case.labels, only))
        if not cases:
            raise UsageError(f"{self.name}: no case is left; let --only choose more of them")
        return cases

    def _is_chosen(self, labels: Mapping[str, str], only: Sequence[Choice]) -> bool:
        """Whether a combination is a case; rules about factors without effect have none."""
        spec = self.spec
        rules = (rule for rule in spec.exclude if rule.keys() <= set(self.factors))
        return (
            (not spec.include or any(matches(labels, wanted) for wanted in spec.include))
            and not any(matches(labels, rule) for rule in rules)
            and all(matches(labels, choice) for choice in only)
            and (_PUBLISHED not in self.asked.only or bool(published_for(labels, self.published)))
        )

    def repetitions_of(self, case: Case) -> int:
        """Repetitions of a case."""
        once = any(matches(case.labels, choice) for choice in self.spec.once)
        return 1 if once else self.repetitions

    def most_lengthened(self, case: Case) -> int:
        """How many times the length of a case's run may be doubled."""
        words = self.file.document.check_part(dict(self.content(case)["run"] or {}), RunWords)
        spec = self.run_spec(case, self._stand_in(case), 0)
        # A trace has its length. A fault would affect another part of a longer run, and servers
        # that are killed are warmed up for each run.
        longer = words.can_be_longer and spec.replay is None and not spec.faults
        return self.spec.lengthen if longer else 0

    def runs(self) -> Iterator[tuple[int, Case]]:
        """All runs in their order: the repetition from 0, and the case.

        Each repetition is a block, so that drift of the machine affects all cases. Within a block,
        cases on the same servers are consecutive, because a change is expensive: it restarts a
        cluster. The order of these parts and the order within them are random in each block. With
        blocks by testbed, servers are started once, and have all their blocks.
        """
        parts: dict[str, list[Case]] = {}
        for case in self.cases:
            parts.setdefault(self._together(case), []).append(case)
        whole = [[*parts.values()]]
        by_testbed = [[part] for part in parts.values()]
        for group in by_testbed if self.spec.blocks == "testbed" else whole:
            for repetition in range(self.repetitions):
                yield from ((repetition, one) for one in self._block(group, repetition))

    def _block(self, group: Sequence[Sequence[Case]], repetition: int) -> Iterator[Case]:
        """The cases of a block in their order, of which some have fewer repetitions."""
        chance = random.Random(f"{self.seed} {repetition}")  # noqa: S311 - no secret
        block = [[*part] for part in group]
        if self.spec.order == "random":
            chance.shuffle(block)
            for part in block:
                chance.shuffle(part)
        for case in (case for part in block for case in part):
            if repetition < self.repetitions_of(case):
                yield case

    def run_spec(
        self,
        case: Case,
        system: SystemUrl,
        repetition: int,
        load: str = "auto",
        lengthened: int = 0,
    ) -> RunSpec:
        """One run of a case on a system.

        Args:
            case: one of the cases.
            system: where the case is measured.
            repetition: which of the runs of the case, from 0.
            load: whether to load the records first, if the file has no `load`.
            lengthened: how many times its length is doubled.

        Raises:
            SpecError: the values can't be executed; with their place.
        """
        values = self.content(case)
        words = case.run_words(values["run"] or {}).lengthened(2**lengthened)
        workload, replay = case.workload_and_replay(values["workload"], system.driver, words)
        chance = random.Random(f"{self.seed} {repetition} {case.title}")  # noqa: S311 - no secret
        options = {**words.as_spec(chance), "replay": replay}
        if self.asked.pin:
            paths = [split(path)[:2] for one in case.levels.values() for path in one.changes]
            if ("run", "pin") in paths:
                sentence = "a level has its own pin, which --pin would undo; leave it out"
                raise case.problem(sentence, "run")
            options["pin"] = self.asked.pin
        if workload.is_loaded_first:
            options.setdefault("load", load)
        # Cases of one block share their seeds, so that chance makes no difference between them.
        options["seed"] = self.seed * _SEEDS_APART + repetition
        options["faults"] = (*workload.faults, *options["faults"])
        system = _with_options(system, (values["options"] or {}).get(system.driver, {}))
        try:
            return RunSpec(workload=workload, system=system, **options)
        except SpecError as problem:
            raise case.problem(problem.message, "run") from None

    def testbed(self, case: Case) -> TestbedWords | None:
        """The study's own servers for a case; None where it measures others."""
        content = self.content(case)
        if self.asked.system is not None or content.get("testbed") is None:
            return None
        place = case.place("testbed")
        return self.file.document.check_part(content["testbed"], TestbedWords, *place)

    def system_name(self, case: Case) -> SystemName:
        """The name of a case's system, or of the proxy before it; the kind of a testbed."""
        way = case.levels.get(THROUGH)
        if way is not None and THROUGH in way.changes:
            proxy: SystemName = way.changes[THROUGH]
            return proxy
        if self.asked.system is not None:
            return self.asked.system
        testbed = self.testbed(case)
        system = testbed.system if testbed else self.content(case)["system"]
        return system if isinstance(system, SystemName) else SystemName(str(system))

    def content(self, case: Case) -> dict[str, Any]:
        """The file's values with the levels of a case that apply."""
        return case.content(self._applies, self.scale)

    def check(self) -> None:
        """Checks every case before the first one begins.

        Raises:
            KvmarkError: a case can't be executed.
        """
        for case in self.cases:
            way = self._stand_in(case).driver
            if THROUGH in case.levels and self._driver not in (None, way):
                raise UsageError(
                    f"through: {case.levels[THROUGH].label} takes {way} operations and the system"
                    f" {self._driver} ones; name a proxy before the very system that is measured"
                )
            _engine.check_plan(self.plan(case).to_json())

    def cases_beside(self, case: Case) -> tuple[Case, ...]:
        """The cases on the same servers, this case included."""
        same = (self._together(case), self.system_name(case))
        return tuple(
            one for one in self.cases if (self._together(one), self.system_name(one)) == same
        )

    def plan(self, case: Case) -> Plan:
        """The plan of a case's first run, on a system that needn't exist."""
        return compile_run(self.run_spec(case, self._stand_in(case), 0))

    def digest(self) -> str:
        """A hash of all runs, independent of the number of repetitions."""
        parts: list[object] = [self.file.text, self.seed]
        for case in self.cases:
            system = self._stand_in(case)
            spec = self.run_spec(case, system, 0)
            named = {**spec.as_json(), "system": str(self.system_name(case))}
            testbed = self.testbed(case)
            servers = None if testbed is None else testbed.model_dump(mode="json")
            parts.append([case.title, named, dict(system.options), servers])
            if spec.replay is not None:
                parts.append(Trace.open(spec.replay.trace).digest)
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _stand_in(self, case: Case) -> SystemUrl:
        """The system of a case; a placeholder for a testbed that isn't started."""
        testbed = self.testbed(case)
        if testbed is not None:
            driver = SYSTEMS[testbed.system].driver
            usual = next(one for one in schemes().values() if one.driver.name == driver)
            return parse_system_url(f"{usual.beginning}127.0.0.1:{usual.driver.port}")
        return self.resolve(self.system_name(case))

    def _together(self, case: Case) -> str:
        testbed = self.testbed(case)
        return "" if testbed is None else testbed.model_dump_json()

    def _applies(self, path: str) -> bool:
        """Whether a path has a meaning for the measured system."""
        parts = split(path)
        own = self.asked.system is None
        match parts[0]:
            case "system" | "testbed":
                return own
            case "options":
                return self._driver is None or parts[1:2] == (self._driver,)
        if parts == _FAULTS:
            name = str(self.asked.system or self.spec.system or "")
            return (own and self.spec.testbed is not None) or name.startswith(_UP)
        return True

    @cached_property
    def _driver(self) -> str | None:
        """The driver of all cases; None where that is a factor itself."""
        name = self.asked.system or self.spec.system
        if name is not None:
            return self.resolve(name).driver
        return None if self.spec.testbed is None else SYSTEMS[self.spec.testbed["system"]].driver


def published_for(
    labels: Mapping[str, str], published: Sequence[PublishedCase]
) -> PublishedCase | None:
    """The published figures of a case: all factors that they name have the case's levels."""
    return next((one for one in published if one.levels.items() <= labels.items()), None)


def named_proxies(names: Sequence[SystemName]) -> Mapping[str, SystemName]:
    """The proxies of `URL`, `up:NAME` or `LEVEL=URL` by level.

    By default a level has the name of the testbed, or the proxy's host and port.

    Raises:
        SpecError: two levels have the same name, or one has that of the direct way.
    """
    proxies: dict[str, SystemName] = {}
    for one in names:
        named = _NAMED.fullmatch(one.reveal())
        url = SystemName(named[2]) if named else one
        name = named[1] if named else _name_of(str(one))
        if name in proxies or name == DIRECT:
            raise SpecError(
                f"through: two ways are called {shown(name)}; give one another name, as in"
                f" other={shown(str(url))}"
            )
        proxies[name] = url
    return proxies


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


def _name_of(text: str) -> str:
    if text.startswith(_UP):
        return text.removeprefix(_UP).partition("?")[0] or "proxy"
    hosts = _HOSTS.match(text)
    return hosts[1] if hosts else text
