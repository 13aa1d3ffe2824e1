"""Several machines that generate load together: the nodes of a Ray cluster.

Ray places one agent on each node, transports reports and commands, and detects lost agents and
nodes. `coordinator` leads the run. No other module imports Ray.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from kvmark import interrupts
from kvmark.errors import FleetError, GeneratorDied, UsageError
from kvmark.interrupts import Interrupts
from kvmark.plan.model import Plan
from kvmark.records import RunFolder
from kvmark.run.agent import Agent, Report, pieces, tapes_of, version
from kvmark.run.coordinator import Command, clock_offset, conduct
from kvmark.run.gathering import Machine
from kvmark.run.generator import Caller
from kvmark.run.shares import check_divisible, check_reachable, machines_used
from kvmark.secret import Secret

_Node = tuple[str, str]
"""Its address and its id."""

_CONNECT_S: Final = 3.0
_POLL_S: Final = 0.2
_PLACE_S: Final = 60.0
"""Placing an agent takes seconds; longer in a cluster that scales up."""
_CALLS: Final = 4
"""Concurrent calls of an agent: its run, and commands."""
_NORMAL_PRIORITY: Final = {"env_vars": {"RAY_worker_niceness": "0"}}
"""Ray's default is a lower priority than all other programs (ray-project/ray#24928)."""


@contextmanager
def joined(address: str, machines: int | None, *, insecure: bool = False) -> Iterator[RayFleet]:
    """The fleet at an address of Ray, with this number of machines or all.

    A cluster without a token is refused unless `insecure`: other users can run programs on it, and
    read the messages.

    Raises:
        UsageError: Ray isn't installed, nothing answers, or the cluster is refused.
    """
    ray = _ray()
    _check_address(address)
    with _redirected(1, 2):
        _join(ray, address)
        fleet = RayFleet(ray, address, machines)
        try:
            if not insecure:
                _check_token(ray, address)
            yield fleet
        finally:
            fleet.dismiss()
            ray.shutdown()


def _join(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        # One error message replaces Ray's output.
        with (
            Path(os.devnull).open("wb") as nowhere,
            _redirected(2, nowhere.fileno()),
            interrupts.kept(),
        ):
            ray.init(address, namespace="kvmark", logging_level=logging.ERROR, **quiet)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as problem:
        first = str(problem).strip().partition("\n")[0].rstrip(".")
        raise UsageError(
            f"fleet: the cluster at {address} can't be joined ({first}); give RAY_AUTH_MODE and"
            " RAY_AUTH_TOKEN as the cluster has them, and its versions of Ray and Python"
        ) from problem


def _check_token(ray: Any, address: str) -> None:
    """Refuses a cluster without a token.

    The mode is also read in a process of the cluster: a cluster without tokens accepts any token.

    Raises:
        UsageError: it has no token, or runs no process.
    """
    mode = os.environ.get("RAY_AUTH_MODE")
    if mode == "token":
        asked = ray.remote(num_cpus=0)(os.getenv).remote("RAY_AUTH_MODE")
        ready, _ = ray.wait([asked], timeout=_PLACE_S)
        mode = ray.get(asked) if ready else None
    if mode != "token":
        raise UsageError(
            f"fleet: the cluster at {address} asks for no token, so other users can join it and"
            " read the password of the system; start Ray with RAY_AUTH_MODE=token, or give"
            " --insecure-fleet"
        )


@contextmanager
def _redirected(output: int, to: int) -> Iterator[None]:
    """Redirects one of this process's outputs: standard output is for the answer, not for Ray."""
    sys.stdout.flush()
    original = os.dup(output)
    os.dup2(to, output)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(original, output)
        os.close(original)


@dataclass
class RayFleet:
    """The machines, and the agents on them."""

    ray: Any
    address: str
    machines: int | None
    _crew: _Crew | None = None
    _most: int = 0
    _gone: set[str] = field(default_factory=set)
    """Lost nodes: Ray detects them up to a minute later."""

    processes: ClassVar[Mapping[str, int]] = {}
    """None: the agents sample their own."""

    def generate(self, plan: Plan, folder: RunFolder, caller: Caller) -> dict[str, Any]:
        """Executes a plan; see `kvmark.run.generator.Generator`."""
        check_divisible(plan)
        nodes = self._nodes()
        self._most = max(self._most, len(nodes))
        used = machines_used(plan, self.machines or len(nodes))
        here = str(self.ray.util.get_node_ip_address())
        check_reachable(plan, [address for address, _ in nodes], here)
        try:
            crew = self._placed(nodes[:used], plan)
            crew.all_cores, crew.password = caller.all_cores, caller.password
            with interrupts.patient() as crew.interrupts:
                answer = conduct(plan, crew, folder, caller)
        except BaseException:
            self.dismiss()
            raise
        if crew.lost:
            self._gone |= {crew.nodes[share][1] for share in crew.lost}
            self.dismiss()
        wanted = machines_used(plan, self.machines or self._most)
        answer["record"]["machines_wanted"] = wanted
        return answer

    def dismiss(self) -> None:
        """Ends the agents; the next run starts new ones."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()

    def _nodes(self) -> list[_Node]:
        """The machines that can take an agent, in order.

        Raises:
            UsageError: there are too few.
        """
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        nodes = [
            (str(node["NodeManagerAddress"]), str(node["NodeID"]))
            for node in alive
            if node["Resources"].get("CPU", 0) >= 1 and node["NodeID"] not in self._gone
        ]
        wanted = self.machines or 1
        if len(nodes) < wanted:
            raise UsageError(
                f"fleet: {wanted} machines are wanted and {len(nodes)} of the cluster at"
                f" {self.address} can take an engine; start more with ray start --address="
                f"{self.address}, or ask for fewer with --machines"
            )
        return sorted(nodes)

    def _placed(self, nodes: Sequence[_Node], plan: Plan) -> _Crew:
        if self._crew is not None and self._crew.is_complete(nodes):
            # Agents lost since the last run are detected now, and replaced.
            with suppress(FleetError):
                self._crew.measure_clocks()
                self._crew.send_tapes(plan)
                return self._crew
        self.dismiss()
        self._crew = _Crew(self.ray, nodes)
        self._crew.place(plan)
        return self._crew


@dataclass
class _Crew:
    """Agents, one on each of these nodes."""

    ray: Any
    nodes: Sequence[_Node]
    all_cores: bool = True
    password: Secret | None = None
    interrupts: Interrupts | None = None
    """The user's interrupts during a run."""
    lost: set[int] = field(default_factory=set)
    machines: list[Machine] = field(default_factory=list)
    _agents: list[Any] = field(default_factory=list)
    _group: Any = None
    _streams: dict[int, Any] = field(default_factory=dict)

    def place(self, plan: Plan) -> None:
        """Places an agent on each node and describes its machine.

        Raises:
            FleetError: the nodes are busy, or an agent fails there.
        """
        util = self.ray.util
        # The resource of its address places a bundle on that node only.
        bundles = [{"CPU": 1, f"node:{address}": 0.001} for address, _ in self.nodes]
        self._group = util.placement_group(bundles, strategy="STRICT_SPREAD")
        until_s = time.monotonic() + _PLACE_S
        while not (placed := self._group.wait(_POLL_S)) and time.monotonic() < until_s:
            interrupts.check()
        if not placed:
            raise FleetError(
                f"the fleet has no free core on each of {len(self.nodes)} machines: something else"
                " runs there or one is gone, look at ray status"
            )
        kind = self.ray.remote(num_cpus=1, max_concurrency=_CALLS)(Agent)
        for index in range(len(self.nodes)):
            strategy = util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
            options = {"scheduling_strategy": strategy, "runtime_env": _NORMAL_PRIORITY}
            self._agents.append(kind.options(**options).remote())
        self.send_tapes(plan)
        # All agents have to be running: one that starts would disturb another's calibration.
        self._ask_all("wall_ns")
        descriptions = self._ask_all("describe", plan.to_json())
        versions = {version(), *(one["version"] for one in descriptions)}
        if len(versions) > 1:
            raise UsageError(
                "fleet: the machines have different versions of kvmark"
                f" ({', '.join(sorted(versions))}); install the same one everywhere"
            )
        pairs = zip(_names(self.nodes), descriptions, strict=True)
        self.machines = [Machine(name, one["host"], 0, 0) for name, one in pairs]
        self.measure_clocks()

    def send_tapes(self, plan: Plan) -> None:
        """Sends missing tapes of a plan to each machine.

        Raises:
            FleetError: a machine can't store one, or is gone.
        """
        for tape in tapes_of(plan):
            lack = self._ask_all("lacks_tape", tape.name, tape.stat().st_size)
            lacking = [agent for agent, lacks in zip(self._agents, lack, strict=True) if lacks]
            for offset, data in pieces(tape) if lacking else ():
                piece = (tape.name, offset, self.ray.put(data), tape.stat().st_size)
                try:
                    self._get([agent.take_piece.remote(*piece) for agent in lacking])
                except self.ray.exceptions.RayError as problem:
                    raise FleetError(
                        f"the trace's tape {tape} can't be sent to each machine ({_why(problem)});"
                        " it goes to the cache there, for which XDG_CACHE_HOME of ray start may"
                        " name another folder"
                    ) from problem

    def measure_clocks(self) -> None:
        """Measures the offset of each machine's clock.

        Raises:
            FleetError: an agent is gone.
        """
        for index, agent in enumerate(self._agents):
            try:
                offset_ns, round_trip_ns = clock_offset(partial(self._ask, agent, "wall_ns"))
            except self.ray.exceptions.RayError as problem:
                self.lost.add(index)
                name = self.machines[index].name
                raise FleetError(
                    f"the machine {name} was lost between two runs ({_why(problem)})"
                ) from problem
            self.machines[index] = replace(
                self.machines[index], clock_offset_ns=offset_ns, clock_round_trip_ns=round_trip_ns
            )

    def is_complete(self, nodes: Sequence[_Node]) -> bool:
        """Whether it can execute another run, on these nodes."""
        return list(nodes) == list(self.nodes) and not self.lost and not self._streams

    def start(self, share: int, plan: Plan) -> None:
        """Starts an agent's share."""
        run = self._agents[share].run.options(num_returns="streaming")
        self._streams[share] = run.remote(plan.to_json(), self.password, all_cores=self.all_cores)

    def reports(self, timeout_s: float) -> Sequence[tuple[int, Report]]:
        """New reports; see `Crew`."""
        if not self._streams:
            time.sleep(timeout_s)
        reports: list[tuple[int, Report]] = []
        number, options = 1, {"timeout": timeout_s, "fetch_local": False}
        while self._streams:
            ready, _ = self.ray.wait([*self._streams.values()], num_returns=number, **options)
            if not ready:
                break
            for share, stream in list(self._streams.items()):
                if any(stream is one for one in ready):
                    reports.append((share, self._next(share, stream)))
            number, options["timeout"] = len(self._streams), 0
        return reports

    def _next(self, share: int, stream: Iterator[Any]) -> Report:
        try:
            report: Report = self.ray.get(next(stream))
        except (self.ray.exceptions.RayError, StopIteration) as problem:
            self.lost.add(share)
            report = Report(problem=(GeneratorDied.__name__, _why(problem)))
        if report.is_last:
            del self._streams[share]
        return report

    def send(self, share: int, command: Command, **arguments: int) -> None:
        """Calls a method of an agent."""
        getattr(self._agents[share], command).remote(**arguments)

    def dismiss(self, share: int) -> None:
        """Ends a lost agent."""
        self.lost.add(share)
        self._streams.pop(share, None)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(self._agents[share])

    def stops_asked(self) -> int:
        """The number of stop requests by the user."""
        return 0 if self.interrupts is None else self.interrupts.take()

    def close(self) -> None:
        """Ends the agents and frees their resources."""
        with suppress(self.ray.exceptions.RayError):
            for agent in self._agents:
                self.ray.kill(agent)
            if self._group is not None:
                self.ray.util.remove_placement_group(self._group)

    def _get(self, references: Any) -> Any:
        """Waits for the values of Ray's references.

        Raises:
            KeyboardInterrupt: the user has asked to stop.
        """
        while True:
            interrupts.check()
            with suppress(self.ray.exceptions.GetTimeoutError):
                return self.ray.get(references, timeout=_POLL_S)

    def _ask(self, agent: Any, method: str) -> Any:
        return self._get(getattr(agent, method).remote())

    def _ask_all(self, method: str, *arguments: Any) -> list[Any]:
        references = [getattr(agent, method).remote(*arguments) for agent in self._agents]
        try:
            return list(self._get(references))
        except self.ray.exceptions.RayError as problem:
            raise FleetError(f"an engine can't live on the fleet: {_why(problem)}") from problem


def _ray() -> Any:
    # By default, Ray reports its use to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - Ray is an extra
        import ray.exceptions  # noqa: PLC0415
        import ray.util.scheduling_strategies  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise UsageError(
            "fleet: Ray isn't installed; install kvmark with its extra, pip install 'kvmark[fleet]'"
        ) from problem
    return ray


def _check_address(address: str) -> None:
    """Refuses an address at which nothing answers: Ray itself would wait for long.

    Raises:
        UsageError: names the problem.
    """
    if address.startswith("ray://"):
        raise UsageError(
            f"fleet: {address} is for Ray's client, through which no reports can stream; run kvmark"
            " on a machine of the cluster with --fleet auto"
        )
    if os.environ.get("RAY_AUTH_MODE") == "token" and not _token():
        raise UsageError(
            "fleet: RAY_AUTH_MODE is token and there is none; set RAY_AUTH_TOKEN to the cluster's"
        )
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        raise UsageError(
            f"fleet: '{address}' is not HOST:PORT of a Ray cluster's head, such as 10.0.0.1:6379;"
            " auto is the cluster that this machine is part of"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as problem:
        raise UsageError(
            f"fleet: nothing answers at {address} ({problem.strerror or problem}); start a cluster"
            " with ray start --head, or name its head"
        ) from problem


def _token() -> str:
    """The cluster's token, from Ray's places: the variable, the named file, the user's file."""
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    with suppress(OSError):
        token = token or path.read_text()
    return token.strip()


def _why(problem: Exception) -> str:
    """The reason why an agent doesn't answer."""
    if "ActorUnavailable" in type(problem).__name__:
        return "its machine can't be reached any more"
    if "ActorDied" in type(problem).__name__:
        return "its process or its machine died"
    return str(problem).strip().rpartition("\n")[2][:200] or type(problem).__name__


def _names(nodes: Sequence[_Node]) -> list[str]:
    """The names of machines: their addresses, with the node's id if an address isn't unique."""
    counts = Counter(address for address, _ in nodes)
    return [one if counts[one] == 1 else f"{one} (node {node[:6]})" for one, node in nodes]
