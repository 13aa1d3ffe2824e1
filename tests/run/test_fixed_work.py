"""The fixed work that shows the speed of a core."""

import os
import time

import pytest

from kvmark.run import sampler
from kvmark.run.sampler import fixed_work_ns


def test_it_runs_on_the_named_core_and_restores_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    seen: list[set[int]] = []
    monkeypatch.setattr(sampler, "_work", lambda: lambda: seen.append(os.sched_getaffinity(0)))
    fixed_work_ns(core)
    fixed_work_ns()
    fixed_work_ns(4095)
    assert seen == [{core}] * 2 + [before] * 4
    assert os.sched_getaffinity(0) == before


def test_time_without_a_core_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_work", lambda: lambda: time.sleep(0.1))
    assert 0 < fixed_work_ns() < 50_000_000
