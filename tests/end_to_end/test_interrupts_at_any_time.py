"""Ctrl-C at instants drawn by chance in each command that measures; `make test-long` draws more."""

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
RUN = ("ycsb/c", "--system", SIM, "--load", "never", "--interval", "20ms")
AB = (" ".join(["ycsb/c --load never --duration 100ms --interval 20ms"]),
      "--base", f"--system '{SIM}'", "--candidate", f"--system '{SIM}' --clients 2",
      "--allow", "plan,invalid")  # fmt: skip
STUDY = """\
name: endless
question: Does it end?
system: "sim:?mean_us=200&service=constant"
workload: ycsb/c
run: {load: never, duration: 100ms, interval: 20ms}
factors: {clients: [1, 2]}
repetitions: 1000
"""
# None of them comes to an end by itself while a test is patient.
ENDLESS = {
    "run": ("run", *RUN, "--duration", "1h"),
    "ycsb": ("ycsb", "--records", "200", "--workloads", "load,c", "--duration", "100ms",
             "--interval", "20ms", "--repetitions", "1000", "--report", "none"),
    "stress": ("stress", "read", "duration=1h", "no-warmup", "-rate", "threads=2", "-node", SIM),
    "app": ("app", "RedisKeyValue", "--system", SIM, "--num_reads", "500", "--num_writes", "10",
            "--num_unique_keys", "50", "--num_threads_read", "1", "--num_threads_write", "1",
            "--repetitions", "1000"),
    "study": ("study", "endless.yaml", "--report", "none"),
    "ab": ("ab", *AB, "--repetitions", "1000"),
    "capacity": ("capacity", *RUN, "--slo", "p99<50ms", "--duration", "100ms", "--warmup", "20ms",
                 "--within", "30%", "--repetitions", "101", "--clients", "4"),
    "replay": ("replay", "t.trace", "--system", SIM, "--loop", "1000000", "--interval", "20ms"),
}  # fmt: skip
# These end soon, so that some instants are after their last run, when they answer.
SHORT = {
    "run": ("run", *RUN, "--duration", "200ms", "--report", "report.html"),
    "ycsb": ("ycsb", "--records", "200", "--workloads", "load,c", "--operations", "500",
             "--repetitions", "2"),
    "ab": ("ab", *AB, "--repetitions", "4", "--report", "report.html"),
}  # fmt: skip
AFTER_S = 0.3
"""How long after what a test waits for the interrupt comes at most."""


@dataclass(frozen=True)
class Instant:
    """When a command is interrupted: after so many runs were begun, and that time."""

    seed: int
    runs: int
    then_s: float


@pytest.fixture
def instants(request: pytest.FixtureRequest) -> Callable[[str, int], list[Instant]]:
    """Draws the instants of a command from the seed of `make test-long`, or always the same."""
    is_long = settings.default is not None and settings.default.max_examples > 100
    seed = int(request.config.getoption("--hypothesis-seed") or 0)

    def draw(command: str, most_runs: int) -> list[Instant]:
        chance = random.Random(f"{seed} {command}")
        return [
            Instant(seed, chance.randint(0, most_runs), chance.uniform(0, AFTER_S))
            for _ in range(200 if is_long else 10)
        ]

    return draw


def listens(process: subprocess.Popen[str]) -> bool:
    """Whether the program handles SIGTERM by itself: from then on it must end in order."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def interrupted(kvmark: Kvmark, words: tuple[str, ...], instant: Instant) -> Result:
    """Interrupts a command, unless it has ended before."""
    # Where the grammar is another tool's, kvmark's own options come first.
    own = ("--json", "--quiet")
    words = (words[0], *own, *words[1:]) if words[0] == "stress" else (*words, *own)
    started = kvmark.start(*words)
    wait_until(lambda: listens(started), "the program listens")

    def begun() -> bool:
        files = (
            path for name in ("running", "manifest") for path in kvmark.runs.glob(f"*/{name}.json")
        )
        return started.poll() is not None or len({path.parent for path in files}) >= instant.runs

    wait_until(begun, f"{instant.runs} runs were begun")
    time.sleep(instant.then_s)
    started.send_signal(signal.SIGINT)
    result = kvmark.finish(started, (0, 1, 130))
    assert "Traceback" not in result.err, (instant, result)
    assert "Exception ignored" not in result.err, (instant, result)
    return result


def check_kept(kvmark: Kvmark, instant: Instant) -> None:
    """Every run that was begun is there as the engine returned it, and nothing else is left."""
    if kvmark.runs.exists():
        records = Records(kvmark.runs)
        for entry in records.list():
            assert entry.state in {"closed", "ended"}, (instant, entry)
            assert records.open(entry.id).manifest.closed_by == "engine", (instant, entry)
        assert not list(kvmark.runs.glob("scratch-*")), instant
        assert not list(kvmark.runs.glob(".tried-*")), instant


@pytest.mark.hypothesis
@pytest.mark.parametrize("command", ENDLESS)
def test_an_interrupt_at_any_instant_ends_a_command_and_keeps_its_runs(
    kvmark: Kvmark, command: str, instants: Callable[[str, int], list[Instant]]
) -> None:
    (kvmark.folder / "endless.yaml").write_text(STUDY)
    if command == "replay":
        record = ("--operations", "100", "--record", "t.trace", "-q")
        kvmark("run", "ycsb/c", "--system", "null:", *record, exits=(0, 1))
    most_runs = 1 if command in {"run", "stress", "replay"} else 3
    for number, instant in enumerate(instants(command, most_runs)):
        own = replace(kvmark, runs=kvmark.folder / f"runs-{number}")
        assert interrupted(own, ENDLESS[command], instant).code == 130, instant
        check_kept(own, instant)


@pytest.mark.hypothesis
@pytest.mark.parametrize("command", SHORT)
def test_an_interrupt_while_a_command_answers_is_heard(
    kvmark: Kvmark, command: str, instants: Callable[[str, int], list[Instant]]
) -> None:
    most_runs = {"run": 1, "ycsb": 3, "ab": 8}[command]
    for number, instant in enumerate(instants(f"short {command}", most_runs)):
        own = replace(kvmark, runs=kvmark.folder / f"runs-{number}")
        result = interrupted(own, SHORT[command], instant)
        # It was over, and has said all, or else it was interrupted.
        assert result.code == 130 or result.json, (instant, result)
        check_kept(own, instant)
