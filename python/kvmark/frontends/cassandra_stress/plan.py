"""A command line of cassandra-stress becomes plans: one for each number of clients."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvmark.frontends.cassandra_stress.command_line import SchemaSpec, StressSpec
from kvmark.frontends.cassandra_stress.profile import Profile
from kvmark.frontends.cassandra_stress.rows import row_law
from kvmark.frontends.cassandra_stress.statements import Operation, operations
from kvmark.frontends.cassandra_stress.target import TargetSpec
from kvmark.plan.compile import derive_seeds
from kvmark.plan.model import (
    FORMAT,
    ActiveGroup,
    Arrival,
    AtRates,
    Closed,
    ConstantSize,
    Dataset,
    FieldLayout,
    Group,
    KeyChoice,
    KeyText,
    Phase,
    Plan,
    RatePoint,
    RowDistribution,
    Sequential,
    Share,
    System,
    Until,
    Weight,
)
from kvmark.spec.owned_tables import TableRemoval, marked
from kvmark.spec.run import STALL_LIMIT_NS

GROUP: Final = "stress"
"""The one group of clients that is measured."""
WARMING: Final = "warm_up_"
"""How the names of those begin that warm up."""
WARM_UP_PARTITIONS: Final = 50_000
"""Partitions of a warm-up where nothing says how many are measured."""
WARM_UP_SHARE: Final = 4
"""Of those that are measured, one in so many at most."""
WARM_UP_CLIENTS: Final = 100
"""Clients of a warm-up at most."""
_ONE: Final = ConstantSize(law="constant", size=1)
_SECOND_NS: Final = 10**9
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class StressPlans:
    """What all plans of one command line share. Making one reads nothing."""

    spec: StressSpec
    profiles: tuple[Profile, ...]
    driver: str
    options: Mapping[str, Any]
    """The driver's, without what depends on the number of clients."""
    cores: int = 0
    """How many the workers may use; 0 for all that this process may."""

    def plan(self, clients: int, *, first: bool = True, warmup: bool | None = None) -> Plan:
        """The plan for so many clients; the first one makes the schema and warms up.

        Raises:
            PlanError: an operation can't be carried out.
        """
        spec = self.spec
        mix = operations(spec, self.profiles)
        warms = (spec.warmup and first) if warmup is None else warmup
        groups = [_measured(spec, mix, clients)]
        phases: list[Phase] = []
        for index, operation in enumerate(mix if warms else ()):
            groups.append(_warming(spec, index, operation, clients))
            count = _reaching((operation,), warm_up_partitions(spec))
            phases.append(_phase("warm_up", len(groups) - 1, count, None, None))
        limit = _operations(spec, mix)
        phases.append(_phase("measure", 0, limit, spec.duration_ns, _until(spec)))
        workers = _workers(spec, self.cores or len(os.sched_getaffinity(0)), clients)
        return Plan(
            format=FORMAT,
            name=f"stress/{spec.command}",
            system=System(driver=self.driver, options=self._options(workers)),
            seeds=derive_seeds(_SEED),
            share=Share(index=0, of=1),
            dataset=_dataset(spec),
            prepare=_prepare(spec, self.profiles) if self.driver == "cql" else (),
            statements=tuple(operation.statement for operation in mix),
            groups=tuple(groups),
            phases=tuple(phases),
            interval_ns=spec.log.interval_ns,
            timeout_ns=spec.target.request_timeout_ms * 1_000_000,
            drain_limit_ns=30 * _SECOND_NS,
            verify_memory_bytes=None,
            stall_limit_ns=STALL_LIMIT_NS,
            workers=workers,
            pin=(),
        )

    def removals(self, *, first: bool) -> tuple[TableRemoval, ...]:
        """The tables that are emptied before a plan is carried out, where they exist."""
        spec = self.spec
        if not (spec.truncate == "always" or (spec.truncate == "once" and first)):
            return ()
        if spec.command == "user":
            names = {f"{one.keyspace}.{one.table.name}" for one in self.profiles}
        else:
            kinds = {
                "counter" if kind.startswith("counter") else "standard" for kind in spec.shares
            }
            names = {f"{spec.schema.keyspace}.{kind}1" for kind in kinds}
        return tuple(TableRemoval(name, drops=False) for name in sorted(names))

    def _options(self, workers: int) -> dict[str, Any]:
        if self.driver != "cql":
            return dict(self.options)
        # Each worker has connections of its own: together as many as were asked for.
        each = -(-self.spec.target.connections // workers)
        return {**self.options, "connections_per_node": str(each)}


def warm_up_partitions(spec: StressSpec) -> int:
    """Partitions of each kind's warm-up, as `StressAction.warmup` has them."""
    share = WARM_UP_PARTITIONS
    if spec.operations is not None:
        share = min(WARM_UP_PARTITIONS, spec.operations // WARM_UP_SHARE)
    return max(share, 1) * len(spec.target.hosts)


def driver_options(target: TargetSpec, spec: StressSpec) -> dict[str, str]:
    """What the CQL driver needs to know of the nodes, all but the connections."""
    options = {
        "address": target.address,
        "consistency": spec.consistency,
        "serial_consistency": spec.serial_consistency,
        "compression": target.compression,
    }
    if target.datacenter:
        options["datacenter"] = target.datacenter
    if target.user:
        options["username"] = target.user
    if target.ca_file:
        options |= {"tls": "true", "ca_file": target.ca_file}
    return options


def _workers(spec: StressSpec, cores: int, clients: int) -> int:
    return max(1, min(cores, clients, spec.target.connections))


def _measured(spec: StressSpec, mix: Sequence[Operation], clients: int) -> Group:
    rate = spec.rate or spec.throttle
    # It is one of partitions.
    arrival: Arrival = Closed(process="closed", think_time_ns=0)
    if rate is not None:
        points = (RatePoint(at_ns=0, rate=rate / _mean_partitions(mix)),)
        arrival = AtRates(process="constant", rates=points)
    return _group(GROUP, spec, tuple(enumerate(mix)), clients, arrival)


def _warming(spec: StressSpec, index: int, operation: Operation, clients: int) -> Group:
    name = f"{WARMING}{index}"
    arrival = Closed(process="closed", think_time_ns=0)
    return _group(name, spec, ((index, operation),), min(clients, WARM_UP_CLIENTS), arrival)


def _group(
    name: str,
    spec: StressSpec,
    mix: Sequence[tuple[int, Operation]],
    clients: int,
    arrival: Arrival,
) -> Group:
    checks = any(operation.statement.expects for _, operation in mix)
    weights = (
        Weight(kind=operation.kind, statement=index, weight=operation.weight)
        for index, operation in mix
    )
    return Group(
        name=name,
        clients=clients,
        arrival=arrival,
        mix=tuple(weights),
        keys=_keys(spec),
        read_fields="all",
        write_fields="all",
        scan_length=_ONE,
        check_values="full" if checks else "none",
    )


def _keys(spec: StressSpec) -> KeyChoice:
    population = spec.population
    count = population.last - population.first + 1
    law = population.law
    if law is None:
        chosen: Any = Sequential(law="sequential")
    else:
        chosen = RowDistribution(law="row", of=row_law(law))
    return KeyChoice(start=population.first, count=count, distribution=chosen)


def _operations(spec: StressSpec, mix: Sequence[Operation]) -> int | None:
    """How many operations end the run, where something other than time does."""
    limits = [None if spec.partitions is None else _reaching(mix, spec.partitions)]
    if not spec.wrap_ranges and all(operation.ranges for operation in mix):
        limits.append(max(operation.ranges or 0 for operation in mix))
    return min((limit for limit in limits if limit is not None), default=None)


def _reaching(mix: Sequence[Operation], partitions: int) -> int:
    """Operations that are about so many partitions; of several kinds on the average."""
    rows = mix[0].statement.rows
    if len(mix) == 1 and rows is not None:
        return rows.operations_for(partitions)
    return math.ceil(partitions / _mean_partitions(mix))


def _mean_partitions(mix: Sequence[Operation]) -> float:
    """Partitions of an operation."""
    weighed = ((one.weight, one.statement.rows) for one in mix)
    partitions = sum(weight * (rows.mean_partitions if rows else 1) for weight, rows in weighed)
    return partitions / sum(one.weight for one in mix)


def _until(spec: StressSpec) -> Until | None:
    if spec.until is None:
        return None
    return Until(
        rule="cassandra-stress",
        bound=spec.until.bound,
        min_intervals=spec.until.min_intervals,
        max_intervals=spec.until.max_intervals,
    )


def _phase(
    name: Any, group: int, operations: int | None, duration_ns: int | None, until: Until | None
) -> Phase:
    active = (ActiveGroup(group=group, operations=operations),)
    return Phase(
        name=name, groups=active, only_if_missing=False, duration_ns=duration_ns, until=until
    )


def _dataset(spec: StressSpec) -> Dataset:
    """Every partition that can be chosen counts as there: what isn't is a miss."""
    return Dataset(
        table="standard1",
        start=spec.population.first,
        count=spec.population.last - spec.population.first + 1,
        full_at=None,
        key=KeyText(prefix="", zero_padding=1, order="ordered"),
        fields=FieldLayout(count=1, name_prefix="C", length=_ONE),
        values="random",
        probe=None,
    )


def _prepare(spec: StressSpec, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """What makes the schema."""
    if spec.command == "user":
        return tuple(text for profile in profiles for text in profile.prepare)
    use = f'USE "{spec.schema.keyspace}"'
    writes = spec.command in ("write", "counter_write")
    return (_keyspace(spec.schema), use, *_tables(spec)) if writes else (use,)


def _keyspace(schema: SchemaSpec) -> str:
    given = dict(schema.replication)
    strategy = given.pop("strategy", "NetworkTopologyStrategy")
    factor = given.pop("factor", None)
    if factor is not None or not given:
        given = {"replication_factor": factor or "1", **given}
    text = f'CREATE KEYSPACE IF NOT EXISTS "{schema.keyspace}" WITH replication = '
    text += _map({"class": strategy, **given}) + " AND durable_writes = true"
    storage = dict(schema.storage)
    return text + (f" AND storage = {_map(storage)}" if storage else "")


def _tables(spec: StressSpec) -> tuple[str, ...]:
    schema, names = spec.schema, spec.columns.names
    compression = {"class": schema.compression} if schema.compression else {"enabled": "false"}
    options = f"compression = {_map(compression)}"
    compaction = dict(schema.compaction)
    if compaction:
        strategy = compaction.pop("strategy")
        options += f" AND compaction = {_map({'class': strategy, **compaction})}"

    def table(name: str, kind: str) -> str:
        columns = ", ".join(f'"{column}" {kind}' for column in names)
        head = f'CREATE TABLE IF NOT EXISTS "{name}" (key blob PRIMARY KEY, {columns})'
        return marked(f"{head} WITH {options}")

    made = (table("standard1", "blob"),)
    return (*made, table("counter1", "counter")) if spec.command == "counter_write" else made


def _map(pairs: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"'{key}': '{value}'" for key, value in pairs.items()) + "}"
