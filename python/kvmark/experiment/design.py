"""What a design asks of the executor, and what it is told.

A design says which run is next, by what came of those before: all cases of a study, two sides in
turn, a search for a rate, a sequence, a ladder. It asks for one run after the other, and asks for
the same again when it is gone on with: what was measured then is handed to it and not measured
anew. So whatever is decided between runs must follow from their outcomes, a seed and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import kvmark
from kvmark import _engine
from kvmark.errors import KvmarkError
from kvmark.plan.model import Plan
from kvmark.records import Manifest, Records, RunFolder
from kvmark.run.execution import ExecutedRun
from kvmark.secret import Secret
from kvmark.spec.faults import FaultSpec
from kvmark.spec.run import RunSpec
from kvmark.testbed.observe import NodeExporter


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can be carried out."""

    plan: Plan
    #: What its manifest says was asked for.
    spec: Mapping[str, Any]
    faults: tuple[FaultSpec, ...] = ()
    password: Secret | None = None
    exporters: tuple[NodeExporter, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What is known of the time left when a run begins, the run included."""

    seconds: float
    #: Whether it may also be less.
    at_most: bool


class TimeLimit(Protocol):
    """Ends a run that takes too long."""

    @property
    def is_over(self) -> bool:
        """Whether it ended the run."""

    def watch(self, progress: Mapping[str, Any]) -> None:
        """Takes the engine's progress."""

    def may_go_on(self) -> bool:
        """Whether there is time left; asked while the engine is at work and at no other time."""

    def failure(self) -> KvmarkError | None:
        """What a run is that it ended; none where that is as good as whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run that a design asks for: the same case, repetition and length is the same run."""

    case: str
    repetition: int = 0
    #: How often its length was doubled, since it said too little before.
    lengthened: int = 0
    #: As it is shown; its place from 1, and how many there will be as far as that is known.
    title: str
    number: int
    total: int
    left: TimeLeft | None = None
    #: Makes the run when its turn has come: servers are started here, and records removed.
    make: Callable[[], PreparedRun]
    #: Runs of a block say something only together: a block that didn't come to its end is measured
    #: anew. A run without one is a block of its own.
    block: str | None = None
    tags: tuple[str, ...] = ()
    commit: str | None = None
    limit: TimeLimit | None = None
    #: What the design has to know of the run, as plain values, now and when it is gone on with.
    keep: Callable[[ExecutedRun], Mapping[str, Any]] | None = None
    watch: Callable[[RunFolder, Mapping[str, Any]], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What came of a run, now or in an earlier pass."""

    #: The run's id; none where it couldn't begin.
    run: str | None
    #: Why it came to no end; none for one of an earlier pass, which is handed out only if it did.
    failure: KvmarkError | None = None
    took_s: float = 0.0
    kept: Mapping[str, Any] = field(default_factory=dict)
    #: None for a run of an earlier pass.
    carried: ExecutedRun | None = None

    def id_or_raise(self) -> str:
        """The run's id.

        Raises:
            KvmarkError: it came to no end.
        """
        if self.failure is not None or self.run is None:
            raise self.failure or KvmarkError("a run without a folder has failed")
        return self.run


class Runs(Protocol):
    """Who carries runs out for a design."""

    @property
    def id(self) -> str:
        """The experiment's id."""

    @property
    def records(self) -> Records:
        """Where its runs are kept."""

    def run(self, request: RunRequest) -> RunOutcome:
        """Carries out one run, or finds it where it was in an earlier pass.

        Raises:
            RunError: records can't be written.
        """

    def try_out(self, made: PreparedRun, limit: TimeLimit | None) -> Manifest:
        """Carries out a run that isn't one of the experiment's, and of which nothing is kept.

        Raises:
            KvmarkError: it came to no end.
        """

    def say(self, sentence: str) -> None:
        """Something worth knowing while the work goes on."""


class Design(Protocol):
    """What decides which run is next."""

    #: Of the design, as it is kept.
    kind: ClassVar[str]
    #: Whether a run that is INVALID is made again when the experiment is gone on with.
    redoes_invalid: ClassVar[bool]

    @property
    def name(self) -> str:
        """By which an experiment is found that is gone on with."""

    def definition(self) -> Mapping[str, Any]:
        """What was asked for, as plain values; the same words give the same."""

    def typical_plan(self) -> Plan:
        """The plan of a usual run: for calibration."""

    def other_plans(self) -> Mapping[str, Plan]:
        """Plans of cases that the engine may have another cost with, by the cases' titles."""

    def execute(self, runs: Runs) -> None:
        """Asks for one run after the other until there is an answer.

        Raises:
            KvmarkError: a run without which there is none came to no end.
        """


def experiment_name(kind: str, definition: Mapping[str, Any]) -> str:
    """A name that is the same for the same words: by it an experiment is found again."""
    versions = [kvmark.__version__, _engine.version]
    text = json.dumps([versions, definition], sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def prepare_run(spec: RunSpec, plan: Plan, own: Mapping[str, Any]) -> PreparedRun:
    """A run as its spec says, with what its experiment keeps of its place."""
    return PreparedRun(plan, {**spec.as_json(), **own}, tuple(spec.faults), spec.system.password)
