"""`kvmark runs archive`: whole runs and their studies in one file, to keep beside a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark.cli import completion, options
from kvmark.cli.output import print_json
from kvmark.errors import RecordsError, UsageError
from kvmark.outputs import check_output, refuse_existing
from kvmark.records.archive import ENDING, STUDIES, write_archive
from kvmark.records.files import HISTOGRAMS
from kvmark.records.store import ANY, Records, entries_of, is_written

if TYPE_CHECKING:
    from kvmark.experiment.journal import Journal

_STUDY = "study:"

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.several_runs,
        help="Runs: ids, last, tag:NAME, study:ID or study:NAME, or several.",
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help=f"The file, NAME{ENDING}.")
]
HistogramLogs = Annotated[
    bool,
    typer.Option(
        help="The histograms of each interval too: most of a run's size, and needed for quantiles"
        " around faults and for the error of a quantile in a single run."
    ),
]


def archive(
    words: Words,
    output: Output,
    histogram_logs: HistogramLogs = True,
    force: options.Force = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Keeps whole runs in one file, with the studies that they are all of.

    `kvmark doc` makes blocks of such a file, and tar unpacks it.
    """
    check_output(output, "output: ", page=False)
    refuse_existing(output, "output: ", force=force)
    if not output.name.endswith(ENDING):
        raise UsageError(f"output: {output} must end in {ENDING}")
    records = Records.at(folder)
    runs, studies = _chosen(records, words)
    if histogram_logs:
        _check_whole(records, runs)
    names = [*runs, *(f"{STUDIES}/{one}" for one in studies)]
    size = write_archive(records.root, names, output, histogram_logs=histogram_logs)
    if json:
        kept = {"runs": runs, "studies": studies, "output": output, "bytes": size}
        print_json("archive", kept)
    elif not quiet:
        from kvmark.report.format import units

        told = f"{units.whole(len(runs))} {'run' if len(runs) == 1 else 'runs'}"
        typer.echo(f"{output}: {told}, {units.size(size)}", err=True)


def _check_whole(records: Records, runs: Sequence[str]) -> None:
    """Refuses runs that lost the log of their histograms: an archive would pass for the whole.

    Raises:
        RecordsError: names the first of them.
    """
    for run in map(records.open, runs):
        log = run.path / HISTOGRAMS
        if run.manifest.imported is None and not log.exists():
            raise RecordsError(
                f"{log} is missing: archive what is left of the run with --no-histogram-logs"
            )


def _chosen(records: Records, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The runs that words mean, and the studies of which they leave out none.

    Raises:
        RecordsError: a word means none.
        UsageError: one of the runs is still going.
    """
    from kvmark.experiment.journal import of_run

    parts = [part.strip() for word in words for part in word.split(",")]
    entries = [
        entry
        for part in parts
        for entry in entries_of(records, _named(records, part), ANY, bare_tags=False)
    ]
    for entry in entries:
        if is_written(entry):
            raise UsageError(f"run {entry.id} is still going: wait for its end, or stop it")
    runs = {entry.id for entry in entries}
    journals = {one.id: one for entry in entries if (one := of_run(records, entry)) is not None}
    studies = {one.id: one for one in journals.values() if _made(one) <= runs}
    return sorted(runs), sorted(studies)


def _named(records: Records, word: str) -> str:
    """A word in which a study goes by its id, also where it was called by its name."""
    from kvmark.experiment.journal import find

    name = word.removeprefix(_STUDY)
    journal = None if name == word else find(records, name)
    return word if journal is None else f"{_STUDY}{journal.id}"


def _made(journal: Journal) -> set[str]:
    """The runs of a study that are still there."""
    runs = {attempt.run for attempt in journal.attempts() if attempt.run is not None}
    return {run for run in runs if (journal.records.root / run).is_dir()}
