"""The runs that the design of an experiment requests, and their outcomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import kvmark
from kvmark import _engine
from kvmark.errors import KvmarkError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.run.execution import ExecutedRun
from kvmark.secret import Secret
from kvmark.spec.faults import FaultSpec
from kvmark.spec.run import RunSpec
from kvmark.testbed.observe import NodeExporter


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can be executed."""

    plan: Plan
    #: The request, for its manifest.
    spec: Mapping[str, Any]
    faults: tuple[FaultSpec, ...] = ()
    password: Secret | None = None
    exporters: tuple[NodeExporter, ...] = ()


def prepare_run(spec: RunSpec, plan: Plan, own: Mapping[str, Any]) -> PreparedRun:
    """A run of a spec, with the experiment's part of its manifest."""
    return PreparedRun(plan, {**spec.as_json(), **own}, tuple(spec.faults), spec.system.password)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time left when a run begins, the run included."""

    seconds: float
    #: Whether it is an upper bound.
    at_most: bool


class TimeLimit(Protocol):
    """Ends a run that takes too long."""

    @property
    def is_over(self) -> bool:
        """Whether it ended the run."""

    def watch(self, progress: Mapping[str, Any]) -> None:
        """Takes the engine's progress."""

    def may_go_on(self) -> bool:
        """Whether there is time left; asked only while the engine works."""

    def failure(self) -> KvmarkError | None:
        """The failure of a run that it ended; None where the run is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A requested run: the same case, repetition and length is the same run."""

    case: str
    repetition: int = 0
    #: How many times its length was doubled for insufficient data.
    lengthened: int = 0
    #: As displayed; its place from 1, and the expected number of runs.
    title: str
    number: int
    total: int
    left: TimeLeft | None = None
    #: Prepares the run at its turn: starts servers, removes records.
    make: Callable[[], PreparedRun]
    #: An incomplete block is measured again as a whole. None: the run is a block by itself.
    block: str | None = None
    tags: tuple[str, ...] = ()
    commit: str | None = None
    limit: TimeLimit | None = None
    #: What the design needs of the run, as plain values, also when it is resumed.
    keep: Callable[[ExecutedRun], Mapping[str, Any]] | None = None
    watch: Callable[[RunFolder, Mapping[str, Any]], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run, of now or of an earlier pass."""

    #: The run's id; None where it couldn't begin.
    run: str | None
    #: The reason for its early end; runs of earlier passes have none.
    failure: KvmarkError | None = None
    took_s: float = 0.0
    kept: Mapping[str, Any] = field(default_factory=dict)
    #: None for a run of an earlier pass.
    carried: ExecutedRun | None = None

    def id_or_raise(self) -> str:
        """The run's id.

        Raises:
            KvmarkError: it didn't come to its end.
        """
        if self.failure is not None or self.run is None:
            raise self.failure or KvmarkError("a run without a folder has failed")
        return self.run


def experiment_name(kind: str, definition: Mapping[str, Any]) -> str:
    """The name of an experiment, equal for equal definitions: by it the experiment is resumed."""
    versions = [kvmark.__version__, _engine.version]
    text = json.dumps([versions, definition], sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
