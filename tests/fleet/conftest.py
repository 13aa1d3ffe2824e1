"""Fleets of this process; the helpers are modules of this folder."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crews import LocalCrew, LocalFleet, machines

from kvmark.cli.run_options import parse_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run, RunFolder
from kvmark.run.context import RunContext
from kvmark.run.execution import ExecutedRun, execute
from kvmark.run.generator import LocalGenerator

WORDS = ("--clients", "6", "--interval", "50ms", "--no-settle", "--workers", "1")


@dataclass
class Fleet:
    """Executes plans in this process, alone or on crews; the runs are in a test's folder."""

    records: Records
    generator: LocalGenerator
    crews: list[LocalCrew] = field(default_factory=list)

    @staticmethod
    def plan(*words: str) -> Plan:
        """The plan of a `kvmark run`."""
        return compile_run(parse_run([*words, *WORDS]).spec)

    def crew(self, number: int = 3, **more: Any) -> LocalCrew:
        """A crew with this number of agents."""
        self.crews.append(LocalCrew(machines(number), **more))
        return self.crews[-1]

    def execute(self, plan: Plan, crew: LocalCrew | None = None, **more: Any) -> ExecutedRun:
        """One plan on a crew, or in this process."""
        generator = self.generator if crew is None else LocalFleet(lambda: crew)
        context = RunContext(("kvmark",), generator, self.records, host={}, versions={})
        progress = more.pop("progress", lambda _: None)
        spec = more.pop("spec", {"workers": 1})

        def report(_: RunFolder, values: Mapping[str, Any]) -> None:
            progress(values)

        return execute(plan, spec, context, report, **more)

    def closed(self, executed: ExecutedRun) -> Run:
        """The run, closed."""
        return self.records.open(executed.folder.id)

    def run(self, plan: Plan, crew: LocalCrew | None = None, **more: Any) -> Run:
        """One plan, executed without a failure and closed."""
        return self.closed(self.execute(plan, crew, **more).or_raise())


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Executes plans."""
    with LocalGenerator() as generator:
        made = Fleet(Records(tmp_path / "runs"), generator)
        yield made
        for crew in made.crews:
            crew.close()
