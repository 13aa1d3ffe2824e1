"""The keys that a plan writes can be told from others by their names."""

import pytest

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.plan.names import key_names, ycsb_hashes
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import parse_workload

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


@pytest.mark.parametrize(
    ("key", "own"),
    [
        ("user6284781860667377211", True),
        ("usertable-user6284781860667377211", True),
        # A hash of as many digits, and none of the first 1,000 records'.
        ("user8888888888888888888", False),
        ("user5", False),
        ("user123456789", False),
        ("user", False),
        ("user01", False),
        ("user-5", False),
        ("user999999999999999999999", False),
        ("user:1", False),
        ("user1x", False),
        ("precious", False),
        ("othertable-user1", False),
    ],
)
def test_a_record_of_ycsb_has_its_prefix_and_a_number(key: str, *, own: bool) -> None:
    run = RunSpec(workload=catalog.load("ycsb/a"), system=parse_system_url("redis://127.0.0.1:1"))
    assert bool(key_names([compile_run(run)]).has(key)) == own


@pytest.mark.parametrize(
    ("key", "own"),
    [
        ("k:0007", True),
        ("k:7", False),
        ("k:0010", False),
        ("other:3", True),
        ("queue", True),
        ("MSET", False),
        ("queues", False),
        ("9", False),
    ],
)
def test_the_user_s_own_statements_name_keys_of_their_own(key: str, *, own: bool) -> None:
    workload = parse_workload(TABLES, "own.yaml")
    run = RunSpec(workload=workload, system=parse_system_url("redis://127.0.0.1:1"))
    assert bool(key_names([compile_run(run)]).has(key)) == own


@pytest.mark.parametrize(("workload", "inserts"), [("ycsb/a", False), ("ycsb/d", True)])
def test_a_hash_is_held_against_those_of_all_records(workload: str, *, inserts: bool) -> None:
    system = parse_system_url("redis://127.0.0.1:1")
    run = RunSpec(workload=catalog.load(workload), system=system, records=1_000_000)
    names = key_names([compile_run(run)])
    *_, last, next_one = ycsb_hashes(1_000_001)
    assert names.has(f"user{last}")
    assert names.has(f"user{next_one}") == inserts
    # Of a million hashes below 2^63 the smallest is above this in 99.99 % of all cases.
    assert names.has(f"user{int(1e-4 * 2**63 / 1_000_000)}") == inserts
    assert not names.has("user5")


def test_cases_of_the_same_records_hold_their_hashes_once() -> None:
    system, workload = parse_system_url("redis://127.0.0.1:1"), catalog.load("ycsb/a")
    few, many = (
        compile_run(RunSpec(workload=workload, system=system, records=records, clients=clients))
        for records, clients in ((10, 1), (100, 8))
    )
    names = key_names([few, many, few])
    assert len(names.records) == 1
    assert all(names.has(f"user{number}") for number in ycsb_hashes(100))
