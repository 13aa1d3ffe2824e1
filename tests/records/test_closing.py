"""From the first file of a run to its manifest: closed, recovered, or in conflict with a disk."""

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
from kvmark.records import Header, Records, Run, RunFolder, close_run, files, recover_run, writer
from kvmark.records.files import FORMAT
from kvmark.records.histograms import encode
from kvmark.records.intervals import TIMED
from kvmark.records.writer import Writer
from kvmark.stats import Counts
from runs_on_disk import close, histogram, snapshot

Make = Callable[[], RunFolder]
Record = dict[str, Any]
HEADER = Header(plan={"name": "ycsb/a", "groups": [{"name": "clients"}]})


def test_a_closed_run_has_tables_and_no_logs(running: Make, engine_record: Record) -> None:
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
    assert run.intervals["due"].dtype == pl.Int64
    assert run.intervals["service_ns_mean"].dtype == pl.Float64
    assert run.intervals.filter(pl.col("operation") == "READ")["count"].to_list() == [100] * 3
    assert run.resources["cpu_user"].to_list() == [0.5, 0.7]
    assert run.manifest.closed_by == "engine"
    assert run.manifest.plan["name"] == "ycsb/a"
    assert json.loads((run.path / "manifest.json").read_text())["engine"] == record


def test_missing_columns_of_a_table_are_null(closed: Run) -> None:
    table = closed.path / "intervals.parquet"
    older = pl.read_parquet(table).drop("read_late", "carried")
    table.chmod(0o600)
    older.write_parquet(table)
    read = Run.open(closed.path)
    assert read.intervals["carried"].null_count() == read.intervals.height
    assert read.intervals.select(TIMED.sum()).item() == read.intervals["count"].sum()
    assert read.manifest.engine.phases[0].groups[0].read_late is None


def test_a_damaged_histogram_is_reported(running: Make, engine_record: Record) -> None:
    engine_record["totals"][0]["response"]["histogram"] = "no histogram"
    run = close(running(), engine_record)
    with pytest.raises(RecordsError, match=r"a histogram of READ in run .* is damaged"):
        histogram(run)


def test_an_engine_record_of_unknown_form_is_rejected(running: Make, engine_record: Record) -> None:
    folder = running()
    del engine_record["phases"][0]["stopped_by"]
    with pytest.raises(RunError, match=r"phases\.0\.stopped_by: Field required.*logs are kept"):
        folder.end(engine_record)
    assert (folder.path / "intervals.jsonl").exists()


@pytest.mark.parametrize("victim", ["intervals.parquet", "manifest.json"])
def test_a_run_on_a_full_disk_can_be_closed_later(
    running: Make, closed: Run, engine_record: Record, monkeypatch: pytest.MonkeyPatch, victim: str
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


def test_a_disk_that_is_full_is_an_error_and_from_the_start_leaves_no_folder(
    records: Records, running: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = running()
    (folder.path / "resources.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunError, match="the disk is full"):
        folder.append_resources([{"at_ns": 0}])

    def no_space(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(RunError, match="the disk is full"):
        records.new("ycsb/a").begin(HEADER)
    assert list(records.root.iterdir()) == [folder.path]


def test_no_run_with_a_measurement_is_removed(
    records: Records, running: Make, engine_record: Record
) -> None:
    folder = records.new("ycsb/a")
    folder.begin(HEADER)
    assert folder.abandon()
    assert records.list() == []
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


def test_a_run_without_an_end_or_a_description_cannot_be_read(running: Make) -> None:
    folder = running()
    for open_run in (Run.open, close_run):
        with pytest.raises(RecordsError, match="has no manifest: it is still going or was killed"):
            open_run(folder.path)
    assert (folder.path / "running.json").exists()
    (folder.path / "running.json").write_text('{"format": 2}')
    with pytest.raises(RecordsError, match=r"running\.json can't be read \(\w+: Field required\)"):
        recover_run(folder.path)


def test_a_manifest_of_a_later_format_asks_for_an_update(closed: Run) -> None:
    path = closed.path / "manifest.json"
    document = json.loads(path.read_text())
    path.chmod(0o644)
    path.write_text(json.dumps({**document, "format": FORMAT + 1}))
    with pytest.raises(RecordsError, match=f"it has format {FORMAT + 1} and this kvmark reads"):
        Run.open(closed.path)


# A killed run is closed from its logs; a running run is left alone.


def change(path: Path, change: Callable[[Any], None]) -> None:
    """Changes a JSON document."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_recovered_run_has_the_totals_of_a_closed_run(closed: Run, killed: Path) -> None:
    recovered = recover_run(killed)
    assert recovered.manifest.closed_by == "recovered"
    (expected,), (actual,) = (run.manifest.engine.totals for run in (closed, recovered))
    keys = {"operation", "outcome", "count", "in_window", "rows"}
    assert actual.model_dump(include=keys) == expected.model_dump(include=keys)
    assert (actual.service.min, actual.service.max) == (expected.service.min, expected.service.max)
    for q in ("p50", "p95", "p99", "p999"):
        exact = getattr(expected.response, q)
        assert getattr(actual.response, q) == pytest.approx(exact, rel=0.002)
    assert histogram(recovered).n == 300


def test_a_recovered_run_has_the_content_of_its_logs_only(killed: Path) -> None:
    encoded = encode(Counts.of([3000, 5000, 9000]))
    with (killed / "histograms.hlog").open("a") as log:
        for second in range(2):
            log.write(f"Tag=generator-lag,{second}.000000000,1.000000000,0.009,{encoded}\n")
    engine = recover_run(killed).manifest.engine
    (phase,) = engine.phases
    assert (phase.start_ns, phase.end_ns, phase.stopped_by) == (0, 3_000_000_000, "killed")
    assert (phase.groups[0].issued, phase.groups[0].ok) == (300, 300)
    assert [notice.code for notice in engine.notices] == ["x"]
    assert (engine.clock, engine.capabilities, phase.workers) == (None, None, ())
    assert phase.generator_lag.count == 6
    assert phase.generator_lag.p50 == pytest.approx(5000, rel=0.001)


@pytest.mark.parametrize("name", ["intervals.jsonl", "histograms.hlog", "events.jsonl"])
def test_a_truncated_line_is_skipped(killed: Path, name: str) -> None:
    path = killed / name
    path.write_bytes(path.read_bytes()[:-20])
    run = recover_run(path.parent)
    assert run.manifest.engine.totals[0].count in (200, 300)


def test_a_run_killed_before_its_first_interval_is_recovered_as_empty(records: Records) -> None:
    folder = records.new("early")
    folder.begin(HEADER)
    folder.release()
    run = recover_run(folder.path)
    assert run.manifest.engine.phases == ()
    assert run.intervals.is_empty()


def test_phases_of_one_name_are_separated_by_time(killed: Path) -> None:
    path = killed / "intervals.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["phase"] = 0 if row["start_ns"] < 1_000_000_000 else 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = recover_run(path.parent)
    assert [histogram(run, phase).n for phase in (0, 1)] == [100, 200]


def test_groups_parts_and_outcomes_have_their_histograms(killed: Path) -> None:
    change(killed / "running.json", lambda one: one["plan"]["groups"].append({"name": "more"}))
    intervals, histograms = killed / "intervals.jsonl", killed / "histograms.hlog"
    rows = intervals.read_text().replace('"clients"', '"slow clients"')
    rows = rows.replace('"part": false', '"part": true').replace('"ok"', '"miss"')
    intervals.write_text(rows)
    tag = "Tag=slow_clients.READ-MODIFY-WRITE.READ.miss-"
    histograms.write_text(histograms.read_text().replace("Tag=READ-", tag))
    run = recover_run(killed)
    (total,) = run.totals(0)
    assert (total.group, total.part, total.outcome) == ("slow clients", True, "miss")
    assert histogram(run).n == 300


def test_a_writer_is_known_by_number_and_start_and_on_another_host_exists(tmp_path: Path) -> None:
    this = Writer.this()
    assert this.lives()
    assert not this.model_copy(update={"started": "an earlier boot/17"}).lives()
    assert Writer(pid=1, started="unknown", host="another-host.invalid").writes(tmp_path)


def test_a_run_is_running_or_killed_whatever_its_host(records: Records, running: Make) -> None:
    folder = running()
    with pytest.raises(RecordsError, match=f"still going in process {os.getpid()}: wait"):
        recover_run(folder.path)
    elsewhere = {"host": "another-host.invalid", "pid": 1, "started": "unknown"}
    change(folder.path / "running.json", lambda one: one["writer"].update(elsewhere))
    # Checking the lock doesn't release it.
    assert [records.find(folder.id).state for _ in range(3)] == ["going"] * 3
    with pytest.raises(RecordsError, match="still going"):
        recover_run(folder.path)
    assert not (folder.path / "manifest.json").exists()
    folder.release()
    assert records.find(folder.id).state == "killed"
    assert histogram(recover_run(folder.path)).n == 300
    assert not (folder.path / files.LOCK).exists()


def test_a_file_system_may_have_no_locks(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(writer.fcntl, "flock", refuse)
    folder = records.new("unlocked")
    folder.begin(HEADER)
    assert records.find(folder.id).state == "going"


def test_recovering_a_closed_run_only_removes_its_logs(closed: Run) -> None:
    before = (closed.path / "manifest.json").read_bytes()
    (closed.path / "running.json").write_text("left by a kill during the close")
    assert recover_run(closed.path).manifest.closed_by == "engine"
    assert (closed.path / "manifest.json").read_bytes() == before
    assert not (closed.path / "running.json").exists()
