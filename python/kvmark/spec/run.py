"""One run as the user asked for it: a workload, a system, and how much load for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from kvmark.drivers import drivers
from kvmark.errors import SpecError
from kvmark.spec.curve import parse_curve
from kvmark.spec.faults import FaultSpec, check_faults
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.quantity import LARGEST, SHORTEST_INTERVAL_NS, SHORTEST_STALL_NS
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.retry import RetryPolicy, parse_retry
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import LARGEST_U32, Compressible, GroupSpec, WorkloadSpec

_CHANGING: Final = frozenset(
    {"APPEND", "BITFIELD", "DECR", "DECRBY", "HINCRBY", "HINCRBYFLOAT", "INCR", "INCRBY"}
    | {"INCRBYFLOAT", "PREPEND", "SETBIT", "SETRANGE"}
)
"""Commands after which a value isn't the one that was given."""
_REMOVING: Final = frozenset({"DEL", "DELETE", "GETDEL", "HDEL", "UNLINK"})
"""Commands after which there is none; a statement that isn't there to delete hasn't any."""
_NUMBERS: Final = (
    ("clients", 1, LARGEST_U32), ("workers", 1, LARGEST_U32), ("operations", 1, LARGEST),
    ("pipeline_depth", 1, LARGEST_U32), ("seed", 0, 2**64 - 1),
)  # fmt: skip
SECOND_NS: Final = 10**9
DEFAULT_DURATION_NS: Final = 30 * SECOND_NS
"""How long a rate's curve or a fault is measured when nothing else ends the run."""
DEFAULT_PRECISION: Final = 0.03
"""The throughput's relative half width that ends a run when nothing else does."""
LONGEST_NS: Final = 60 * SECOND_NS
"""How long such a run measures at most."""
LONGEST_PRECISE_NS: Final = 600 * SECOND_NS
"""The same where the user gives the precision."""
LONGEST_WARMUP_NS: Final = 30 * SECOND_NS
"""How long a warm-up until throughput is steady takes at most, unless the user gives a limit."""
STALL_LIMIT_NS: Final = 30 * SECOND_NS
"""How long a system may answer nothing, unless the user gives a limit."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The requested run. None is the default, which `kvmark.plan.compile` chooses.

    Making one raises `SpecError` for values that are impossible alone or together.
    """

    workload: WorkloadSpec
    system: SystemUrl
    clients: int | None = None
    """Closed model: number of clients. Open model: limit on operations in flight."""
    rate: float | str | None = None
    """Operations per second or a curve's text, which makes it the open model; None for as fast as
    clients go."""
    arrival: ArrivalProcess | None = None
    duration_ns: int | None = None
    operations: int | None = None
    """Operations of each group."""
    until_stderr: float | None = None
    """Ends the run when the relative standard error of the mean rate, as cassandra-stress computes
    it, is below this."""
    precision: float | None = None
    """Ends the run when half the width of the throughput's interval, relative to it, is below this;
    None for 3 % where nothing else ends the run."""
    warmup_ns: int | None = None
    """Length of the warm-up, or its limit; None for none, unless the precision ends the run."""
    warmup_until: Literal["stationary"] | None = None
    """Ends the warm-up earlier, when throughput doesn't move any more."""
    seed: int = 1
    interval_ns: int | None = None
    """Length of a recorded interval; None for a round one that suits the duration."""
    timeout_ns: int | None = None
    """Limit on the service time of an operation, or of each attempt."""
    retry: str | None = None
    """How failed operations are tried again; None for the groups' own policies."""
    pin: tuple[int, ...] = ()
    """Cores to bind workers to, in turn."""
    workers: int | None = None
    """Executor threads of an asynchronous driver; None for one per core."""
    load: Literal["auto", "always", "never"] = "auto"
    """Whether the records are loaded first: when they are missing, in any case, or not at all."""
    settle: bool = True
    """Whether to wait after a load until the system is quiet."""
    drain_limit_ns: int = 30 * SECOND_NS
    stall_limit_ns: int = STALL_LIMIT_NS
    """How long the system may answer nothing while requests are outstanding; 0 for no limit."""
    records: int | None = None
    """Overrides the workload's number of records."""
    groups: tuple[str, ...] = ()
    """The workload's groups that take part; empty for all."""
    pipeline_depth: int | None = None
    """Overrides how many commands an operation of the workload's statements sends."""
    verify: bool = False
    """Whether every record that was written is read back at the end."""
    faults: tuple[FaultSpec, ...] = ()
    """What is broken on purpose while it measures."""
    replay: ReplaySpec | None = None
    """How the workload's trace is replayed; None for a workload that is drawn."""

    def __post_init__(self) -> None:
        """Checks the values, each alone and then together."""
        self._check_numbers()
        self._check_groups()
        self._check_load_model()
        self._check_timeouts()
        self._check_curve()
        self._check_workload()
        if self.verify:
            self._check_verification()
        self._check_replay()
        check_faults(self.faults, self._limit_ns)

    @property
    def active_groups(self) -> tuple[GroupSpec, ...]:
        """The groups that take part, in the workload's order."""
        everyone = self.workload.groups
        return tuple(one for one in everyone if not self.groups or one.name in self.groups)

    def retry_of(self, group: GroupSpec) -> RetryPolicy | None:
        """How a group's failed operations are tried again."""
        text = self.retry or group.retry
        return None if text is None else parse_retry(text)

    @property
    def attempt_timeout_ns(self) -> int | None:
        """The limit on the service time of an attempt; None for no limit."""
        policies = map(self.retry_of, self.active_groups)
        return next((it.timeout_ns for it in policies if it and it.timeout_ns), self.timeout_ns)

    def as_json(self) -> dict[str, Any]:
        """The spec as plain values for the manifest, without credentials."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["workload"] = self.workload.model_dump(mode="json", by_alias=False)
        plain["faults"] = [fault.model_dump(mode="json") for fault in self.faults]
        if self.replay is not None:
            replay = {"trace": str(self.replay.trace), "skip": list(self.replay.skip)}
            plain["replay"] = {**asdict(self.replay), **replay}
        lists = {"pin": list(self.pin), "groups": list(self.groups)}
        return {**plain, **lists, "system": self.system.text}

    @property
    def _limit_ns(self) -> int | None:
        """The longest measurement; None if only operations or their error end it."""
        is_ended = self.duration_ns is not None or self.replay is not None or self._is_ended
        return self.duration_ns if is_ended else DEFAULT_DURATION_NS

    @property
    def has_no_length(self) -> bool:
        """Whether the user leaves it to kvmark how long the run takes."""
        changes = any(isinstance(rate, str | tuple) for rate in self._rates) or bool(self.faults)
        given = self.duration_ns is not None or self.replay is not None or self._is_ended
        return not (given or changes)

    @property
    def _rates(self) -> list[Any]:
        return [self.rate] if self.rate is not None else [one.rates for one in self.active_groups]

    @property
    def _is_ended(self) -> bool:
        """Whether something else than time ends the run."""
        counted = all(group.operations for group in self.active_groups)
        known = self.until_stderr is not None or self.precision is not None
        return bool(self.operations or counted or known or self.workload.once_per_record)

    def _check_numbers(self) -> None:
        for name, low, high in _NUMBERS:
            _whole(name.replace("_", "-"), getattr(self, name), low, high)
        _whole("records", self.records, 1, LARGEST - self.workload.dataset.start)
        for name in ("duration", "interval", "timeout", "drain_limit"):
            _duration(name.replace("_", " "), getattr(self, f"{name}_ns"))
        if self.interval_ns is not None and self.interval_ns < SHORTEST_INTERVAL_NS:
            raise SpecError(f"interval: must be at least 1 ms, not {self.interval_ns} ns")
        if self.stall_limit_ns:
            _whole("stall limit", self.stall_limit_ns, SHORTEST_STALL_NS)
        _whole("warmup", self.warmup_ns, 0)
        check_pin(self.pin)
        rate, bound = self.rate, self.until_stderr
        if isinstance(rate, float | int) and not (math.isfinite(rate) and rate > 0):
            raise SpecError(f"rate: must be above 0 operations per second, not {rate:g}")
        for name, share in (("until-stderr", bound), ("precision", self.precision)):
            if share is not None and not 0 < share < 1:
                raise SpecError(f"{name}: must be above 0 and below 1, not {share:g}")
        if bound is not None and self.precision is not None:
            raise SpecError("precision: until-stderr ends the run already; leave one of them out")

    def _check_groups(self) -> None:
        known = [group.name for group in self.workload.groups]
        for name in self.groups:
            if name not in known:
                hint = did_you_mean(name, known)
                raise SpecError(f"{self.workload.name} has no group {shown(name)}{hint}")
        if len(self.active_groups) > 1:
            names = " and ".join(group.name for group in self.active_groups)
            for option, value in (("clients", self.clients), ("rate", self.rate)):
                if value is not None:
                    raise SpecError(
                        f"{option}: the groups {names} each have their own; set them in the "
                        "workload file or choose one group"
                    )

    def _check_workload(self) -> None:
        workload = self.workload
        pipelines = any(one.pipelines for one in workload.statements.values())
        if self.pipeline_depth is not None and not pipelines:
            raise SpecError(
                f"pipeline-depth: no statement of {workload.name} has 'commands', the number that "
                "this would change; take redis/pipelined or add it to the workload's file"
            )
        name = workload.name
        if workload.once_per_record and self.warmup_ns:
            raise SpecError(f"warmup: {name} takes each record once, so it cannot be warmed up")
        if self.warmup_until and self.warmup_ns == 0:
            raise SpecError("warmup-until: a warm-up of no length can't end; leave --warmup out")
        if not workload.dataset.loaded and self.load == "always":
            raise SpecError(f"load: {name} inserts the records itself; leave --load out")
        values, driver = workload.dataset.values, self.system.driver
        is_binary = isinstance(values, Compressible) and not values.text
        if is_binary and drivers()[driver].stores_text and not workload.statements:
            raise SpecError(
                f"values: {driver} stores text, and {name} has bytes of any value; add 'text: true'"
                " behind 'compressible'"
            )

    def _check_verification(self) -> None:
        """Refuses what would be taken for a lost write and is none."""
        workload, system = self.workload, self.system
        fields = {group.write_fields for group in self.active_groups}
        if system.options.get("update") == "replace" and "one" in fields:
            raise SpecError(
                f"verify: with update=replace {system.driver} drops the fields that an update"
                " doesn't write; leave --verify or update=replace out"
            )
        probe = workload.statements.get(workload.probe or "")
        if workload.statements and not (probe and probe.expect):
            raise SpecError(
                f"verify: {workload.name} has no statement that reads a record back; add "
                "'probe' with a statement whose 'expect' names the record's field"
            )
        mixed = {name for group in self.active_groups for name in group.mix.weights()}
        mixed |= {group.on_miss for group in self.active_groups if group.on_miss}
        does = {one.does for name, one in workload.statements.items() if name in mixed}
        updates = bool({"update", "read_modify_write"} & {*does, *mixed})
        if workload.dataset.values == "integrity" and updates:
            raise SpecError(
                f"verify: {workload.name} writes the same value at each update of a record (values:"
                " integrity), so that a lost one can't be seen; take values: random, as redis/set"
                " has them"
            )
        for name, one in workload.statements.items():
            if name not in {*mixed, workload.load}:
                continue
            unforeseen = _CHANGING if one.does == "delete" else _CHANGING | _REMOVING
            # What each text of the statement does.
            words = [word.upper() for text in one.run for word in text.split()[:1]]
            verb = next((word for word in words if word in unforeseen), None)
            if verb is not None:
                raise SpecError(
                    f"verify: {verb} in {name} of {workload.name} changes a value that is there, so"
                    " that the expected values are unknown; leave --verify out"
                )
            if self.replay is None and one.expires:
                raise SpecError(
                    f"verify: what {name} of {workload.name} writes has a time to live, so that it"
                    " may be gone rightly; leave --verify out"
                )

    def _check_load_model(self) -> None:
        paced = self.rate is not None
        if self.arrival is not None and not paced and not any(g.rates for g in self.active_groups):
            raise SpecError(
                f"arrival: {self.arrival} is for the open model, which needs a rate; give --rate"
            )
        if paced and any(group.think_time_ns for group in self.active_groups):
            raise SpecError(
                f"rate: {self.workload.name} has a think time, which is for clients without a "
                "rate; remove one of them"
            )

    def _check_timeouts(self) -> None:
        own = [policy and policy.timeout_ns for policy in map(self.retry_of, self.active_groups)]
        if any(own) and self.timeout_ns is not None:
            raise SpecError("timeout: the retry policy has one already; leave one of them out")
        if len(set(own)) > 1:
            raise SpecError(
                "retry: the groups have different timeouts, and a run has one; give --timeout"
                " instead"
            )

    def _check_curve(self) -> None:
        for curve in [parse_curve(one) for one in self._rates if isinstance(one, str)]:
            if self._limit_ns is None:
                raise SpecError("rate: a curve needs a length; give --duration")
            if curve.is_whole and self.warmup_ns:
                raise SpecError(
                    "rate: a warm-up would rise as the measurement does; leave --warmup out and"
                    " begin the ramp lower, or give the ramp a time: ramp:1k..5k/60s"
                )

    def _check_replay(self) -> None:
        if self.replay is None:
            drawn = {name for group in self.active_groups for name in group.mix.statements}
            statements = self.workload.statements
            for name in sorted(drawn & set(statements)):
                if statements[name].is_told(self.workload.arguments):
                    raise SpecError(
                        f"{name}: its ttl or scan_length is what a trace says; replay one"
                    )
            return
        for option, given, instead in (
            ("rate", self.rate, "it has the trace's rate; give --speed"),
            ("arrival", self.arrival, "it has the trace's instants"),
            ("warmup", self.warmup_ns or None, "it begins as the trace does; begin it with --from"),
            ("records", self.records, "its records are those of the trace"),
            ("pipeline-depth", self.pipeline_depth, "it sends one command at a time"),
        ):
            if given is not None:
                raise SpecError(f"{option}: not for a replay, for {instead}")
        if self.workload.fills:
            raise SpecError(
                "on_miss: not for a replay, for it has the trace's writes; leave it out"
            )


def check_pin(cores: Sequence[int]) -> None:
    """Refuses cores that workers can't be bound to in turn.

    Raises:
        SpecError: a number is too large, or a core is named twice.
    """
    for core in cores:
        _whole("pin", core, 0, LARGEST_U32)
    if len(set(cores)) != len(cores):
        raise SpecError("pin: a core is named twice; name each core once")


def _whole(name: str, value: int | None, low: int, high: int = LARGEST) -> None:
    if value is not None and not low <= value <= high:
        raise SpecError(f"{name}: must be from {low} to {high}, not {value}")


def _duration(name: str, value_ns: int | None) -> None:
    if value_ns is not None and value_ns <= 0:
        raise SpecError(f"{name}: must be longer than nothing, not {value_ns} ns")
    if value_ns is not None and value_ns > LARGEST:
        raise SpecError(f"{name}: must be at most {LARGEST} ns, not {value_ns} ns")
