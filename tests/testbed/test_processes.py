"""Processes are known by number and start, and signalled only when both agree."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import process
from kvmark.testbed.process import Identity, Watched

Start = Callable[..., Identity]
PATIENCE_S = 300.0

READY = "print('ready', flush=True)\n"
SLEEP = "import time\ntime.sleep(600)\n"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def start(log: Path) -> Iterator[Start]:
    """Starts a Python program, and kills it at the end of the test."""
    started: list[Identity] = []

    def run(program: str, cores: Sequence[int] = ()) -> Identity:
        command = [sys.executable, "-c", program]
        started.append(process.start(command, log, cores=cores))
        return started[-1]

    yield run
    for one in started:
        process.kill(one)


def wait_for(text: str, one: Identity, log: Path) -> None:
    watched = [Watched(name="program", process=one, log=log)]
    process.wait_until(lambda: text in log.read_text(), f"say {text}", watched, PATIENCE_S)


def test_a_process_is_detached_and_its_output_is_in_the_log(start: Start, log: Path) -> None:
    one = start(READY + SLEEP)
    wait_for("ready", one, log)
    assert os.getsid(one.pid) == one.pid
    assert process.lives(one)


def test_a_process_gets_nothing_of_the_environment(
    start: Start, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVMARK_PASSWORD", "sesame")
    one = start("import os\nprint(sorted(os.environ), flush=True)\n" + READY + SLEEP)
    wait_for("ready", one, log)
    assert "KVMARK_PASSWORD" not in log.read_text()


def test_stopping_lets_a_process_end_by_itself_first(start: Start, log: Path) -> None:
    told = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(print('told')))\n"
    one = start(told + READY + SLEEP)
    wait_for("ready", one, log)
    assert process.stop([one]) == [one]
    assert log.read_text().split() == ["ready", "told"]
    assert not process.lives(one)


def test_one_that_says_no_at_first_is_asked_again(start: Start, log: Path) -> None:
    # As Redis does that writes its first append-only file.
    answers = "import signal\nwords = ['no', 'yes']\ndef answer(*_):\n    print(words.pop(0))\n"
    ends = "    words or exit()\nsignal.signal(signal.SIGTERM, answer)\n"
    one = start(answers + ends + READY + SLEEP)
    wait_for("ready", one, log)
    assert process.stop([one]) == [one]
    assert log.read_text().split() == ["ready", "no", "yes"]


def test_what_does_not_end_is_killed(start: Start, log: Path) -> None:
    one = start(DEAF + READY + SLEEP)
    wait_for("ready", one, log)
    assert process.stop([one], grace_s=0.05) == [one]
    assert not process.lives(one)


def test_a_paused_process_can_be_stopped(start: Start, log: Path) -> None:
    one = start(READY + SLEEP)
    wait_for("ready", one, log)
    assert process.pause(one)
    assert process.stop([one]) == [one]


def test_a_paused_process_stands_still_until_it_is_resumed(start: Start, log: Path) -> None:
    one = start(READY + SLEEP)
    wait_for("ready", one, log)
    watched = [Watched(name="program", process=one, log=log)]
    process.pause(one)
    found = psutil.Process(one.pid)
    process.wait_until(
        lambda: found.status() == psutil.STATUS_STOPPED, "pause", watched, PATIENCE_S
    )
    process.resume(one)
    process.wait_until(
        lambda: found.status() != psutil.STATUS_STOPPED, "resume", watched, PATIENCE_S
    )


def test_another_process_of_the_same_number_is_not_signalled(start: Start) -> None:
    one = start(SLEEP)
    boot, _, ticks = one.started.rpartition("/")
    former = Identity(pid=one.pid, started=f"{boot}/{int(ticks) - 1}")
    assert process.stop([former]) == []
    assert not process.kill(former)
    assert not process.pause(former)
    assert process.lives(one)


def test_what_has_ended_is_not_stopped_again(start: Start) -> None:
    one = start(SLEEP)
    assert process.kill(one)
    assert not process.kill(one)
    assert process.stop([one]) == []


def test_a_process_is_bound_to_its_cores_and_the_starter_is_not(start: Start, log: Path) -> None:
    own = os.sched_getaffinity(0)
    chosen = max(own)
    one = start(READY + SLEEP, cores=[chosen])
    wait_for("ready", one, log)
    assert os.sched_getaffinity(one.pid) == {chosen}
    assert os.sched_getaffinity(0) == own


THREADS = """import threading, time
for _ in range(8): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
def more():
    while True:
        one = threading.Thread(target=time.sleep, args=(0.001,)); one.start(); one.join()
threading.Thread(target=more, daemon=True).start()
"""


def test_a_process_that_goes_is_bound_with_all_its_threads_and_those_it_starts(
    start: Start, log: Path
) -> None:
    usable = os.sched_getaffinity(0)
    one = start(THREADS + READY + SLEEP, cores=[max(usable)])
    wait_for("ready", one, log)
    for cores in (usable, {min(usable)}, {max(usable)}):
        process.bind(one, cores)
        for thread in psutil.Process(one.pid).threads():
            with suppress(ProcessLookupError):
                assert os.sched_getaffinity(thread.id) == cores


def test_what_has_ended_is_bound_to_nothing_and_cores_that_are_not_there_are_said(
    start: Start, log: Path
) -> None:
    one = start(READY + SLEEP)
    wait_for("ready", one, log)
    with pytest.raises(SystemUnderTestError, match="can't be bound to other cores because Inv"):
        process.bind(one, [4095])
    process.kill(one)
    process.bind(one, [4095])
    # Another process has that number now.
    process.bind(Identity(pid=os.getpid(), started="long ago"), [4095])


def test_a_core_that_is_not_there_is_refused(start: Start) -> None:
    with pytest.raises(UsageError, match="core 4095 can't be used: choose among"):
        start(SLEEP, cores=[4095])


def test_waiting_for_a_process_that_ends_quotes_its_last_line(start: Start, log: Path) -> None:
    one = start("print('no luck today\\n\\n')")
    watched = [Watched(name="program", process=one, log=log)]
    with pytest.raises(SystemUnderTestError, match=r"^program ended by itself: no luck today$"):
        process.wait_until(lambda: False, "start", watched, PATIENCE_S)


def test_waiting_too_long_says_for_what_and_quotes_the_log(start: Start, log: Path) -> None:
    one = start(READY + SLEEP)
    wait_for("ready", one, log)
    watched = [Watched(name="program", process=one, log=log)]
    with pytest.raises(SystemUnderTestError, match=r"longer than 0.01 s to dance.*is: ready$"):
        process.wait_until(lambda: False, "dance", watched, 0.01)


def test_a_program_that_is_not_there_is_said(log: Path) -> None:
    with pytest.raises(SystemUnderTestError, match="no-such-program can't be started because No"):
        process.start(["/no-such-program"], log)


def test_a_started_process_takes_signals_that_the_starter_ignores(start: Start, log: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        one = start(READY + SLEEP)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for("ready", one, log)
    os.kill(one.pid, signal.SIGINT)
    watched = [Watched(name="program", process=one, log=log)]
    with pytest.raises(SystemUnderTestError, match="ended by itself"):
        process.wait_until(lambda: False, "go on", watched, PATIENCE_S)
