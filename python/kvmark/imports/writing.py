"""An imported file as a run on disk: whole, or not there.

The folder is made under a name that no list shows and moved into place when it is complete. It has
the manifest, the intervals that were reported, the tool's own columns beside them, and the file
itself, so that nothing that it said is lost.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kvmark.imports.reading import Format, Interval, Reading
from kvmark.imports.source import Source
from kvmark.records import (
    ImportedRecord,
    Manifest,
    OriginRecord,
    Records,
    Run,
    RunFolder,
    RunRecord,
    files,
)
from kvmark.records.intervals import SCHEMA, to_parquet
from kvmark.records.model import SystemRecord
from kvmark.records.writer import one_sentence

__all__ = ["TAG", "intervals_table", "keep", "written_table"]

TAG: Final = "imported"
"""Every imported run has it, so that lists show and filter them."""

_READ_ONLY: Final = 0o444
_COLUMNS: Final = ("min", "mean", "p50", "p90", "p95", "p99", "p999", "max")
_STATISTICS: Final = {"median": "p50", "p99.9": "p999"}
_HIDDEN: Final = ".importing-"


def keep(
    records: Records,
    source: Source,
    kind: Format,
    reading: Reading,
    *,
    name: str,
    tags: Sequence[str] = (),
    command: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
) -> Run:
    """Keeps a file that was read as a run.

    Raises:
        RunError: the run can't be written; nothing of it stays.
    """
    folder = records.new(name)
    with one_sentence(folder.path):
        staged = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=records.root))
        try:
            _write(staged, source, reading)
            manifest = _manifest(folder, source, kind, reading, name, tags, command, versions)
            text = files.to_json(manifest.model_dump(mode="json"))
            files.write_atomically(staged / files.MANIFEST, text)
            for path in staged.iterdir():
                path.chmod(_READ_ONLY)
            staged.chmod(folder.path.stat().st_mode)
            # A folder takes the place of an empty one in one step.
            staged.replace(folder.path)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            folder.path.rmdir()
            raise
        files.sync_folder(records.root)
    return Run.open(folder.path)


def _manifest(
    folder: RunFolder,
    source: Source,
    kind: Format,
    reading: Reading,
    name: str,
    tags: Sequence[str],
    command: Sequence[str],
    versions: Mapping[str, str] | None,
) -> Manifest:
    origin = OriginRecord(
        file=Path(source.name).name,
        size_bytes=len(source.data),
        sha256=hashlib.sha256(source.data).hexdigest(),
        tool=reading.tool,
        version=reading.version,
        format=kind.code,
        started_wall_ns=reading.started_wall_ns,
        said=dict(reading.said),
    )
    return Manifest(
        format=1,
        id=folder.id,
        tags=tuple(dict.fromkeys([TAG, *tags])),
        created=folder.created.isoformat(),
        command=tuple(command),
        plan={"name": name},
        versions=dict(versions or {}),
        closed_by="import",
        engine=RunRecord(
            started_wall_ns=round(folder.created.timestamp() * 1e9),
            system=SystemRecord(system=reading.system, version=reading.system_version),
            capabilities=None,
            clock=None,
            phases=(),
            totals=(),
        ),
        imported=ImportedRecord(
            origin=origin,
            cases=reading.cases,
            figures=reading.figures,
            histograms=reading.histograms,
            notes=reading.notes,
        ),
    )


def _write(folder: Path, source: Source, reading: Reading) -> None:
    (folder / files.ORIGINAL).write_bytes(source.data)
    if reading.is_histogram_log:
        (folder / files.HISTOGRAMS).write_bytes(source.data)
    files.write_atomically(folder / files.INTERVALS, to_parquet(intervals_table(reading)))
    if reading.intervals:
        files.write_atomically(folder / files.WRITTEN, to_parquet(written_table(reading)))


def intervals_table(reading: Reading) -> pl.DataFrame:
    """The intervals as our own runs have them."""
    rows = [_row(reading, each) for each in _merged(reading.intervals)]
    rows += _totals(reading)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("phase", "start_ns")


def written_table(reading: Reading) -> pl.DataFrame:
    """The tool's own columns, as it named and wrote them."""
    rows = [
        {"case": each.case, "operation": each.operation, **each.written}
        for each in reading.intervals
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return pl.DataFrame(
        {name: pl.Series([row.get(name) for row in rows], strict=False) for name in names}
    )


def _merged(intervals: Sequence[Interval]) -> list[Interval]:
    """Intervals of one operation over the same span as one, where their times differ in kind."""
    merged: dict[tuple[int, str | None, int, int], Interval] = {}
    others: list[Interval] = []
    for each in intervals:
        key = (each.case, each.operation, each.start_ns, each.end_ns)
        known = merged.get(key)
        if known is None:
            merged[key] = each
        elif known.count == each.count and not set(known.times) & set(each.times):
            merged[key] = Interval(*key, known.count, {**known.times, **each.times})
        else:
            others.append(each)
    return [*merged.values(), *others]


def _row(reading: Reading, each: Interval) -> dict[str, Any]:
    """An interval as our own runs have it; what isn't known is null."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA)
    for time, statistics in each.times.items():
        for statistic, value in statistics.items():
            column = _STATISTICS.get(statistic, statistic)
            if column in _COLUMNS and value >= 0:
                row[f"{time}_ns_{column}"] = value if column == "mean" else round(value)
    return row | {
        "phase": each.case,
        "phase_name": "measure",
        "drain": False,
        "start_ns": each.start_ns,
        "end_ns": each.end_ns,
        "group": reading.cases[each.case].name,
        "operation": each.operation or "TOTAL",
        "part": False,
        "outcome": "any",
        "count": each.count,
    }


def _totals(reading: Reading) -> list[dict[str, Any]]:
    """A row of all operations for each interval of which only parts are reported."""
    given = {each.case for each in reading.intervals if each.operation is None}
    parts: dict[tuple[int, int, int], list[Interval]] = {}
    for each in _merged(reading.intervals):
        if each.case not in given:
            parts.setdefault((each.case, each.start_ns, each.end_ns), []).append(each)
    return [
        _row(reading, Interval(case, None, start_ns, end_ns, _sum(found)))
        for (case, start_ns, end_ns), found in parts.items()
    ]


def _sum(intervals: Sequence[Interval]) -> int | None:
    """Operations of all; none when one of them doesn't tell."""
    counts = [each.count for each in intervals]
    return None if None in counts else sum(count for count in counts if count is not None)
