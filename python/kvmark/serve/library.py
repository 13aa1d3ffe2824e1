"""The visible runs: the folders directly in the records' folder, by their id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from kvmark.analysis.verdict.judge import known_line
from kvmark.errors import RecordsError
from kvmark.records import Entry, Records, Run, RunLine
from kvmark.report.model.answers import RunAnswer
from kvmark.report.views.gather import run_answers


class NotThere(RecordsError):
    """No visible run has that id."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list; empty fields don't filter."""

    #: Words that a run's id, workload, system or tags must contain.
    words: str = ""
    tag: str = ""
    #: A judgement, or the state of a run without one.
    verdict: str = ""

    def admits(self, entry: Entry) -> bool:
        """Whether a run matches all but the verdict."""
        text = " ".join([entry.id, entry.name, entry.system, entry.version, *entry.tags]).lower()
        return all(word in text for word in self.words.lower().split()) and (
            not self.tag or self.tag in entry.tags
        )


@dataclass(frozen=True)
class Library:
    """The runs of one folder."""

    records: Records
    # A closed run never changes; only its verdict can.
    _lines: dict[str, RunLine] = field(default_factory=dict)

    def find(self, filter_: Filter, most: int) -> tuple[list[RunLine], int | None]:
        """The newest runs of a list; only as many are judged as needed.

        And the number of all runs of the list; none if it needs a verdict on each run.
        """
        lines = [line for line in self.records.lines() if filter_.admits(line.entry)]
        lines = [line for line in lines if self._is_inside(line.entry)]
        if not filter_.verdict:
            return [self._line(line) for line in lines[:most]], len(lines)
        matching = (one for one in map(self._line, lines) if one.verdict == filter_.verdict)
        shown = list(islice(matching, most))
        return shown, len(shown) if len(shown) < most else None

    def entry(self, run: str) -> Entry:
        """The run of this exact id.

        Raises:
            NotThere: it doesn't exist, or is a link.
        """
        try:
            entry = self.records.find(run)
        except (RecordsError, OSError, ValueError):
            entry = None
        if entry is None or entry.id != run or not self._is_inside(entry):
            raise NotThere("there is no run of this id in the folder that is served")
        return entry

    def answers(self, runs: Sequence[str]) -> list[RunAnswer]:
        """The data of a report on closed runs.

        Raises:
            RecordsError: one doesn't exist, isn't closed, or its files can't be read.
        """
        entries = [self.entry(run) for run in dict.fromkeys(runs)]
        return run_answers((Run.open(entry.path) for entry in entries), len(entries))

    def tags(self) -> list[str]:
        """All tags in use."""
        return sorted({tag for entry in self.records.list() for tag in entry.tags})

    def _line(self, line: RunLine) -> RunLine:
        """The line with figures and judgement, which are cached here and never stored."""
        entry = line.entry
        if entry.state != "closed" or line.judgement is not None:
            return line
        try:
            verdict_ns = self.records.verdict_path(entry.id).lstat().st_mtime_ns
        except OSError:
            verdict_ns = 0
        key = f"{entry.id} {verdict_ns}"
        if key not in self._lines:
            self._lines[key] = known_line(self.records, line, keep=False)
        return self._lines[key]

    def _is_inside(self, entry: Entry) -> bool:
        """Whether neither the run nor its files and verdict are links."""
        verdict = self.records.verdict_path(entry.id)
        if entry.path.is_symlink() or verdict.is_symlink():
            return False
        try:
            with os.scandir(entry.path) as files:
                return all(file.is_file(follow_symlinks=False) for file in files)
        except OSError:
            return False
