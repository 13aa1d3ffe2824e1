"""The state of a running run, from its logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import RecordsError
from kvmark.records import Records, RunFolder
from kvmark.records.files import Tail
from kvmark.records.watch import Minute, Watch
from runs_on_disk import OPERATIONS, begun, interval_rows, write_second


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return begun(Records(tmp_path / "runs"))


def append(folder: RunFolder, rows: list[dict[str, Any]]) -> None:
    with (folder.path / "intervals.jsonl").open("a") as log:
        log.write("".join(json.dumps(row) + "\n" for row in rows))


def test_before_the_first_interval_there_are_no_figures(folder: RunFolder) -> None:
    seen = Watch(folder.path).look()
    assert (seen.succeeded_per_s, seen.response_ns_p99, seen.kinds) == (None, None, ())
    assert seen.minute(60) == Minute(0, (), (), ())


def test_a_poll_reads_the_rows_appended_since_the_last_poll(folder: RunFolder) -> None:
    watch = Watch(folder.path)
    write_second(folder, 0)
    assert len(watch.look().moments) == 1
    write_second(folder, 1, failed=7)
    seen = watch.look()
    assert [(one.succeeded, one.failed) for one in seen.moments] == [
        (OPERATIONS, 0),
        (OPERATIONS, 7),
    ]
    assert seen.succeeded_per_s == OPERATIONS
    assert seen.response_ns_p99 == 19_900
    assert seen.errors == {"timeout": 7}
    (kind,) = seen.kinds
    assert (kind.operation, kind.succeeded_per_s, kind.response_ns_p99) == (
        "READ",
        OPERATIONS,
        19_900,
    )


def test_groups_are_summed_and_their_highest_p99_is_shown(folder: RunFolder) -> None:
    slow = [{**row, "group": "slow", "response_ns_p99": 5_000_000} for row in interval_rows(0)]
    append(folder, interval_rows(0) + slow)
    seen = Watch(folder.path).look()
    (moment,) = seen.moments
    assert (moment.succeeded, moment.response_ns_p99) == (2 * OPERATIONS, 5_000_000)
    assert [kind.group for kind in seen.kinds] == ["clients", "slow"]


def test_a_kind_without_completed_operations_is_still_shown(folder: RunFolder) -> None:
    append(folder, interval_rows(0))
    append(folder, [{**interval_rows(1)[0], "count": 0, "response_ns_p99": None}])
    seen = Watch(folder.path).look()
    (kind,) = seen.kinds
    assert (kind.succeeded_per_s, kind.response_ns_p99) == (0.0, None)
    assert (seen.succeeded_per_s, seen.response_ns_p99) == (0.0, None)


def test_errors_and_kinds_are_those_of_the_phase(folder: RunFolder) -> None:
    append(folder, [{**row, "operation": "INSERT" if row["operation"] == "READ" else "TOTAL"}
                    for row in interval_rows(0, failed=3)])  # fmt: skip
    append(folder, [{**row, "phase": 1} for row in interval_rows(1)])
    seen = Watch(folder.path).look()
    assert seen.errors == {}
    assert [kind.operation for kind in seen.kinds] == ["READ"]


def test_parts_of_read_modify_writes_are_counted_once(folder: RunFolder) -> None:
    append(folder, interval_rows(0))
    append(folder, [{**interval_rows(0)[1], "operation": "UPDATE", "part": True}])
    assert Watch(folder.path).look().moments[0].succeeded == OPERATIONS


def test_only_the_last_minute_is_kept(folder: RunFolder) -> None:
    for second in range(75):
        append(folder, interval_rows(second))
    seen = Watch(folder.path).look()
    assert len(seen.moments) == 60
    assert seen.minute(60).succeeded_per_s == (OPERATIONS,) * 60
    assert seen.minute(21).cell_ns == 3 * 10**9
    assert set(seen.minute(21).succeeded_per_s) == {OPERATIONS}
    assert len(seen.minute(21).succeeded_per_s) <= 21


def test_a_time_without_intervals_is_an_empty_cell(folder: RunFolder) -> None:
    for second in (0, 1, 4):
        append(folder, interval_rows(second))
    minute = Watch(folder.path).look().minute(60)
    assert minute.succeeded_per_s == (OPERATIONS, OPERATIONS, None, None, OPERATIONS)


def test_a_fault_has_its_time_in_the_measurement(folder: RunFolder) -> None:
    folder.append_event(
        {"at_ns": 5 * 10**9, "kind": "phase_started", "phase": 1, "name": "measure"}
    )
    folder.append_event(
        {"at_ns": 8 * 10**9, "kind": "fault", "fault": "3s kill node-1", "state": "begun"}
    )
    (fault,) = Watch(folder.path).look().faults
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


def test_a_pipe_instead_of_a_log_is_rejected_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(RecordsError, match="it is no regular file"):
        Tail(tmp_path / "log").lines(100)
