"""Which runs may be seen: those that lie in the records' folder themselves, found by their id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from kvmark.analysis import known_line
from kvmark.errors import RecordsError
from kvmark.records import Entry, Judgement, Records, Run, RunLine
from kvmark.report.model.answers import RunAnswer
from kvmark.report.views.gather import run_answer, run_answers


class NotThere(RecordsError):
    """No run of that id may be seen."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is narrowed to; what is empty narrows nothing."""

    #: Words that must all be in a run's id, workload, system or tags.
    words: str = ""
    tag: str = ""
    #: A judgement, or a state of a run that has none.
    verdict: str = ""

    def admits(self, entry: Entry) -> bool:
        """Whether a run belongs in the list, as far as that is seen without a verdict."""
        text = " ".join([entry.id, entry.name, entry.system, entry.version, *entry.tags]).lower()
        return all(word in text for word in self.words.lower().split()) and (
            not self.tag or self.tag in entry.tags
        )


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """The newest runs that belong in a list."""

    lines: Sequence[RunLine]
    #: How many belong in it; none where that takes a verdict on each.
    total: int | None


def _told(line: RunLine) -> str:
    """A run's judgement, or its state where nothing was judged."""
    return line.judgement.value if line.judgement else line.entry.state


@dataclass(frozen=True)
class Library:
    """The runs of one folder."""

    records: Records
    # A closed run never changes; only its verdict, beside it, may.
    _lines: dict[str, RunLine] = field(default_factory=dict)

    def find(self, asked: Filter, most: int) -> FoundRuns:
        """The newest runs of a list; no more are judged than are shown or have to be passed."""
        lines = [line for line in self.records.lines() if asked.admits(line.entry)]
        lines = [line for line in lines if self._is_inside(line.entry)]
        if not asked.verdict:
            return FoundRuns([self._line(line) for line in lines[:most]], len(lines))
        judged = (self._line(line) for line in lines)
        found = list(islice((line for line in judged if _told(line) == asked.verdict), most))
        return FoundRuns(found, len(found) if len(found) < most else None)

    def entry(self, run: str) -> Entry:
        """The run of exactly this id.

        Raises:
            NotThere: there is none, or it leads out of the folder.
        """
        try:
            entry = self.records.find(run)
        except (RecordsError, OSError, ValueError):
            entry = None
        if entry is None or entry.id != run or not self._is_inside(entry):
            raise NotThere("there is no run of this id in the folder that is served")
        return entry

    def answer(self, entry: Entry) -> RunAnswer:
        """What the report of a closed run draws.

        Raises:
            RecordsError: the run isn't closed, or its files can't be read.
        """
        return run_answer(Run.open(entry.path))

    def answers(self, runs: Sequence[str]) -> list[RunAnswer]:
        """What a report on several closed runs draws.

        Raises:
            RecordsError: one isn't there or isn't closed, or its files can't be read.
        """
        entries = [self.entry(run) for run in dict.fromkeys(runs)]
        return run_answers((Run.open(entry.path) for entry in entries), len(entries))

    def tags(self) -> list[str]:
        """All tags in use."""
        return sorted({tag for entry in self.records.list() for tag in entry.tags})

    def _line(self, line: RunLine) -> RunLine:
        """With figures and judgement, which are made once where none are kept; nothing is kept."""
        entry = line.entry
        if entry.state != "closed" or line.judgement is not None:
            return line
        place = f"{entry.id} {self._verdict_ns(entry)}"
        known = self._lines.get(place)
        if known is None:
            known = known_line(self.records, line, keep=False)
            self._lines[place] = known
        return known

    def _verdict_ns(self, entry: Entry) -> int:
        """Tells one verdict on a run from the next: when its file was written."""
        try:
            return self.records.verdict_path(entry.id).lstat().st_mtime_ns
        except OSError:
            return 0

    def _is_inside(self, entry: Entry) -> bool:
        """Whether neither the run nor its verdict is a link to another place."""
        verdict = self.records.verdict_path(entry.id)
        if entry.path.is_symlink() or verdict.is_symlink():
            return False
        try:
            with os.scandir(entry.path) as files:
                return all(file.is_file(follow_symlinks=False) for file in files)
        except OSError:
            return False


def verdict_words() -> list[str]:
    """What a list can be narrowed to by verdict or state."""
    return [*(word.value for word in Judgement), "going", "ended", "killed", "broken"]
