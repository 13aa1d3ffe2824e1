"""A system that stops answering ends a run, whose records are kept; a planned pause doesn't."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from command_line import EVENTS, Kvmark, levels
from real_servers import redis_up
from scripted_store import store

from kvmark.records import files
from kvmark.testbed.state import Testbed

LONG = "--duration 1h --drain-limit 1h --interval 50ms"


@contextmanager
def stopped(testbed: Testbed) -> Iterator[None]:
    """Stops the only server during the body."""
    process = testbed.nodes[0].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("name", ["load", "warm_up", "measure"])
def test_a_stopped_redis_ends_the_phase_and_is_named(user: Kvmark, name: str) -> None:
    testbed = redis_up(user)
    records = "1G" if name == "load" else "100"
    warmup = "--warmup 1h" if name == "warm_up" else ""
    words = f"run ycsb/a --system {testbed.url} --records {records} {warmup} {LONG}"
    run = user.start(words, "--stall-limit", "1s", "-q")
    run.wait_for(f'"phase_name":"{name}"')
    with stopped(testbed):
        ended = run.finish(exits=3)
    address = testbed.nodes[0].address
    sentence = f"kvmark: the server at {address} answered nothing for 1 s: "
    assert ended.err.startswith(sentence), ended
    assert ended.err.count("\n") == 1
    engine = user.manifest()["engine"]
    last = engine["phases"][-1]
    assert (last["name"], last["stopped_by"]) == (name, "failed")
    assert sum(total["count"] for total in engine["totals"]) > 0
    verdict = user("show last --json").json["verdict"]
    assert verdict["judgement"] == levels(verdict)["no_answer"] == "INVALID"
    assert "phase_failed" not in levels(verdict)


@pytest.mark.parametrize("options", [(), ("--timeout", "50ms"), ("--rate", "500")])
def test_a_server_that_never_answers_ends_the_run(kvmark: Kvmark, options: tuple[str, ...]) -> None:
    answers, over = threading.Event(), threading.Event()
    answers.set()

    def before_answer() -> None:
        if not answers.is_set():
            over.wait()

    with store(before_answer) as server:
        words = f"run redis/kv --system redis://127.0.0.1:{server.port} --records 20 {LONG}"
        run = kvmark.start(words, "--stall-limit", "4s", *options)
        run.wait_for('"phase_name":"measure"')
        answers.clear()
        ended = run.finish(exits=3)
        over.set()
    sentence = f"the server at 127.0.0.1:{server.port} answered nothing for 4 s"
    assert sentence in ended.err.splitlines()[-1]
    assert kvmark.reasons()["no_answer"] == "INVALID"


def test_a_server_that_exceeds_every_timeout_still_answers(kvmark: Kvmark) -> None:
    late = threading.Event()
    with store(lambda: late.wait(0.15)) as server:
        words = f"run redis/kv --system redis://127.0.0.1:{server.port} --load never --records 20"
        limits = "--timeout 50ms --duration 4s --stall-limit 1s -q"
        kvmark(f"{words} {limits}", exits=1)
    assert "no_answer" not in kvmark.reasons()
    assert kvmark.manifest()["engine"]["phases"][-1]["stopped_by"] == "duration"


def test_a_planned_pause_that_exceeds_the_limit_ends_no_run(user: Kvmark) -> None:
    words = f"run ycsb/c --system {redis_up(user).url} --records 100 {LONG} --stall-limit 1s -q"
    run = user.start(words, "--fault", "300ms pause primary-1 for 4s")
    run.wait_for('"ended"', EVENTS)
    before = (run.folder / files.INTERVAL_LOG).read_text().count("\n")
    run.wait_for(count=before + 1)
    events = (run.folder / files.EVENTS).read_text()
    assert [events.count(f'"{state}"') for state in ("begun", "ended")] == [1, 1]
    run.interrupt()
    assert "no_answer" not in user.reasons()


STALLED = "sim:?clock=virtual&service=constant&mean_us=1000&stall=2+20"


def test_a_simulated_stall_ends_a_run_at_the_limit(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system {STALLED} --duration 30s --interval 1s --load never -q"
    ended = kvmark(words, "--stall-limit", "10s", exits=3)
    assert "sim answered nothing for 10 s" in ended.err.splitlines()[-1]
    last = kvmark.manifest()["engine"]["phases"][-1]
    assert 9.9e9 < last["end_ns"] - last["start_ns"] - 2e9 < 10.1e9
    for option, limit_ns in (((), 30 * 10**9), (("--stall-limit", "off"), None)):
        kvmark(words, *option, exits=(0, 1))
        assert kvmark.manifest()["plan"]["stall_limit_ns"] == limit_ns


def test_a_limit_applies_to_the_runs_of_an_experiment(kvmark: Kvmark) -> None:
    steady = STALLED.replace("&stall=2+20", "")
    work = f"ycsb/c --system {steady} --load never --operations 200"
    sides = ("--base=--seed 1", "--candidate=--seed 2", "--repetitions", "4")
    kvmark("ab", work, *sides, "--stall-limit", "off", "-q", exits=(0, 1))
    words = f"ycsb --system {STALLED} --workloads c --records 100 --report none --duration 30s -q"
    assert "answered nothing for 5 s" in kvmark(words, "--stall-limit", "5s", exits=3).err
    limits = {manifest["plan"]["stall_limit_ns"] for manifest in kvmark.manifests()}
    assert limits == {None, 5 * 10**9}


def test_a_server_that_was_stopped_before_the_run_is_named_and_unharmed(user: Kvmark) -> None:
    testbed = redis_up(user)
    words = f"run ycsb/c --system {testbed.url} --records 10 --operations 100 -q"
    with stopped(testbed):
        ended = user(words, "--stall-limit", "1s", exits=3)
    assert testbed.nodes[0].address in ended.err.splitlines()[-1]
    user(words, exits=(0, 1))
    assert Testbed.read(testbed.folder).lives
