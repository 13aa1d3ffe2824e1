"""The systems of a study: existing ones, and testbeds that the study starts.

A study's testbed is started for its first case, serves the following cases with the same options,
and is stopped and removed with its data before another one and at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kvmark.errors import KvmarkError, SystemUnderTestError
from kvmark.experiment.study.cases import Case, TestbedWords
from kvmark.experiment.study.definition import Study
from kvmark.run.existing import DatasetClaim, OnExisting, make_room
from kvmark.spec.url import SystemUrl, parse_system_url
from kvmark.testbed import STUDY_PREFIX, testbeds_root
from kvmark.testbed.control import take_down, wait_until_healthy
from kvmark.testbed.process import bind
from kvmark.testbed.state import Testbed, all_testbeds
from kvmark.testbed.system import SYSTEMS, option_specs

_LONGEST: Final = 40


@dataclass
class Environment:
    """The systems of a study; its own testbeds are removed at the end of the context."""

    study: Study
    tell: Callable[[str], None]
    #: Action for records of a system that isn't the study's own testbed.
    on_existing: OnExisting = "refuse"
    #: Recognises the records of the study; set once it has a journal.
    claim: DatasetClaim | None = None
    _wanted: TestbedWords | None = None
    _up: Testbed | None = None
    _failed: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Removes the testbed of a killed pass."""
        self._take_down()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops and removes the study's own testbed."""
        self._take_down()

    def system(self, case: Case) -> SystemUrl:
        """The system of a case, started if it is the study's own testbed.

        Raises:
            KvmarkError: it doesn't exist or start.
        """
        wanted = self.study.testbed(case)
        if wanted is None:
            return self.study.resolve(self.study.system_name(case))
        return parse_system_url(self._testbed(wanted).url)

    def empty(self, system: SystemUrl) -> None:
        """Removes the records of a system, which must be the study's own.

        Raises:
            UsageError: it has records that the study can't prove to be its own.
        """
        # This process started the study's testbed: all its records are the study's.
        own = self._up is not None and system.text == parse_system_url(self._up.url).text
        make_room(system, "remove" if own else self.on_existing, self.claim)

    @property
    def incarnation(self) -> str:
        """Identifies one start of the servers, after which they are empty."""
        return "" if self._up is None else self._up.created

    @property
    def all_cores(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Lends the study's servers all cores; None where they have them."""
        return None if self._up is None else every_core(self._up)

    def _testbed(self, wanted: TestbedWords) -> Testbed:
        key = wanted.model_dump_json()
        if key in self._failed:
            raise SystemUnderTestError(self._failed[key])
        if self._up is not None and wanted == self._wanted and self._is_whole(self._up):
            return self._up
        self._take_down()
        self.tell(f"starting {wanted.system}")
        try:
            self._up = _started(wanted, self._name, self.tell)
        except KvmarkError as problem:
            # Other cases with the same options would fail in the same way.
            self._failed[key] = str(problem)
            raise
        self._wanted = wanted
        return self._up

    def _is_whole(self, testbed: Testbed) -> bool:
        """Whether all servers are healthy; a server after a fault may need some time."""
        try:
            self._up = Testbed.read(testbed.folder)
            if not self._up.lives:
                return False
            wait_until_healthy(self._up)
        except KvmarkError:
            return False
        return True

    def _take_down(self) -> None:
        self._up, self._wanted = None, None
        root = testbeds_root()
        if any(testbed.name == self._name for testbed in all_testbeds(root)):
            take_down(root, self._name, remove=True)

    @property
    def _name(self) -> str:
        """The testbed's name, made of the study's."""
        return re.sub(r"[^a-z0-9-]", "-", f"{STUDY_PREFIX}{self.study.name}")[:_LONGEST]


def every_core(testbed: Testbed) -> Callable[[], AbstractContextManager[None]] | None:
    """Lends a testbed's servers all cores; None where they have them."""
    usable = os.sched_getaffinity(0)
    bound = [
        (node.process, node.cores)
        for node in testbed.nodes
        if node.process and node.cores and not usable <= set(node.cores)
    ]

    @contextmanager
    def lent() -> Iterator[None]:
        """Servers on all usable cores; on their own cores afterwards.

        Raises:
            SystemUnderTestError: they can't be bound.
        """
        try:
            for process, _ in bound:
                bind(process, usable)
            yield
        finally:
            for process, cores in bound:
                bind(process, cores)

    return lent if bound else None


def _started(wanted: TestbedWords, name: str, tell: Callable[[str], None]) -> Testbed:
    system, said = SYSTEMS[wanted.system], wanted.said()
    options: dict[str, Any] = {"name": name, "settings": tuple(wanted.set.items())}
    options |= wanted.model_dump(include={"tls", "network", "cores"})
    for spec in option_specs(system.options).values():
        if spec.name in said:
            options[spec.field] = spec.parse(said[spec.name])
    return system.up(system.options(**options), testbeds_root(), tell)
