"""A fleet without Ray: agents in threads of this process, which can be killed or silenced."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kvmark.cli.run_options import parse_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, Run, RunFolder
from kvmark.run.agent import Agent, Report
from kvmark.run.context import RunContext
from kvmark.run.coordinator import conduct
from kvmark.run.execution import ExecutedRun, execute
from kvmark.run.gathering import Machine
from kvmark.run.generator import Caller, LocalGenerator

WORDS = ("--clients", "6", "--interval", "50ms", "--no-settle", "--workers", "1")
KILLED = Report(problem=("GeneratorDied", "it was killed"))


@dataclass
class LocalCrew:
    """Agents in threads; executes plans as `RayFleet` does on a cluster."""

    machines: list[Machine]
    lease_s: float = 60.0
    stops: int = 0
    watch: Callable[[int, Report], object] = lambda share, report: None
    """Called with each report before the coordinator gets it."""
    is_disturbed: Callable[[], bool] = lambda: False
    queue: SimpleQueue[tuple[int, Report]] = field(default_factory=SimpleQueue)
    agents: dict[int, Agent] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    sent: list[tuple[str, int, dict[str, int]]] = field(default_factory=list)
    muted: set[str] = field(default_factory=set)
    """Commands that don't arrive."""
    asked_for_all_cores: bool = False
    processes: ClassVar[Mapping[str, int]] = {}

    def generate(self, plan: Plan, folder: RunFolder, caller: Caller) -> Mapping[str, Any]:
        self.asked_for_all_cores = caller.all_cores
        return conduct(plan, self, folder, replace(caller, is_disturbed=self.is_disturbed))

    def start(self, share: int, plan: Plan) -> None:
        agent = self.agents[share] = Agent(self.lease_s)

        def work() -> None:
            for report in agent.run(plan.to_json(), None, all_cores=False):
                self.queue.put((share, report))

        threading.Thread(target=work, daemon=True).start()

    def reports(self, timeout_s: float) -> list[tuple[int, Report]]:
        deadline_s = time.monotonic() + timeout_s
        found: list[tuple[int, Report]] = []
        while True:
            try:
                share, report = self.queue.get(timeout=max(deadline_s - time.monotonic(), 0.001))
            except Empty:
                return found
            if report is not KILLED:
                if share in self.lost:
                    continue
                self.watch(share, report)
            found.append((share, report))

    def send(self, share: int, command: str, **arguments: int) -> None:
        self.sent.append((command, share, arguments))
        if command not in self.muted:
            getattr(self.agents[share], command)(**arguments)

    def stops_asked(self) -> int:
        return self.stops

    def begun(self) -> list[tuple[int, int]]:
        """Phase and start of all begun phases, in order."""
        sent = [arguments for command, _, arguments in self.sent if command == "begin"]
        return [(one["phase"], one["wall_ns"]) for one in sent]

    def dismiss(self, share: int) -> None:
        """Ends an agent's engine and loses the agent."""
        self.lost.add(share)
        self.agents[share].stop()
        self.queue.put((share, KILLED))


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
        """A crew with this number of agents, on machines whose clocks are this one's."""
        machines = [Machine(f"machine-{index}", {}, 0, 0) for index in range(number)]
        self.crews.append(LocalCrew(machines, **more))
        return self.crews[-1]

    def execute(self, plan: Plan, crew: LocalCrew | None = None, **more: Any) -> ExecutedRun:
        """One plan on a crew, or in this process."""
        generator = self.generator if crew is None else crew
        context = RunContext(("kvmark",), generator, self.records, host={}, versions={})
        progress = more.pop("progress", lambda _: None)
        spec = more.pop("spec", {"workers": 1})
        return execute(plan, spec, context, lambda _, values: progress(values), **more)

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
            for agent in crew.agents.values():
                agent.generator.close()
