"""What was broken on purpose is set free though whoever broke it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvmark.testbed.control import kill_node, resume_node
from kvmark.testbed.rescue import Broken, Rescue, main
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
Wait = Callable[[Callable[[], object], str], None]
State = Callable[[Testbed], str | None]
NODE = "primary-1"
STOPPED = {"T", None}

BREAK_AND_WAIT = """
import sys
from pathlib import Path
from kvmark.testbed import control
from kvmark.testbed.rescue import Broken, Rescue
from kvmark.testbed.state import Testbed
folder, how, back = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "back"
broken = Broken("primary-1", how)
with Rescue(folder) as rescue:
    rescue.breaks(broken)
    control.pause_node(Testbed.read(folder), broken.node)
    if back:
        rescue.is_back(broken)
    print("broken", flush=True)
    sys.stdin.read()
"""


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


@contextmanager
def breaking(
    testbed: Testbed, wait_until: Wait, state_of: State, back: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A process that has paused a server, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", BREAK_AND_WAIT, str(testbed.folder), "paused", back],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "broken\n"
        # The kernel stops it when it is on a core next.
        wait_until(lambda: state_of(testbed) == "T", "the server feels it")
        yield process
        process.kill()


@pytest.mark.parametrize("group", [False, True])
def test_a_paused_server_goes_on_when_its_breaker_is_killed(
    up: Up, wait_until: Wait, state_of: State, *, group: bool
) -> None:
    testbed = up()
    with breaking(testbed, wait_until, state_of) as process:
        if group:
            # As when a terminal is closed by force: all of its processes are killed at once.
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        wait_until(lambda: state_of(testbed) not in STOPPED, "the server goes on")


@pytest.mark.parametrize(("do", "state"), [("pause", "T"), ("kill", None)])
def test_a_fault_is_over_when_the_process_that_measures_is_killed(
    up: Up, tmp_path: Path, wait_until: Wait, state_of: State, do: str, state: str | None
) -> None:
    testbed, folder = up(), tmp_path / "run"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", FAULT_AND_WAIT, str(testbed.folder), str(folder), do],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        wait_until(lambda: state_of(testbed) == state, "the server feels it")
        process.kill()
        wait_until(lambda: state_of(testbed) not in STOPPED, "the server is back")


def test_what_is_back_already_is_left_alone(up: Up, wait_until: Wait, state_of: State) -> None:
    testbed = up()
    with breaking(testbed, wait_until, state_of, "back") as process:
        assert process.stdin is not None
        # The context is left, and with it the process that brings servers back has ended.
        process.stdin.close()
        process.wait()
        assert state_of(testbed) == "T"
    resume_node(testbed, NODE)


def test_a_server_that_was_killed_is_started_again(up: Up, state_of: State) -> None:
    testbed = up()
    kill_node(testbed, NODE)
    main(testbed.folder, [line(Broken(NODE, "down"))])
    assert state_of(testbed) not in STOPPED


def test_a_server_that_was_not_killed_yet_is_not_started_twice(up: Up) -> None:
    testbed = up()
    main(testbed.folder, [line(Broken(NODE, "down"))])
    assert Testbed.read(testbed.folder).node(NODE).process == testbed.node(NODE).process


def test_a_server_that_can_not_be_brought_back_keeps_no_other_down(up: Up, state_of: State) -> None:
    testbed = up()
    kill_node(testbed, NODE)
    main(testbed.folder, [line(Broken("nobody", "paused")), line(Broken(NODE, "down"))])
    assert state_of(testbed) not in STOPPED


def test_it_does_not_hear_what_its_terminal_sends(up: Up, wait_until: Wait) -> None:
    testbed = up()
    with Rescue(testbed.folder) as rescue:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(rescue.pid, number)
        rescue.breaks(Broken(NODE, "paused"))
        rescue.is_back(Broken(NODE, "paused"))
        assert rescue.goes


def test_files_of_the_user_are_not_taken_for_pythons_own(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "random", "string"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    testbed = up()
    monkeypatch.chdir(tmp_path)
    with Rescue(testbed.folder) as rescue:
        assert rescue.goes


def line(broken: Broken) -> str:
    """What the process is told before a server is broken."""
    return Rescue.line(broken, is_back=False)
