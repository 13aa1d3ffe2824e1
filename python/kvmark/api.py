"""kvmark for notebooks and programs: measure, read a run as tables, draw its figures.

A separate process generates the load, and a run's manifest contains the command that repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

from kvmark.analysis.summary.run import Summary
from kvmark.analysis.verdict.judge import Verdict, known_line
from kvmark.cli.command_line import redacted_words
from kvmark.cli.commands.run import measured_run
from kvmark.cli.run_options import parse_run
from kvmark.errors import RecordsError
from kvmark.plan.compile import compile_run
from kvmark.records import Manifest, Records, Run, TimeName
from kvmark.report.format import run_fragment, write_html
from kvmark.report.model.answers import RunAnswer
from kvmark.report.model.page import Figure, Page
from kvmark.report.views.figures import histogram_frame, runs_frame, summary_frame
from kvmark.report.views.gather import run_answer, with_figures
from kvmark.report.views.pages import run_page
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.replay import is_trace
from kvmark.stats import Counts, Estimate

_OTHERWISE_SET: Final = (
    "slo", "sweep", "repetitions", "resume", "report", "record", "folder", "json", "quiet",
)  # fmt: skip
"""Options of `kvmark run` that are an argument, a method or a loop in the API."""


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
        """The run's configuration, host, system and results."""
        return self.records.manifest

    @property
    def intervals(self) -> pl.DataFrame:
        """A row per interval, group, operation and outcome; `TOTAL` covers a group."""
        return self.records.intervals

    @property
    def resources(self) -> pl.DataFrame:
        """A row per second and node: CPU, memory, disk and network in use."""
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
            raise RecordsError(f"run {self.id} has no counted phase: nothing was measured")
        return self.answer.summary.phases[0].throughput

    @property
    def verdict(self) -> Verdict:
        """The usability of the run, with reasons."""
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
        """The report's figures by name; a notebook displays each."""
        return {figure.name: figure for figure in self._page.figures}

    @cached_property
    def answer(self) -> RunAnswer:
        """The data of the report."""
        return run_answer(self.records)

    @cached_property
    def _page(self) -> Page:
        return run_page(with_figures(self.answer, self.records.with_histogram_cache(), 1))

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
        """Writes the report as one HTML file, and returns its path.

        Raises:
            RunError: the file can't be written, or is one that kvmark didn't make.
        """
        path = Path(path)
        write_html(self._page, path)
        return path

    def _repr_html_(self) -> str:
        return run_fragment(self._page)


def run(  # noqa: PLR0913 - they are the options of the command
    workload: str | Path,
    system: str,
    *,
    clients: int | None = None,
    rate: float | str | None = None,
    arrival: ArrivalProcess | None = None,
    duration: str | None = None,
    operations: int | str | None = None,
    records: int | str | None = None,
    warmup: str | None = None,
    interval: str | None = None,
    timeout: str | None = None,
    retry: str | None = None,
    seed: int = 1,
    tags: Sequence[str] = (),
    more: Sequence[str] = (),
    folder: str | Path | None = None,
) -> MeasuredRun:
    """Measures one workload on one system, as `kvmark run`, and returns the closed run.

    Durations are texts such as ``"500ms"`` or ``"30s"``. ``more`` are further arguments of the
    command, such as ``["--verify"]``, and ``folder`` is the folder of runs (default:
    `KVMARK_RUNS`). An INVALID run is returned too: check its verdict.

    Raises:
        UsageError: an argument is invalid.
        SystemUnderTestError: the system couldn't be opened, or failed.
        Interrupted: the user stopped it; the measured data is kept.
        RunError: the run couldn't be executed or written.
    """
    given = {
        "clients": clients, "rate": rate, "arrival": arrival, "duration": duration,
        "operations": operations, "records": records, "warmup": warmup, "interval": interval,
        "timeout": timeout, "retry": retry, "seed": seed,
    }  # fmt: skip
    arguments = [str(workload), "--system", system]
    for name, value in given.items():
        arguments += [] if value is None else [f"--{name}", str(value)]
    for tag in tags:
        arguments += ["--tag", tag]
    arguments += more
    options, kept = parse_run(arguments, rejected=_OTHERWISE_SET), _records(folder)
    name = "replay" if is_trace(str(workload)) else "run"
    command = ("kvmark", *redacted_words([name, *arguments]))
    options = replace(options, quiet=True)
    carried = measured_run(options, compile_run(options.spec), kept, command)
    return load(carried.or_raise().folder.id, folder=kept.root)


def load(run: str | Path = "last", *, folder: str | Path | None = None) -> MeasuredRun:
    """A run by its folder, its id, a unique prefix of one, or ``last``, ``last~1``.

    A run that has ended or was killed is closed first. ``folder`` is the folder of runs (default:
    `KVMARK_RUNS`).

    Raises:
        RecordsError: the run doesn't exist, is still running, or can't be read.
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
