"""A fleet without Ray: agents in threads of this process, which can be killed or silenced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.run.agent import Agent, Report
from kvmark.run.coordinator import Lost, conduct
from kvmark.run.gathering import Machine
from kvmark.run.generator import Caller
from kvmark.secret import Secret

Received = tuple[int, Report | Lost]


@dataclass
class LocalCrew:
    """Agents in threads."""

    machines: Sequence[Machine]
    lease_s: float = 60.0
    stops: int = 0
    watch: Callable[[int, Report], object] = lambda share, report: None
    """Called with each report before the coordinator gets it."""
    queue: SimpleQueue[Received] = field(default_factory=SimpleQueue)
    agents: dict[int, Agent] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    sent: list[tuple[str, int, dict[str, int]]] = field(default_factory=list)
    muted: set[str] = field(default_factory=set)
    """Commands that don't arrive."""
    asked_for_all_cores: bool = False

    def start(self, share: int, plan: Plan) -> None:
        agent = self.agents[share] = Agent(self.lease_s)

        def work() -> None:
            for report in agent.run(plan.to_json(), None, all_cores=False):
                self.queue.put((share, report))

        threading.Thread(target=work, daemon=True).start()

    def reports(self, timeout_s: float) -> list[Received]:
        deadline_s = time.monotonic() + timeout_s
        found: list[Received] = []
        while True:
            try:
                share, report = self.queue.get(timeout=max(deadline_s - time.monotonic(), 0.001))
            except Empty:
                return found
            if share in self.lost and isinstance(report, Report):
                continue
            if isinstance(report, Report):
                self.watch(share, report)
            found.append((share, report))

    def send(self, share: int, command: str, **arguments: int) -> None:
        self.sent.append((command, share, arguments))
        if command not in self.muted:
            getattr(self.agents[share], command)(**arguments)

    def dismiss(self, share: int) -> None:
        self.kill(share)

    def stops_asked(self) -> int:
        return self.stops

    def begun(self) -> list[tuple[int, int]]:
        """Phase and start of all begun phases, in order."""
        sent = [arguments for command, _, arguments in self.sent if command == "begin"]
        return [(one["phase"], one["wall_ns"]) for one in sent]

    def close(self) -> None:
        """Ends every agent's process."""
        for agent in self.agents.values():
            agent.generator.close()

    def kill(self, share: int) -> None:
        """Ends an agent's engine and loses the agent."""
        self.lost.add(share)
        self.agents[share].stop()
        self.queue.put((share, Lost("it was killed")))


def machines(number: int) -> list[Machine]:
    """Machines whose clocks are this one's."""
    return [Machine(f"machine-{index}", {}, 0, 0) for index in range(number)]


@dataclass
class LocalFleet:
    """Executes plans on a crew of this process, as `RayFleet` does on a cluster."""

    crew: Callable[[], LocalCrew]

    @property
    def processes(self) -> Mapping[str, int]:
        return {}

    def generate(
        self,
        plan: Plan,
        folder: RunFolder,
        caller: Caller,
        *,
        password: Secret | None,
        all_cores: bool,
    ) -> Mapping[str, Any]:
        crew = self.crew()
        crew.asked_for_all_cores = all_cores
        return conduct(plan, crew, folder, caller)
