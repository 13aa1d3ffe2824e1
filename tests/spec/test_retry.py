"""Retry policies as users write them."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from kvmark.errors import SpecError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import RetryPolicy
from kvmark.spec.retry import parse_retry
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import parse_workload

MS = 10**6
WORKLOAD = """
groups:
  - {name: readers, mix: {read: 1}, retry: "2,timeout=50ms"}
  - {name: writers, mix: {update: 1}%s}
"""


@pytest.mark.parametrize(("text", "fields", "longest_ms"), [
    ("3", (3, 0, 0, False, None), None),
    ("2,timeout=10ms", (2, 0, 0, False, 10 * MS), 20),
    ("4,backoff=50ms..150ms,jitter,timeout=1s", (4, 50 * MS, 150 * MS, True, 1000 * MS), 4300),
    (" 3 , backoff=5ms", (3, 5 * MS, 5 * MS, False, None), None),
])  # fmt: skip
def test_a_retry_policy_has_attempts_pauses_and_a_timeout(
    text: str, fields: tuple[object, ...], longest_ms: int | None
) -> None:
    policy = parse_retry(text)
    assert astuple(policy)[1:] == fields
    assert policy.longest_ns == (longest_ms and longest_ms * MS)
    assert parse_retry(policy.text) == policy


@pytest.mark.parametrize(("text", "sentence"), [
    ("1", "retry: must be from 2 to 100 attempts with the first one, not 1"),
    ("x", "'x' is not a count"),
    ("3,backof=1s", "retry: 'backof=1s' is no setting"),
    ("3,jitter=1", "retry: 'jitter=1' is no setting"),
    ("3,jitter,jitter", "retry: 'jitter' is no setting"),
    ("3,backoff=2s..1s", "retry: the backoff 2s is longer than its limit 1s"),
    ("3,timeout=0s", "retry: the timeout must be longer than nothing"),
])  # fmt: skip
def test_a_wrong_retry_policy_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=f"^{sentence}"):
        parse_retry(text)


def spec(more: str, **values: object) -> RunSpec:
    workload = parse_workload(WORKLOAD % more, "w.yaml")
    return RunSpec(workload=workload, system=parse_system_url("null:"), **values)  # type: ignore[arg-type]


def test_groups_have_their_policies_and_the_run_has_their_timeout() -> None:
    plan = compile_run(spec(', retry: "3,backoff=1ms..8ms,jitter,timeout=50ms"'))
    policies = [group.retry for group in plan.groups[:2]]
    full = RetryPolicy(attempts=3, jitter="full", backoff_ns=MS, backoff_limit_ns=8 * MS)
    plain = RetryPolicy(attempts=2, jitter="none", backoff_ns=0, backoff_limit_ns=0)
    assert policies == [plain, full]
    assert plan.timeout_ns == 50 * MS
    assert all(group.retry is None for group in plan.groups[2:])
    own = compile_run(spec("", groups=("writers",), retry="4", timeout_ns=9))
    assert (own.groups[0].retry is not None, own.timeout_ns) == (True, 9)


def test_a_run_has_one_timeout() -> None:
    for more, values in (("", {}), (', retry: "2,timeout=1s"', {})):
        with pytest.raises(SpecError, match=r"^retry: the groups have different timeouts"):
            spec(more, **values)
    with pytest.raises(SpecError, match=r"^timeout: the retry policy has one already"):
        spec(', retry: "2,timeout=50ms"', timeout_ns=1)
