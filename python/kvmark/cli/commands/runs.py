"""`kvmark runs list`, `rm` and `prune`: the runs that are kept, and which are kept no longer.

The list itself needs no library that reads runs: what it shows is kept beside each of them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark.cli import completion, options
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import UsageError
from kvmark.records.store import Records
from kvmark.spec.quantity import count, duration_ns

if TYPE_CHECKING:
    from kvmark.records import RunLine

_MANY: Final = 10
"""Runs to judge from which on a user is told why it takes a while."""

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.several_runs,
        help="Runs: ids, last, tag:NAME, study:ID or commit:ID, or several.",
    ),
]
OlderThan = Annotated[
    int | None, options.quantity(duration_ns, "TIME", "Runs made longer ago, such as 30d or 12h.")
]
PruneTag = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="WORD",
        autocompletion=completion.tag,
        help="Only runs with this tag; repeatable.",
    ),
]
Keep = Annotated[
    int | None, options.quantity(count, "N", "Keep so many, the newest of those with the tags.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Say what would go, and remove nothing.")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Runs of studies too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask; needed without a terminal.")]


def list_(
    limit: options.Limit = 30,
    tag: options.Tag = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Lists runs, newest first.

    Figures and verdicts are kept beside the runs: the first list of many takes longer.
    """
    wanted = set(tag or ())
    records = Records.at(folder)
    lines = (line for line in records.lines() if wanted <= set(line.entry.tags))
    shown = _known(records, list(islice(lines, limit)), quiet=quiet)
    if json:
        print_json("runs", {"runs": shown})
        return
    from kvmark.report.views.runs_list import runs_text

    print_answer(runs_text(shown, terminal_width()))


def rm(
    words: Words,
    dry_run: DryRun = False,
    force: Force = False,
    yes: Yes = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Removes runs by name.

    All that are named go or none does, and none that is still going. A run of a study goes only
    with --force: the study's answer needs it. The study itself goes with the last of its runs.
    """
    from kvmark.cli.commands.runs_removal import Removal, named, remove_runs

    records = Records.at(folder)
    chosen = named(records, words, force=force)
    remove_runs(records, chosen, Removal(dry_run=dry_run, yes=yes, json=json, quiet=quiet))


def prune(
    older_than: OlderThan = None,
    tag: PruneTag = None,
    keep: Keep = None,
    dry_run: DryRun = False,
    force: Force = False,
    yes: Yes = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Removes runs by age, tag or number.

    Of several bounds all must hold. Runs that are still going stay, and without --force those of
    studies.
    """
    from kvmark.cli.commands.runs_removal import Bounds, Removal, matching, remove_runs

    if older_than is None and not tag and keep is None:
        raise UsageError(
            "prune needs a bound: give --older-than 30d, --tag NAME or --keep 100, or several"
        )
    records = Records.at(folder)
    chosen = matching(records, Bounds(older_than, tuple(tag or ()), keep or 0), force=force)
    remove_runs(records, chosen, Removal(dry_run=dry_run, yes=yes, json=json, quiet=quiet))


def _known(records: Records, lines: list[RunLine], *, quiet: bool) -> list[RunLine]:
    """The lines with figures and verdicts. Libraries are loaded only where some aren't kept."""
    missing = [line for line in lines if line.entry.state == "closed" and line.judgement is None]
    if not missing:
        return lines
    if len(missing) >= _MANY and not quiet:
        typer.echo(f"Judging {len(missing):,} runs; their verdicts are kept", err=True)
    from kvmark.cli.judged import judged_lines

    return judged_lines(records, lines)
