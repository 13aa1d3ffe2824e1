"""Faults are carried out when they are due, written down, and undone whatever happens."""

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.run.faults import Faults
from kvmark.spec.faults import parse_fault
from kvmark.testbed.console import connect
from kvmark.testbed.control import kill_node
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
Going = Any
Wait = Callable[[Callable[[], object], str], None]
NODE = "primary-1"
MEASURED = {"kind": "phase_ended", "name": "measure"}


def answers(testbed: Testbed) -> bool:
    return connect(testbed, testbed.node(NODE)).ask("PING") == "PONG"


def faults(testbed: Testbed, going: Going, *texts: str, limit_ns: int | None = None) -> Faults:
    return Faults([parse_fault(text) for text in texts], testbed, going.folder, limit_ns)


def test_a_server_is_paused_when_it_is_due_and_goes_on(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    text = f"50ms pause {NODE} for 100ms"
    with faults(testbed, going, text):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the fault is over")
    assert answers(testbed)
    begun, ended = going.faults()
    assert begun["at_ns"] >= going.measure_ns + 50_000_000
    assert ended["at_ns"] >= going.measure_ns + 150_000_000
    assert begun["at_wall_ns"] == begun["at_ns"] + going.origin_wall_ns
    assert (begun["fault"], begun["do"], begun["node"]) == (text, "pause", NODE)


def test_nothing_is_broken_before_the_measurement(up: Up, going: Going) -> None:
    testbed = up()
    with faults(testbed, going, f"0s kill {NODE}"):
        pass
    assert answers(testbed)
    assert going.faults() == []


def test_a_killed_server_comes_back_on_its_data(up: Up, going: Going, wait_until: Wait) -> None:
    testbed = up(appendonly=True, appendfsync="always")
    connect(testbed, testbed.node(NODE)).ask("SET", "kept", "1")
    with faults(testbed, going, f"0s kill {NODE} for 50ms"):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the server is back")
    now = Testbed.read(testbed.folder)
    assert now.node(NODE).process != testbed.node(NODE).process
    assert connect(now, now.node(NODE)).ask("GET", "kept") == "1"


@pytest.mark.parametrize("lasting", ["", " for 20ms"])
def test_a_server_is_restarted(up: Up, going: Going, wait_until: Wait, lasting: str) -> None:
    testbed = up()
    with faults(testbed, going, f"0s restart {NODE}{lasting}"):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the server is back")
    now = Testbed.read(testbed.folder)
    assert now.node(NODE).process != testbed.node(NODE).process
    assert answers(now)


@pytest.mark.parametrize(("do", "state"), [("pause", "T"), ("kill", None)])
def test_the_end_of_a_run_brings_its_servers_back(
    up: Up,
    going: Going,
    wait_until: Wait,
    state_of: Callable[[Testbed], str | None],
    do: str,
    state: str | None,
) -> None:
    testbed = up()

    def interrupted() -> None:
        with faults(testbed, going, f"0s {do} {NODE} for 1h"):
            going.measure()
            wait_until(lambda: going.states() == ["begun"], "the fault begins")
            wait_until(lambda: state_of(testbed) == state, "the server feels it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert going.states() == ["begun", "ended"]
    assert answers(Testbed.read(testbed.folder))


def test_a_fault_without_an_end_is_over_with_the_measurement(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    with faults(testbed, going, f"0s pause {NODE}", limit_ns=100_000_000):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the fault is over")
    assert going.faults()[1]["at_ns"] >= going.measure_ns + 100_000_000


@pytest.mark.parametrize("event", [{"kind": "interrupted"}, MEASURED])
def test_the_engine_need_not_wait_for_a_paused_server_to_end(
    up: Up, going: Going, wait_until: Wait, event: dict[str, Any]
) -> None:
    testbed = up()
    with faults(testbed, going, f"0s pause {NODE} for 1h", f"2h kill {NODE} for 1s"):
        going.measure()
        wait_until(lambda: going.states() == ["begun"], "the fault begins")
        going.write({"at_ns": going.measure_ns + 1, **event})
        wait_until(lambda: len(going.states()) == 3, "the server is back")
    assert going.states() == ["begun", "ended", "not_reached"]
    assert answers(testbed)


def test_records_are_read_back_when_all_servers_work_together_again(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up(appendonly=True)
    with faults(testbed, going, f"0s kill {NODE} for 1h") as broken:
        assert broken.may_begin("measure")
        going.measure()
        wait_until(lambda: going.states() == ["begun"], "the fault begins")
        assert not broken.may_begin("verify")
        going.write({"at_ns": going.measure_ns + 1, **MEASURED})
        wait_until(lambda: broken.may_begin("verify"), "the servers are back")
        assert going.states() == ["begun", "ended"]
        assert answers(Testbed.read(testbed.folder))


def test_records_are_read_back_though_a_server_does_not_come_back(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    settings = testbed.folder_of(testbed.node(NODE)) / "redis.conf"
    with faults(testbed, going, f"0s kill {NODE} for 20ms") as broken:
        settings.chmod(0o600)
        settings.write_text("no-such-setting yes\n")
        going.measure()
        wait_until(lambda: broken.may_begin("verify"), "the wait is over")
    assert going.states() == ["begun", "failed", "failed"]
    assert "the servers don't work together again" in going.faults()[-1]["problem"]


def test_several_faults_come_one_after_the_other(up: Up, going: Going, wait_until: Wait) -> None:
    testbed = up()
    texts = (f"200ms kill {NODE} for 10ms", f"0s pause {NODE} for 20ms")
    with faults(testbed, going, *texts):
        going.measure()
        wait_until(lambda: len(going.states()) == 4, "both faults are over")
    assert [event["do"] for event in going.faults()] == ["pause", "pause", "kill", "kill"]
    assert answers(Testbed.read(testbed.folder))


def test_a_fault_that_the_run_ends_before_is_written_down(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    with faults(testbed, going, f"0s restart {NODE}", f"1h pause {NODE} for 1s"):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the first fault is over")
    *_, last = going.faults()
    assert (last["state"], last["do"]) == ("not_reached", "pause")
    assert "the run was over" in last["problem"]


def test_a_fault_that_is_due_when_the_measurement_is_over_is_not_begun(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    with faults(testbed, going, f"0s kill {NODE} for 10ms", f"20ms pause {NODE} for 1s"):
        going.measure(MEASURED)
        wait_until(lambda: "not_reached" in going.states(), "the faults are over")
    assert {event["state"] for event in going.faults() if event["do"] == "pause"} == {"not_reached"}
    assert answers(Testbed.read(testbed.folder))


def test_a_server_that_ended_by_itself_cannot_be_broken(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    kill_node(testbed, NODE)
    with faults(testbed, going, f"0s pause {NODE} for 1s"):
        going.measure()
        wait_until(going.faults, "the fault is tried")
    (event,) = going.faults()
    assert (event["state"], event["problem"]) == ("failed", "the server had ended by itself")


def test_a_server_that_does_not_come_back_is_written_down(
    up: Up, going: Going, wait_until: Wait
) -> None:
    testbed = up()
    settings = testbed.folder_of(testbed.node(NODE)) / "redis.conf"
    with faults(testbed, going, f"0s kill {NODE} for 20ms"):
        settings.chmod(0o600)
        settings.write_text("no-such-setting yes\n")
        going.measure()
        wait_until(lambda: len(going.states()) >= 2, "the fault is over")
    assert going.states()[:2] == ["begun", "failed"]
    assert "the server isn't back" in going.faults()[1]["problem"]
