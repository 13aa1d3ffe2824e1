"""Decides what the user left open: a `RunSpec` becomes a `Plan`.

Where a default is not the spec's own, it stands here by name and is documented with its reason. One
seed from the user becomes one for each source of chance.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from kvmark.errors import PlanError, SpecError, UsageError
from kvmark.plan import model
from kvmark.plan.lines import line_file
from kvmark.plan.model import Dataset, Group, OnTape, Phase, Plan, Until, Weight
from kvmark.plan.statements import compile_statements, words
from kvmark.spec import laws
from kvmark.spec import run as lengths
from kvmark.spec.curve import Point, expected_by, parse_curve
from kvmark.spec.quantity import LARGEST
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import RunSpec
from kvmark.spec.workload import (
    LOAD_GROUP,
    VERIFY_GROUP,
    Compressible,
    GroupSpec,
    Key,
    LinesFrom,
    Values,
    WorkloadSpec,
)

if TYPE_CHECKING:
    from kvmark.trace.tapes import Tapes

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

_AS_FAST_AS_IT_GOES: Final = model.Closed(process="closed", think_time_ns=0)
_ONE: Final[model.Words] = {"law": "constant", "size": 1}
_REPLAY_CLIENTS: Final = (16, 256)
"""Default bounds of a replay's operations in flight; within them, the recorded clients."""


def compile_run(spec: RunSpec, cores: int | None = None) -> Plan:
    """The plan of one run. `cores` is how many this process may use, asked for when None."""
    records = spec.records or spec.workload.dataset.records
    statements = compile_statements(spec.workload, records, spec.pipeline_depth)
    indices = {statement.name: index for index, statement in enumerate(statements)}
    dataset = _dataset(spec.workload, records, indices)
    if spec.replay is not None:
        groups, phases = _replayed(spec, spec.replay, indices)
        # One field, whose records' keys and values are as long as those that were recorded.
        key = model.KeyText(prefix="", zero_padding=0, order="sized")
        fields = dataset.fields.model_copy(update={"count": 1, "length": _ONE})
        sizes = {"count": 1, "key": key, "fields": fields, "values": "sized"}
        dataset = dataset.model_copy(update=sizes)
    else:
        groups, phases = _drawn(spec, dataset, records, indices)
    measured = phases[-1]
    if spec.verify:
        probe = (Weight(kind="read", statement=dataset.probe, weight=1.0),)
        clients = max(group.clients for group in groups)
        # It ends by itself, when every record that was written has been read.
        phases.append(_phase("verify", {len(groups): None}))
        groups.append(_plain_group(VERIFY_GROUP, clients, probe, dataset.start, dataset.count))
    return Plan(
        format=model.FORMAT,
        name=spec.workload.name,
        system=model.System(driver=spec.system.driver, options=dict(spec.system.options)),
        seeds=derive_seeds(spec.seed),
        share=model.Share(index=0, of=1),
        dataset=dataset,
        prepare=spec.workload.prepare,
        statements=statements,
        groups=tuple(groups),
        phases=tuple(phases),
        interval_ns=_interval_ns(spec, measured, groups),
        timeout_ns=spec.attempt_timeout_ns,
        drain_limit_ns=spec.drain_limit_ns,
        verify_memory_bytes=VERIFY_MEMORY_BYTES if spec.verify else None,
        stall_limit_ns=spec.stall_limit_ns or None,
        workers=spec.workers or len(spec.pin) or cores or len(os.sched_getaffinity(0)),
        pin=spec.pin,
    )


def _drawn(
    spec: RunSpec, dataset: Dataset, records: int, indices: Mapping[str, int]
) -> tuple[list[Group], list[Phase]]:
    """The groups and phases of operations that are drawn."""
    workload, operations = spec.workload, spec.operations
    if operations is None and workload.once_per_record:
        operations = records
    groups = [_group(one, spec, dataset, operations, indices) for one in spec.active_groups]
    phases = _measured_phases(spec, operations)
    if spec.load != "never" and workload.is_loaded_first:
        # Whether the records are there already can't be seen without a probe.
        can_look = workload.load is None or workload.probe is not None
        only_if_missing = spec.load == "auto" and can_look
        phases = [
            *_load_phases(spec, len(groups), records, only_if_missing=only_if_missing),
            *phases,
        ]
        statement = None if workload.load is None else indices[workload.load]
        mix = (Weight(kind="insert", statement=statement, weight=1.0),)
        clients = max(group.clients for group in groups)
        groups.append(_plain_group(LOAD_GROUP, clients, mix, dataset.start, dataset.count))
    return groups, phases


def _replayed(
    spec: RunSpec, replay: ReplaySpec, indices: Mapping[str, int]
) -> tuple[list[Group], list[Phase]]:
    """The groups and phases of operations that were recorded."""
    found = _tapes_of(spec, replay)
    least, most = _REPLAY_CLIENTS
    clients = spec.clients or min(most, max(least, found.clients))
    arrival = OnTape(
        process="tape",
        path=str(found.path),
        speed=replay.speed,
        order=replay.order,
        loops=replay.loops,
        length_ns=found.length_ns,
        trace=replay.trace.name,
        told=found.told,
    )
    mix = tuple(_weight(does, indices.get(name), count) for name, does, count in found.mix)
    group = _plain_group(spec.active_groups[0].name, clients, mix, 0, 1, arrival)
    groups = [group.model_copy(update={"retry": _retry(spec.active_groups[0], spec)})]
    there = found.operations * replay.loops
    measured = {0: min(there, spec.operations or there)}
    measure = _phase("measure", measured, duration_ns=spec.duration_ns, until=_until(spec))
    if spec.load == "never" or not found.preloaded:
        return groups, [measure]
    # Records that are read before they are written.
    changes = {"path": str(found.preload_path), "speed": None, "order": "none", "loops": 1}
    preload = arrival.model_copy(update={**changes, "length_ns": 0, "trace": "", "told": ()})
    load = spec.workload.load
    mix = (_weight("insert", None, 1) if load is None else _weight("update", indices[load], 1),)
    groups.append(_plain_group(LOAD_GROUP, clients, mix, 0, 1, preload))
    return groups, [*_load_phases(spec, 1, found.preloaded, only_if_missing=False), measure]


def _tapes_of(spec: RunSpec, replay: ReplaySpec) -> Tapes:
    """The tapes that a replay needs, made now or before.

    Raises:
        UsageError: there is no such trace, or something of it can't be replayed.
        RunError: a tape can't be written.
    """
    # Traces take a while to load, and few runs replay one.
    from kvmark.trace.folder import Trace  # noqa: PLC0415
    from kvmark.trace.tapes import TapePart, tapes  # noqa: PLC0415

    part = TapePart(
        statements=tuple((name, one.does) for name, one in spec.workload.statements.items()),
        skip=replay.skip,
        from_ns=replay.from_ns,
        until_ns=replay.until_ns,
        scale_keys=replay.scale_keys,
    )
    found = tapes(Trace.open(replay.trace), part)
    if spec.verify and found.kept:
        raise UsageError(
            f"verify: {replay.trace} has the very {found.kept}, and what is read back is made from"
            " numbers; leave --verify out, or make a trace without --keep-keys and --keep-values"
        )
    if spec.verify and found.expiring:
        raise UsageError(
            f"verify: some writes of {replay.trace} expire, so that missing values prove nothing;"
            " leave --verify out"
        )
    return found


def _interval_ns(spec: RunSpec, measured: Phase, groups: Sequence[Group]) -> int:
    if spec.interval_ns is not None:
        return spec.interval_ns
    if measured.until is not None and measured.until.rule == "precision":
        return _precise_interval_ns(spec)
    longest_ns, arrival = measured.duration_ns, groups[measured.groups[0].group].arrival
    if longest_ns is None and isinstance(arrival, OnTape) and arrival.speed is not None:
        longest_ns = int(arrival.length_ns * arrival.loops / arrival.speed)
    return interval_ns(longest_ns)


def _precise_interval_ns(spec: RunSpec) -> int:
    """The length of an interval where the throughput's precision ends the measurement."""
    limit_ns = _duration_ns(spec, [None]) or lengths.LONGEST_PRECISE_NS
    return spec.interval_ns or interval_ns(limit_ns, PRECISE_INTERVALS)


def interval_ns(duration_ns: int | None, wanted: int = INTERVALS_WANTED) -> int:
    """The longest interval of which the measured phase has as many as its error should have."""
    if duration_ns is None:
        return INTERVALS_NS[0]
    long_enough = (one for one in INTERVALS_NS if one * wanted <= duration_ns)
    return next(long_enough, INTERVALS_NS[-1])


def _dataset(workload: WorkloadSpec, records: int, indices: Mapping[str, int]) -> Dataset:
    spec, probe = workload.dataset, workload.probe
    return Dataset(
        table=spec.table,
        start=spec.start,
        # Records that the clients insert themselves are not there, so none is. Those that fills
        # write are read before.
        count=records if spec.loaded or workload.fills else spec.present,
        full_at=spec.start + records if spec.bounded else None,
        key=_key(spec.key, spec.start + records),
        fields=model.FieldLayout(**{**dict(spec.fields), "length": words(spec.fields.length)}),
        values=_values(spec.values),
        probe=None if probe is None else indices[probe],
    )


def _key(key: Key | LinesFrom, records: int) -> model.KeyText:
    """How this number of ordinals becomes keys."""
    if isinstance(key, Key):
        return model.KeyText.model_validate(key.model_dump())
    lines = line_file(key, are_keys=True)
    if lines.count < records:
        raise SpecError(
            f"has {lines.count} lines for the keys of {records} records; add lines, or give fewer"
            " records",
            file=key.file,
        )
    return model.KeyText(prefix="", zero_padding=0, order=model.Lines(lines=lines))


def _values(
    values: Values,
) -> Literal["random", "integrity"] | model.CompressibleValues | model.Lines:
    if isinstance(values, Compressible):
        law = model.Compressible(share=values.compressible, text=values.text)
        return model.CompressibleValues(compressible=law)
    if isinstance(values, LinesFrom):
        return model.Lines(lines=line_file(values))
    return values


def _group(
    one: GroupSpec,
    spec: RunSpec,
    dataset: Dataset,
    operations: int | None,
    indices: Mapping[str, int],
) -> Group:
    arrival = _arrival(one, spec)
    clients = CLOSED_CLIENTS if isinstance(arrival, model.Closed) else OPEN_CLIENTS
    check, statements = one.check_values, spec.workload.statements
    return Group(
        name=one.name,
        clients=spec.clients or one.clients or clients,
        arrival=arrival,
        mix=tuple(
            _weight(statements[name].does if name in indices else name, indices.get(name), weight)
            for name, weight in one.mix.weights().items()
        ),
        keys=_keys(one, spec, dataset, operations),
        read_fields=one.read_fields,
        write_fields=one.write_fields,
        scan_length=words(one.scan_length),
        # Statements may write values without tags.
        check_values="none" if check == "tag" and statements else check,
        retry=_retry(one, spec),
        on_miss=None if one.on_miss is None else model.Fill(statement=indices.get(one.on_miss)),
    )


def _retry(one: GroupSpec, spec: RunSpec) -> model.RetryPolicy | None:
    policy = spec.retry_of(one)
    if policy is None:
        return None
    return model.RetryPolicy(
        attempts=policy.attempts,
        jitter="full" if policy.jitter else "none",
        backoff_ns=policy.backoff_ns,
        backoff_limit_ns=policy.backoff_limit_ns,
    )


def _weight(kind: str, statement: int | None, weight: float) -> Weight:
    content = {"kind": kind, "statement": statement, "weight": float(weight)}
    return Weight.model_validate(content)


def _arrival(one: GroupSpec, spec: RunSpec) -> model.Arrival:
    rates = tuple(model.RatePoint(at_ns=at_ns, rate=rate) for at_ns, rate in _rates(one, spec))
    if not rates:
        return model.Closed(process="closed", think_time_ns=one.think_time_ns)
    return model.AtRates(process=spec.arrival or one.arrival or "constant", rates=rates)


def _rates(one: GroupSpec, spec: RunSpec) -> Sequence[Point]:
    """The points of a group's rate; none in the closed model."""
    said = one.rates if spec.rate is None else spec.rate
    if isinstance(said, str):
        longest_ns = max(_duration_ns(spec, [None]), spec.warmup_ns or 0)
        return parse_curve(said).points(longest_ns, spec.seed)
    if isinstance(said, tuple):
        return [(point.at_ns, point.rate) for point in said]
    return [] if said is None else [(0, float(said))]


def _keys(
    one: GroupSpec, spec: RunSpec, dataset: Dataset, operations: int | None
) -> model.KeyChoice:
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
    law = words(one.keys)
    return model.KeyChoice(start=start, count=max(count, 1), distribution=law)


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
        return lengths.LONGEST_PRECISE_NS
    return lengths.LONGEST_NS if spec.has_no_length else lengths.DEFAULT_DURATION_NS


def _plain_group(
    name: str,
    clients: int,
    mix: tuple[Weight, ...],
    start: int,
    count: int,
    arrival: model.Arrival = _AS_FAST_AS_IT_GOES,
) -> Group:
    """A group that no file describes: each record once, in order, as fast as it goes."""
    law: model.Words = {"law": "sequential"}
    return Group(
        name=name,
        clients=clients,
        arrival=arrival,
        mix=mix,
        keys=model.KeyChoice(start=start, count=max(count, 1), distribution=law),
        read_fields="all",
        write_fields="all",
        scan_length=_ONE,
        check_values="none",
        retry=None,
        on_miss=None,
    )


def _phase(
    name: model.PhaseName,
    groups: Mapping[int, int | None],
    *,
    only_if_missing: bool = False,
    duration_ns: int | None = None,
    until: Until | None = None,
) -> Phase:
    """A phase of these groups, each with its number of operations."""
    return Phase(
        name=name,
        groups=tuple(model.ActiveGroup(group=one, operations=n) for one, n in groups.items()),
        only_if_missing=only_if_missing,
        duration_ns=duration_ns,
        until=until,
    )


def _load_phases(spec: RunSpec, group: int, records: int, *, only_if_missing: bool) -> list[Phase]:
    load = _phase("load", {group: records}, only_if_missing=only_if_missing)
    return [load, _phase("settle", {})] if spec.settle else [load]


def _measured_phases(spec: RunSpec, operations: int | None) -> list[Phase]:
    active = spec.active_groups
    counts = [spec.operations or group.operations or operations for group in active]
    duration_ns = _duration_ns(spec, counts) or None
    measure = _phase(
        "measure", dict(enumerate(counts)), duration_ns=duration_ns, until=_until(spec)
    )
    warmup_ns, until = spec.warmup_ns, None
    if spec.warmup_until is not None or (spec.has_no_length and warmup_ns is None):
        warmup_ns, until = lengths.LONGEST_WARMUP_NS if warmup_ns is None else warmup_ns, _WARM
    if not warmup_ns:
        return [measure]
    groups = dict.fromkeys(range(len(active)))
    return [_phase("warm_up", groups, duration_ns=warmup_ns, until=until), measure]


def _until(spec: RunSpec) -> Until | None:
    if spec.until_stderr is not None:
        return Until(
            rule="cassandra-stress",
            bound=spec.until_stderr,
            min_intervals=MIN_INTERVALS,
            max_intervals=MAX_INTERVALS,
        )
    precision = lengths.DEFAULT_PRECISION if spec.has_no_length else spec.precision
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


def derive_seeds(seed: int) -> model.Seeds:
    """The seeds of arrival times, keys, values and operation kinds."""
    sources = ("schedule", "keys", "values", "mix")
    return model.Seeds(**{source: derive_seed(seed, source) for source in sources})
