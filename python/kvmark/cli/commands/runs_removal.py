"""Removes runs: what may go, whether the user means it, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import typer

from kvmark import interrupts
from kvmark.cli.output import print_json
from kvmark.errors import AnswerIsNo, Interrupted, UsageError
from kvmark.experiment.journal import Journal, of_run
from kvmark.records import Entry, Records
from kvmark.records.store import ANY, entries_of, foreign_in, is_written, remove, size_bytes, sweep
from kvmark.report.format.units import size, whole

_MOST_NAMED = 20
_GOING = "still going"
_FOREIGN = "with files that kvmark didn't write"


@dataclass(frozen=True, slots=True)
class Removal:
    """How to go about it."""

    dry_run: bool
    yes: bool
    json: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which runs are pruned: all bounds must hold that are there."""

    older_than_ns: int | None = None
    tags: tuple[str, ...] = ()
    #: So many of those with the tags stay, the newest.
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Chosen:
    """What goes, and what stays although it was meant, with the reason."""

    entries: tuple[Entry, ...]
    kept: tuple[tuple[Entry, str], ...] = ()


def named(records: Records, words: Sequence[str], *, force: bool) -> Chosen:
    """The runs that words mean, each once.

    Raises:
        RecordsError: a word means none.
        UsageError: one of the runs can't go.
    """
    meant = {
        entry.id: entry
        for word in words
        for part in word.split(",")
        for entry in entries_of(records, part, ANY, bare_tags=False)
    }
    for entry in meant.values():
        reason = _reason_to_stay(records, entry, force=force)
        if reason == _FOREIGN:
            raise UsageError(
                f"the folder {entry.path} holds {foreign_in(entry)}, which kvmark didn't write:"
                " move it away, or remove the folder yourself"
            )
        if reason is not None:
            advice = "stop it first" if is_written(entry) else "give --force to remove it anyway"
            raise UsageError(f"run {entry.id} is {reason}; {advice}")
    return Chosen(tuple(meant.values()))


def matching(records: Records, bounds: Bounds, *, force: bool) -> Chosen:
    """The runs within the bounds that can go, newest first."""
    tagged = [entry for entry in records.list() if set(bounds.tags) <= set(entry.tags)]
    old = [entry for entry in tagged[bounds.keep :] if _is_older(entry, bounds, records.now())]
    reasons = [(entry, _reason_to_stay(records, entry, force=force)) for entry in old]
    return Chosen(
        tuple(entry for entry, reason in reasons if reason is None),
        tuple((entry, reason) for entry, reason in reasons if reason is not None),
    )


def remove_runs(records: Records, chosen: Chosen, wanted: Removal) -> None:
    """Removes the runs after the user agreed, and says so.

    Raises:
        AnswerIsNo: the user didn't agree.
        UsageError: nobody can be asked, or a study goes on whose runs they are.
        RunError: a run can't be removed; those before it are.
        Interrupted: the user stopped it; what was removed is gone.
    """
    count, taken = len(chosen.entries), sum(map(size_bytes, chosen.entries))
    told = f"{whole(count)} {'run' if count == 1 else 'runs'}, {size(taken)}"
    if not (wanted.dry_run or wanted.yes or count == 0):
        _ask(chosen, told)
    studies: list[str] = []
    if not wanted.dry_run:
        studies = _remove_all(records, chosen.entries)
    if wanted.json:
        kept = [{"run": entry.id, "because": reason} for entry, reason in chosen.kept]
        ids = [entry.id for entry in chosen.entries]
        document = {"dry_run": wanted.dry_run, "runs": ids, "bytes": taken, "kept": kept}
        print_json("removal", {**document, "studies": studies})
        return
    for entry in chosen.entries:
        typer.echo(entry.id)
    if not wanted.quiet:
        done = "Would remove" if wanted.dry_run else "Removed"
        for line in (f"{done} {told}", *_told_of_kept(chosen), *map(_told_of_study, studies)):
            typer.echo(line, err=True)


def _ask(chosen: Chosen, told: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"nobody can be asked whether to remove {told}: give --yes, or --dry-run to see them"
        )
    for entry in chosen.entries[:_MOST_NAMED]:
        typer.echo(f"  {entry.id}", err=True)
    others = len(chosen.entries) - _MOST_NAMED
    if others > 0:
        typer.echo(f"  and {whole(others)} more", err=True)
    try:
        with interrupts.suspended():
            agreed = typer.confirm(f"Remove {told}?", err=True)
    except typer.Abort:
        raise Interrupted("interrupted: nothing was removed") from None
    if not agreed:
        raise AnswerIsNo("nothing was removed")


def _remove_all(records: Records, entries: Sequence[Entry]) -> list[str]:
    """Removes runs, and the studies of which no run is left; gives these studies' ids."""
    journals = {
        journal.id: journal for entry in entries if (journal := of_run(records, entry)) is not None
    }
    with ExitStack() as held:
        for journal in journals.values():
            held.enter_context(journal.alone())
        try:
            sweep(records)
            for entry in entries:
                interrupts.check()
                remove(records, entry.id)
            return [journal.id for journal in _without_runs(records, journals.values())]
        except KeyboardInterrupt:
            left = sum(entry.path.exists() for entry in entries)
            raise Interrupted(
                f"interrupted: {len(entries) - left} of {len(entries)} runs were removed"
            ) from None


def _without_runs(records: Records, journals: Iterable[Journal]) -> list[Journal]:
    """Of these studies those of which no run is left; they are removed."""
    if not journals:
        return []
    left = {journal.id for entry in records.list() if (journal := of_run(records, entry))}
    gone = [journal for journal in journals if journal.id not in left]
    for journal in gone:
        journal.remove()
    return gone


def _reason_to_stay(records: Records, entry: Entry, *, force: bool) -> str | None:
    if is_written(entry):
        return _GOING
    if foreign_in(entry) is not None:
        return _FOREIGN
    journal = None if force else of_run(records, entry)
    # What a study's file asks for is gone on with for days; others are one command's.
    is_kept = journal is not None and journal.definition.get("design") == "matrix"
    return f"part of study {journal.id}" if journal is not None and is_kept else None


def _is_older(entry: Entry, bounds: Bounds, now: datetime) -> bool:
    if bounds.older_than_ns is None:
        return True
    created = datetime.fromisoformat(entry.created)
    # An instant without a zone is no instant of ours; its id's are in UTC.
    created = created if created.tzinfo is not None else created.replace(tzinfo=UTC)
    return now - created > timedelta(microseconds=bounds.older_than_ns // 1000)


def _told_of_kept(chosen: Chosen) -> list[str]:
    reasons: dict[str, int] = {}
    for _, reason in chosen.kept:
        reasons[reason] = reasons.get(reason, 0) + 1
    return [
        f"Kept {whole(count)} {'run' if count == 1 else 'runs'}, {reason}"
        + ("" if reason in {_GOING, _FOREIGN} else ": --force removes them")
        for reason, count in reasons.items()
    ]


def _told_of_study(study: str) -> str:
    return f"Removed study {study} with the last of its runs"
