"""What the user left open is decided by written rules; keys of a plan are told from others."""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import PlanError
from kvmark.plan.compile import derive_seed, derive_seeds
from kvmark.plan.model import Plan
from kvmark.plan.names import key_names, ycsb_hashes
from plans import at, plan_of
from tables import table

TABLE: Mapping[str, list[Any]] = table(__file__, "compiled.toml")

compiled = partial(plan_of, system="sim:?servers=1&seed=1")


@pytest.mark.parametrize("rule", TABLE)
def test_a_run_has_the_plan_of_its_options(rule: str) -> None:
    for workload, options, *expected in TABLE[rule]:
        plan = compiled(workload, **options)
        found = [[path, at(plan, path)] for path, _ in expected]
        assert found == [[path, None if one == "" else one] for path, one in expected]


def test_a_curve_is_compiled_for_the_longer_of_warm_up_and_measurement() -> None:
    said = {"rate": "steps:10/1s,20/1s", "duration_ns": 2 * 10**9, "warmup_ns": 4 * 10**9}
    assert at(compiled("ycsb/a", **said), "groups.0.arrival.rates.-1.at_ns") >= 4 * 10**9


def test_the_seed_of_a_run_decides_its_bursts() -> None:
    said = {"rate": "onoff:10/1s,20/1s", "duration_ns": 20 * 10**9}
    plans = [compiled("ycsb/a", **said, seed=seed) for seed in (1, 1, 2)]
    one, same, other = (plan.groups[0].arrival for plan in plans)
    assert one == same != other


def test_a_key_space_that_cannot_be_counted_is_refused() -> None:
    with pytest.raises(PlanError, match="reach beyond 2\\^63"):
        compiled("ycsb/e", records=2**63 - 1, operations=2**62)


def test_a_seed_is_derived_by_sha_256_as_documented() -> None:
    expected = hashlib.sha256(b"1:keys").digest()[:8]
    assert derive_seed(1, "keys") == int.from_bytes(expected, "big") == 17125944070519524794


@given(st.integers(0, 2**64 - 1))
def test_the_four_sources_of_chance_differ(seed: int) -> None:
    assert len(set(derive_seeds(seed).model_dump().values())) == 4


def test_a_plan_is_read_again_as_it_was_written() -> None:
    plan = compiled("ycsb/a", rate=0.1, warmup_ns=1)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_text_that_is_no_plan_is_refused() -> None:
    unknown = compiled("ycsb/a").to_json().replace('"format":1', '"format":1,"extra":2')
    for text, sentence in (
        ("{", "plan: invalid json"),
        ("{}", "format: field required"),
        (unknown, "extra: extra inputs are not permitted"),
    ):
        with pytest.raises(PlanError, match=sentence):
            Plan.from_json(text)


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
