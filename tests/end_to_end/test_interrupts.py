"""Runs that end early: killed, interrupted and terminated commands."""

import json
import signal

import psutil
import pytest
from command_line import Kvmark, StartedRun, fingerprint, levels, outcomes, phase, run_folders

from kvmark.records import Records, files
from waiting import wait_until

LONG = "--duration 1h --interval 50ms --records 100 -q"
SIM = f"run ycsb/c --system sim:?mean_us=100 --load never {LONG}"


def test_a_killed_run_is_recovered_and_no_other_is_changed(kvmark: Kvmark) -> None:
    words = f"run ycsb/a --system rocksdb:{kvmark.folder}/db"
    short = "--records 100 --operations 500 -q"
    kvmark(f"{words} {short}")
    earlier = fingerprint(kvmark.runs)

    killed = kvmark.start_run(f"{words} {LONG}")
    killed.wait_for_intervals(6)
    run = killed.folder.name
    assert Records(kvmark.runs).find(run).state == "going"
    killed.kill()
    [line] = [one for one in kvmark("runs").out.splitlines() if run in one]
    assert "killed" in line

    document = kvmark("show last --json").json
    assert document["run"] == run
    assert levels(document["verdict"])["recovered"] == "SUSPECT"
    manifest = kvmark.manifest(run)
    assert manifest["closed_by"] == "recovered"
    assert sum(total["count"] for total in manifest["engine"]["totals"]) > 0
    assert earlier.items() <= fingerprint(kvmark.runs).items()

    kvmark(f"{words} {short}")
    assert outcomes(kvmark.manifest()) == {"ok"}


def test_a_run_whose_folder_is_moved_keeps_its_measurement(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system sim:?mean_us=100 --load never --duration 3s --interval 50ms -q"
    run = kvmark.start_run(words)
    run.wait_for_intervals(3)
    moved = kvmark.runs.with_name("moved")
    kvmark.runs.rename(moved)
    err = run.finish(3).err
    assert "isn't in" in err
    assert "--runs" in err
    assert kvmark("show last --json --runs", moved).json["run"] == run.folder.name


def test_a_run_lasts_until_the_process_that_generates_load_has_ended(kvmark: Kvmark) -> None:
    run = kvmark.start_run(SIM)
    run.wait_for_intervals(2)
    [generator] = psutil.Process(run.process.pid).children()
    generator.suspend()
    # On a busy machine it stops later; it must not see its parent's death before.
    wait_until(lambda: generator.status() == psutil.STATUS_STOPPED, "the process has stopped")
    run.process.kill()
    run.process.communicate()
    assert "is still going" in kvmark.refuses("show", run.folder.name)
    generator.resume()
    run.kill()
    assert kvmark("show --json", run.folder.name).json["run"] == run.folder.name


@pytest.mark.parametrize(
    ("sent", "options"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGINT, ("--json",))],
)
def test_an_interrupt_keeps_the_measurement(
    kvmark: Kvmark, sent: signal.Signals, options: tuple[str, ...]
) -> None:
    run = kvmark.start_run(f"run ycsb/a --system rocksdb:{kvmark.folder}/db {LONG}", *options)
    run.wait_for_intervals(6)
    run.process.send_signal(sent)
    result = run.finish(exits=130)
    if options:
        assert result.json["run"] == run.folder.name
    else:
        assert "Throughput" in result.out
    assert f"kept as run {run.folder.name}" in result.err
    record = kvmark.manifest(run.folder.name)["engine"]
    assert record["interrupted"] is True
    assert record["phases"][-1]["stopped_by"] == "cancelled"
    assert sum(total["count"] for total in record["totals"]) > 0


def test_a_second_interrupt_does_not_wait_for_a_stalled_operation(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system sim:?stall=0.2+1000&mean_us=100 --load never {LONG}"
    run = kvmark.start_run(words, "--drain-limit", "1h")
    run.wait_for_intervals(6)
    run.interrupt()
    # The first interrupt waits for the stalled operation, up to an hour.
    run.wait_for('"interrupted"')
    assert run.process.poll() is None
    run.interrupt()
    assert run.finish(exits=130).err.startswith("kvmark: ")


def test_an_interrupted_sequence_keeps_its_runs_and_leaves_no_database(kvmark: Kvmark) -> None:
    words = "ycsb --records 1000 --workloads load,c --duration 1h --interval 50ms -q"
    started = kvmark.start(words)
    logs = "*-ycsb-c-*/intervals.jsonl"
    wait_until(
        lambda: any(log.stat().st_size for log in kvmark.runs.glob(logs)), "step two measures"
    )
    started.send_signal(signal.SIGINT)
    assert "interrupted" in kvmark.finish(started, 130).err
    assert len(run_folders(kvmark.runs)) == 2
    assert not list(kvmark.runs.glob("scratch*"))


def test_the_database_of_a_killed_sequence_is_removed_by_the_next_one(kvmark: Kvmark) -> None:
    words = "ycsb --records 100 --workloads load,c --repetitions 1 -q"
    started = kvmark.start(words, "--duration", "1h", "--interval", "50ms")
    wait_until(lambda: list(kvmark.runs.glob("*-ycsb-c-*/intervals.jsonl")), "step two measures")
    kvmark.kill(started)
    assert len(list(kvmark.runs.glob("scratch-*"))) == 1
    kvmark(words, "--report", "none")
    assert not list(kvmark.runs.glob("scratch-*"))


def loaded(run: StartedRun) -> int:
    """The records that a load has written, by the log of its intervals."""
    log = run.folder / files.INTERVAL_LOG
    rows = map(json.loads, files.whole_lines(log).splitlines())
    return max((row["frontier"] for row in rows if row["operation"] == "TOTAL"), default=0)


def test_a_killed_load_is_resumed(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system rocksdb:{kvmark.folder}/db -q"
    killed = kvmark.start_run(f"{words} --records 1M --interval 20ms --duration 1h")
    wait_until(lambda: loaded(killed) > 20_000, "a part is loaded")
    killed.kill()
    ended = loaded(killed)

    kvmark(words, "--records", "1M", "--operations", "20000")
    manifest = kvmark.manifest()
    load = phase(manifest, "load")
    assert load["records_found"] > ended - 5_000
    assert load["groups"][0]["issued"] == 1_000_000 - load["records_found"]
    # No random read misses its record.
    assert outcomes(manifest) == {"ok"}

    kvmark(words, "--records", "10000", "--load", "always", "--operations", "10")
    load = phase(kvmark.manifest(), "load")
    assert (load["records_found"], load["groups"][0]["issued"]) == (None, 10_000)


def test_a_command_in_the_background_can_be_terminated(kvmark: Kvmark) -> None:
    # A shell lets the background commands of a script ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = kvmark.start(SIM)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until(lambda: list(kvmark.runs.glob("*/intervals.jsonl")), "the run measures")
    started.terminate()
    assert "kept as run" in kvmark.finish(started, 130).err
