"""Faults of links are carried out and undone like those of processes, on a real Redis pair."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.run.faults import Faults, Served
from kvmark.spec.faults import parse_fault
from kvmark.testbed.console import connect
from kvmark.testbed.control import disturb_link
from kvmark.testbed.network import Disturbance
from kvmark.testbed.rescue import Broken, Rescue, main
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]
Going = Any
Wait = Callable[[Callable[[], object], str], None]
NODE = "primary-1"


@pytest.fixture
def pair(up: Up) -> Testbed:
    """A primary and its replica, each with a link of its own."""
    try:
        return up(replicas=1, network=True)
    except UsageError as refused:
        pytest.skip(str(refused))


def answers(testbed: Testbed, node: str = NODE, within_s: float = 300.0) -> bool:
    try:
        return connect(testbed, testbed.node(node), within_s).ask("PING") == "PONG"
    except SystemUnderTestError:
        return False


def is_misled(testbed: Testbed) -> bool:
    """Whether a server or the generator holds for good a wrong address of another."""
    command = ["ip", "-all", "netns", "exec", "ip", "neighbour", "show", "nud", "permanent"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    hosts = tuple(f"{node.host} " for node in testbed.nodes)
    return any(line.startswith(hosts) for line in said.splitlines())


def is_silent(testbed: Testbed) -> bool:
    """Whether the server gives no answer for a moment."""
    return not answers(testbed, within_s=0.2)


def faults(testbed: Testbed, going: Going, *texts: str) -> Faults:
    return Faults([parse_fault(text) for text in texts], testbed, going.folder, None)


def test_a_link_is_cut_when_it_is_due_and_healed_after_its_time(
    pair: Testbed, going: Going, wait_until: Wait
) -> None:
    text = f"50ms partition {NODE} for 200ms"
    with faults(pair, going, text):
        going.measure()
        wait_until(lambda: going.states() == ["begun", "ended"], "the fault is over")
    assert answers(pair)
    begun, ended = going.faults()
    assert (begun["fault"], begun["do"]) == (text, "partition")
    assert ended["at_ns"] >= going.measure_ns + 250_000_000


def test_an_interrupt_heals_the_link(pair: Testbed, going: Going, wait_until: Wait) -> None:
    def interrupted() -> None:
        with faults(pair, going, f"0s partition {NODE} for 1h"):
            going.measure()
            wait_until(lambda: going.states() == ["begun"], "the fault begins")
            assert is_silent(pair)
            assert answers(pair, "replica-1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert going.states() == ["begun", "ended"]
    assert answers(pair)


def test_servers_on_the_loopback_address_have_no_link_to_disturb(up: Up) -> None:
    served = Served(up(), {})
    with pytest.raises(UsageError) as refused:
        served.check_faults([parse_fault(f"0s partition {NODE} for 1s")])
    assert str(refused.value).startswith(f"fault '0s partition {NODE} for 1s': the servers of")
    assert "start them with kvmark up --network, as root" in str(refused.value)


def test_who_is_kept_from_whom_must_be_there(pair: Testbed) -> None:
    with pytest.raises(UsageError, match="has no node 'replica-2'; it has primary-1, replica-1"):
        Served(pair, {}).check_faults([parse_fault(f"0s partition {NODE} from replica-2 for 1s")])


@pytest.mark.parametrize("towards", [(), ("replica-1",)])
def test_a_link_that_is_still_cut_when_its_breaker_is_killed_is_healed(
    pair: Testbed, towards: tuple[str, ...]
) -> None:
    cut = Disturbance("partition", towards=towards)
    disturb_link(pair, NODE, cut)
    assert is_misled(pair) == bool(towards)
    told = [Rescue.line(Broken(NODE, "disturbed", cut), is_back=False)]
    main(pair.folder, told)
    assert not is_misled(pair)
    assert answers(pair)
