"""Executes the runs that a design requests, one after the other, each noted in the journal.

A design decides which run is next, by the outcomes of earlier runs. When it is resumed it requests
the same runs again, and gets stored outcomes of those that were measured. So its decisions depend
on outcomes and a seed only.

Runs of an earlier pass are found in the journal and not measured again. A run that fails or is
interrupted is an outcome for the design; only records that can't be written end an experiment here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

import kvmark
from kvmark import _engine, interrupts
from kvmark.errors import Interrupted, KvmarkError, RunError
from kvmark.experiment.journal import Attempt, Journal
from kvmark.experiment.judging import Usability, usability
from kvmark.plan.model import Plan
from kvmark.records import Manifest, Records, RunFolder
from kvmark.run.context import RunContext
from kvmark.run.execution import ExecutedRun, Progress, execute
from kvmark.secret import Secret
from kvmark.spec.faults import FaultSpec
from kvmark.spec.run import RunSpec

RunKey = tuple[str, int, int]
"""A case by its title, a repetition, and how many times its length was doubled."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can be executed."""

    plan: Plan
    #: The request, for its manifest.
    spec: Mapping[str, Any]
    faults: tuple[FaultSpec, ...] = ()
    password: Secret | None = None


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


class Audience(Protocol):
    """Displays the progress of an experiment."""

    def step(self, title: str, index: int, total: int, left: TimeLeft | None = None) -> None:
        """Run ``index`` of ``total``, from 1, begins."""

    def say(self, sentence: str) -> None:
        """Displays a sentence."""


class Design(Protocol):
    """Decides which run is next."""

    #: Of the design, as stored.
    kind: ClassVar[str]
    #: Whether INVALID runs are repeated when the experiment is resumed.
    redoes_invalid: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name by which an experiment is found to be resumed: equal for equal definitions."""
        versions = [kvmark.__version__, _engine.version]
        text = json.dumps([versions, self.definition()], sort_keys=True, default=str)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def definition(self) -> Mapping[str, Any]:
        """The request as plain values; equal requests have equal values."""

    def typical_plan(self) -> Plan:
        """The plan of a typical run, for calibration."""

    def other_plans(self) -> Mapping[str, Plan]:
        """Plans of cases with another engine overhead, by the cases' titles."""
        return {}

    def execute(self, runs: Executor) -> None:
        """Requests one run after the other until there is an answer.

        Raises:
            KvmarkError: a run that the answer needs didn't come to its end.
        """


BestAttempts = Mapping[tuple[str, int], tuple[Attempt, Usability]]
"""The attempt that represents a repetition of a case, by both, with its worth."""


def best_attempts(journal: Journal) -> BestAttempts:
    """The newest attempt that needn't be repeated, or the newest."""
    best: dict[tuple[str, int], tuple[Attempt, Usability]] = {}
    again = Usability.AGAIN
    for attempt in journal.attempts():
        place = (attempt.case, attempt.repetition)
        worth = again if attempt.run is None else usability(journal.records, attempt.run)
        if worth is not again or place not in best or best[place][1] is again:
            best[place] = (attempt, worth)
    return best


def ended_runs(journal: Journal, *, redoes_invalid: bool) -> Mapping[RunKey, Attempt]:
    """The attempts that needn't be repeated.

    Where INVALID runs are repeated, a run that ended just before its journal line is found by its
    folder; other designs need the line.
    """
    whole = {_key(one): one for one in journal.attempts() if one.is_whole}
    if redoes_invalid:
        best = best_attempts(journal).items()
        usable = {place: one for place, (one, worth) in best if worth is not Usability.AGAIN}
        # Shorter runs count too: they show that a longer one followed.
        shorter = {
            key: one
            for key, one in whole.items()
            if (longest := usable.get(key[:2])) and one.lengthened < longest.lengthened
        }
        return shorter | {_key(one): one for one in usable.values()}
    root = journal.records.root
    gone = {key for key, one in whole.items() if not (root / str(one.run)).is_dir()}
    # A block without one of its runs is measured again as a whole.
    ended = journal.ended_blocks() - {whole[key].block for key in gone}
    return {
        key: one
        for key, one in whole.items()
        if key not in gone and (one.block is None or one.block in ended)
    }


def _key(attempt: Attempt) -> RunKey:
    return attempt.case, attempt.repetition, attempt.lengthened


@dataclass
class Executor:
    """Executes the runs of an experiment."""

    journal: Journal
    #: Called before the first run is executed.
    begin: Callable[[], RunContext]
    audience: Audience
    progress: Progress
    known: Mapping[RunKey, Attempt] = field(default_factory=dict)
    _block: str | None = None

    @property
    def id(self) -> str:
        """The experiment's id."""
        return self.journal.id

    @property
    def records(self) -> Records:
        """The records of its runs."""
        return self.journal.records

    def say(self, sentence: str) -> None:
        """Displays a sentence."""
        self.audience.say(sentence)

    def run(self, request: RunRequest) -> RunOutcome:
        """Executes one run, or finds it in an earlier pass.

        Raises:
            RunError: records can't be written.
            Interrupted: the user asked to stop.
        """
        if request.block != self._block:
            self.end()
            self._block = request.block
        known = self.known.get((request.case, request.repetition, request.lengthened))
        if known is not None:
            return RunOutcome(run=known.run, took_s=known.took_s or 0.0, kept=known.kept or {})
        if request.block in self._known_blocks:
            raise RunError(
                f"{request.title} isn't among the runs of {self.id}, whose block is complete:"
                " begin again without --resume"
            )
        _check_interrupts()
        setting = self._setting
        self.audience.step(request.title, request.number, request.total, request.left)
        begun_s = time.monotonic()
        outcome = self._outcome(request, setting)
        outcome = replace(outcome, took_s=time.monotonic() - begun_s)
        failure = None if outcome.failure is None else str(outcome.failure)
        self.journal.append(
            Attempt(
                request.case, request.repetition, outcome.run, failure, outcome.took_s,
                outcome.kept or None, request.lengthened, request.block,
            )
        )  # fmt: skip
        return outcome

    def try_out(self, prepared: PreparedRun, limit: TimeLimit | None) -> Manifest:
        """Executes a run of which nothing is stored.

        Raises:
            KvmarkError: it didn't come to its end.
        """
        _check_interrupts()
        with TemporaryDirectory(prefix=".tried-", dir=self.records.root) as folder:
            setting = replace(
                self._setting, records=Records(Path(folder)), exporter=None, recording=None
            )
            carried, failure = _execute(prepared, setting, lambda *_: None, limit)
            if failure is not None:
                raise failure
            return carried.manifest

    def end(self) -> None:
        """Notes the end of the present block."""
        if self._block is not None and self._block not in self._known_blocks:
            self.journal.end_block(self._block)
        self._block = None

    @property
    def has_measured(self) -> bool:
        """Whether a run was executed in this pass."""
        return "_setting" in vars(self)

    @cached_property
    def _setting(self) -> RunContext:
        return self.begin()

    @cached_property
    def _known_blocks(self) -> frozenset[str]:
        """Complete blocks of earlier passes."""
        return frozenset(one.block for one in self.known.values() if one.block is not None)

    def _outcome(self, request: RunRequest, setting: RunContext) -> RunOutcome:
        limit = request.limit

        def progress(folder: RunFolder, state: Mapping[str, Any]) -> None:
            self.progress(folder, state)
            if limit is not None:
                limit.watch(state)
            if request.watch is not None:
                request.watch(folder, state)

        try:
            prepared = request.make()
            own = replace(
                setting,
                host={**setting.host, **setting.overheads.get(request.case, {})},
                tags=(*request.tags, *setting.tags),
                commit=request.commit or setting.commit,
            )
            carried, failure = _execute(prepared, own, progress, limit)
        except (Interrupted, RunError):
            raise
        except KvmarkError as problem:
            return RunOutcome(run=None, failure=problem)
        kept = {} if request.keep is None or failure is not None else request.keep(carried)
        return RunOutcome(run=carried.folder.id, failure=failure, carried=carried, kept=kept)


def _check_interrupts() -> None:
    """Raises Interrupted once the user asked to stop, however the last run ended."""
    if interrupts.requested():
        raise Interrupted("interrupted between two runs")


def _execute(
    prepared: PreparedRun, setting: RunContext, progress: Progress, limit: TimeLimit | None
) -> tuple[ExecutedRun, KvmarkError | None]:
    """The run, and the reason for its early end: the limit's where that ended it."""
    try:
        carried = execute(
            prepared.plan, prepared.spec, setting, progress, prepared.faults,
            may_go_on=None if limit is None else limit.may_go_on, password=prepared.password,
        )  # fmt: skip
    except Interrupted as interrupted:
        # The system wasn't open.
        reason = limit.failure() if limit is not None and limit.is_over else None
        raise reason or interrupted from None
    if limit is not None and limit.is_over and isinstance(carried.failure, Interrupted):
        return carried, limit.failure()
    return carried, carried.failure
