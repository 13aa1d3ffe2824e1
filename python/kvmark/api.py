"""kvmark for notebooks and programs: measure, read a run as tables, draw its figures.

A run is carried out by a process of its own, with the words that a user would type: its memory is
the generator's alone, whatever the notebook has loaded, and its manifest holds a command that does
the same again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from kvmark.analysis import Summary, Verdict, known_line
from kvmark.errors import (
    Interrupted,
    KvmarkError,
    RecordsError,
    RunError,
    SystemUnderTestError,
    UsageError,
)
from kvmark.records import Manifest, Records, Run, TimeName
from kvmark.report.answers import RunAnswer
from kvmark.report.figures import Figure
from kvmark.report.frames import histogram_frame, runs_frame, summary_frame
from kvmark.report.gather import run_answer
from kvmark.report.html import run_fragment, write_html
from kvmark.report.page import run_page
from kvmark.secret import Secret
from kvmark.spec.url import PASSWORD_VARIABLE, SystemName, without_password
from kvmark.stats import Counts, Estimate

__all__ = ["MeasuredRun", "load", "run", "runs"]

_PROGRAM: Final = "import sys; from kvmark.cli import main; sys.exit(main())"
_ANSWERED: Final = (0, 1)
"""Exit codes of a run that came to its end; 1 says that it is INVALID."""
_PROBLEMS: Final[Mapping[int, type[KvmarkError]]] = {
    2: UsageError,
    3: SystemUnderTestError,
    130: Interrupted,
}


@dataclass(frozen=True)
class MeasuredRun:
    """A closed run: its records as tables, its summary and verdict, its figures."""

    records: Run

    @property
    def id(self) -> str:
        """The run's id."""
        return self.records.id

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.records.path

    @property
    def manifest(self) -> Manifest:
        """What was run, where, with what."""
        return self.records.manifest

    @property
    def intervals(self) -> pl.DataFrame:
        """A row per interval, group, operation and outcome; `TOTAL` is all of a group's."""
        return self.records.intervals

    @property
    def resources(self) -> pl.DataFrame:
        """A row per second and node: processor, memory, disk and network in use."""
        return self.records.resources

    @property
    def events(self) -> tuple[Mapping[str, Any], ...]:
        """Phases, faults and notices, in order."""
        return self.records.events

    @property
    def summary(self) -> pl.DataFrame:
        """A row per counted phase, group and operation; times in nanoseconds.

        A quantile with fewer than ten operations beyond it is null.
        """
        return summary_frame(self.answer.summary)

    @property
    def numbers(self) -> Summary:
        """The summary as values, with estimates and their errors."""
        return self.answer.summary

    @property
    def throughput(self) -> Estimate:
        """Successful operations per second in the first counted phase, with its interval.

        Raises:
            RecordsError: no phase was counted.
        """
        if not self.answer.summary.phases:
            raise RecordsError(f"run {self.id} has no phase that counts: nothing was measured")
        return self.answer.summary.phases[0].throughput

    @property
    def verdict(self) -> Verdict:
        """Whether the run may be used, and why not."""
        return self.answer.verdict

    @property
    def histograms(self) -> pl.DataFrame:
        """A row per bucket of each phase, group, operation, outcome and time.

        Raises:
            RecordsError: a histogram can't be decoded.
        """
        return histogram_frame(self.records)

    @property
    def figures(self) -> Mapping[str, Figure]:
        """The report's figures by name; a notebook shows each as it is."""
        drawn = (part.figures for part in run_page(self.answer).parts)
        return {figure.name: figure for figures in drawn for figure in figures}

    @cached_property
    def answer(self) -> RunAnswer:
        """What the report draws."""
        return run_answer(self.records)

    def histogram(self, operation: str, time: TimeName = "response", outcome: str = "ok") -> Counts:
        """One time of an operation in all counted phases and groups, in nanoseconds.

        Raises:
            RecordsError: a histogram can't be decoded.
        """
        return Counts.merge(
            self.records.times(total, time)
            for phase in self.records.counted
            for total in self.records.totals(phase.index)
            if (total.operation, total.outcome, total.part) == (operation, outcome, False)
        )

    def write_report(self, path: str | Path) -> Path:
        """Writes the report as one HTML file and returns where.

        Raises:
            OSError: the file can't be written.
        """
        path = Path(path)
        write_html(run_page(self.answer), path)
        return path

    def _repr_html_(self) -> str:
        return run_fragment(run_page(self.answer))


def run(  # noqa: PLR0913 - they are the options of the command
    workload: str | Path,
    system: str,
    *,
    clients: int | None = None,
    rate: float | str | None = None,
    arrival: Literal["constant", "poisson"] | None = None,
    duration: str | None = None,
    operations: int | str | None = None,
    records: int | str | None = None,
    warmup: str | None = None,
    interval: str | None = None,
    timeout: str | None = None,
    seed: int = 1,
    tags: Sequence[str] = (),
    more: Sequence[str] = (),
    folder: str | Path | None = None,
) -> MeasuredRun:
    """Measures one workload on one system, as `kvmark run` does, and returns when it is closed.

    Durations are texts such as ``"500ms"`` or ``"30s"``. ``more`` are further words of the command,
    such as ``["--verify"]``, and ``folder`` is where runs are kept, else as `KVMARK_RUNS` says. An
    INVALID run is returned too: look at its verdict.

    Raises:
        UsageError: what was asked for can't be done.
        SystemUnderTestError: the system couldn't be opened, or failed.
        Interrupted: the user stopped it; what was measured is kept.
        RunError: the run couldn't be carried out or written.
    """
    said = {
        "clients": clients,
        "rate": rate,
        "arrival": arrival,
        "duration": duration,
        "operations": operations,
        "records": records,
        "warmup": warmup,
        "interval": interval,
        "timeout": timeout,
        "seed": seed,
    }
    # Whoever lists processes reads their words.
    url, password = without_password(SystemName(system))
    words = [str(workload), "--system", url]
    for name, value in said.items():
        words += [] if value is None else [f"--{name}", str(value)]
    for tag in tags:
        words += ["--tag", tag]
    answer = _carried_out([*words, *more], folder, password)
    return load(answer["run"], folder=folder)


def load(run: str | Path = "last", *, folder: str | Path | None = None) -> MeasuredRun:
    """A run by its folder, its id, the beginning of one, or ``last``, ``last~1``.

    One that has ended or was killed is closed first. ``folder`` is where runs are kept, else as
    `KVMARK_RUNS` says.

    Raises:
        RecordsError: there is no such run, it is still going, or it can't be read.
    """
    path = Path(run)
    if folder is None and path.parent != Path() and path.is_dir():
        return MeasuredRun(Records(path.parent).open(path.name))
    return MeasuredRun(_records(folder).open(str(run)))


def runs(folder: str | Path | None = None) -> pl.DataFrame:
    """The list of runs, newest first.

    Raises:
        RecordsError: the folder can't be read.
    """
    records = _records(folder)
    return runs_frame([known_line(records, line, keep=True) for line in records.lines()])


def _records(folder: str | Path | None) -> Records:
    return Records.at(None if folder is None else Path(folder))


def _carried_out(
    words: Sequence[str], folder: str | Path | None, password: Secret | None
) -> dict[str, Any]:
    """What `kvmark run` with these words answers."""
    environment = {**os.environ, "KVMARK_RUNS": str(_records(folder).root)}
    if password is not None:
        environment[PASSWORD_VARIABLE] = password.reveal()
    # A group of its own: what interrupts the notebook reaches the run once, from here.
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, "run", *words, "--json", "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            out, told = process.communicate()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            out, told = process.communicate()
    if process.returncode in _ANSWERED and out:
        answer: dict[str, Any] = json.loads(out)
        return answer
    sentence = told.strip().rpartition("\n")[2].removeprefix("kvmark: ")
    raise _PROBLEMS.get(process.returncode, RunError)(sentence or "the run ended without a word")
