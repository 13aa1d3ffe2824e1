"""Systems that answer nothing any more end a run, which is kept; planned silence ends none."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import Going, Kvmark, run_folders
from scripted_store import store

from kvmark.testbed import redis
from kvmark.testbed.state import Testbed
from waiting import wait_until

LIMIT = ("--stall-limit", "1s")
LONG = ("--duration", "1h", "--drain-limit", "1h", "--interval", "50ms")


@contextmanager
def stopped(testbed: Testbed) -> Iterator[None]:
    """The only server is stopped, and goes on at the end."""
    process = testbed.nodes[0].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def judged(user: Kvmark) -> dict[str, Any]:
    verdict: dict[str, Any] = user("show", "last", "--json").json["verdict"]
    return verdict


def levels(user: Kvmark) -> dict[str, str]:
    return {reason["code"]: reason["level"] for reason in judged(user)["reasons"]}


@pytest.mark.parametrize("phase", ["load", "warm_up", "measure"])
def test_a_stopped_redis_ends_the_phase_and_is_named(
    user: Kvmark, going: Callable[..., Going], phase: str
) -> None:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    records = "1G" if phase == "load" else "100"
    warmup = ("--warmup", "1h") if phase == "warm_up" else ()
    words = ("--system", testbed.url, "--records", records, *warmup, *LONG, *LIMIT, "-q")
    run = going("ycsb/a", *words)
    log = run.folder / "intervals.jsonl"
    begun = f'"phase_name":"{phase}"'
    wait_until(lambda: log.exists() and begun in log.read_text(), "the phase has intervals")
    with stopped(testbed):
        ended = run.finish(exits=3)
    address = testbed.nodes[0].address
    sentence = f"kvmark: the server at {address} answered nothing for 1 s: "
    assert ended.err.startswith(sentence), ended
    assert ended.err.count("\n") == 1
    manifest = user.manifest()
    last = manifest["engine"]["phases"][-1]
    assert (last["name"], last["stopped_by"]) == (phase, "failed")
    assert sum(total["count"] for total in manifest["engine"]["totals"]) > 0
    assert judged(user)["judgement"] == "INVALID"
    assert levels(user)["no_answer"] == "INVALID"
    assert "phase_failed" not in levels(user)


@pytest.mark.parametrize("more", [(), ("--timeout", "50ms"), ("--rate", "500")])
def test_a_server_that_takes_requests_and_never_answers_ends_the_run(
    kvmark: Kvmark, going: Callable[..., Going], more: tuple[str, ...]
) -> None:
    speaks, over = threading.Event(), threading.Event()
    speaks.set()

    def before_answer() -> None:
        if not speaks.is_set():
            over.wait()

    with store(before_answer) as peer:
        port = peer.server_address[1]
        words = ("--system", f"redis://127.0.0.1:{port}", "--records", "20", *LONG)
        run = going("redis/kv", *words, "--stall-limit", "4s", *more)
        log = run.folder / "intervals.jsonl"
        measures = '"phase_name":"measure"'
        wait_until(lambda: log.exists() and measures in log.read_text(), "it measures")
        speaks.clear()
        ended = run.finish(exits=3)
        over.set()
    assert f"the server at 127.0.0.1:{port} answered nothing for 4 s" in ended.err.splitlines()[-1]
    assert levels(kvmark)["no_answer"] == "INVALID"


def test_a_server_whose_answers_are_all_too_late_is_not_silent(kvmark: Kvmark) -> None:
    late = threading.Event()
    with store(lambda: late.wait(0.15)) as peer:
        words = ("--system", f"redis://127.0.0.1:{peer.server_address[1]}", "--load", "never")
        limits = ("--timeout", "50ms", "--duration", "4s", *LIMIT, "-q")
        kvmark("run", "redis/kv", "--records", "20", *words, *limits, exits=1)
    assert "no_answer" not in levels(kvmark)
    assert kvmark.manifest()["engine"]["phases"][-1]["stopped_by"] == "duration"


def test_a_planned_pause_that_is_longer_than_the_limit_ends_nothing(
    user: Kvmark, going: Callable[..., Going]
) -> None:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    fault = ("--fault", "300ms pause primary-1 for 4s", "--records", "100")
    run = going("ycsb/c", "--system", testbed.url, *LONG, *LIMIT, *fault, "-q")
    log = run.folder / "events.jsonl"
    wait_until(lambda: log.exists() and '"ended"' in log.read_text(), "the fault is over")
    after = run.folder / "intervals.jsonl"
    before = after.stat().st_size
    wait_until(lambda: after.stat().st_size > before, "it goes on")
    run.interrupt()
    run.finish(exits=130)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["state"] for one in events if one["kind"] == "fault"] == ["begun", "ended"]
    assert "no_answer" not in levels(user)


SIM = "sim:?clock=virtual&service=constant&mean_us=1000&stall=2+20"
TEN = ("--duration", "30s", "--interval", "1s", "--load", "never", "-q")


def test_a_simulated_stall_ends_a_run_by_its_length(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", SIM, *TEN)
    ended = kvmark(*words, "--stall-limit", "10s", exits=3)
    assert "sim answered nothing for 10 s" in ended.err.splitlines()[-1]
    phase = kvmark.manifest()["engine"]["phases"][-1]
    assert 9.9e9 < phase["end_ns"] - phase["start_ns"] - 2e9 < 10.1e9
    kvmark(*words, exits=(0, 1))
    assert kvmark.manifest()["plan"]["stall_limit_ns"] == 30 * 10**9
    kvmark(*words, "--stall-limit", "off", exits=(0, 1))
    assert kvmark.manifest()["plan"]["stall_limit_ns"] is None


def test_a_limit_holds_for_the_runs_of_an_experiment(kvmark: Kvmark) -> None:
    words = f"ycsb/c --system {SIM.replace('&stall=2+20', '')} --load never --operations 200"
    sides = ("--base=--seed 1", "--candidate=--seed 2")
    limit = ("--stall-limit", "off")
    kvmark("ab", words, *sides, "--repetitions", "4", *limit, "-q", exits=(0, 1))
    system = ("--system", SIM, "--workloads", "c", "--records", "100", "--report", "none")
    ended = kvmark("ycsb", *system, "--duration", "30s", "--stall-limit", "5s", "-q", exits=3)
    assert "answered nothing for 5 s" in ended.err
    plans = [kvmark.manifest(folder.name)["plan"] for folder in run_folders(kvmark.runs)]
    assert {plan["stall_limit_ns"] for plan in plans} == {None, 5 * 10**9}


def test_a_limit_that_is_shorter_than_a_look_is_refused(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "null:", "--stall-limit", "100ms")
    sentence = kvmark.refuses(*words)
    assert "a stall limit is at least 1s, not '100ms'; write off for none" in sentence


def test_a_server_that_was_stopped_before_is_named_and_unharmed(user: Kvmark) -> None:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    words = ("run", "ycsb/c", "--system", testbed.url, "--records", "10", "--operations", "100")
    with stopped(testbed):
        ended = user(*words, "-q", *LIMIT, exits=3)
    assert testbed.nodes[0].address in ended.err.splitlines()[-1]
    user(*words, "-q", exits=(0, 1))
    assert Testbed.read(testbed.folder).lives
