"""Verdicts and lines of lists as they are kept beside runs, or else made now.

A verdict is computed from the records alone and can be computed again at any time. It is kept
beside the run's folder, never in it, so that a closed run stays as it was measured.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import Verdict, judge
from kvmark.errors import RecordsError, RunError
from kvmark.records import Entry, Judgement, Records, Run, RunLine
from kvmark.records.verdicts import keep_verdict, kept_verdict

__all__ = ["known_judgement", "known_line", "known_verdict", "save_verdict"]


def known_verdict(records: Records, run: Run) -> Verdict:
    """The verdict kept beside the run where judging it now would give the same, or else a new one.

    Raises:
        RecordsError: the run's files can't be read.
    """
    kept = kept_verdict(records, run.id)
    return judge(run) if kept is None else Verdict.of_json(kept)


def known_judgement(records: Records, run: Run) -> Judgement:
    """The judgement on a run, kept or else made now.

    Raises:
        RecordsError: the run's files can't be read.
    """
    kept = records.line(run.id).judgement
    return kept or judge(run).judgement


def known_line(records: Records, line: RunLine, *, keep: bool) -> RunLine:
    """A run in a list, with figures and judgement where it is closed.

    What isn't kept beside the run is made now, and with ``keep`` kept where the folder takes it. A
    closed run that can't be read is broken, with the problem.
    """
    if line.entry.state != "closed" or line.judgement is not None:
        return line
    try:
        run = Run.open(line.entry.path).with_histogram_cache()
        verdict = judge(run)
        made = _line(line.entry, run, verdict)
    except RecordsError as problem:
        return RunLine(replace(line.entry, state="broken", problem=str(problem)))
    if keep:
        # A list can be read where nothing can be written.
        with suppress(RunError):
            keep_verdict(records, made, verdict.to_json())
    return made


def save_verdict(records: Records, run: Run, verdict: Verdict) -> None:
    """Keeps the verdict beside the run's folder, replacing an earlier one.

    Raises:
        RecordsError: the run's files can't be read.
        RunError: the file can't be written.
    """
    line = _line(records.line(run.id).entry, run, verdict)
    keep_verdict(records, line, verdict.to_json())


def _line(entry: Entry, run: Run, verdict: Verdict) -> RunLine:
    """The first phase's throughput, and the longest p99 of any operation."""
    phases = summarize(run).phases
    p99 = [
        operation.response.shown_ns("p99")
        for phase in phases
        for operation in phase.operations
        if not operation.part
    ]
    return RunLine(
        entry,
        throughput=phases[0].throughput.value if phases else None,
        response_ns_p99=max((ns for ns in p99 if ns is not None), default=None),
        judgement=verdict.judgement,
    )
