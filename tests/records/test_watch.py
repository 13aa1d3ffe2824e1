"""The state of a running run, from its logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import RecordsError
from kvmark.records import Records, RunFolder
from kvmark.records.files import Tail, read_events, whole_lines
from kvmark.records.watch import Cells, SeenRun, Watch
from runs_on_disk import OPERATIONS, begun, interval_rows, write_second


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return begun(Records(tmp_path / "runs"))


def seen(folder: RunFolder, *rows: list[dict[str, Any]]) -> SeenRun:
    """The state of a run after these rows."""
    with (folder.path / "intervals.jsonl").open("a") as log:
        log.writelines(json.dumps(row) + "\n" for several in rows for row in several)
    return Watch(folder.path).look()


def test_before_the_first_interval_there_are_no_figures(folder: RunFolder) -> None:
    empty = seen(folder)
    assert (empty.succeeded_per_s, empty.response_ns_p99, empty.kinds) == (None, None, ())
    assert empty.minute(60) == Cells((), (), ())


def test_a_poll_reads_the_rows_appended_since_the_last_poll(folder: RunFolder) -> None:
    watch = Watch(folder.path)
    write_second(folder, 0)
    assert len(watch.look().moments) == 1
    write_second(folder, 1, failed=7)
    found = watch.look()
    moments = [(one.succeeded, one.failed) for one in found.moments]
    assert moments == [(OPERATIONS, 0), (OPERATIONS, 7)]
    assert (found.succeeded_per_s, found.response_ns_p99) == (OPERATIONS, 19_900)
    assert found.errors == {"timeout": 7}
    (kind,) = found.kinds
    figures = (kind.operation, kind.succeeded_per_s, kind.response_ns_p99)
    assert figures == ("READ", OPERATIONS, 19_900)


def test_the_servers_are_those_of_the_newest_two_samples(folder: RunFolder) -> None:
    watch, second_ns = Watch(folder.path), 10**9
    for second, used_s in enumerate((5.0, 6.5, 7.0, 0.0)):
        known = {"at_wall_ns": second * second_ns, "cpu_system_s": 0.0}
        folder.append_resources([
            {**known, "node": "db", "cpu_user_s": used_s, "cores": 2},
            {**known, "node": "own", "cpu_user_s": used_s},
            {**known, "node": "unknown", "cpu_user_s": None},
            {**known, "node": "generator-0", "cpu_user_s": used_s},
        ])  # fmt: skip
        if second == 1:
            servers = watch.look().servers
            assert list(map(str, servers)) == ["db 1.50 of 2 cores", "own 1.50 cores"]
    # The last sample is that of a server that was started again.
    assert [one.busy_cores for one in watch.look().servers] == [0.5, 0.5]


def test_groups_are_summed_and_their_highest_p99_is_shown(folder: RunFolder) -> None:
    slow = [{**row, "group": "slow", "response_ns_p99": 5_000_000} for row in interval_rows(0)]
    found = seen(folder, interval_rows(0), slow)
    (moment,) = found.moments
    assert (moment.succeeded, moment.response_ns_p99) == (2 * OPERATIONS, 5_000_000)
    assert [kind.group for kind in found.kinds] == ["clients", "slow"]


def test_errors_and_kinds_are_those_of_the_phase(folder: RunFolder) -> None:
    before = [{**row, "operation": "INSERT" if row["operation"] == "READ" else "TOTAL"}
              for row in interval_rows(0, failed=3)]  # fmt: skip
    found = seen(folder, before, [{**row, "phase": 1} for row in interval_rows(1)])
    assert found.errors == {}
    assert [kind.operation for kind in found.kinds] == ["READ"]
    # A kind without a completed operation is still shown; parts of others count once.
    nothing = {**interval_rows(2)[0], "phase": 1, "count": 0, "response_ns_p99": None}
    part = {**interval_rows(2)[1], "phase": 1, "operation": "UPDATE", "part": True}
    found = seen(folder, [nothing, part])
    (kind,) = found.kinds
    assert (kind.operation, kind.succeeded_per_s, kind.response_ns_p99) == ("READ", 0.0, None)
    assert (found.succeeded_per_s, found.response_ns_p99) == (0.0, None)


def test_only_the_last_minute_is_kept(folder: RunFolder) -> None:
    found = seen(folder, *map(interval_rows, range(75)))
    assert len(found.moments) == 60
    assert found.minute(60).succeeded_per_s == (OPERATIONS,) * 60
    # Cells of three seconds, the first of which begins before the minute.
    assert found.minute(21).succeeded_per_s == (OPERATIONS,) * 20


def test_a_time_without_intervals_is_an_empty_cell(folder: RunFolder) -> None:
    minute = seen(folder, *map(interval_rows, (0, 1, 4))).minute(60)
    assert minute.succeeded_per_s == (OPERATIONS, OPERATIONS, None, None, OPERATIONS)


def test_a_fault_has_its_time_in_the_measurement(folder: RunFolder) -> None:
    started = {"kind": "phase_started", "phase": 1, "name": "measure"}
    folder.append_event({"at_ns": 5 * 10**9, **started})
    begun = {"kind": "fault", "fault": "3s kill node-1", "state": "begun"}
    folder.append_event({"at_ns": 8 * 10**9, **begun})
    (fault,) = seen(folder).faults
    assert (fault.text, fault.state, fault.at_ns) == ("3s kill node-1", "begun", 3 * 10**9)


def test_a_partial_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    log, tail = tmp_path / "log", Tail(tmp_path / "log")
    assert list(tail.objects()) == []
    log.write_text('{"a": 1}\n{"a"')
    assert list(tail.objects()) == [{"a": 1}]
    log.write_text('{"a": 1}\n{"a": 2}\nnot json\n')
    assert list(tail.objects()) == [{"a": 2}]
    assert list(tail.objects()) == []


def test_a_bounded_read_returns_the_newest_complete_lines(tmp_path: Path) -> None:
    log, tail = tmp_path / "log", Tail(tmp_path / "log")
    log.write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)))
    newest = [one["n"] for one in tail.objects(100)]
    assert newest == list(range(1000 - len(newest), 1000))
    assert 0 < len(newest) <= 10
    assert list(tail.objects(100)) == []


def test_a_pipe_and_a_log_larger_than_any_of_kvmark_are_rejected_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordsError, match="it is no regular file"):
        Tail(tmp_path / "pipe").lines(100)
    log = tmp_path / "log"
    with log.open("wb") as file:
        # A hole: nothing is written to the disk.
        file.truncate((1 << 30) + 1)
    for read in (whole_lines, read_events):
        with pytest.raises(RecordsError, match="it is larger than 1,073,741,824 bytes"):
            read(log)
    assert Tail(log).lines(100) == b""
