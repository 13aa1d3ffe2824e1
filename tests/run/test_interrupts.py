"""Ctrl-C and SIGTERM are counted at once, answered where a command can stop, and keep the run."""

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kvmark import interrupts
from kvmark.cli.options import ExperimentOptions
from kvmark.cli.session import execute_design
from kvmark.errors import Interrupted, RunError, SystemUnderTestError
from kvmark.interrupts import Interrupts
from kvmark.records import Records, close_run
from kvmark.run.context import make_run_context
from kvmark.run.execution import ExecutedRun, execute
from kvmark.run.generator import LocalGenerator
from kvmark.run.sampler import Sampler
from plans import plan_of
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def listening() -> Iterator[Interrupts]:
    """A command listens in this process."""
    with interrupts.listening() as asked:
        yield asked


def ask(asked: Interrupts, number: int = signal.SIGINT) -> None:
    """Asks to stop once more, and waits until that was counted."""
    before = asked.count
    signal.raise_signal(number)
    wait_until(lambda: asked.count > before, "it was counted")


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Interrupted("interrupted")])
def test_a_request_that_ends_an_experiment_does_not_interrupt_its_answer(
    listening: Interrupts, raised: BaseException, tmp_path: Path
) -> None:
    def stop(_: object) -> None:
        ask(listening)
        raise raised

    options = ExperimentOptions(folder=tmp_path, quiet=True)
    design: Any = SimpleNamespace(typical_plan=str, other_plans=dict, execute=stop)
    journal: Any = SimpleNamespace(id="a", records=options.open_records(), alone=nullcontext)
    with execute_design(design, options, journal) as problem:
        interrupts.check()
    assert "resume it with" in str(problem)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_request_within_a_destructor_is_not_lost(listening: Interrupts, number: int) -> None:
    # Python drops what such a callback raises.
    thing: set[int] = set()
    end = weakref.ref(thing, lambda _: ask(listening, number))
    del thing
    assert end() is None
    assert interrupts.requested()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


def test_a_request_is_raised_once_and_nothing_more_may_begin(listening: Interrupts) -> None:
    interrupts.check()
    assert not interrupts.requested()
    ask(listening)
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    # What cleans up may wait.
    interrupts.check()
    interrupts.pause(0)
    assert interrupts.requested()
    listening.forget()
    ask(listening)
    assert listening.take() == 1
    interrupts.check()
    listening.forget()
    assert not interrupts.requested()


def test_waits_end_with_a_request(listening: Interrupts) -> None:
    never, told = os.pipe()
    hangs = threading.Event()
    waits: list[Callable[[], object]] = [
        lambda: interrupts.pause(PATIENCE_S),
        lambda: interrupts.wait_readable(never),
        lambda: interrupts.wait_for(hangs.wait),
    ]
    listening.answered = len(waits)
    for wait in waits:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            wait()
    hangs.set()
    os.close(told)
    interrupts.wait_readable(never)
    os.close(never)


def test_other_threads_are_not_interrupted(listening: Interrupts) -> None:
    seen: list[object] = []

    def look() -> None:
        interrupts.pause(0)
        interrupts.check()
        seen.append(interrupts.current())

    ask(listening)
    with ThreadPoolExecutor() as others:
        others.submit(look).result()
    assert seen == [None]


def test_a_question_to_the_user_is_answered_by_an_interrupt(listening: Interrupts) -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.suspended():
        signal.raise_signal(signal.SIGINT)
    assert listening.count == 0
    ask(listening)


def test_a_request_before_a_library_handles_signals_is_not_lost(listening: Interrupts) -> None:
    for _ in range(20):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interrupts.suspended():
            pytest.fail("nothing may begin")
        listening.forget()


def test_what_handled_the_signals_before_does_so_afterwards() -> None:
    before = [signal.getsignal(one) for one in interrupts.SIGNALS]
    woken = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(woken)
    with interrupts.listening() as outer, interrupts.listening() as inner:
        assert inner is outer
        with interrupts.kept():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ask(outer, signal.SIGTERM)
    assert [signal.getsignal(one) for one in interrupts.SIGNALS] == before
    assert signal.set_wakeup_fd(woken) == woken


ENDLESS = """
import os, signal, sys
from contextlib import nullcontext
from kvmark import interrupts
with interrupts.listening(), {within}:
    for number in range({requests}):
        os.kill(os.getpid(), signal.SIGINT)
        while (asked := interrupts.current()) and asked.count <= number:
            pass
        print(asked.count, flush=True)
"""


@pytest.mark.parametrize(
    ("within", "answered", "said"),
    [
        ("nullcontext()", 1, "kvmark: interrupted again, and ended at once"),
        ("interrupts.patient()", 2, "kvmark: interrupted again, and ended at once"),
        ("interrupts.at_once()", 0, "kvmark: interrupted"),
    ],
)
def test_too_many_requests_end_the_process(within: str, answered: int, said: str) -> None:
    for requests, ended in ((answered, (0, "")), (answered + 5, (130, f"{said}\n"))):
        command = [sys.executable, "-c", ENDLESS.format(within=within, requests=requests)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == ended
        counted = [int(line) for line in done.stdout.split()]
        assert counted[:answered] == list(range(1, answered + 1))


def test_what_was_asked_before_ends_what_would_be_ended_at_once(listening: Interrupts) -> None:
    ask(listening)
    with pytest.raises(KeyboardInterrupt), interrupts.at_once():
        pytest.fail("it was interrupted before")
    with suppress(KeyboardInterrupt):
        interrupts.check()


SECOND = 1_000_000_000
AtTheEnd = Callable[[Callable[[], object]], None]


def executed(folder: Path, duration_s: float = 3600, **more: Any) -> ExecutedRun:
    """A run on a store that takes a millisecond for each operation."""
    times = {"duration_ns": int(duration_s * SECOND), "interval_ns": SECOND // 20}
    plan = plan_of("ycsb/c", "sim:?mean_us=1000", load="never", **times)
    with LocalGenerator() as generator:
        context = make_run_context(("kvmark",), plan, generator, Records(folder))
        return execute(plan, {}, context, lambda *_: None, **more)


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> AtTheEnd:
    """Calls a function when the sampler ends: after the engine has returned."""

    leave: Callable[..., None] = Sampler.__exit__

    def patch(act: Callable[[], object]) -> None:
        monkeypatch.setattr(Sampler, "__exit__", lambda *problem: leave(*problem) or act())

    return patch


def test_a_complete_run_is_not_ended_by_the_caller(tmp_path: Path, at_the_end: AtTheEnd) -> None:
    over: list[bool] = []
    at_the_end(lambda: over.append(True))
    ended = executed(tmp_path, 0.2, may_go_on=lambda: not over)
    assert ended.failure is None
    assert not close_run(ended.folder.path).manifest.engine.interrupted


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (SystemUnderTestError("the server isn't back"), SystemUnderTestError, "isn't back"),
        (OSError("the samples can't be read"), RunError, "the samples can't be read"),
        (KeyboardInterrupt(), Interrupted, "interrupted: what was measured until then is"),
    ],
)
def test_a_failure_after_the_engine_returned_keeps_the_run_and_is_reported(
    tmp_path: Path, at_the_end: AtTheEnd, problem: BaseException, kind: type, sentence: str
) -> None:
    at_the_end(Mock(side_effect=problem))
    ended = executed(tmp_path, 0.2)
    assert type(ended.failure) is kind
    assert sentence in str(ended.failure)
    assert f"kept as run {ended.folder.id}" in str(ended.failure)
    manifest = close_run(ended.folder.path).manifest
    assert manifest.closed_by == "engine"
    assert manifest.engine.phases[-1].stopped_by == "duration"
    assert manifest.rate > 0


def test_an_interrupted_start_keeps_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalGenerator, "generate", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        executed(tmp_path)
    assert Records(tmp_path).list() == []
