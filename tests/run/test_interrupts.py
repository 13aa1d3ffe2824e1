"""Whatever comes when the engine has returned, the run that it returned is kept."""

import time
from pathlib import Path
from typing import Any

import pytest

from kvmark import catalog
from kvmark.errors import Interrupted, RunError, SystemUnderTestError
from kvmark.plan.compile import compile_run
from kvmark.records import Records, recover
from kvmark.run import execution as carrying
from kvmark.run.execution import Carried, carry_out
from kvmark.run.generator import LocalGenerator
from kvmark.run.setting import make_setting
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

SECOND = 1_000_000_000


def carried(folder: Path, duration_s: float = 3600, **more: Any) -> Carried:
    """A run on a store that takes a millisecond for each operation."""
    spec = RunSpec(
        workload=catalog.find("ycsb/c"),
        system=parse_system_url("sim:?mean_us=1000"),
        load="never",
        duration_ns=int(duration_s * SECOND),
        interval_ns=SECOND // 20,
    )
    plan = compile_run(spec)
    with LocalGenerator() as generator:
        setting = make_setting(("kvmark",), plan, generator, Records(folder))
        return carry_out(plan, spec.as_json(), setting, lambda *_: None, **more)


def test_a_run_that_may_not_go_on_is_ended_and_kept(tmp_path: Path) -> None:
    until_s = time.monotonic() + 0.3
    ended = carried(tmp_path, may_go_on=lambda: time.monotonic() < until_s)
    assert isinstance(ended.failure, Interrupted)
    run = recover(ended.folder.path)
    assert run.manifest.engine.interrupted
    assert run.manifest.engine.phases[-1].stopped_by == "cancelled"
    assert sum(total.count for total in run.manifest.engine.totals) > 0


def test_a_run_that_came_to_its_end_is_asked_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time is over while servers and samples are looked after: the engine has returned.
    over: list[bool] = []
    leave = carrying.Sampler.__exit__

    def slow(sampler: carrying.Sampler, *problem: object) -> None:
        over.append(True)
        leave(sampler, *problem)

    monkeypatch.setattr(carrying.Sampler, "__exit__", slow)
    ended = carried(tmp_path, 0.2, may_go_on=lambda: not over)
    assert ended.failure is None
    assert not recover(ended.folder.path).manifest.engine.interrupted


def test_an_interrupt_after_the_engine_returned_keeps_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = carrying.Sampler.__exit__

    def interrupted(sampler: carrying.Sampler, *problem: object) -> None:
        leave(sampler, *problem)
        raise KeyboardInterrupt

    monkeypatch.setattr(carrying.Sampler, "__exit__", interrupted)
    ended = carried(tmp_path, 0.2)
    # The user wants nothing to follow, and the run is as good as any.
    assert isinstance(ended.failure, Interrupted)
    manifest = recover(ended.folder.path).manifest
    assert manifest.closed_by == "engine"
    assert manifest.engine.phases[-1].stopped_by == "duration"


@pytest.mark.parametrize(
    ("problem", "kind", "told"),
    [
        (SystemUnderTestError("the server isn't back"), SystemUnderTestError, "isn't back"),
        (OSError("the samples can't be read"), RunError, "the samples can't be read"),
    ],
)
def test_a_failure_after_the_engine_returned_keeps_the_run_and_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    kind: type[Exception],
    told: str,
) -> None:
    leave = carrying.Sampler.__exit__

    def failing(sampler: carrying.Sampler, *given: object) -> None:
        leave(sampler, *given)
        raise problem

    monkeypatch.setattr(carrying.Sampler, "__exit__", failing)
    ended = carried(tmp_path, 0.2)
    assert type(ended.failure) is kind
    assert told in str(ended.failure)
    assert f"kept as run {ended.folder.id}" in str(ended.failure)
    manifest = recover(ended.folder.path).manifest
    assert manifest.closed_by == "engine"
    assert manifest.rate > 0


def test_an_interrupt_before_the_engine_returned_leaves_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalGenerator, "generate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carried(tmp_path)
    assert Records(tmp_path).list() == []
