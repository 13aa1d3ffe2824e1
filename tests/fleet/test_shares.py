"""A run is divided among machines, or refused."""

from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.run import shares
from kvmark.run.coordinator import clock_offset
from kvmark.run.shares import acknowledged, check_reachable


@pytest.mark.parametrize("clients", [3, 4, 10, 10_000, 10_001])
def test_the_clients_of_all_shares_are_those_of_the_whole(clients: int) -> None:
    parts = [shares.clients_of(clients, index, 3) for index in range(3)]
    assert sum(parts) == clients
    assert max(parts) - min(parts) <= 1


def test_a_run_uses_no_more_machines_than_its_smallest_group_has_clients(fleet: Any) -> None:
    whole = fleet.plan("ycsb/a", "--system", "null:")
    assert shares.machines_used(whole, 3) == 3
    assert shares.machines_used(whole, 40) == 6


@pytest.mark.parametrize("of", [1, 2, 3, 7])
@pytest.mark.parametrize("start", [0, 5, 1000])
def test_the_common_frontier_is_the_first_unacknowledged_ordinal(of: int, start: int) -> None:
    for uneven in range(20):
        # The number of acknowledged ordinals of each share.
        done = [(uneven * (index + 2)) % 11 for index in range(of)]
        there = {start + index + of * n for index in range(of) for n in range(done[index])}
        frontiers = [
            start + index + of * (done[index] - 1) + 1 if done[index] else start
            for index in range(of)
        ]
        missing = next(n for n in range(start, start + 1000) if n not in there)
        assert acknowledged(frontiers, start) == missing


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rocksdb:there"], "rocksdb is embedded"),
        (["sim:?clock=virtual"], "virtual clock of sim:"),
        (["null:", "--verify"], "--verify compares the records with the writes of one"),
    ],
)
def test_plans_for_one_machine_only_are_refused(
    fleet: Any, arguments: list[str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        shares.check_divisible(fleet.plan("ycsb/a", "--system", *arguments))
    shares.check_divisible(fleet.plan("ycsb/a", "--system", "sim:"))


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_a_loopback_address_means_another_system_on_each_machine(fleet: Any, address: str) -> None:
    local = fleet.plan("ycsb/a", "--system", f"redis://{address}")
    check_reachable(local, ["10.0.0.1", "10.0.0.1"], "10.0.0.1")
    with pytest.raises(UsageError, match=r"10\.0\.0\.2 is another one"):
        check_reachable(local, ["10.0.0.1", "10.0.0.2"], "10.0.0.1")
    elsewhere = fleet.plan("ycsb/a", "--system", "redis://10.0.0.9:6379")
    check_reachable(elsewhere, ["10.0.0.1", "10.0.0.2"], "10.0.0.1")


def test_a_clocks_offset_is_that_of_the_quickest_round_trip() -> None:
    # Sent, read there, received: the second trip is the quickest, with its middle at 1050.
    instants = iter([0, 400, 1000, 1100, 2000, 2900])
    theirs = iter([7100, 8060, 9999])
    assert clock_offset(lambda: next(theirs), 3, lambda: next(instants)) == (7010, 100)
