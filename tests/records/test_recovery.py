"""A killed run is closed from its logs; a running run is left alone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import RecordsError
from kvmark.records import Header, Records, Run, RunFolder, files, recover_run, writer
from kvmark.records.histograms import encode
from kvmark.records.writer import Writer
from kvmark.stats import Counts
from runs_on_disk import histogram

Make = Callable[[], RunFolder]
HEADER = Header(plan={"name": "ycsb/a", "groups": [{"name": "clients"}]})


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
    engine = recover_run(killed).manifest.engine
    (phase,) = engine.phases
    assert (phase.start_ns, phase.end_ns, phase.stopped_by) == (0, 3_000_000_000, "killed")
    assert (phase.groups[0].issued, phase.groups[0].ok) == (300, 300)
    assert [notice.code for notice in engine.notices] == ["x"]
    assert (engine.clock, engine.capabilities, phase.workers) == (None, None, ())
    assert phase.generator_lag is None


def test_a_recovered_run_has_the_lag_of_its_generator(killed: Path) -> None:
    encoded = encode(Counts.of([3000, 5000, 9000]))
    with (killed / "histograms.hlog").open("a") as log:
        for second in range(2):
            log.write(f"Tag=generator-lag,{second}.000000000,1.000000000,0.009,{encoded}\n")
    (phase,) = recover_run(killed).manifest.engine.phases
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


def test_a_running_run_is_left_alone(records: Records, running: Make) -> None:
    folder = running()
    with pytest.raises(RecordsError, match=f"still going in process {os.getpid()}: wait"):
        recover_run(folder.path)
    # Checking the lock doesn't release it.
    assert [records.find(folder.id).state for _ in range(3)] == ["going"] * 3
    assert (folder.path / "running.json").exists()
    assert not (folder.path / "manifest.json").exists()


def test_a_writer_is_known_by_number_and_start_and_on_another_host_exists(tmp_path: Path) -> None:
    this = Writer.this()
    assert this.lives()
    assert not this.model_copy(update={"started": "an earlier boot/17"}).lives()
    assert Writer(pid=1, started="unknown", host="another-host.invalid").writes(tmp_path)


def as_in_another_container(path: Path) -> None:
    """Changes a run's host and process to unknown ones."""
    elsewhere = {"host": "another-host.invalid", "pid": 1, "started": "unknown"}
    change(path / "running.json", lambda one: one["writer"].update(elsewhere))


def test_a_run_is_running_or_killed_independent_of_its_host_name(
    records: Records, running: Make
) -> None:
    folder = running()
    as_in_another_container(folder.path)
    assert records.find(folder.id).state == "going"
    with pytest.raises(RecordsError, match="still going"):
        recover_run(folder.path)
    folder.release()
    assert records.find(folder.id).state == "killed"
    assert histogram(recover_run(folder.path)).n == 300
    assert not (folder.path / files.LOCK).exists()


def test_a_file_system_without_locks_is_supported(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_damaged_description_cannot_be_recovered(running: Make) -> None:
    folder = running()
    (folder.path / "running.json").write_text('{"format": 2}')
    with pytest.raises(RecordsError, match=r"running\.json can't be read \(\w+: Field required\)"):
        recover_run(folder.path)
