"""Decides what the user left open: a `RunSpec` becomes a `Plan`.

Where a default is not the spec's own, it stands here by name and is documented with its reason. One
seed from the user becomes one for each source of chance.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from kvmark.errors import PlanError
from kvmark.plan.model import (
    FORMAT,
    ActiveGroup,
    Arrival,
    Closed,
    ConstantSize,
    Dataset,
    FieldLayout,
    Group,
    KeyChoice,
    KeyText,
    OnTape,
    Phase,
    Plan,
    Seeds,
    Sequential,
    Share,
    System,
    Until,
    Weight,
)
from kvmark.plan.statements import compile_statements, distribution, size_law
from kvmark.spec import laws
from kvmark.spec.curve import Point, expected_by, parse_curve
from kvmark.spec.quantity import LARGEST
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import (
    DEFAULT_DURATION_NS,
    DEFAULT_PRECISION,
    LONGEST_NS,
    LONGEST_PRECISE_NS,
    LONGEST_WARMUP_NS,
    RunSpec,
)
from kvmark.spec.workload import LOAD_GROUP, VERIFY_GROUP, GroupSpec, ValueCheck, WorkloadSpec

CLOSED_CLIENTS: Final = 1
"""Default number of clients: one, as in YCSB."""
OPEN_CLIENTS: Final = 16
"""Default number of operations in flight: enough to ride out a stall of milliseconds, and still few
enough threads for a driver whose calls block."""
MIN_INTERVALS: Final = 30
"""A standard error from fewer intervals means little; cassandra-stress's number."""
INTERVALS_NS: Final = (10**9, 5 * 10**8, 2 * 10**8, 10**8)
"""Default lengths of a recorded interval, the longest first."""
INTERVALS_WANTED: Final = 60
"""As many as a measured phase should have, where its duration allows: its throughput's error is not
known from fewer than 25 (`kvmark.stats.LEAST_INTERVALS`), and well known from these."""
_WARM: Final = Until(rule="stationary", bound=0.05, min_intervals=20, max_intervals=None)
"""A warm-up may end when the rate of its newer half drifts by less, or by chance."""

VERIFY_MEMORY_BYTES: Final = 1 << 30
"""Memory for the writes that are verified, which suffices for ten million records. Beyond it a
sample of the records is verified."""

MAX_INTERVALS: Final = 200
"""cassandra-stress's own end."""
PRECISE_INTERVALS: Final = 300
"""As many as a measurement may have that ends at a precision: it is to end soon, and what its
neighbours resemble each other in is seen best in short ones."""
LEAST_PRECISE_NS: Final = 10 * 10**9
"""A precision is not looked at before: seconds don't show what a store does behind its back."""

_ARRIVALS: Final[TypeAdapter[Arrival]] = TypeAdapter(Arrival)
_WEIGHT: Final[TypeAdapter[Weight]] = TypeAdapter(Weight)


def compile_run(spec: RunSpec, cores: int | None = None) -> Plan:
    """The plan of one run. `cores` is how many this process may use, asked for when None."""
    records = spec.records or spec.workload.dataset.records
    statements = compile_statements(spec.workload, records, spec.pipeline_depth)
    indices = {statement.name: index for index, statement in enumerate(statements)}
    dataset = _dataset(spec.workload, records, indices)
    if spec.replay is not None:
        dataset, groups, phases = _replayed(spec, spec.replay, dataset, indices)
    else:
        groups, phases = _drawn(spec, dataset, records, indices)
    measured = phases[-1]
    if spec.verify:
        groups.append(_verify_group(dataset, max(group.clients for group in groups)))
        phases.append(_verify_phase(len(groups) - 1))
    usable = cores or len(os.sched_getaffinity(0))
    return Plan(
        format=FORMAT,
        name=spec.workload.name,
        system=System(driver=spec.system.driver, options=dict(spec.system.options)),
        seeds=derive_seeds(spec.seed),
        share=Share(index=0, of=1),
        dataset=dataset,
        prepare=spec.workload.prepare,
        statements=statements,
        groups=tuple(groups),
        phases=tuple(phases),
        interval_ns=_interval_ns(spec, measured, groups),
        timeout_ns=spec.timeout_ns,
        drain_limit_ns=spec.drain_limit_ns,
        verify_memory_bytes=VERIFY_MEMORY_BYTES if spec.verify else None,
        stall_limit_ns=spec.stall_limit_ns or None,
        workers=spec.workers or len(spec.pin) or usable,
        pin=spec.pin,
    )


def _drawn(
    spec: RunSpec, dataset: Dataset, records: int, indices: Mapping[str, int]
) -> tuple[list[Group], list[Phase]]:
    """The groups and phases of operations that are drawn."""
    operations = _operations(spec, records)
    active = spec.active_groups
    groups = [_group(one, spec, dataset, operations, indices) for one in active]
    phases: list[Phase] = []
    if spec.load != "never" and spec.workload.is_loaded_first:
        load = spec.workload.load
        clients = max(group.clients for group in groups)
        groups.append(_load_group(dataset, clients, None if load is None else indices[load]))
        phases += _load_phases(spec, len(active), records)
    return groups, [*phases, *_measured_phases(spec, operations)]


def _replayed(
    spec: RunSpec, asked: ReplaySpec, dataset: Dataset, indices: Mapping[str, int]
) -> tuple[Dataset, list[Group], list[Phase]]:
    """The records, groups and phases of operations that were recorded."""
    # Traces take a while to load, and few runs replay one.
    from kvmark.plan import replay  # noqa: PLC0415

    found = replay.tapes_of(spec, asked)
    group = replay.replay_group(spec, asked, found, indices)
    phases = replay.load_phases(spec, found, 1)
    groups = [group]
    if phases:
        groups.append(replay.preload_group(spec, found, group.clients, indices))
    there = found.operations * asked.loops
    operations = min(there, spec.operations or there)
    measure = Phase(
        name="measure",
        groups=(ActiveGroup(group=0, operations=operations),),
        only_if_missing=False,
        duration_ns=spec.duration_ns,
        until=_until(spec),
    )
    return replay.dataset_of(dataset), groups, [*phases, measure]


def _lasts_ns(measured: Phase, groups: Sequence[Group]) -> int | None:
    """The longest measurement; None if only operations or their error end it."""
    if measured.duration_ns is not None:
        return measured.duration_ns
    arrival = groups[measured.groups[0].group].arrival
    if isinstance(arrival, OnTape) and arrival.speed is not None:
        return int(arrival.length_ns * arrival.loops / arrival.speed)
    return None


def _interval_ns(spec: RunSpec, measured: Phase, groups: Sequence[Group]) -> int:
    if spec.interval_ns is not None:
        return spec.interval_ns
    if measured.until is not None and measured.until.rule == "precision":
        return _precise_interval_ns(spec)
    return interval_ns(_lasts_ns(measured, groups))


def _precise_interval_ns(spec: RunSpec) -> int:
    """The length of an interval where the throughput's precision ends the measurement."""
    limit_ns = _duration_ns(spec, [None]) or LONGEST_PRECISE_NS
    return spec.interval_ns or interval_ns(limit_ns, PRECISE_INTERVALS)


def interval_ns(duration_ns: int | None, wanted: int = INTERVALS_WANTED) -> int:
    """The longest interval of which the measured phase has as many as its error should have."""
    if duration_ns is None:
        return INTERVALS_NS[0]
    long_enough = (one for one in INTERVALS_NS if one * wanted <= duration_ns)
    return next(long_enough, INTERVALS_NS[-1])


def _operations(spec: RunSpec, records: int) -> int | None:
    """How many operations end a group's part: as said, or once per record."""
    if spec.operations is not None:
        return spec.operations
    return records if spec.workload.once_per_record else None


def _dataset(workload: WorkloadSpec, records: int, indices: Mapping[str, int]) -> Dataset:
    spec, probe = workload.dataset, workload.probe
    return Dataset(
        table=spec.table,
        start=spec.start,
        # Records that the clients insert themselves are not there, so none is.
        count=records if spec.loaded else spec.present,
        full_at=spec.start + records if spec.bounded else None,
        key=KeyText(
            prefix=spec.key.prefix, zero_padding=spec.key.zero_padding, order=spec.key.order
        ),
        fields=FieldLayout(
            count=spec.fields.count,
            name_prefix=spec.fields.name_prefix,
            length=size_law(spec.fields.length),
        ),
        values=spec.values,
        probe=None if probe is None else indices[probe],
    )


def _group(
    one: GroupSpec,
    spec: RunSpec,
    dataset: Dataset,
    operations: int | None,
    indices: Mapping[str, int],
) -> Group:
    arrival = _arrival(one, spec)
    clients = CLOSED_CLIENTS if arrival["process"] == "closed" else OPEN_CLIENTS
    return Group(
        name=one.name,
        clients=spec.clients or one.clients or clients,
        arrival=_ARRIVALS.validate_python(arrival),
        mix=_mix(one, spec.workload, indices),
        keys=_keys(one, spec, dataset, operations),
        read_fields=one.read_fields,
        write_fields=one.write_fields,
        scan_length=size_law(one.scan_length),
        check_values=_check(one, spec.workload),
    )


def _check(one: GroupSpec, workload: WorkloadSpec) -> ValueCheck:
    # Statements may write values without tags.
    return "none" if one.check_values == "tag" and workload.statements else one.check_values


def _mix(one: GroupSpec, workload: WorkloadSpec, indices: Mapping[str, int]) -> tuple[Weight, ...]:
    def entry(name: str, weight: float) -> Weight:
        index = indices.get(name)
        kind = name if index is None else workload.statements[name].does
        content = {"kind": kind, "statement": index, "weight": weight}
        return _WEIGHT.validate_python(content)

    return tuple(entry(name, weight) for name, weight in one.mix.weights().items())


def _arrival(one: GroupSpec, spec: RunSpec) -> dict[str, Any]:
    rates = tuple({"at_ns": at_ns, "rate": rate} for at_ns, rate in _rates(one, spec))
    if not rates:
        return {"process": "closed", "think_time_ns": one.think_time_ns}
    return {"process": spec.arrival or one.arrival or "constant", "rates": rates}


def _rates(one: GroupSpec, spec: RunSpec) -> Sequence[Point]:
    """The points of a group's rate; none in the closed model."""
    said = one.rates if spec.rate is None else spec.rate
    if isinstance(said, str):
        longest_ns = max(_duration_ns(spec, [None]), spec.warmup_ns or 0)
        return parse_curve(said).points(longest_ns, spec.seed)
    if isinstance(said, tuple):
        return [(point.at_ns, point.rate) for point in said]
    return [] if said is None else [(0, float(said))]


def _keys(one: GroupSpec, spec: RunSpec, dataset: Dataset, operations: int | None) -> KeyChoice:
    """The keys to choose from: as said, or all records there are or will be inserted."""
    start, count = dataset.start, dataset.count
    if dataset.full_at is not None:
        count = dataset.full_at - start
    if one.key_range is not None:
        start, count = one.key_range.start, one.key_range.count
    if isinstance(one.keys, laws.YcsbZipfian):
        expected = one.keys.expected_new
        if expected is None:
            expected = _expected_inserts(one, spec, operations)
        # YCSB's range includes its upper end: one key more than there are.
        count += expected + 1
        if start + count > LARGEST:
            raise PlanError(f"{one.name}: the keys to choose from reach beyond 2^63; insert fewer")
    # An insert-only group chooses no key, but a plan names a range that is not empty.
    return KeyChoice(start=start, count=max(count, 1), distribution=distribution(one.keys))


def _expected_inserts(one: GroupSpec, spec: RunSpec, operations: int | None) -> int:
    """Twice the inserts to come, as YCSB reserves; none when their number cannot be known."""
    weights = one.mix.weights()
    share = weights.get("insert", 0.0) / sum(weights.values())
    if operations is None and spec.rate is not None:
        operations = int(expected_by(_rates(one, spec), _duration_ns(spec, [None])))
    return int((operations or 0) * share * 2.0)


def _duration_ns(spec: RunSpec, operations: Sequence[int | None]) -> int:
    """The time limit of the measured phase; 0 for none."""
    if spec.duration_ns is not None:
        return spec.duration_ns
    if None not in operations or spec.until_stderr is not None:
        return 0
    if spec.precision is not None:
        return LONGEST_PRECISE_NS
    return LONGEST_NS if spec.has_no_length else DEFAULT_DURATION_NS


def _load_group(dataset: Dataset, clients: int, statement: int | None) -> Group:
    """Inserts the records, in order and as fast as it goes."""
    return _own_group(
        LOAD_GROUP, dataset, clients, Weight(kind="insert", statement=statement, weight=1.0)
    )


def _verify_group(dataset: Dataset, clients: int) -> Group:
    """Reads back what was written."""
    probe = Weight(kind="read", statement=dataset.probe, weight=1.0)
    return _own_group(VERIFY_GROUP, dataset, clients, probe)


def _own_group(name: str, dataset: Dataset, clients: int, operation: Weight) -> Group:
    """A group that no file names: each record once, in order, as fast as it goes."""
    return Group(
        name=name,
        clients=clients,
        arrival=Closed(process="closed", think_time_ns=0),
        mix=(operation,),
        keys=KeyChoice(
            start=dataset.start,
            count=max(dataset.count, 1),
            distribution=Sequential(law="sequential"),
        ),
        read_fields="all",
        write_fields="all",
        scan_length=ConstantSize(law="constant", size=1),
        check_values="none",
    )


def _can_look(workload: WorkloadSpec) -> bool:
    """Whether it can be seen that the records are there already."""
    return workload.load is None or workload.probe is not None


def _load_phases(spec: RunSpec, group: int, records: int) -> list[Phase]:
    load = Phase(
        name="load",
        groups=(ActiveGroup(group=group, operations=records),),
        only_if_missing=spec.load == "auto" and _can_look(spec.workload),
        duration_ns=None,
        until=None,
    )
    settle = Phase(name="settle", groups=(), only_if_missing=False, duration_ns=None, until=None)
    return [load, settle] if spec.settle else [load]


def _verify_phase(group: int) -> Phase:
    """Ends by itself, when every record that was written has been read."""
    return Phase(
        name="verify",
        groups=(ActiveGroup(group=group, operations=None),),
        only_if_missing=False,
        duration_ns=None,
        until=None,
    )


def _measured_phases(spec: RunSpec, operations: int | None) -> list[Phase]:
    active = spec.active_groups
    counts = [spec.operations or group.operations or operations for group in active]
    measure = Phase(
        name="measure",
        groups=tuple(
            ActiveGroup(group=index, operations=count) for index, count in enumerate(counts)
        ),
        only_if_missing=False,
        duration_ns=_duration_ns(spec, counts) or None,
        until=_until(spec),
    )
    warmup_ns, until = _warm_up(spec)
    if not warmup_ns:
        return [measure]
    warm_up = Phase(
        name="warm_up",
        groups=tuple(ActiveGroup(group=one, operations=None) for one in range(len(active))),
        only_if_missing=False,
        duration_ns=warmup_ns,
        until=until,
    )
    return [warm_up, measure]


def _warm_up(spec: RunSpec) -> tuple[int, Until | None]:
    """How long the warm-up takes at most, and what ends it earlier."""
    if spec.warmup_until is None and not (spec.has_no_length and spec.warmup_ns is None):
        return spec.warmup_ns or 0, None
    return LONGEST_WARMUP_NS if spec.warmup_ns is None else spec.warmup_ns, _WARM


def _until(spec: RunSpec) -> Until | None:
    if spec.until_stderr is not None:
        return Until(
            rule="cassandra-stress",
            bound=spec.until_stderr,
            min_intervals=MIN_INTERVALS,
            max_intervals=MAX_INTERVALS,
        )
    precision = DEFAULT_PRECISION if spec.has_no_length else spec.precision
    if precision is None:
        return None
    least = -(-LEAST_PRECISE_NS // _precise_interval_ns(spec))
    return Until(
        rule="precision",
        bound=precision,
        min_intervals=max(MIN_INTERVALS, least),
        max_intervals=None,
    )


def derive_seed(seed: int, source: str) -> int:
    """The first eight bytes, highest first, of SHA-256 over the text `seed:source`.

    So runs with neighbouring seeds share nothing, and each source can be varied alone.
    """
    digest = hashlib.sha256(f"{seed}:{source}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def derive_seeds(seed: int) -> Seeds:
    """The seeds of arrival times, keys, values and operation kinds."""
    return Seeds(
        schedule=derive_seed(seed, "schedule"),
        keys=derive_seed(seed, "keys"),
        values=derive_seed(seed, "values"),
        mix=derive_seed(seed, "mix"),
    )
