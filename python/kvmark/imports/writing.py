"""Imported files as runs on disk: all of them whole, or none there.

Each folder is made under a name that no list shows, and all are moved into place when the last one
is complete: everything that needs disk space is done before. A folder has the manifest, the
intervals that were reported, the tool's own columns beside them, and the file itself, so that
nothing that it said is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from kvmark import __version__
from kvmark.imports.reading import Collector, Interval
from kvmark.records import Manifest, Records, Run, RunFolder, files, model
from kvmark.records.intervals import SCHEMA, to_parquet
from kvmark.records.writer import report_write_errors
from kvmark.removal import discard_folder

TAG: Final = "imported"
"""Every imported run has it, so that lists show and filter them."""
AUDIT_TAG: Final = "audit"
"""Audits have it instead."""

_READ_ONLY: Final = 0o444
_COLUMNS: Final = ("min", "mean", "p50", "p90", "p95", "p99", "p999", "max")
_STATISTICS: Final = {"median": "p50", "p99.9": "p999"}
_HIDDEN: Final = ".importing-"


def keep(
    records: Records,
    files_read: Sequence[Collector],
    *,
    name: str | None = None,
    tags: Sequence[str] = (),
    command: Sequence[str] = (),
) -> list[Run]:
    """Keeps files that were read as a run each, under a name or those of the files.

    Raises:
        RunError: a run can't be written; nothing of any of them stays.
    """
    staged: list[tuple[RunFolder, Path]] = []
    try:
        for file in files_read:
            title = name or Path(file.source.name).stem
            folder = records.new(title)
            path = records.root / f"{_HIDDEN}{folder.id}"
            staged.append((folder, path))
            with report_write_errors(folder.path):
                _stage(path, file, _manifest(folder, file, title, tags, command))
                path.chmod(folder.path.stat().st_mode)
        for folder, path in staged:
            with report_write_errors(folder.path):
                # A folder takes the place of an empty one in one step.
                path.replace(folder.path)
    except BaseException:
        for folder, path in staged:
            discard_folder(path, files.OWN_FILES)
            discard_folder(folder.path, files.OWN_FILES)
        raise
    files.sync_folder(records.root)
    return [Run.open(folder.path) for folder, _ in staged]


def _stage(folder: Path, file: Collector, manifest: Manifest) -> None:
    """Writes a run's files to a folder that no list shows; the run's own is empty until then.

    Raises:
        OSError: they can't be written.
    """
    folder.mkdir()
    (folder / files.ORIGINAL).write_bytes(file.source.data)
    if file.is_histogram_log:
        (folder / files.HISTOGRAMS).write_bytes(file.source.data)
    files.write_atomically(folder / files.INTERVALS, to_parquet(intervals_table(file)))
    if file.intervals:
        files.write_atomically(folder / files.WRITTEN, to_parquet(written_table(file)))
    if file.workload:
        files.write_atomically(folder / files.WORKLOAD, file.workload.encode())
    text = files.to_json(manifest.model_dump(mode="json"))
    files.write_atomically(folder / files.MANIFEST, text)
    for path in folder.iterdir():
        path.chmod(_READ_ONLY)


def _manifest(
    folder: RunFolder, file: Collector, title: str, tags: Sequence[str], command: Sequence[str]
) -> Manifest:
    engine = model.RunRecord(
        started_wall_ns=round(folder.created.timestamp() * 1e9), capabilities=None, clock=None,
        system=model.SystemRecord(system=file.system, version=file.system_version), phases=(),
        totals=(),
    )  # fmt: skip
    imported, tag = imported_record(file), TAG
    if file.audit is not None:
        run = ("kvmark", "run", str(folder.path / files.WORKLOAD))
        again = (*run, *file.audit.counterpart) if file.workload else ()
        audit, tag = replace(file.audit, counterpart=again), AUDIT_TAG
        imported = imported.model_copy(update={"audit": audit})
    return Manifest(
        format=files.FORMAT, id=folder.id, tags=tuple(dict.fromkeys([tag, *tags])),
        created=folder.created.isoformat(), command=tuple(command), plan={"name": title},
        versions={"kvmark": __version__}, closed_by="import", engine=engine,
        imported=imported,
    )  # fmt: skip


def imported_record(file: Collector) -> model.ImportedRecord:
    """What a file says, and where it comes from."""
    source = file.source
    origin = model.OriginRecord(
        file=Path(source.name).name, size_bytes=len(source.data),
        sha256=hashlib.sha256(source.data).hexdigest(), tool=file.tool, version=file.version,
        format=file.kind.code, started_wall_ns=file.started_wall_ns, said=file.said,
    )  # fmt: skip
    return model.ImportedRecord(
        origin=origin,
        cases=tuple(file.cases),
        figures=file.figures,
        histograms=tuple(file.histograms),
        notes=tuple(file.notes),
    )


def intervals_table(reading: Collector) -> pl.DataFrame:
    """The intervals as our own runs have them."""
    merged = _merged(reading.intervals)
    rows = [_row(reading, each) for each in (*merged, *_totals(merged))]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("phase", "start_ns")


def written_table(reading: Collector) -> pl.DataFrame:
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


def _row(reading: Collector, each: Interval) -> dict[str, Any]:
    """An interval as in kvmark's runs; unknown values are null."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA)
    for time, statistics in each.times.items():
        for statistic, value in statistics.items():
            column = _STATISTICS.get(statistic, statistic)
            if column in _COLUMNS and value >= 0:
                row[f"{time}_ns_{column}"] = value if column == "mean" else round(value)
    return row | {
        "phase": each.case, "phase_name": "measure", "drain": False, "part": False,
        "start_ns": each.start_ns, "end_ns": each.end_ns, "group": reading.cases[each.case].name,
        "operation": each.operation or "TOTAL", "outcome": "any", "count": each.count,
    }  # fmt: skip


def _totals(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """All operations of each interval of which only parts are reported."""
    given = {each.case for each in intervals if each.operation is None}
    parts: dict[tuple[int, int, int], list[int | None]] = {}
    for each in intervals:
        if each.case not in given:
            parts.setdefault((each.case, each.start_ns, each.end_ns), []).append(each.count)
    for (case, start_ns, end_ns), counts in parts.items():
        known = [count for count in counts if count is not None]
        total = sum(known) if len(known) == len(counts) else None
        yield Interval(case, None, start_ns, end_ns, total)
