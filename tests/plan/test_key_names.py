"""The keys that a plan writes can be told from others by their names."""

from functools import partial

import pytest

from kvmark.plan.names import key_names, ycsb_hashes
from plans import plan_of

TABLES = """
name: own
dataset: {records: 10, key: {prefix: "k:", zero_padding: 4, order: ordered}}
arguments:
  other: {generator: name, prefix: "other:", count: 5}
  value: {generator: text, length: 9}
statements:
  MSET: {does: update, run: "MSET [{other} {value}]", items: 3}
  PUSH: {does: update, run: "LPUSH queue {value}"}
  LOAD: {does: insert, run: "SET {key} {value}"}
load: LOAD
groups: [{mix: {MSET: 1, PUSH: 1}}]
"""


plan = partial(plan_of, system="redis://127.0.0.1:1")
OF_YCSB = ("user6284781860667377211", "usertable-user6284781860667377211")
# The first is a hash of as many digits, and none of the first 1,000 records'.
NOT_OF_YCSB = (
    "user8888888888888888888", "user5", "user123456789", "user", "user01", "user-5",
    "user999999999999999999999", "user:1", "user1x", "precious", "othertable-user1",
)  # fmt: skip
OF_STATEMENTS = ("k:0007", "other:3", "queue")
NOT_OF_STATEMENTS = ("k:7", "k:0010", "MSET", "queues", "9")


@pytest.mark.parametrize(
    ("workload", "own", "others"),
    [
        ("ycsb/a", OF_YCSB, NOT_OF_YCSB),
        (TABLES, OF_STATEMENTS, NOT_OF_STATEMENTS),
    ],
    ids=["records", "statements"],
)
def test_keys_of_a_plan_are_told_from_others(
    workload: str, own: tuple[str, ...], others: tuple[str, ...]
) -> None:
    names = key_names([plan(workload)])
    assert [key for key in (*own, *others) if names.has(key)] == list(own)


@pytest.mark.parametrize(("workload", "inserts"), [("ycsb/a", False), ("ycsb/d", True)])
def test_a_hash_is_held_against_those_of_all_records(workload: str, *, inserts: bool) -> None:
    names = key_names([plan(workload, records=1_000_000)])
    *_, last, next_one = ycsb_hashes(1_000_001)
    assert names.has(f"user{last}")
    assert names.has(f"user{next_one}") == inserts
    # Of a million hashes below 2^63 the smallest is above this in 99.99 % of all cases.
    assert names.has(f"user{int(1e-4 * 2**63 / 1_000_000)}") == inserts
    assert not names.has("user5")


def test_cases_of_the_same_records_hold_their_hashes_once() -> None:
    few, many = plan("ycsb/a", records=10), plan("ycsb/a", records=100, clients=8)
    names = key_names([few, many, few])
    assert len(names.records) == 1
    assert all(names.has(f"user{number}") for number in ycsb_hashes(100))
