"""A broken server is restored even if the process that broke it is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.spec.faults import parse_fault
from kvmark.testbed.control import (
    FaultGuard,
    begin_fault,
    guard,
    kill_node,
    pause_node,
    resume_node,
)
from kvmark.testbed.state import Testbed
from redis_testbeds import FIRST, Up, answers, state_of
from waiting import wait_until

STOPPED = {"T", None}

FAULT_AND_WAIT = """
import json, sys, time
from datetime import UTC, datetime
from pathlib import Path
from kvmark.records import RunFolder
from kvmark.run.faults import Faults
from kvmark.spec.faults import parse_fault
from kvmark.testbed.state import Testbed
testbed, folder = Testbed.read(Path(sys.argv[1])), RunFolder(Path(sys.argv[2]), datetime.now(UTC))
opened = {"at_ns": 0, "kind": "opened", "started_wall_ns": time.time_ns()}
begun = {"at_ns": 1, "kind": "phase_started", "phase": 0, "name": "measure"}
folder.events.write_text(json.dumps(opened) + "\\n" + json.dumps(begun) + "\\n")
with Faults([parse_fault(f"0s {sys.argv[3]} primary-1 for 1h")], testbed, folder, None):
    sys.stdin.read()
"""


def messages(*faults: str) -> list[str]:
    """Messages to the guard before servers are broken."""
    return [json.dumps([parse_fault(f"0s {fault}").text, True]) for fault in faults]


@pytest.mark.parametrize(
    ("do", "state", "kill"),
    [("pause", "T", os.kill), ("pause", "T", os.killpg), ("kill", None, os.kill)],
)
def test_a_fault_ends_when_kvmark_is_killed(
    up: Up, tmp_path: Path, do: str, state: str | None, kill: Callable[[int, int], None]
) -> None:
    testbed, folder = up(), tmp_path / "run"
    folder.mkdir()
    command = [sys.executable, "-c", FAULT_AND_WAIT, testbed.folder, folder, do]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env=own, start_new_session=True
    ) as process:
        wait_until(lambda: state_of(testbed) == state, "the server is broken")
        # All of its processes are killed at once when a terminal is closed by force.
        kill(process.pid, signal.SIGKILL)
        wait_until(lambda: state_of(testbed) not in STOPPED, "the server is restored")


def test_a_restored_server_is_ignored(up: Up) -> None:
    testbed = up()
    pause_node(testbed, FIRST)
    wait_until(lambda: state_of(testbed) == "T", "the server is paused")
    (begun,) = messages(f"pause {FIRST}")
    guard(testbed.folder, [begun, begun.replace("true", "false")])
    assert state_of(testbed) == "T"
    resume_node(testbed, FIRST)


def test_a_killed_server_is_started_again_despite_an_error_with_another(up: Up) -> None:
    testbed = up()
    kill_node(testbed, FIRST)
    guard(testbed.folder, messages("pause nobody", f"kill {FIRST}"))
    assert state_of(testbed) not in STOPPED


def test_a_server_that_was_not_killed_yet_is_not_started_twice(up: Up) -> None:
    testbed = up()
    guard(testbed.folder, messages(f"kill {FIRST}"))
    assert Testbed.read(testbed.folder).node(FIRST).process == testbed.node(FIRST).process


@pytest.mark.parametrize("towards", ["", " from replica-1"])
def test_a_cut_link_is_healed(pair: Testbed, towards: str) -> None:
    cut = f"partition {FIRST}{towards}"
    begin_fault(pair, parse_fault(f"0s {cut}"))
    assert has_wrong_neighbour(pair) == bool(towards)
    guard(pair.folder, messages(cut))
    assert not has_wrong_neighbour(pair)
    assert answers(pair)


def has_wrong_neighbour(testbed: Testbed) -> bool:
    """Whether a server or the generator has a permanent wrong address of another server."""
    command = ["ip", "-all", "netns", "exec", "ip", "neighbour", "show", "nud", "permanent"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    hosts = tuple(f"{node.host} " for node in testbed.nodes)
    return any(line.startswith(hosts) for line in shown.splitlines())


def test_the_guard_ignores_signals_and_modules_of_the_user(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "random", "string"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    testbed, fault = up(), parse_fault(f"0s pause {FIRST}")
    monkeypatch.chdir(tmp_path)
    with FaultGuard(testbed.folder) as started:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(started.process.pid, number)
        started.note(fault, acts=True)
        started.note(fault, acts=False)
        assert started.process.poll() is None
