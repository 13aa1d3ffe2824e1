"""After the engine has returned, the run is kept despite interrupts and failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kvmark.errors import Interrupted, RunError, SystemUnderTestError
from kvmark.records import Records, close_run
from kvmark.run.context import make_run_context
from kvmark.run.execution import ExecutedRun, execute
from kvmark.run.generator import LocalGenerator
from kvmark.run.sampler import Sampler
from plans import plan_of

SECOND = 1_000_000_000
AtTheEnd = Callable[[Callable[[], object]], None]


def executed(folder: Path, duration_s: float = 3600, **more: Any) -> ExecutedRun:
    """A run on a store that takes a millisecond for each operation."""
    times = {"duration_ns": int(duration_s * SECOND), "interval_ns": SECOND // 20}
    plan = plan_of("ycsb/c", "sim:?mean_us=1000", load="never", **times)
    with LocalGenerator() as generator:
        context = make_run_context(("kvmark",), plan, generator, Records(folder))
        return execute(plan, {}, context, lambda *_: None, **more)


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> AtTheEnd:
    """Calls a function when the sampler ends: after the engine has returned."""

    def patch(act: Callable[[], object]) -> None:
        leave = Sampler.__exit__

        def end(sampler: Sampler, *problem: object) -> None:
            leave(sampler, *problem)
            act()

        monkeypatch.setattr(Sampler, "__exit__", end)

    return patch


def test_a_complete_run_is_not_ended_by_the_caller(tmp_path: Path, at_the_end: AtTheEnd) -> None:
    over: list[bool] = []
    at_the_end(lambda: over.append(True))
    ended = executed(tmp_path, 0.2, may_go_on=lambda: not over)
    assert ended.failure is None
    assert not close_run(ended.folder.path).manifest.engine.interrupted


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (SystemUnderTestError("the server isn't back"), SystemUnderTestError, "isn't back"),
        (OSError("the samples can't be read"), RunError, "the samples can't be read"),
        (KeyboardInterrupt(), Interrupted, "interrupted: what was measured until then is"),
    ],
)
def test_a_failure_after_the_engine_returned_keeps_the_run_and_is_reported(
    tmp_path: Path, at_the_end: AtTheEnd, problem: BaseException, kind: type, sentence: str
) -> None:
    at_the_end(Mock(side_effect=problem))
    ended = executed(tmp_path, 0.2)
    assert type(ended.failure) is kind
    assert sentence in str(ended.failure)
    assert f"kept as run {ended.folder.id}" in str(ended.failure)
    manifest = close_run(ended.folder.path).manifest
    assert manifest.closed_by == "engine"
    assert manifest.engine.phases[-1].stopped_by == "duration"
    assert manifest.rate > 0


def test_an_interrupt_before_the_engine_returned_leaves_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalGenerator, "generate", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        executed(tmp_path)
    assert Records(tmp_path).list() == []
