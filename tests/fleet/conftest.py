"""Fleets of this process and of a Ray cluster; the helpers are modules of this folder."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crews import LocalCrew, LocalFleet, machines

from kvmark.cli.commands.run import parse_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run, RunFolder
from kvmark.run.execution import Carried, carry_out
from kvmark.run.generator import LocalGenerator
from kvmark.run.setting import Setting

WORDS = ("--clients", "6", "--interval", "50ms", "--no-settle", "--workers", "1")


def planned(*words: str) -> Plan:
    """The plan of the words of a `kvmark run`."""
    return compile_run(parse_run([*words, *WORDS]).spec)


@dataclass
class Runs:
    """Runs kept in a folder of the test's own."""

    records: Records
    generator: LocalGenerator

    def carry_out(self, plan: Plan, crew: LocalCrew | None = None, **more: Any) -> Carried:
        """One plan on a crew, or in this process."""
        generator = self.generator if crew is None else LocalFleet(lambda: crew)
        setting = Setting(("kvmark",), generator, self.records, host={}, versions={})
        progress = more.pop("progress", lambda told: None)
        spec = more.pop("spec", {"workers": 1})

        def tell(_: RunFolder, told: Mapping[str, Any]) -> None:
            progress(told)

        return carry_out(plan, spec, setting, tell, **more)

    def closed(self, carried: Carried) -> Run:
        """The run, closed."""
        return self.records.open(carried.folder.id)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Carries out plans."""
    with LocalGenerator() as generator:
        yield Runs(Records(tmp_path / "runs"), generator)


@pytest.fixture
def plan() -> Callable[..., Plan]:
    """Makes plans of words."""
    return planned


@pytest.fixture
def crew() -> Iterator[Callable[..., LocalCrew]]:
    """Makes a crew of so many agents of this process."""
    made: list[LocalCrew] = []

    def make(number: int = 3, **more: Any) -> LocalCrew:
        made.append(LocalCrew(machines(number), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
