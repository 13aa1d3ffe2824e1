"""Runs that end early: killed, interrupted and terminated commands; SIGINT at random instants."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from command_line import (
    EVENTS,
    Kvmark,
    Result,
    Started,
    fingerprint,
    levels,
    outcomes,
    phase,
    run_folders,
    sentence_of,
)
from hypothesis import settings
from scripted_store import store

from kvmark.records import Records, files
from waiting import PATIENCE_S, wait_until

LONG = "--duration 1h --interval 50ms --records 100 -q"
SIM = f"run ycsb/c --system sim:?mean_us=100 --load never {LONG}"


WHILE_IT_LOADS = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "kvmark.interrupts":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from kvmark.cli import main
main()
"""


def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback() -> None:
    command = [sys.executable, "-c", WHILE_IT_LOADS, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_killed_run_is_recovered_and_no_other_is_changed(kvmark: Kvmark) -> None:
    words = f"run ycsb/a --system rocksdb:{kvmark.folder}/db"
    short = "--records 100 --operations 500 -q"
    kvmark(f"{words} {short}")
    earlier = fingerprint(kvmark.runs)

    killed = kvmark.start(f"{words} {LONG}")
    killed.wait_for(count=6)
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
    run = kvmark.start(words)
    run.wait_for(count=3)
    folder, moved = run.folder, kvmark.runs.with_name("moved")
    kvmark.runs.rename(moved)
    err = run.finish(3).err
    assert "isn't in" in err
    assert "--runs" in err
    assert kvmark("show last --json --runs", moved).json["run"] == folder.name


def test_a_run_lasts_until_the_process_that_generates_load_has_ended(kvmark: Kvmark) -> None:
    run = kvmark.start(SIM)
    run.wait_for(count=2)
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


@pytest.mark.parametrize("option", ["", "--json"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_measurement(kvmark: Kvmark, sent: int, option: str) -> None:
    run = kvmark.start(f"run ycsb/a --system rocksdb:{kvmark.folder}/db {LONG} {option}")
    run.wait_for(count=6)
    run.process.send_signal(sent)
    result = run.finish(exits=130)
    if option:
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
    run = kvmark.start(words, "--drain-limit", "1h")
    run.wait_for(count=6)
    run.process.send_signal(signal.SIGINT)
    # The first interrupt waits for the stalled operation, up to an hour.
    run.wait_for('"interrupted"', EVENTS)
    assert run.process.poll() is None
    assert run.interrupt().err.startswith("kvmark: ")


@pytest.mark.parametrize("connections", [0, 1])
def test_an_interrupt_ends_a_run_whose_system_hangs_while_it_opens(
    kvmark: Kvmark, connections: int
) -> None:
    first = list(range(connections))
    hangs, ends, connection = threading.Event(), threading.Event(), threading.local()

    def answer_or_hang() -> None:
        if not hasattr(connection, "hangs"):
            connection.hangs = not first
            first.clear()
        if connection.hangs:
            hangs.set()
            ends.wait()

    with store(answer_or_hang) as server:
        system = f"redis://127.0.0.1:{server.port}?connect_timeout_ms=3600000"
        run = kvmark.start(f"run ycsb/c --system {system} --load never {LONG}")
        assert hangs.wait(PATIENCE_S)
        err = run.interrupt().err
        ends.set()
    assert sentence_of(err) == "interrupted before the system was open: nothing was measured"
    assert not run_folders(kvmark.runs)


def test_a_sequence_that_ends_early_keeps_its_runs_and_no_database(kvmark: Kvmark) -> None:
    words = "ycsb --system rocksdb: --records 100 --workloads load,c --repetitions 1 -q"

    def second_step() -> Started:
        started = kvmark.start(words, "--duration", "1h", "--interval", "50ms")
        started.wait_for(file="*-ycsb-c-*/intervals.jsonl")
        return started

    ended = second_step().interrupt()
    assert "interrupted: resume it with" in ended.err
    # The table has the load, and not the case that was cut short.
    assert [row.split()[0] for row in ended.out.splitlines()[:5:4]] == ["YCSB", "load"]
    assert "\nC " not in ended.out
    assert len(run_folders(kvmark.runs)) == 2
    assert not list(kvmark.runs.glob("scratch*"))
    second_step().kill()
    assert len(list(kvmark.runs.glob("scratch-*"))) == 1
    kvmark(words, "--report", "none")
    assert not list(kvmark.runs.glob("scratch-*"))


def loaded(run: Started) -> int:
    """The records that a load has written, by the log of its intervals."""
    log = run.folder / files.INTERVAL_LOG
    rows = map(json.loads, files.whole_lines(log).splitlines())
    return max((row["frontier"] for row in rows if row["operation"] == "TOTAL"), default=0)


def test_a_killed_load_is_resumed(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system rocksdb:{kvmark.folder}/db -q"
    killed = kvmark.start(f"{words} --records 300k --interval 20ms --duration 1h")
    killed.wait_for()
    wait_until(lambda: loaded(killed) > 20_000, "a part is loaded")
    killed.kill()
    ended = loaded(killed)

    kvmark(words, "--records", "300k", "--operations", "20000")
    manifest = kvmark.manifest()
    load = phase(manifest, "load")
    assert load["records_found"] > ended - 5_000
    assert load["groups"][0]["issued"] == 300_000 - load["records_found"]
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
    started.wait_for("")
    started.process.send_signal(signal.SIGINT)
    started.process.terminate()
    assert "kept as run" in started.finish(exits=130).err


STEADY = "sim:?mean_us=200&service=constant"
WORK = f"ycsb/c --system {STEADY} --load never --interval 20ms"
AB = (
    "ab 'ycsb/c --load never --duration 100ms --interval 20ms' --allow invalid"
    f" --base '--system {STEADY}' --candidate '--system {STEADY} --clients 2'"
)
STUDY = """\
name: endless
question: Does it end?
system: "sim:?mean_us=200&service=constant"
workload: ycsb/c
run: {load: never, duration: 100ms, interval: 20ms}
factors: {clients: [1, 2]}
repetitions: 1000
"""
YCSB = "ycsb --system rocksdb: --records 200 --workloads load,c"
CAPACITY = "--slo 'p99<50ms' --duration 100ms --warmup 20ms --within 30%"
APP = "--num_reads 500 --num_writes 10 --num_unique_keys 50 --num_threads_read 1"
OWN = "--json --quiet"
# The most runs to wait for, and the command. Where the grammar is another tool's, kvmark's own
# options come first. A short command ends soon, so that some instants are after its last run.
COMMANDS = {
    "run": (1, f"run {WORK} --duration 1h {OWN}"),
    "ycsb": (3, f"{YCSB} --duration 100ms --interval 20ms --repetitions 1000 --report none {OWN}"),
    "stress": (1, f"stress {OWN} read duration=1h no-warmup -rate threads=2 -node {STEADY}"),
    "app": (
        3,
        f"app RedisKeyValue --system {STEADY} --repetitions 1000 {OWN} {APP} --num_threads_write 1",
    ),
    "study": (3, f"study endless.yaml --report none {OWN}"),
    "ab": (3, f"{AB} --repetitions 1000 {OWN}"),
    "capacity": (3, f"capacity {WORK} {CAPACITY} --repetitions 101 --clients 4 {OWN}"),
    "replay": (1, f"replay t.trace --system {STEADY} --loop 1000000 --interval 20ms {OWN}"),
    "short run": (1, f"run {WORK} --duration 200ms --report report.html {OWN}"),
    "short ycsb": (3, f"{YCSB} --operations 500 --repetitions 2 {OWN}"),
    "short ab": (8, f"{AB} --repetitions 4 --report report.html {OWN}"),
}
MOST_DELAY_S = 0.3
"""The longest delay of an interrupt after the state that a test waits for."""


@dataclass(frozen=True)
class Instant:
    """The runs that have begun before an interrupt, and its delay after that."""

    seed: int
    runs: int
    delay_s: float


def instants(request: pytest.FixtureRequest, command: str, most_runs: int) -> list[Instant]:
    """Draws the instants of a command from the seed of `make test-long`, or from a fixed one."""
    is_long = settings.default is not None and settings.default.max_examples > 100
    seed = int(request.config.getoption("--hypothesis-seed") or 0)
    chance = random.Random(f"{seed} {command}")
    return [
        Instant(seed, chance.randint(0, most_runs), chance.uniform(0, MOST_DELAY_S))
        for _ in range(200 if is_long else 5)
    ]


def handles_sigterm(process: subprocess.Popen[str]) -> bool:
    """Whether the program handles SIGTERM: from then on it must end in order."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def interrupt(kvmark: Kvmark, words: str, instant: Instant) -> Result:
    """Interrupts a command unless it has ended before, and checks that it keeps each run."""
    started = kvmark.start(words)
    process = started.process
    wait_until(lambda: handles_sigterm(process), "the program handles SIGTERM")

    def has_begun() -> bool:
        paths = [*kvmark.runs.glob("*/running.json"), *kvmark.runs.glob("*/manifest.json")]
        return process.poll() is not None or len({path.parent for path in paths}) >= instant.runs

    wait_until(has_begun, f"{instant.runs} runs have begun")
    time.sleep(instant.delay_s)
    result = started.interrupt(exits=(0, 1, 130))
    assert "Traceback" not in result.err, (instant, result)
    assert "Exception ignored" not in result.err, (instant, result)
    if kvmark.runs.exists():
        records = Records(kvmark.runs)
        for entry in records.list():
            assert entry.state in {"closed", "ended"}, (instant, entry)
            assert records.open(entry.id).manifest.closed_by == "engine", (instant, entry)
        assert not list(kvmark.runs.glob("scratch-*")), instant
        assert not list(kvmark.runs.glob(".tried-*")), instant
    return result


@pytest.mark.hypothesis
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_at_any_time_keeps_all_runs(
    kvmark: Kvmark, command: str, request: pytest.FixtureRequest
) -> None:
    (kvmark.folder / "endless.yaml").write_text(STUDY)
    if command == "replay":
        kvmark("run ycsb/c --system null: --operations 100 --record t.trace -q", exits=(0, 1))
    most_runs, words = COMMANDS[command]
    for number, instant in enumerate(instants(request, command, most_runs)):
        own = replace(kvmark, runs=kvmark.folder / f"runs-{number}")
        result = interrupt(own, words, instant)
        # It was interrupted, or a short command had printed its answer before.
        assert result.code == 130 or (command.startswith("short") and result.json), instant
