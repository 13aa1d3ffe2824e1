"""Runs that end before their time: killed, interrupted, and interrupted twice."""

import json
import signal
from collections.abc import Callable

import psutil
from command_line import Going, Kvmark, fingerprint, run_folders

from kvmark.records import Records, files
from waiting import wait_until

LONG = ("--duration", "1h", "--interval", "50ms", "--records", "100", "-q")


def test_a_killed_run_is_recovered_and_nothing_else_is_harmed(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    words = ("ycsb/a", "--system", f"rocksdb:{kvmark.folder}/db")
    kvmark("run", *words, "--records", "100", "--operations", "500", "-q")
    earlier = fingerprint(kvmark.runs)

    killed = going(*words, *LONG)
    killed.wait_for_intervals(6)
    assert Records(kvmark.runs).find(killed.folder.name).state == "going"
    killed.kill()
    [line] = [one for one in kvmark("runs").out.splitlines() if killed.folder.name in one]
    assert "killed" in line

    shown = kvmark("show", "last", "--json").json
    assert shown["run"] == killed.folder.name
    reasons = {reason["code"]: reason["level"] for reason in shown["verdict"]["reasons"]}
    assert reasons["recovered"] == "SUSPECT"
    manifest = kvmark.manifest(killed.folder.name)
    assert manifest["closed_by"] == "recovered"
    assert sum(total["count"] for total in manifest["engine"]["totals"]) > 0
    assert earlier.items() <= fingerprint(kvmark.runs).items()

    kvmark("run", *words, "--records", "100", "--operations", "500", "-q")
    outcomes = {total["outcome"] for total in kvmark.manifest()["engine"]["totals"]}
    assert outcomes == {"ok"}


def test_a_folder_of_runs_that_is_moved_meanwhile_keeps_what_was_measured(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    words = ("ycsb/c", "--system", "sim:?mean_us=100", "--load", "never")
    run = going(*words, "--duration", "3s", "--interval", "50ms", "-q")
    run.wait_for_intervals(3)
    moved = kvmark.runs.with_name("moved")
    kvmark.runs.rename(moved)
    told = run.finish(3).err
    assert "isn't in" in told
    assert "--runs" in told
    assert kvmark("show", "last", "--json", "--runs", moved).json["run"] == run.folder.name


def test_a_run_goes_until_its_load_has_ended_too(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    run = going("ycsb/c", "--system", "sim:?mean_us=100", "--load", "never", *LONG)
    run.wait_for_intervals(2)
    [generator] = psutil.Process(run.process.pid).children()
    generator.suspend()
    # A busy machine stops it later: it must not see its parent's death before it stands still.
    wait_until(lambda: generator.status() == psutil.STATUS_STOPPED, "the generator stands still")
    run.process.kill()
    run.process.communicate()
    assert "is still going" in kvmark.refuses("show", run.folder.name)
    generator.resume()
    run.kill()
    assert kvmark("show", run.folder.name, "--json").json["run"] == run.folder.name


def test_an_interrupted_run_keeps_what_was_measured(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    run = going("ycsb/a", "--system", f"rocksdb:{kvmark.folder}/db", *LONG)
    run.wait_for_intervals(6)
    run.interrupt()
    result = run.finish(exits=130)
    assert f"kept as run {run.folder.name}" in result.err
    assert "Throughput" in result.out
    record = kvmark.manifest(run.folder.name)["engine"]
    assert record["interrupted"] is True
    assert record["phases"][-1]["stopped_by"] == "cancelled"
    assert sum(total["count"] for total in record["totals"]) > 0


def test_an_interrupted_run_is_one_json_document_too(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    run = going("ycsb/c", "--system", "sim:?mean_us=100", "--load", "never", "--json", *LONG)
    run.wait_for_intervals(4)
    run.interrupt()
    assert run.finish(exits=130).json["run"] == run.folder.name


def test_a_second_interrupt_does_not_wait_for_an_operation_that_hangs(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    system = "sim:?stall=0.2+1000&mean_us=100"
    run = going("ycsb/c", "--system", system, "--load", "never", "--drain-limit", "1h", *LONG)
    run.wait_for_intervals(6)
    run.interrupt()
    # The first one waits for the operation that hangs, an hour if need be.
    events = run.folder / files.EVENTS
    wait_until(lambda: '"interrupted"' in events.read_text(), "the first interrupt has arrived")
    assert run.process.poll() is None
    run.interrupt()
    assert run.finish(exits=130).err.startswith("kvmark: ")


def test_an_interrupted_sequence_keeps_its_runs_and_leaves_no_database(kvmark: Kvmark) -> None:
    words = ("--records", "1000", "--workloads", "load,c", "--duration", "1h")
    started = kvmark.start("ycsb", *words, "--interval", "50ms", "-q")
    logs = "*-ycsb-c-*/intervals.jsonl"
    wait_until(lambda: any(log.stat().st_size for log in kvmark.runs.glob(logs)), "step two goes")
    started.send_signal(signal.SIGINT)
    result = kvmark.finish(started, 130)
    assert "interrupted" in result.err
    assert len(run_folders(kvmark.runs)) == 2
    assert not list(kvmark.runs.glob("scratch*"))


def test_a_killed_sequence_leaves_a_database_that_the_next_one_removes(kvmark: Kvmark) -> None:
    words = ("--records", "100", "--workloads", "load,c", "--repetitions", "1", "-q")
    started = kvmark.start("ycsb", *words, "--duration", "1h", "--interval", "50ms")
    wait_until(lambda: list(kvmark.runs.glob("*-ycsb-c-*/intervals.jsonl")), "the second step goes")
    kvmark.kill(started)
    assert len(list(kvmark.runs.glob("scratch-*"))) == 1
    kvmark("ycsb", *words, "--report", "none")
    assert not list(kvmark.runs.glob("scratch-*"))


def loaded(run: Going) -> int:
    """How many records a load has put there so far, as its log says."""
    log = run.folder / files.INTERVAL_LOG
    rows = map(json.loads, files.whole_lines(log).splitlines())
    return max((row["frontier"] for row in rows if row["operation"] == "TOTAL"), default=0)


def test_a_load_that_was_killed_goes_on_where_it_ended(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    words = ("ycsb/c", "--system", f"rocksdb:{kvmark.folder}/db", "--records", "1M")
    killed = going(*words, "--interval", "20ms", "--duration", "1h", "-q")
    wait_until(lambda: loaded(killed) > 20_000, "a part is loaded")
    killed.kill()
    ended = loaded(killed)

    kvmark("run", *words, "--operations", "20000", "-q")
    manifest = kvmark.manifest(run_folders(kvmark.runs)[-1].name)
    load, *_ = manifest["engine"]["phases"]
    assert load["name"] == "load"
    assert load["records_found"] > ended - 5_000
    assert load["groups"][0]["issued"] == 1_000_000 - load["records_found"]
    # Every record is there: none of those read at random is missing.
    assert {total["outcome"] for total in manifest["engine"]["totals"]} == {"ok"}

    always = ("--records", "10000", "--load", "always", "--operations", "10", "-q")
    kvmark("run", *words[:3], *always)
    load, *_ = kvmark.manifest(run_folders(kvmark.runs)[-1].name)["engine"]["phases"]
    assert (load["records_found"], load["groups"][0]["issued"]) == (None, 10_000)


def test_a_command_that_is_terminated_keeps_what_was_measured(
    kvmark: Kvmark, going: Callable[..., Going]
) -> None:
    run = going("ycsb/c", "--system", "sim:?mean_us=100", "--load", "never", *LONG)
    run.wait_for_intervals(6)
    run.process.terminate()
    result = run.finish(exits=130)
    assert f"kept as run {run.folder.name}" in result.err
    record = kvmark.manifest(run.folder.name)["engine"]
    assert record["interrupted"] is True
    assert sum(total["count"] for total in record["totals"]) > 0


def test_a_command_in_the_background_is_terminated_too(kvmark: Kvmark) -> None:
    # A shell that runs a script lets what it puts in the background not hear Ctrl-C.
    words = ("run", "ycsb/c", "--system", "sim:?mean_us=100", "--load", "never", *LONG)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = kvmark.start(*words)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until(lambda: list(kvmark.runs.glob("*/intervals.jsonl")), "the run goes")
    started.terminate()
    assert "kept as run" in kvmark.finish(started, 130).err
