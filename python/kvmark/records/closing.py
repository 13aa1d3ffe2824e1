"""Closing a run that has ended: its logs become tables, and its manifest gets its name.

Apart from the writer, because tables bring Polars, which takes a while to load.
"""

from __future__ import annotations

from pathlib import Path

from kvmark.records import files
from kvmark.records.intervals import read_intervals, read_resources, to_parquet
from kvmark.records.run import Run
from kvmark.records.writer import one_sentence
from kvmark.removal import remove_file

_READ_ONLY = 0o400


def seal(folder: Path) -> Run:
    """Turns the logs of a run that has ended into tables, names its manifest, removes the logs.

    Raises:
        RunError: a file can't be written; the logs are still there and it can be tried again.
    """
    with one_sentence(folder):
        _write_tables(folder)
        (folder / files.ENDED).replace(folder / files.MANIFEST)
        files.sync_folder(folder)
        tidy(folder)
    return Run.open(folder)


def tidy(folder: Path) -> None:
    """Removes the logs of a closed run and makes what stays read-only."""
    for name in files.LOGS:
        remove_file(folder / name)
    for name in files.CLOSED_FILES:
        if (folder / name).exists():
            (folder / name).chmod(_READ_ONLY)
    files.sync_folder(folder)


def _write_tables(folder: Path) -> None:
    intervals = read_intervals(files.whole_lines(folder / files.INTERVAL_LOG))
    files.write_atomically(folder / files.INTERVALS, to_parquet(intervals))
    resources = read_resources(files.whole_lines(folder / files.RESOURCE_LOG))
    if resources.height:
        files.write_atomically(folder / files.RESOURCES, to_parquet(resources))
