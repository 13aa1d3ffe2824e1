"""From the first file of a run to its manifest, and write failures on the way."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvmark.errors import RecordsError, RunError
from kvmark.records import Header, Records, Run, RunFolder, close_run
from kvmark.records.files import FORMAT
from kvmark.records.intervals import TIMED
from runs_on_disk import close, histogram

Make = Callable[[], RunFolder]
Record = dict[str, Any]
HEADER = Header(plan={"name": "ycsb/a"})


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_closed_run_has_tables_and_a_manifest_and_no_logs(
    running: Make, engine_record: Record
) -> None:
    folder, record = running(), {**engine_record, "added_by_a_later_engine": [1, 2]}
    folder.append_resources([{"at_ns": 0, "cpu_user": 0.5}, {"at_ns": 1, "cpu_user": 0.7}])
    run = close(folder, record)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.path.iterdir()} == {
        "events.jsonl": 0o400,
        "histograms.hlog": 0o400,
        "intervals.parquet": 0o400,
        "manifest.json": 0o400,
        "resources.parquet": 0o400,
    }
    assert run.intervals.filter(pl.col("operation") == "READ")["count"].to_list() == [100] * 3
    assert run.resources["cpu_user"].to_list() == [0.5, 0.7]
    assert run.manifest.closed_by == "engine"
    assert run.manifest.plan["name"] == "ycsb/a"
    assert json.loads((run.path / "manifest.json").read_text())["engine"] == record


def test_columns_without_a_value_keep_their_type(closed: Run) -> None:
    assert closed.intervals["due"].dtype == pl.Int64
    assert closed.intervals["service_ns_mean"].dtype == pl.Float64


def test_missing_columns_of_a_table_are_null(closed: Run) -> None:
    table = closed.path / "intervals.parquet"
    older = pl.read_parquet(table).drop("read_late", "carried")
    table.chmod(0o600)
    older.write_parquet(table)
    read = Run.open(closed.path)
    assert read.intervals["carried"].null_count() == read.intervals.height
    assert read.intervals.select(TIMED.sum()).item() == read.intervals["count"].sum()
    assert read.manifest.engine.phases[0].groups[0].read_late is None


def test_recorded_histograms_are_read_back(closed: Run) -> None:
    counts = histogram(closed, time="service")
    assert counts.n == 300
    assert counts.quantile(1.0) == pytest.approx(3099, rel=0.001)


def test_a_damaged_histogram_is_reported(running: Make, engine_record: Record) -> None:
    engine_record["totals"][0]["response"]["histogram"] = "no histogram"
    run = close(running(), engine_record)
    with pytest.raises(RecordsError, match=r"a histogram of READ in run .* is damaged"):
        histogram(run)


def test_an_engine_record_of_unknown_form_is_rejected_and_the_logs_are_kept(
    running: Make, engine_record: Record
) -> None:
    folder = running()
    del engine_record["phases"][0]["stopped_by"]
    with pytest.raises(RunError, match=r"phases\.0\.stopped_by: Field required.*logs are kept"):
        folder.end(engine_record)
    assert (folder.path / "intervals.jsonl").exists()


@pytest.mark.parametrize("victim", ["intervals.parquet", "manifest.json"])
def test_a_run_on_a_full_disk_can_be_closed_later(
    running: Make,
    closed: Run,
    engine_record: Record,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
) -> None:
    before, folder, real = snapshot(closed.path), running(), os.open

    def always_full(path: Any, flags: int, *more: Any, **options: Any) -> int:
        is_victim = flags & os.O_WRONLY and victim in str(path)
        return real("/dev/full" if is_victim else path, flags, *more, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", always_full)
        with pytest.raises(RunError, match="because the disk is full: free some space"):
            close(folder, engine_record)
    assert snapshot(closed.path) == before
    assert not (folder.path / "manifest.json").exists()
    assert not list(folder.path.glob(".*"))
    folder.end(engine_record)
    assert histogram(close_run(folder.path)).n == 300


def test_a_disk_that_is_full_from_the_start_leaves_no_folder(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(RunError, match="the disk is full"):
        records.new("ycsb/a").begin(HEADER)
    assert list(records.root.iterdir()) == []


def test_samples_on_a_full_disk_are_a_run_error(running: Make) -> None:
    folder = running()
    (folder.path / "resources.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunError, match="the disk is full"):
        folder.append_resources([{"at_ns": 0}])


def test_a_run_without_a_measurement_is_removed(records: Records) -> None:
    folder = records.new("ycsb/a")
    folder.begin(HEADER)
    assert folder.abandon()
    assert records.list() == []


def test_a_run_with_a_measurement_is_never_removed(running: Make, engine_record: Record) -> None:
    folder = running()
    assert not folder.abandon()
    close(folder, engine_record)
    assert not folder.abandon()
    assert Run.open(folder.path).id == folder.id


def test_a_run_that_has_ended_is_closed_when_it_is_opened(
    records: Records, closed: Run, running: Make, engine_record: Record
) -> None:
    folder = running()
    folder.end(engine_record)
    assert not (folder.path / "intervals.parquet").exists()
    assert records.find(folder.id).state == "ended"
    assert not folder.abandon()
    run = records.open(folder.id)
    assert (run.id, run.manifest.closed_by) == (folder.id, "engine")
    assert run.manifest.engine == closed.manifest.engine
    assert records.find(folder.id).state == "closed"
    assert not (folder.path / "ended.manifest.json").exists()


def test_a_run_without_an_end_cannot_be_closed_or_read(running: Make) -> None:
    folder = running()
    for open_run in (Run.open, close_run):
        with pytest.raises(RecordsError, match="has no manifest: it is still going or was killed"):
            open_run(folder.path)
    assert (folder.path / "running.json").exists()


def test_a_manifest_of_a_later_format_asks_for_an_update(closed: Run) -> None:
    path = closed.path / "manifest.json"
    document = json.loads(path.read_text())
    path.chmod(0o644)
    path.write_text(json.dumps({**document, "format": FORMAT + 1}))
    with pytest.raises(RecordsError, match=f"it has format {FORMAT + 1} and this kvmark reads"):
        Run.open(closed.path)
