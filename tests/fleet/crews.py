"""A fleet without Ray: agents in threads of this process, which can be killed and made deaf."""

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

Told = tuple[int, Report | Lost]


@dataclass
class LocalCrew:
    """Agents in threads; `skews_ns` are what their clocks are ahead."""

    machines: Sequence[Machine]
    lease_s: float = 60.0
    stops: int = 0
    #: Called with each report before it is handed over.
    watch: Callable[[int, Report], object] = lambda share, report: None
    told: SimpleQueue[Told] = field(default_factory=SimpleQueue)
    agents: dict[int, Agent] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    begun: list[tuple[int, int, int]] = field(default_factory=list)
    ended: list[tuple[int, int]] = field(default_factory=list)
    asked_for_all_cores: bool = False

    def start(self, share: int, plan: Plan) -> None:
        agent = self.agents[share] = Agent(self.lease_s)

        def work() -> None:
            for report in agent.run(plan.to_json(), None, all_cores=False):
                self.told.put((share, report))

        threading.Thread(target=work, daemon=True).start()

    def reports(self, timeout_s: float) -> list[Told]:
        deadline_s = time.monotonic() + timeout_s
        found: list[Told] = []
        while True:
            try:
                share, told = self.told.get(timeout=max(deadline_s - time.monotonic(), 0.001))
            except Empty:
                return found
            if share in self.lost and isinstance(told, Report):
                continue
            if isinstance(told, Report):
                self.watch(share, told)
            found.append((share, told))

    def begin(self, share: int, phase: int, wall_ns: int) -> None:
        self.begun.append((share, phase, wall_ns))
        self.agents[share].begin(phase, wall_ns)

    def end_phase(self, share: int, phase: int) -> None:
        self.ended.append((share, phase))
        self.agents[share].end_phase(phase)

    def renew(self, share: int) -> None:
        self.agents[share].renew()

    def stop(self, share: int) -> None:
        self.agents[share].stop()

    def disturb(self, share: int, *, acts: bool) -> None:
        self.agents[share].disturb(acts=acts)

    def dismiss(self, share: int) -> None:
        self.kill(share)

    def stops_asked(self) -> int:
        return self.stops

    def close(self) -> None:
        """Ends every agent's process."""
        for agent in self.agents.values():
            agent.generator.close()

    def kill(self, share: int) -> None:
        """Nothing more is heard of an agent, and its engine ends."""
        self.lost.add(share)
        self.agents[share].stop()
        self.told.put((share, Lost("it was killed")))


def machines(number: int) -> list[Machine]:
    """Machines whose clocks are this one's."""
    return [Machine(f"machine-{index}", {}, 0, 0) for index in range(number)]


@dataclass
class LocalFleet:
    """Carries out plans on a crew of this process, as `RayFleet` does on a cluster."""

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
