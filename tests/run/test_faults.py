"""Faults begin when they are due, become events of the run, and always end."""

from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.run.faults import Faults, ServerInfo
from kvmark.spec.faults import parse_fault
from kvmark.testbed.console import connect
from kvmark.testbed.control import kill_node
from kvmark.testbed.state import Testbed
from redis_testbeds import FIRST, Up, answers
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
def test_a_server_that_was_down_is_started_again_on_its_data(
    up: Up, running: Running, fault: str
) -> None:
    testbed = up(appendonly=True, appendfsync="always")
    connect(testbed, testbed.node(FIRST)).ask("SET", "kept", "1")
    with faults(testbed, running, f"0s {fault}"):
        running.measure()
        running.wait_for("begun", "ended")
    now = Testbed.read(testbed.folder)
    assert now.node(FIRST).process != testbed.node(FIRST).process
    assert connect(now, now.node(FIRST)).ask("GET", "kept") == "1"


def test_the_end_of_a_run_heals_links(pair: Testbed, running: Running) -> None:
    with faults(pair, running, "0s partition {} for 1h"):
        running.measure()
        running.wait_for("begun")
        assert not answers(pair, within_s=0.2)
        assert answers(pair, "replica-1")
    assert running.states() == ["begun", "ended"]
    assert answers(pair)


def test_a_fault_without_an_end_ends_with_the_measurement(up: Up, running: Running) -> None:
    with faults(up(), running, "0s pause {}", limit_ns=100_000_000):
        running.measure()
        running.wait_for("begun", "ended")
    assert running.faults()[1]["at_ns"] >= running.measure_ns + 100_000_000


@pytest.mark.parametrize("event", [{"kind": "interrupted"}, MEASURED])
def test_faults_end_with_the_measurement_or_an_interrupt(
    up: Up, running: Running, event: dict[str, Any]
) -> None:
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


def test_a_server_that_cannot_be_restored_is_an_event_and_verification_begins(
    up: Up, running: Running
) -> None:
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


def test_several_faults_begin_in_order_until_the_measurement_is_over(
    up: Up, running: Running
) -> None:
    testbed = up()
    with faults(testbed, running, "200ms kill {} for 10ms", "0s pause {} for 20ms"):
        running.measure()
        running.wait_for("begun", "ended", "begun", "ended")
    assert [event["do"] for event in running.faults()] == ["pause", "pause", "kill", "kill"]
    with faults(testbed, running, "20ms pause {} for 1s"):
        running.write(MEASURED)
        wait_until(lambda: len(running.states()) == 5, "the fault is over")
    assert running.states()[-1] == "not_reached"
    assert answers(testbed)


def test_a_fault_of_a_server_that_has_ended_fails(up: Up, running: Running) -> None:
    testbed = up()
    kill_node(testbed, FIRST)
    with faults(testbed, running, "0s pause {} for 1s"):
        running.measure()
        running.wait_for("failed")
    assert running.faults()[0]["problem"] == "the server had ended by itself"


def test_links_of_loopback_addresses_and_of_unknown_servers_cannot_be_cut(
    up: Up, pair: Testbed
) -> None:
    text = f"0s partition {FIRST} from replica-2 for 1s"
    for testbed, sentence in (
        (up(), "the servers of .*start them with kvmark up --network, as root"),
        (pair, ".* has no node 'replica-2'; it has primary-1, replica-1"),
    ):
        with pytest.raises(UsageError, match=f"^fault '{text}': {sentence}"):
            ServerInfo(testbed, {}).check_faults([parse_fault(text)])
