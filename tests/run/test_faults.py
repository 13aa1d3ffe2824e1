"""Faults begin when they are due, become events of the run, and always end."""

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.run.faults import Faults, ServerInfo
from kvmark.spec.faults import parse_fault
from kvmark.testbed.console import connect
from kvmark.testbed.control import kill_node
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
Running = Any
Wait = Callable[[Callable[[], object], str], None]
NODE = "primary-1"
MEASURED = {"kind": "phase_ended", "name": "measure"}
PATIENCE_S = 300.0


def answers(testbed: Testbed, node: str = NODE, within_s: float = PATIENCE_S) -> bool:
    now = Testbed.read(testbed.folder)
    try:
        return connect(now, now.node(node), within_s).ask("PING") == "PONG"
    except SystemUnderTestError:
        return False


def faults(testbed: Testbed, running: Running, *texts: str, limit_ns: int | None = None) -> Faults:
    return Faults([parse_fault(text) for text in texts], testbed, running.folder, limit_ns)


def has_new_process(testbed: Testbed) -> bool:
    return Testbed.read(testbed.folder).node(NODE).process != testbed.node(NODE).process


@pytest.mark.parametrize("do", ["pause", "partition"])
def test_a_fault_begins_when_it_is_due_and_ends_after_its_time(
    request: pytest.FixtureRequest, running: Running, wait_until: Wait, do: str
) -> None:
    testbed = request.getfixturevalue("up")() if do == "pause" else request.getfixturevalue("pair")
    text = f"50ms {do} {NODE} for 100ms"
    with faults(testbed, running, text):
        running.measure()
        wait_until(lambda: running.states() == ["begun", "ended"], "the fault is over")
    assert answers(testbed)
    begun, ended = running.faults()
    assert begun["at_ns"] >= running.measure_ns + 50_000_000
    assert ended["at_ns"] >= running.measure_ns + 150_000_000
    assert begun["at_wall_ns"] == begun["at_ns"] + running.origin_wall_ns
    assert (begun["fault"], begun["do"], begun["node"]) == (text, do, NODE)


def test_no_fault_begins_before_the_measurement(up: Up, running: Running) -> None:
    testbed = up()
    with faults(testbed, running, f"0s kill {NODE}"):
        pass
    assert answers(testbed)
    assert running.faults() == []


@pytest.mark.parametrize("fault", [f"kill {NODE} for 50ms", f"restart {NODE}"])
def test_a_server_that_was_down_is_started_again_on_its_data(
    up: Up, running: Running, wait_until: Wait, fault: str
) -> None:
    testbed = up(appendonly=True, appendfsync="always")
    connect(testbed, testbed.node(NODE)).ask("SET", "kept", "1")
    with faults(testbed, running, f"0s {fault}"):
        running.measure()
        wait_until(lambda: running.states() == ["begun", "ended"], "the server is restored")
    now = Testbed.read(testbed.folder)
    assert has_new_process(testbed)
    assert connect(now, now.node(NODE)).ask("GET", "kept") == "1"


def test_a_restart_may_take_a_given_time(up: Up, running: Running, wait_until: Wait) -> None:
    testbed = up()
    with faults(testbed, running, f"0s restart {NODE} for 20ms"):
        running.measure()
        wait_until(lambda: running.states() == ["begun", "ended"], "the server is restored")
    assert has_new_process(testbed)
    assert answers(testbed)


@pytest.mark.parametrize(("do", "state"), [("pause", "T"), ("kill", None)])
def test_the_end_of_a_run_restores_its_servers(
    up: Up,
    running: Running,
    wait_until: Wait,
    state_of: Callable[[Testbed], str | None],
    do: str,
    state: str | None,
) -> None:
    testbed = up()

    def interrupted() -> None:
        with faults(testbed, running, f"0s {do} {NODE} for 1h"):
            running.measure()
            wait_until(lambda: running.states() == ["begun"], "the fault begins")
            wait_until(lambda: state_of(testbed) == state, "the server is broken")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert running.states() == ["begun", "ended"]
    assert answers(testbed)


def test_the_end_of_a_run_heals_links(pair: Testbed, running: Running, wait_until: Wait) -> None:
    with faults(pair, running, f"0s partition {NODE} for 1h"):
        running.measure()
        wait_until(lambda: running.states() == ["begun"], "the fault begins")
        assert not answers(pair, within_s=0.2)
        assert answers(pair, "replica-1")
    assert running.states() == ["begun", "ended"]
    assert answers(pair)


def test_a_fault_without_an_end_ends_with_the_measurement(
    up: Up, running: Running, wait_until: Wait
) -> None:
    testbed = up()
    with faults(testbed, running, f"0s pause {NODE}", limit_ns=100_000_000):
        running.measure()
        wait_until(lambda: running.states() == ["begun", "ended"], "the fault is over")
    assert running.faults()[1]["at_ns"] >= running.measure_ns + 100_000_000


@pytest.mark.parametrize("event", [{"kind": "interrupted"}, MEASURED])
def test_faults_end_with_the_measurement_or_an_interrupt(
    up: Up, running: Running, wait_until: Wait, event: dict[str, Any]
) -> None:
    testbed = up()
    with faults(testbed, running, f"0s pause {NODE} for 1h", f"2h kill {NODE} for 1s"):
        running.measure()
        wait_until(lambda: running.states() == ["begun"], "the fault begins")
        running.write({"at_ns": running.measure_ns + 1, **event})
        wait_until(lambda: len(running.states()) == 3, "the server is restored")
    assert running.states() == ["begun", "ended", "not_reached"]
    assert "the run was over" in running.faults()[-1]["problem"]
    assert answers(testbed)


def test_verification_waits_until_all_servers_work_together(
    up: Up, running: Running, wait_until: Wait
) -> None:
    testbed = up(appendonly=True)
    with faults(testbed, running, f"0s kill {NODE} for 1h") as broken:
        assert broken.may_begin("measure")
        running.measure()
        wait_until(lambda: running.states() == ["begun"], "the fault begins")
        assert not broken.may_begin("verify")
        running.write({"at_ns": running.measure_ns + 1, **MEASURED})
        wait_until(lambda: broken.may_begin("verify"), "the servers are restored")
        assert running.states() == ["begun", "ended"]
        assert answers(testbed)


def test_a_server_that_cannot_be_restored_is_an_event_and_verification_begins(
    up: Up, running: Running, wait_until: Wait
) -> None:
    testbed = up()
    settings = testbed.folder_of(testbed.node(NODE)) / "redis.conf"
    with faults(testbed, running, f"0s kill {NODE} for 20ms") as broken:
        settings.chmod(0o600)
        settings.write_text("no-such-setting yes\n")
        running.measure()
        wait_until(lambda: broken.may_begin("verify"), "the wait is over")
    assert running.states() == ["begun", "failed", "failed"]
    assert "the server isn't back" in running.faults()[1]["problem"]
    assert "the servers don't work together again" in running.faults()[2]["problem"]


def test_several_faults_begin_in_order(up: Up, running: Running, wait_until: Wait) -> None:
    testbed = up()
    texts = (f"200ms kill {NODE} for 10ms", f"0s pause {NODE} for 20ms")
    with faults(testbed, running, *texts):
        running.measure()
        wait_until(lambda: len(running.states()) == 4, "both faults are over")
    assert [event["do"] for event in running.faults()] == ["pause", "pause", "kill", "kill"]
    assert answers(testbed)


def test_a_fault_that_is_due_after_the_measurement_does_not_begin(
    up: Up, running: Running, wait_until: Wait
) -> None:
    testbed = up()
    with faults(testbed, running, f"0s kill {NODE} for 10ms", f"20ms pause {NODE} for 1s"):
        running.measure(MEASURED)
        wait_until(lambda: "not_reached" in running.states(), "the faults are over")
    states = {event["state"] for event in running.faults() if event["do"] == "pause"}
    assert states == {"not_reached"}
    assert answers(testbed)


def test_a_fault_of_a_server_that_has_ended_fails(
    up: Up, running: Running, wait_until: Wait
) -> None:
    testbed = up()
    kill_node(testbed, NODE)
    with faults(testbed, running, f"0s pause {NODE} for 1s"):
        running.measure()
        wait_until(running.faults, "the fault has failed")
    (event,) = running.faults()
    assert (event["state"], event["problem"]) == ("failed", "the server had ended by itself")


def test_servers_on_the_loopback_address_have_no_link_to_disturb(up: Up) -> None:
    text = f"0s partition {NODE} for 1s"
    with pytest.raises(UsageError) as refused:
        ServerInfo(up(), {}).check_faults([parse_fault(text)])
    assert str(refused.value).startswith(f"fault '{text}': the servers of")
    assert "start them with kvmark up --network, as root" in str(refused.value)


def test_other_servers_of_a_partition_must_exist(pair: Testbed) -> None:
    fault = parse_fault(f"0s partition {NODE} from replica-2 for 1s")
    with pytest.raises(UsageError, match="has no node 'replica-2'; it has primary-1, replica-1"):
        ServerInfo(pair, {}).check_faults([fault])
