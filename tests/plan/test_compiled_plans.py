"""What the user left open is decided, and by rules that are written down."""

import hashlib
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import PlanError
from kvmark.plan.compile import derive_seed, derive_seeds
from kvmark.plan.model import Plan
from plans import at, plan_of

TABLE: Mapping[str, list[Any]] = tomllib.loads(
    Path(__file__).with_name("compiled.toml").read_text()
)

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
