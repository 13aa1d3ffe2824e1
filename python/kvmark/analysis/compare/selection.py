"""The runs that a word means, where several may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvmark.analysis.summary.imported import case_runs
from kvmark.analysis.verdict.judge import known_verdict
from kvmark.records import Judgement, Records, Run, RunLine, by_case, repetition_of
from kvmark.records.store import USABLE, entries_of


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    """A run that is in no figure, and why."""

    run: str
    #: A clause about the run.
    reason: str


def runs_of(records: Records, words: Sequence[str]) -> tuple[Run, ...]:
    """The closed runs that words mean, oldest first, each once.

    A word is an id or the beginning of one, `last` or `last~1`, a tag or `tag:NAME`, `study:ID`, or
    `commit:ID`. Several are separated by commas. ``RUN#CASE`` is a case of an import.

    Raises:
        RecordsError: a word means no run, or a run can't be read.
        UsageError: a run has no such case.
    """
    found = {
        run.id: run
        for word in words
        for name, *labels in (part.split("#") for part in word.split(","))
        for entry in entries_of(records, name, USABLE, bare_tags=True)
        for opened in [records.open(entry.id)]
        for run in (case_runs(opened, labels) if labels else [opened])
    }
    return tuple(sorted(found.values(), key=lambda run: run.path.name))


def select_lines(
    records: Records, tags: Sequence[str] = (), workload: str = "", system: str = ""
) -> list[RunLine]:
    """The lines of closed runs with all these tags and, where named, this workload and system.

    They have the judgements that are kept. A workload is named in full or without its folder.
    """
    wanted = set(tags)
    return [
        line
        for line in records.lines()
        for name in [line.entry.name.lower()]
        if line.entry.state in USABLE
        and wanted <= set(line.entry.tags)
        and (not workload or workload.lower() in {name, name.rpartition("/")[2]})
        and (not system or line.entry.system.lower() == system.lower())
    ]


def usable(records: Records, runs: Iterable[Run]) -> list[Run]:
    """The runs that aren't INVALID, by the verdict beside each or else by one made now."""
    return [run for run in runs if known_verdict(records, run).judgement is not Judgement.INVALID]


def why_excluded(
    records: Records, run: Run, judgement: Judgement | None, *, invalid: bool
) -> ExcludedRun | None:
    """Why a run is excluded: it ended before its measurement or, with ``invalid``, is INVALID.

    Its judgement may be known already.
    """
    if run.manifest.unmeasured is not None:
        return ExcludedRun(run.id, run.manifest.unmeasured)
    if not invalid or judgement not in (None, Judgement.INVALID):
        return None
    verdict = known_verdict(records, run)
    if verdict.judgement is not Judgement.INVALID:
        return None
    worst = verdict.reasons[0]
    return ExcludedRun(run.id, f"is INVALID: {worst.sentence.rstrip('.')}")


def newest(runs: Iterable[Run]) -> list[Run]:
    """The newest runs of each case: all repetitions of one command, or else the newest run.

    They are in the order of their time.
    """
    back = sorted(runs, key=lambda run: (run.manifest.created, run.id), reverse=True)
    chosen = [run for same in by_case(back).values() for run in _last_pass(same)]
    return sorted(chosen, key=lambda run: (run.manifest.created, run.id))


def _last_pass(runs: Sequence[Run]) -> Iterator[Run]:
    """From the newest one back, as long as it is another repetition of the same command."""
    first, seen = runs[0], set[int | None]()
    study = first.manifest.study.get("id")
    for run in runs:
        repetition = repetition_of(run.manifest)
        same = run.manifest.command == first.manifest.command
        same = same and run.manifest.study.get("id") == study
        if run is not first and (repetition is None or repetition in seen or not same):
            return
        # Only a study makes a repetition again later: else they fall as time goes back.
        if study is None and any(one is not None and one < (repetition or 0) for one in seen):
            return
        seen.add(repetition)
        yield run
