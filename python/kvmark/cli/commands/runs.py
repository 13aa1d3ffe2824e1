"""`kvmark runs list`, `rm`, `prune` and `archive`: the stored runs.

The list needs no library that reads runs: what it prints is stored beside each of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark import interrupts
from kvmark.cli import options
from kvmark.cli.options import choice, duration, flag, number, option
from kvmark.cli.output import print_json, print_result, terminal_width
from kvmark.errors import AnswerIsNo, Interrupted, RecordsError, UsageError
from kvmark.experiment import journal as journals
from kvmark.outputs import check_output, refuse_existing
from kvmark.records import store
from kvmark.records.archive import ENDING, STUDIES, write_archive
from kvmark.records.files import HISTOGRAMS
from kvmark.records.store import ANY, Records, entries_of, foreign_in, is_written
from kvmark.report.model.units import size, whole

if TYPE_CHECKING:
    from kvmark.records import Entry

_MANY: Final = 10
"""Number of runs to judge from which on a message explains the time."""
_MOST_NAMED: Final = 20
_GOING: Final = "still going"
_FOREIGN: Final = "with files that kvmark didn't write"


def list_(
    limit: int = option("N", "Largest number of runs.", default=30, min=1),
    tag: options.Tag = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Lists runs, newest first.

    Figures and verdicts are stored beside the runs: the first list of many takes longer.
    """
    tags = set(tag or ())
    records = Records.at(folder)
    lines = (line for line in records.lines() if tags <= set(line.entry.tags))
    judged = list(islice(lines, limit))
    missing = sum(line.entry.state == "closed" and line.judgement is None for line in judged)
    if missing >= _MANY and not quiet:
        typer.echo(f"Judging {missing:,} runs; their verdicts are kept", err=True)
    if missing:
        # Its libraries are loaded only where some verdicts aren't stored.
        from kvmark.cli.judged import judged_lines

        judged = judged_lines(records, judged)
    from kvmark.report.views.runs_list import runs_text

    if json or judged:
        print_result("runs", {"runs": judged} if json else runs_text(judged, terminal_width()))
        if next(lines, None) is not None and not (json or quiet):
            more = f"These are the newest {limit}; --limit lists more, --tag those of a tag"
            typer.echo(more, err=True)
        return
    place = f"{' with this tag' if tag else ''} in {records.root.absolute()}"
    typer.echo(f"No runs{place} yet: measure with kvmark run, or name another folder with --runs")


@dataclass(frozen=True, kw_only=True)
class RemovalOptions:
    """Options of commands that remove runs."""

    dry_run: bool = flag("Print what would be removed, and remove nothing.", "--dry-run", "-n")
    force: bool = flag("Remove runs of studies, too.", "--force", "-f")
    yes: bool = flag("Don't ask; needed without a terminal.", "--yes", "-y")
    folder: options.KeptRuns = None
    json: options.Json = False
    quiet: options.Quiet = False


def rm(words: options.RunNames, *, removal: RemovalOptions) -> None:
    """Removes runs by name.

    Either all named runs are removed or none, and none that is still going. A run of a study is
    removed only with --force: the study's answer needs it. The study itself is removed with the
    last of its runs.
    """
    records = Records.at(removal.folder)
    entries = {
        entry.id: entry
        for word in words
        for part in word.split(",")
        for entry in entries_of(records, part, ANY, bare_tags=False)
    }
    for entry in entries.values():
        reason = _reason_to_stay(records, entry, force=removal.force)
        if reason == _FOREIGN:
            raise UsageError(
                f"the folder {entry.path} holds {foreign_in(entry)}, which kvmark didn't write:"
                " move it away, or remove the folder yourself"
            )
        if reason is not None:
            advice = "stop it first" if is_written(entry) else "give --force to remove it anyway"
            raise UsageError(f"run {entry.id} is {reason}; {advice}")
    _remove(records, list(entries.values()), {}, removal)


def prune(
    older_than: int | None = duration("Only runs that are older, such as 30d or 12h."),
    tag: options.Tag = None,
    keep: int | None = number("Number of newest runs with the tags to keep."),
    *,
    removal: RemovalOptions,
) -> None:
    """Removes runs by age, tag or number.

    Several conditions must all hold. Runs that are still going stay, and without --force runs of
    studies.
    """
    if older_than is None and not tag and keep is None:
        raise UsageError(
            "prune needs a bound: give --older-than 30d, --tag NAME or --keep 100, or several"
        )
    records = Records.at(removal.folder)
    tagged = [entry for entry in records.list() if set(tag or ()) <= set(entry.tags)]
    least = timedelta(microseconds=(older_than or 0) // 1000)
    matching = [
        one
        for one in tagged[keep or 0 :]
        if older_than is None or records.now() - _created(one) > least
    ]
    reasons = {one.id: _reason_to_stay(records, one, force=removal.force) for one in matching}
    kept = {run: reason for run, reason in reasons.items() if reason is not None}
    _remove(records, [one for one in matching if one.id not in kept], kept, removal)


def _reason_to_stay(records: Records, entry: Entry, *, force: bool) -> str | None:
    if is_written(entry):
        return _GOING
    if foreign_in(entry) is not None:
        return _FOREIGN
    journal = None if force else journals.of_run(records, entry)
    # Studies of files are resumed for days; other experiments belong to one command.
    if journal is None or journal.definition.get("design") != "matrix":
        return None
    return f"part of study {journal.id}"


def _remove(
    records: Records, entries: Sequence[Entry], kept: dict[str, str], removal: RemovalOptions
) -> None:
    """Removes runs after the user agreed, and prints them. `kept` are reasons of runs that stay.

    Raises:
        AnswerIsNo: the user didn't agree.
        UsageError: there is no terminal to ask on, or another command executes a run's study.
        RunError: a run can't be removed; those before it are removed.
        Interrupted: the user stopped it; removed runs are gone.
    """
    taken_bytes = sum(map(store.size_bytes, entries))
    total = f"{_runs(len(entries))}, {size(taken_bytes)}"
    if entries and not (removal.dry_run or removal.yes):
        _ask(entries, total)
    studies = [] if removal.dry_run else _remove_all(records, entries)
    if removal.json:
        stay = [{"run": run, "because": reason} for run, reason in kept.items()]
        runs = [entry.id for entry in entries]
        document = {"dry_run": removal.dry_run, "runs": runs, "bytes": taken_bytes, "kept": stay}
        print_json("removal", {**document, "studies": studies})
        return
    for entry in entries:
        typer.echo(entry.id)
    if removal.quiet:
        return
    typer.echo(f"{'Would remove' if removal.dry_run else 'Removed'} {total}", err=True)
    for reason, stayed in Counter(kept.values()).items():
        advice = "" if reason in {_GOING, _FOREIGN} else ": --force removes them"
        typer.echo(f"Kept {_runs(stayed)}, {reason}{advice}", err=True)
    for study in studies:
        typer.echo(f"Removed study {study} with the last of its runs", err=True)


def _runs(number: int) -> str:
    return f"{whole(number)} {'run' if number == 1 else 'runs'}"


def _ask(entries: Sequence[Entry], total: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"there is no terminal to confirm the removal of {total}: give --yes, or --dry-run to"
            " list them"
        )
    for entry in entries[:_MOST_NAMED]:
        typer.echo(f"  {entry.id}", err=True)
    others = len(entries) - _MOST_NAMED
    if others > 0:
        typer.echo(f"  and {whole(others)} more", err=True)
    try:
        with interrupts.suspended():
            agreed = typer.confirm(f"Remove {total}?", err=True)
    except typer.Abort:
        raise Interrupted("interrupted: nothing was removed") from None
    if not agreed:
        raise AnswerIsNo("nothing was removed")


def _remove_all(records: Records, entries: Sequence[Entry]) -> list[str]:
    """Removes runs, and the studies without another run; gives the studies' ids."""
    experiments = _experiments(records, entries)
    with ExitStack() as locks:
        for journal in experiments.values():
            locks.enter_context(journal.alone())
        try:
            store.sweep(records)
            for entry in entries:
                interrupts.check()
                store.remove(records, entry.id)
            left = _experiments(records, records.list() if experiments else ())
            gone = [one for one in experiments if one not in left]
            for one in gone:
                experiments[one].remove()
            return gone
        except KeyboardInterrupt:
            remaining = sum(entry.path.exists() for entry in entries)
            raise Interrupted(
                f"interrupted: {len(entries) - remaining} of {len(entries)} runs were removed"
            ) from None


def _created(entry: Entry) -> datetime:
    """When a run was made; an instant without a zone is in UTC, as ids are."""
    created = datetime.fromisoformat(entry.created)
    return created if created.tzinfo is not None else created.replace(tzinfo=UTC)


def _experiments(records: Records, entries: Sequence[Entry]) -> dict[str, journals.Journal]:
    """The experiments of runs, by id."""
    found = (journals.of_run(records, entry) for entry in entries)
    return {one.id: one for one in found if one is not None}


def archive(
    words: options.RunNames,
    *,
    output: Annotated[Path, option("FILE", f"Archive, NAME{ENDING}.", "--output", "-o")],
    histogram_logs: bool = choice(
        True,
        "Include each interval's histograms: most of the size, for quantiles around faults and for"
        " the error of a quantile in a single run.",
    ),
    force: options.Force = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Archives runs and their complete studies in one file.

    `kvmark doc` fills blocks from such a file, and tar unpacks it.
    """
    check_output(output, "output: ", page=False)
    refuse_existing(output, "output: ", force=force)
    if not output.name.endswith(ENDING):
        raise UsageError(f"output: {output} must end in {ENDING}")
    records = Records.at(folder)
    runs, studies = _selected(records, words)
    for run in map(records.open, runs) if histogram_logs else ():
        log = run.path / HISTOGRAMS
        if run.manifest.imported is None and not log.exists():
            raise RecordsError(
                f"{log} is missing: archive the rest of the run with --no-histogram-logs"
            )
    names = [*runs, *(f"{STUDIES}/{one}" for one in studies)]
    archive_bytes = write_archive(records.root, names, output, histogram_logs=histogram_logs)
    if json:
        document = {"runs": runs, "studies": studies, "output": output, "bytes": archive_bytes}
        print_json("archive", document)
    elif not quiet:
        typer.echo(f"{output}: {_runs(len(runs))}, {size(archive_bytes)}", err=True)


def _selected(records: Records, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The named runs, and the studies of which all runs are named.

    Raises:
        RecordsError: a name means no run.
        UsageError: one of the runs is still going.
    """
    entries: list[Entry] = []
    for part in (part.strip() for word in words for part in word.split(",")):
        study = part.removeprefix(journals.tag(""))
        # A study's name means its newest id.
        journal = None if study == part else journals.find(records, study)
        name = part if journal is None else journals.tag(journal.id)
        entries += entries_of(records, name, ANY, bare_tags=False)
    for entry in entries:
        if is_written(entry):
            raise UsageError(f"run {entry.id} is still going: wait for its end, or stop it")
    runs = {entry.id for entry in entries}
    studies = []
    for journal in _experiments(records, entries).values():
        attempts = {attempt.run for attempt in journal.attempts() if attempt.run is not None}
        if {run for run in attempts if (records.root / run).is_dir()} <= runs:
            studies.append(journal.id)
    return sorted(runs), sorted(studies)
