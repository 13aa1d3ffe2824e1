"""Faults begin when they are due, become events of the run, and always end.

A broken server is restored even if the process that broke it is killed.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.run.faults import Faults, ServerInfo
from kvmark.spec.faults import FaultSpec, parse_fault
from kvmark.testbed import control
from kvmark.testbed.console import connect
from kvmark.testbed.control import FaultGuard
from kvmark.testbed.state import Testbed
from redis_testbeds import FIRST, Up, answers, state_of
from waiting import wait_until

Running = Any
MEASURED = {"kind": "phase_ended", "name": "measure"}


def faults(testbed: Testbed, running: Running, *texts: str, limit_ns: int | None = None) -> Faults:
    """Faults with the first server for `{}`."""
    parsed = [parse_fault(text.format(FIRST)) for text in texts]
    return Faults(parsed, testbed, running.folder, limit_ns)


def test_a_fault_begins_when_it_is_due_and_ends_after_its_time(up: Up, running: Running) -> None:
    testbed, text = up(), f"50ms pause {FIRST} for 100ms"
    with faults(testbed, running, text):
        running.measure()
        running.wait_for("begun", "ended")
    assert answers(testbed)
    begun, ended = running.faults()
    assert begun["at_ns"] >= running.measure_ns + 50_000_000
    assert ended["at_ns"] >= running.measure_ns + 150_000_000
    assert begun["at_wall_ns"] == begun["at_ns"] + running.origin_wall_ns
    assert (begun["fault"], begun["do"], begun["node"]) == (text, "pause", FIRST)


def test_no_fault_begins_before_the_measurement(up: Up, running: Running) -> None:
    testbed = up()
    with faults(testbed, running, "0s kill {}"):
        pass
    assert answers(testbed)
    assert running.faults() == []


@pytest.mark.parametrize("fault", ["kill {} for 50ms", "restart {}", "restart {} for 20ms"])
def test_a_server_starts_again_on_its_data(up: Up, running: Running, fault: str) -> None:
    testbed = up(appendonly=True, appendfsync="always")
    connect(testbed, testbed.node(FIRST)).ask("SET", "kept", "1")
    with faults(testbed, running, f"0s {fault}"):
        running.measure()
        running.wait_for("begun", "ended")
    now = Testbed.read(testbed.folder)
    assert now.node(FIRST).process != testbed.node(FIRST).process
    assert connect(now, now.node(FIRST)).ask("GET", "kept") == "1"


def test_a_fault_without_an_end_ends_with_the_measurement(up: Up, running: Running) -> None:
    with faults(up(), running, "0s pause {}", limit_ns=100_000_000):
        running.measure()
        running.wait_for("begun", "ended")
    assert running.faults()[1]["at_ns"] >= running.measure_ns + 100_000_000


@pytest.mark.parametrize("event", [{"kind": "interrupted"}, MEASURED])
def test_faults_end_with_the_measurement(up: Up, running: Running, event: dict[str, Any]) -> None:
    testbed = up()
    with faults(testbed, running, "0s pause {} for 1h", "2h kill {} for 1s"):
        running.measure()
        running.wait_for("begun")
        running.write(event)
        running.wait_for("begun", "ended", "not_reached")
    assert "the run was over" in running.faults()[-1]["problem"]
    assert answers(testbed)


def test_verification_waits_until_all_servers_work_together(up: Up, running: Running) -> None:
    testbed = up(appendonly=True)
    with faults(testbed, running, "0s kill {} for 1h") as broken:
        assert broken.may_begin("measure")
        running.measure()
        running.wait_for("begun")
        assert not broken.may_begin("verify")
        running.write(MEASURED)
        wait_until(lambda: broken.may_begin("verify"), "the servers are restored")
        assert running.states() == ["begun", "ended"]
        assert answers(testbed)


def test_verification_begins_without_a_server_that_is_lost(up: Up, running: Running) -> None:
    testbed = up()
    settings = testbed.folder_of(testbed.node(FIRST)) / "redis.conf"
    with faults(testbed, running, "0s kill {} for 20ms") as broken:
        settings.chmod(0o600)
        settings.write_text("no-such-setting yes\n")
        running.measure()
        wait_until(lambda: broken.may_begin("verify"), "the wait is over")
    assert running.states() == ["begun", "failed", "failed"]
    assert "the server isn't back" in running.faults()[1]["problem"]
    assert "the servers don't work together again" in running.faults()[2]["problem"]


def test_faults_begin_in_order_until_the_measurement_is_over(up: Up, running: Running) -> None:
    testbed = up()
    with faults(testbed, running, "200ms kill {} for 10ms", "0s pause {} for 20ms"):
        running.measure()
        running.wait_for("begun", "ended", "begun", "ended")
    assert [event["do"] for event in running.faults()] == ["pause", "pause", "kill", "kill"]
    running.write(MEASURED)
    with faults(Testbed.read(testbed.folder), running, "20ms pause {} for 1s"):
        wait_until(lambda: len(running.states()) == 5, "the fault is over")
    assert running.states()[-1] == "not_reached"
    assert answers(testbed)


def test_a_fault_of_a_server_that_has_ended_fails(up: Up, running: Running) -> None:
    testbed = up()
    control.kill_node(testbed, FIRST)
    with faults(testbed, running, "0s pause {} for 1s"):
        running.measure()
        running.wait_for("failed")
    assert running.faults()[0]["problem"] == "the server had ended by itself"


def commands(
    folder: Path, running: Running, *, begin: str = "echo begun", undo: str = ""
) -> Faults:
    """Commands as a fault of a server that kvmark didn't start."""
    undo = undo or f"sh -c 'echo undone; touch {folder}/undone'"
    words = {"at": "0s", "do": "run", "command": begin, "undo": undo, "for": "1h"}
    fault = FaultSpec.model_validate(words)
    ServerInfo(None, None).check_faults([fault])
    return Faults([fault], None, running.folder, None)


def test_a_command_is_carried_out_and_undone(tmp_path: Path, running: Running) -> None:
    with commands(tmp_path, running) as acting:
        running.measure()
        running.wait_for("begun")
        assert not (tmp_path / "undone").exists()
        running.write(MEASURED)
        wait_until(lambda: acting.may_begin("verify"), "it is undone")
    assert [event["output"] for event in running.faults()] == ["begun\n", "undone\n"]
    assert (tmp_path / "undone").exists()


def test_a_command_that_fails_is_undone(tmp_path: Path, running: Running) -> None:
    with commands(tmp_path, running, begin="sh -c 'echo no such host >&2; exit 3'"):
        running.measure()
        running.wait_for("failed", "ended")
    assert running.faults()[0]["problem"] == "sh ended with 3: no such host"
    assert (tmp_path / "undone").exists()


def test_an_undo_that_fails_is_reported_as_such(tmp_path: Path, running: Running) -> None:
    with commands(tmp_path, running, undo="sh -c 'echo locked; exit 3'"):
        running.measure()
        running.wait_for("begun")
        running.write(MEASURED)
        running.wait_for("begun", "failed")
    assert running.faults()[-1]["problem"] == "its undo failed: sh ended with 3: locked"


OWN = f"{os.getpid()}000"
"""Seconds to sleep, of no other process."""


def sleeping() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if one.info["cmdline"] == ["sleep", OWN]]


def test_a_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_COMMAND_S", 0.1)
    with pytest.raises(SystemUnderTestError, match=r"^sh didn't end within 0.1 s: first$"):
        control.carry_out("sh -c 'echo first; exec sleep 1000'")
    control.carry_out(f"sh -c 'sleep {OWN} & exit'")
    wait_until(lambda: sleeping() != [], "it has begun")
    sleeping()[0].kill()
    with pytest.raises(SystemUnderTestError, match="didn't end within"):
        control.carry_out(f"sh -c 'sleep {OWN} & wait'")
    wait_until(lambda: not sleeping(), "what the command started is killed with it")


def test_a_command_without_a_program_is_refused(up: Up) -> None:
    for command in ("no-such-program a", "true' undo 'no-such-program"):
        fault = parse_fault(f"0s run '{command}'")
        with pytest.raises(UsageError, match="there is no program no-such-program"):
            ServerInfo(None, None).check_faults([fault])


def test_only_links_to_servers_of_a_network_can_be_cut(up: Up) -> None:
    text = f"0s partition {FIRST} for 1s"
    sentence = f"^fault '{text}': the servers of .*start them with kvmark up --network, as root"
    with pytest.raises(UsageError, match=sentence):
        ServerInfo(up(), {}).check_faults([parse_fault(text)])


STOPPED = {"T", None}

FAULT_AND_WAIT = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from kvmark.records import RunFolder
from kvmark.run.faults import Faults
from kvmark.spec.faults import parse_fault
from kvmark.testbed.state import Testbed
testbed, folder = Testbed.read(Path(sys.argv[1])), RunFolder(Path(sys.argv[2]), datetime.now(UTC))
folder.append_event({"at_ns": 0, "kind": "opened", "started_wall_ns": time.time_ns()})
folder.append_event({"at_ns": 1, "kind": "phase_started", "phase": 0, "name": "measure"})
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
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, env=own, start_new_session=True) as process:
        wait_until(lambda: state_of(testbed) == state, "the server is broken")
        # All of its processes are killed at once when a terminal is closed by force.
        kill(process.pid, signal.SIGKILL)
        wait_until(lambda: state_of(testbed) not in STOPPED, "the server is restored")


def test_a_command_is_undone_when_kvmark_is_killed(tmp_path: Path) -> None:
    fault = parse_fault(f"0s run true undo 'touch {tmp_path}/undone'")
    with FaultGuard(None) as guard:
        guard.note(fault, acts=True)
    assert (tmp_path / "undone").exists()


def test_a_restored_server_is_ignored(up: Up) -> None:
    testbed = up()
    control.pause_node(testbed, FIRST)
    wait_until(lambda: state_of(testbed) == "T", "the server is paused")
    (begun,) = messages(f"pause {FIRST}")
    control.guard(testbed.folder, [begun, begun.replace("true", "false")])
    assert state_of(testbed) == "T"
    control.resume_node(testbed, FIRST)


def test_only_a_killed_server_is_started_again_despite_an_error_with_another(up: Up) -> None:
    testbed, noted = up(), messages("pause nobody", f"kill {FIRST}")
    control.guard(testbed.folder, noted)
    assert Testbed.read(testbed.folder).node(FIRST).process == testbed.node(FIRST).process
    control.kill_node(testbed, FIRST)
    control.guard(testbed.folder, noted)
    assert state_of(testbed) not in STOPPED


@pytest.mark.parametrize("towards", ["", " from replica-1"])
def test_a_cut_link_is_healed(pair: Testbed, towards: str) -> None:
    cut = f"partition {FIRST}{towards}"
    control.begin_fault(pair, parse_fault(f"0s {cut}"))
    assert has_wrong_neighbour(pair) == bool(towards)
    control.guard(pair.folder, messages(cut))
    assert not has_wrong_neighbour(pair)
    assert answers(pair)


def has_wrong_neighbour(testbed: Testbed) -> bool:
    """Whether a server or the generator has a permanent wrong address of another server."""
    command = ["ip", "-all", "netns", "exec", "ip", "neighbour", "show", "nud", "permanent"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    hosts = tuple(f"{node.host} " for node in testbed.nodes)
    return any(line.startswith(hosts) for line in shown.splitlines())


def test_the_guard_is_undisturbed(up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
