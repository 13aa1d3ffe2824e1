"""SIGINT at random instants in each command that measures; `make test-long` draws more."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from command_line import Kvmark, Result
from hypothesis import settings

from kvmark.records import Records
from waiting import wait_until

SIM = "sim:?mean_us=200&service=constant"
WORK = f"ycsb/c --system {SIM} --load never --interval 20ms"
AB = (
    "ab 'ycsb/c --load never --duration 100ms --interval 20ms' --allow plan,invalid"
    f" --base '--system {SIM}' --candidate '--system {SIM} --clients 2'"
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
OWN = "--json --quiet"
# None ends during a test. Where the grammar is another tool's, kvmark's own options come first.
ENDLESS = {
    "run": f"run {WORK} --duration 1h {OWN}",
    "ycsb": "ycsb --records 200 --workloads load,c --duration 100ms --interval 20ms"
    f" --repetitions 1000 --report none {OWN}",
    "stress": f"stress {OWN} read duration=1h no-warmup -rate threads=2 -node {SIM}",
    "app": f"app RedisKeyValue --system {SIM} --num_reads 500 --num_writes 10 --num_unique_keys 50"
    f" --num_threads_read 1 --num_threads_write 1 --repetitions 1000 {OWN}",
    "study": f"study endless.yaml --report none {OWN}",
    "ab": f"{AB} --repetitions 1000 {OWN}",
    "capacity": f"capacity {WORK} --slo 'p99<50ms' --duration 100ms --warmup 20ms --within 30%"
    f" --repetitions 101 --clients 4 {OWN}",
    "replay": f"replay t.trace --system {SIM} --loop 1000000 --interval 20ms {OWN}",
}
# These end soon, so that some instants are after their last run.
SHORT = {
    "run": f"run {WORK} --duration 200ms --report report.html {OWN}",
    "ycsb": f"ycsb --records 200 --workloads load,c --operations 500 --repetitions 2 {OWN}",
    "ab": f"{AB} --repetitions 4 --report report.html {OWN}",
}
MOST_DELAY_S = 0.3
"""The longest delay of an interrupt after the state that a test waits for."""


@dataclass(frozen=True)
class Instant:
    """The runs that have begun before an interrupt, and its delay after that."""

    seed: int
    runs: int
    delay_s: float


Draw = Callable[[str, int], list[Instant]]


@pytest.fixture
def instants(request: pytest.FixtureRequest) -> Draw:
    """Draws the instants of a command from the seed of `make test-long`, or from a fixed one."""
    is_long = settings.default is not None and settings.default.max_examples > 100
    seed = int(request.config.getoption("--hypothesis-seed") or 0)

    def draw(command: str, most_runs: int) -> list[Instant]:
        chance = random.Random(f"{seed} {command}")
        return [
            Instant(seed, chance.randint(0, most_runs), chance.uniform(0, MOST_DELAY_S))
            for _ in range(200 if is_long else 10)
        ]

    return draw


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
    wait_until(lambda: handles_sigterm(started), "the program handles SIGTERM")

    def has_begun() -> bool:
        paths = (
            path for name in ("running", "manifest") for path in kvmark.runs.glob(f"*/{name}.json")
        )
        return started.poll() is not None or len({path.parent for path in paths}) >= instant.runs

    wait_until(has_begun, f"{instant.runs} runs have begun")
    time.sleep(instant.delay_s)
    started.send_signal(signal.SIGINT)
    result = kvmark.finish(started, (0, 1, 130))
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
@pytest.mark.parametrize("command", ENDLESS)
def test_an_interrupt_ends_a_command_and_keeps_its_runs(
    kvmark: Kvmark, command: str, instants: Draw
) -> None:
    (kvmark.folder / "endless.yaml").write_text(STUDY)
    if command == "replay":
        record = "--operations 100 --record t.trace -q"
        kvmark(f"run ycsb/c --system null: {record}", exits=(0, 1))
    most_runs = 1 if command in {"run", "stress", "replay"} else 3
    for number, instant in enumerate(instants(command, most_runs)):
        own = replace(kvmark, runs=kvmark.folder / f"runs-{number}")
        assert interrupt(own, ENDLESS[command], instant).code == 130, instant


@pytest.mark.hypothesis
@pytest.mark.parametrize("command", SHORT)
def test_an_interrupt_at_the_end_is_handled(kvmark: Kvmark, command: str, instants: Draw) -> None:
    most_runs = {"run": 1, "ycsb": 3, "ab": 8}[command]
    for number, instant in enumerate(instants(f"short {command}", most_runs)):
        own = replace(kvmark, runs=kvmark.folder / f"runs-{number}")
        result = interrupt(own, SHORT[command], instant)
        # It has printed its answer, or it was interrupted.
        assert result.code == 130 or result.json, (instant, result)
