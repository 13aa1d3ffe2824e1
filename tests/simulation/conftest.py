"""Runs of simulated systems on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kvmark._engine")

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, close_run
from kvmark.run.context import RunContext
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url


@pytest.fixture
def simulated(tmp_path: Path) -> Callable[..., Run]:
    """Runs reads of a system with these options, and closes the run."""

    def run(system: str, **options: Any) -> Run:
        url = parse_system_url(f"sim:?clock=virtual&{system}")
        spec = RunSpec(workload=catalog.load("ycsb/c"), system=url, load="never", **options)
        with LocalGenerator() as generator:
            context = RunContext((), generator, Records(tmp_path), host={}, versions={})
            executed = execute(compile_run(spec), spec.as_json(), context, lambda *_: None)
        return close_run(executed.folder.path)

    return run
