"""A run whose logs are still there, read without touching them: it goes, has ended or was killed.

The engine appends whole lines, so what is read is true at any moment. Only the end of a long log is
read: a run that is looked at once a second must not pay for its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from kvmark.records import files
from kvmark.records.events import read_events
from kvmark.records.intervals import read_intervals, read_resources
from kvmark.records.writer import Running

MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class GoingRun:
    """What a run's logs say."""

    path: Path
    header: Running
    #: The newest rows, as they will be in ``intervals.parquet``.
    intervals: pl.DataFrame
    #: The newest samples; without columns when none were taken.
    resources: pl.DataFrame
    events: tuple[dict[str, Any], ...]

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    @classmethod
    def read(cls, folder: Path, most_bytes: int = MOST_BYTES) -> GoingRun:
        """The logs of a folder, at most so many bytes of each table's end.

        Raises:
            RecordsError: the run is closed, or its description can't be read.
        """
        events = read_events(folder / files.EVENTS)
        return cls(
            folder,
            Running.read(folder),
            read_intervals(files.last_lines(folder / files.INTERVAL_LOG, most_bytes)),
            read_resources(files.last_lines(folder / files.RESOURCE_LOG, most_bytes)),
            tuple(sorted(events, key=lambda event: event.get("at_ns", 0))),
        )
