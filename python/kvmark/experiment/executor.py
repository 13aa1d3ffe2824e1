"""Carries out the runs that a design asks for, one after the other, each written down.

What was measured in an earlier pass is found in the journal and not measured again. A run
that fails or is interrupted is an outcome, and its design says what that means; only records that
can't be written end an experiment here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from kvmark import interrupts
from kvmark.errors import Interrupted, KvmarkError, RunError
from kvmark.experiment.design import PreparedRun, RunOutcome, RunRequest, TimeLeft, TimeLimit
from kvmark.experiment.journal import Attempt, Journal
from kvmark.experiment.judging import Usability, usability
from kvmark.records import Manifest, Records, RunFolder
from kvmark.run.context import RunContext
from kvmark.run.execution import ExecutedRun, Progress, execute

Place = tuple[str, int]
"""A case by its title, and a repetition."""

Made = tuple[str, int, int]
"""A place, and how often the run's length was doubled."""


class Audience(Protocol):
    """Whoever is told how an experiment goes."""

    def step(self, title: str, index: int, total: int, left: TimeLeft | None = None) -> None:
        """Run ``index`` of ``total``, from 1, begins."""

    def say(self, sentence: str) -> None:
        """Something worth knowing while the work goes on."""


@dataclass(frozen=True, slots=True)
class BestAttempt:
    """What there is of one run of a case."""

    attempt: Attempt
    worth: Usability


def best_attempts(journal: Journal) -> Mapping[Place, BestAttempt]:
    """The try that is each run: the newest that needn't be made again, or else the newest."""
    found: dict[Place, BestAttempt] = {}
    again = Usability.AGAIN
    for attempt in journal.attempts():
        place = (attempt.case, attempt.repetition)
        worth = again if attempt.run is None else usability(journal.records, attempt.run)
        before = found.get(place)
        if before is None or worth is not again or before.worth is again:
            found[place] = BestAttempt(attempt, worth)
    return found


def ended_runs(journal: Journal, *, redoes_invalid: bool) -> Mapping[Made, Attempt]:
    """The tries that needn't be made again: those that came to their end.

    Where an INVALID run is made again, one that was killed in the instant before its line could be
    written stands; else only a line says what a design has to know.
    """
    whole = {_made(one): one for one in journal.attempts() if one.is_whole}
    if redoes_invalid:
        stand = {
            place: best.attempt
            for place, best in best_attempts(journal).items()
            if best.worth is not Usability.AGAIN
        }
        # Those that were too short stand too, or it wouldn't be known that a longer one followed.
        shorter = {
            made: one
            for made, one in whole.items()
            if (longest := stand.get(made[:2])) and one.lengthened < longest.lengthened
        }
        return shorter | {_made(one): one for one in stand.values()}
    newest = whole
    root = journal.records.root
    gone = {place for place, one in newest.items() if not (root / str(one.run)).is_dir()}
    # A block says something only as a whole: without one of its runs it is measured anew.
    torn = {newest[place].block for place in gone} - {None}
    ended = journal.ended_blocks() - torn
    return {
        place: one
        for place, one in newest.items()
        if place not in gone and (one.block is None or one.block in ended)
    }


def _made(attempt: Attempt) -> Made:
    return attempt.case, attempt.repetition, attempt.lengthened


@dataclass
class Executor:
    """Carries out the runs of an experiment."""

    journal: Journal
    #: Asked when the first run is to be carried out, and not before.
    begin: Callable[[], RunContext]
    audience: Audience
    progress: Progress
    known: Mapping[Made, Attempt] = field(default_factory=dict)
    _block: str | None = None

    @property
    def id(self) -> str:
        """The experiment's id."""
        return self.journal.id

    @property
    def records(self) -> Records:
        """Where its runs are kept."""
        return self.journal.records

    def say(self, sentence: str) -> None:
        """Something worth knowing while the work goes on."""
        self.audience.say(sentence)

    def run(self, request: RunRequest) -> RunOutcome:
        """Carries out one run, or finds it where it was in an earlier pass.

        Raises:
            RunError: records can't be written.
            Interrupted: the user has asked to stop.
        """
        if request.block != self._block:
            self.end()
            self._block = request.block
        known = self.known.get((request.case, request.repetition, request.lengthened))
        if known is not None:
            return RunOutcome(run=known.run, took_s=known.took_s or 0.0, kept=known.kept or {})
        if request.block in self._known_blocks:
            raise RunError(
                f"{request.title} isn't among the runs of {self.id}, which has whole what it is a"
                " part of: begin anew without --resume"
            )
        _check_wanted()
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

    def try_out(self, made: PreparedRun, limit: TimeLimit | None) -> Manifest:
        """Carries out a run that isn't one of the experiment's, and of which nothing is kept.

        Raises:
            KvmarkError: it came to no end.
        """
        _check_wanted()
        with TemporaryDirectory(prefix=".tried-", dir=self.records.root) as folder:
            own = replace(
                self._setting, records=Records(Path(folder)), exporter=None, recording=None
            )
            carried = _carry_out(made, own, lambda *_: None, limit)
            failure = _failure(carried, limit)
            if failure is not None:
                raise failure
            return carried.manifest

    def end(self) -> None:
        """The block that goes on has come to its end."""
        if self._block is not None and self._block not in self._known_blocks:
            self.journal.end_block(self._block)
        self._block = None

    @cached_property
    def _setting(self) -> RunContext:
        return self.begin()

    @cached_property
    def _known_blocks(self) -> frozenset[str]:
        """Blocks of earlier passes that are whole."""
        return frozenset(one.block for one in self.known.values() if one.block is not None)

    def _outcome(self, request: RunRequest, setting: RunContext) -> RunOutcome:
        try:
            carried = self._carried(request, setting)
        except (Interrupted, RunError):
            raise
        except KvmarkError as problem:
            return RunOutcome(run=None, failure=problem)
        failure = _failure(carried, request.limit)
        kept = {} if request.keep is None or failure is not None else request.keep(carried)
        return RunOutcome(run=carried.folder.id, failure=failure, carried=carried, kept=kept)

    def _carried(self, request: RunRequest, setting: RunContext) -> ExecutedRun:
        made, limit = request.make(), request.limit

        def progress(folder: RunFolder, told: Mapping[str, Any]) -> None:
            self.progress(folder, told)
            if limit is not None:
                limit.watch(told)
            if request.watch is not None:
                request.watch(folder, told)

        own = replace(
            setting,
            host={**setting.host, **setting.overheads.get(request.case, {})},
            tags=(*request.tags, *setting.tags),
            commit=request.commit or setting.commit,
        )
        return _carry_out(made, own, progress, limit)


def _check_wanted() -> None:
    """Raises once the user has asked to stop, whether a run was ended by that or came to its end.

    Raises:
        Interrupted: nothing more may begin.
    """
    if interrupts.requested():
        raise Interrupted("interrupted between two runs")


def _carry_out(
    made: PreparedRun, setting: RunContext, progress: Progress, limit: TimeLimit | None
) -> ExecutedRun:
    return execute(
        made.plan, made.spec, setting, progress, made.faults, made.exporters,
        may_go_on=None if limit is None else limit.may_go_on, password=made.password,
    )  # fmt: skip


def _failure(carried: ExecutedRun, limit: TimeLimit | None) -> KvmarkError | None:
    """Why a run came to no end; where its limit has ended it, what that says."""
    if limit is not None and limit.is_over and isinstance(carried.failure, Interrupted):
        return limit.failure()
    return carried.failure
