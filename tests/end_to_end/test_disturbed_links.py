"""A Redis pair whose links are disturbed while it is measured, from the words a user types."""

from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark

from kvmark.errors import UsageError
from kvmark.spec.faults import parse_fault
from kvmark.testbed import redis
from kvmark.testbed.control import check_fault
from kvmark.testbed.state import Testbed

DELAY_NS = 20_000_000
WORDS = ("--rate", "200", "--clients", "64", "--interval", "300ms", "--records", "100", "-q")


@pytest.fixture
def pair(user: Kvmark) -> Testbed:
    """A primary and its replica, each with a link of its own."""
    wanted = redis.RedisOptions(replicas=1, network=True)
    try:
        return redis.up(wanted, Path(user.more["KVMARK_TESTBEDS"]))
    except UsageError as refused:
        pytest.skip(str(refused))


def summary(user: Kvmark, testbed: Testbed, *words: str) -> dict[str, Any]:
    """What a run of writes with these words said of itself."""
    run = ("run", "redis/set", "--system", testbed.url, *WORDS, *words)
    found: dict[str, Any] = user(*run, "--json", exits=(0, 1)).json["summary"]
    return found


def test_operations_fail_while_a_server_is_cut_off_and_go_well_again(
    user: Kvmark, pair: Testbed
) -> None:
    # Intervals of which a moment in which the machine did something else is a small part.
    fault = "1200ms partition primary-1 for 1500ms"
    words = ("--duration", "6s", "--timeout", "300ms", "--fault", fault, "--verify")
    found = summary(user, pair, *words)
    [effect] = found["faults"]
    assert effect["text"] == fault
    assert effect["errors"]["timeout"] > 0
    assert effect["without_service_ns"] >= 750_000_000
    # All records are read after the run, so operations succeed again.
    assert found["sweep"]["records"] > 0
    assert found["sweep"]["missing"] == 0
    reasons = user("show", "last", "--json").json["verdict"]["reasons"]
    assert "fault_not_carried_out" not in {reason["code"] for reason in reasons}


def test_a_delay_is_part_of_every_response_time(user: Kvmark, pair: Testbed) -> None:
    try:
        check_fault(pair, parse_fault("0s delay primary-1 by 20ms"))
    except UsageError as refused:
        pytest.skip(str(refused))
    summary(user, pair, "--duration", "2s", "--fault", "0s delay primary-1 by 20ms for 10s")
    totals = user.manifest()["engine"]["totals"]
    measured = max(totals, key=lambda total: int(total["phase"]))
    # To the server and back.
    assert measured["response"]["p50"] >= 2 * DELAY_NS


def test_a_run_whose_links_can_not_be_disturbed_never_begins(user: Kvmark, pair: Testbed) -> None:
    words = ("run", "redis/set", "--system", pair.url, *WORDS, "--fault")
    assert "has no node 'node-9'" in user.refuses(
        *words, "0s partition primary-1 from node-9 for 1s"
    )
