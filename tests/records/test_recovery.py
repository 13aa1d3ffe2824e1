"""A killed run is closed from its logs; a run that still goes is left alone."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import RecordsError
from kvmark.records import Records, RunFolder, files, process, recover
from kvmark.records.histograms import encode
from kvmark.records.process import Writer
from kvmark.stats import Counts

Going = Callable[[], RunFolder]
Kill = Callable[[RunFolder], None]
Engine = Callable[..., dict[str, Any]]

BEGIN_A_RUN = """
import sys, time
from pathlib import Path
from kvmark.records import Header, Records
folder = Records(Path(sys.argv[1])).new("killed")
plan = {"name": "ycsb/a", "groups": [{"name": "clients"}]}
folder.begin(Header(("kvmark",), {}, plan, {}, {}))
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_recovered_run_has_the_totals_of_a_run_that_closed(
    going: Going, kill: Kill, engine_record: Engine
) -> None:
    closed = going().close(engine_record())
    folder = going()
    kill(folder)
    recovered = recover(folder.path)
    assert recovered.manifest.closed_by == "recovered"
    (expected,), (found,) = (run.manifest.engine.totals for run in (closed, recovered))
    keys = {"operation", "outcome", "count", "in_window", "rows"}
    assert found.model_dump(include=keys) == expected.model_dump(include=keys)
    assert (found.service.min, found.service.max) == (expected.service.min, expected.service.max)
    for q in ("p50", "p95", "p99", "p999"):
        exact = getattr(expected.response, q)
        assert getattr(found.response, q) == pytest.approx(exact, rel=0.002)
    assert recovered.histogram(0, "clients", "READ").n == 300


def test_a_recovered_run_keeps_what_its_logs_say_and_no_more(going: Going, kill: Kill) -> None:
    folder = going()
    kill(folder)
    engine = recover(folder.path).manifest.engine
    (phase,) = engine.phases
    assert (phase.start_ns, phase.end_ns, phase.stopped_by) == (0, 3_000_000_000, "killed")
    assert (phase.groups[0].issued, phase.groups[0].ok) == (300, 300)
    assert [notice.code for notice in engine.notices] == ["x"]
    assert (engine.clock, engine.capabilities, phase.workers) == (None, None, ())


def test_a_recovered_run_has_the_lag_of_its_generator(going: Going, kill: Kill) -> None:
    folder = going()
    encoded = encode(Counts.of([3000, 5000, 9000]))
    with (folder.path / "histograms.hlog").open("a") as log:
        for second in range(2):
            log.write(f"Tag=generator-lag,{second}.000000000,1.000000000,0.009,{encoded}\n")
    kill(folder)
    (phase,) = recover(folder.path).manifest.engine.phases
    assert phase.generator_lag is not None
    assert phase.generator_lag.count == 6
    assert phase.generator_lag.p50 == pytest.approx(5000, rel=0.001)


def test_a_run_without_sampled_reads_has_no_lag(going: Going, engine_record: Engine) -> None:
    record = engine_record()
    assert "generator_lag" not in record["phases"][0]
    assert going().close(record).manifest.engine.phases[0].generator_lag is None


@pytest.mark.parametrize("name", ["intervals.jsonl", "histograms.hlog", "events.jsonl"])
def test_a_line_that_was_cut_off_is_left_out(going: Going, kill: Kill, name: str) -> None:
    folder = going()
    kill(folder)
    path = folder.path / name
    path.write_bytes(path.read_bytes()[:-20])
    run = recover(folder.path)
    assert run.manifest.engine.totals[0].count in (200, 300)


def test_a_run_killed_before_its_first_interval_is_recovered_as_empty(
    records: Records, header: Any, kill: Kill
) -> None:
    folder = records.new("early")
    folder.begin(header)
    kill(folder)
    run = recover(folder.path)
    assert run.manifest.engine.phases == ()
    assert run.intervals.is_empty()


def test_phases_of_one_name_are_kept_apart_by_time(going: Going, kill: Kill) -> None:
    folder = going()
    kill(folder)
    path = folder.path / "intervals.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["phase"] = 0 if row["start_ns"] < 1_000_000_000 else 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = recover(folder.path)
    assert [run.histogram(phase, "clients", "READ").n for phase in (0, 1)] == [100, 200]


def test_groups_parts_and_outcomes_find_their_histograms(going: Going, kill: Kill) -> None:
    folder = going()
    running = folder.path / "running.json"
    document = json.loads(running.read_text())
    document["plan"]["groups"].append({"name": "more"})
    running.write_text(json.dumps(document))
    kill(folder)
    intervals, histograms = folder.path / "intervals.jsonl", folder.path / "histograms.hlog"
    rows = intervals.read_text().replace('"clients"', '"slow clients"')
    rows = rows.replace('"part": false', '"part": true').replace('"ok"', '"miss"')
    intervals.write_text(rows)
    tag = "Tag=slow_clients.READ-MODIFY-WRITE.READ.miss-"
    histograms.write_text(histograms.read_text().replace("Tag=READ-", tag))
    run = recover(folder.path)
    counts = run.histogram(0, "slow clients", "READ", part=True, outcome="miss")
    assert counts.n == 300


def test_a_run_that_still_goes_is_left_alone(going: Going) -> None:
    folder = going()
    with pytest.raises(RecordsError, match=f"still going in process {os.getpid()}: wait"):
        recover(folder.path)
    assert (folder.path / "running.json").exists()


def test_another_process_of_the_same_number_is_not_taken_for_the_writer() -> None:
    this = Writer.this()
    assert this.lives()
    assert not this.model_copy(update={"started": "an earlier boot/17"}).lives()


def test_a_run_of_another_host_and_an_older_kvmark_is_taken_as_going(tmp_path: Path) -> None:
    elsewhere = Writer(pid=1, started="unknown", host="another-host.invalid")
    assert elsewhere.writes(tmp_path)


def seen_from_elsewhere(path: Path) -> None:
    """Lets a run say what another container would see: a host and a process unknown here."""
    running = path / "running.json"
    document = json.loads(running.read_text())
    document["writer"] |= {"host": "another-host.invalid", "pid": 1, "started": "unknown"}
    running.write_text(json.dumps(document))


def test_a_run_is_seen_as_going_and_as_killed_whatever_its_host_is_called(
    records: Records, going: Going, kill: Kill
) -> None:
    folder = going()
    seen_from_elsewhere(folder.path)
    assert records.find(folder.id).state == "going"
    with pytest.raises(RecordsError, match="still going"):
        recover(folder.path)
    kill(folder)
    assert records.find(folder.id).state == "killed"
    assert recover(folder.path).histogram(0, "clients", "READ").n == 300


def test_a_look_at_a_run_that_goes_leaves_its_lock_alone(records: Records, going: Going) -> None:
    folder = going()
    assert [records.find(folder.id).state for _ in range(3)] == ["going"] * 3
    assert not (folder.path / "manifest.json").exists()


def test_a_closed_run_has_no_lock_any_more(going: Going, engine_record: Engine) -> None:
    run = going().close(engine_record())
    assert not (run.path / files.LOCK).exists()


def test_a_file_system_without_locks_is_written_to_all_the_same(
    records: Records, header: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(process.fcntl, "flock", refuse)
    folder = records.new("unlocked")
    folder.begin(header)
    assert records.find(folder.id).state == "going"


def test_a_process_killed_with_kill_9_leaves_a_run_that_can_be_recovered(
    records: Records, going: Going
) -> None:
    records.root.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN_A_RUN, str(records.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as begun:
        assert begun.stdout is not None
        path = Path(begun.stdout.readline().strip())
        seen_from_elsewhere(path)
        assert records.find(path.name).state == "going"
        begun.send_signal(signal.SIGKILL)
    assert begun.returncode == -signal.SIGKILL
    for log in going().path.glob("*[lg]"):
        (path / log.name).write_bytes(log.read_bytes())
    assert records.find(path.name).state == "killed"
    assert records.open(path.name).histogram(0, "clients", "READ").n == 300
    assert records.find(path.name).state == "closed"


def test_recovering_a_closed_run_only_reads_it(
    going: Going, kill: Kill, engine_record: Engine
) -> None:
    run = going().close(engine_record())
    before = (run.path / "manifest.json").read_bytes()
    (run.path / "running.json").write_text("left by a kill between manifest and tidying up")
    assert recover(run.path).manifest.closed_by == "engine"
    assert (run.path / "manifest.json").read_bytes() == before
    assert not (run.path / "running.json").exists()


def test_a_damaged_description_cannot_be_recovered(going: Going) -> None:
    folder = going()
    (folder.path / "running.json").write_text('{"format": 2}')
    with pytest.raises(RecordsError, match=r"running\.json can't be read \(id: Field required\)"):
        recover(folder.path)
