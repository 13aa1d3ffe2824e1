"""A trace's operations as groups of a plan: the trace itself, and what it reads before writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kvmark.errors import UsageError
from kvmark.plan.model import (
    ActiveGroup,
    ConstantSize,
    Dataset,
    FieldLayout,
    Group,
    KeyChoice,
    KeyText,
    OnTape,
    Phase,
    Sequential,
    Weight,
)
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import RunSpec
from kvmark.spec.workload import LOAD_GROUP
from kvmark.trace import TapePart, Tapes, Trace, tapes

_CLIENTS: Final = (16, 256)
"""Default bounds of the operations in flight; within them, the number of recorded clients."""


def tapes_of(spec: RunSpec, replay: ReplaySpec) -> Tapes:
    """The tapes that a replay needs, made now or before.

    Raises:
        UsageError: there is no such trace, or something of it can't be replayed.
        RunError: a tape can't be written.
    """
    statements = spec.workload.statements.items()
    part = TapePart(
        statements=tuple((name, one.does) for name, one in statements),
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


def dataset_of(dataset: Dataset) -> Dataset:
    """Records of one field whose keys and values are as long as those that were recorded."""
    return dataset.model_copy(
        update={
            "count": 1,
            "key": KeyText(prefix="", zero_padding=0, order="sized"),
            "fields": FieldLayout(
                count=1,
                name_prefix=dataset.fields.name_prefix,
                length=ConstantSize(law="constant", size=1),
            ),
            "values": "sized",
        }
    )


def replay_group(
    spec: RunSpec, replay: ReplaySpec, found: Tapes, indices: Mapping[str, int]
) -> Group:
    """The clients that issue what was recorded."""
    least, most = _CLIENTS
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
    clients = spec.clients or min(most, max(least, found.clients))
    mix = tuple(_weight(indices.get(name), does, count) for name, does, count in found.mix)
    return _group(spec.active_groups[0].name, clients, arrival, mix)


def preload_group(spec: RunSpec, found: Tapes, clients: int, indices: Mapping[str, int]) -> Group:
    """Writes the records that are read before they are written."""
    arrival = OnTape(
        process="tape",
        path=str(found.preload_path),
        speed=None,
        order="none",
        loops=1,
        length_ns=0,
        trace="",
        told=(),
    )
    load = spec.workload.load
    mix = (_weight(None, "insert", 1) if load is None else _weight(indices[load], "update", 1),)
    return _group(LOAD_GROUP, clients, arrival, mix)


def load_phases(spec: RunSpec, found: Tapes, group: int) -> list[Phase]:
    """Writes these records, if there are any and it is wanted."""
    if spec.load == "never" or not found.preloaded:
        return []
    load = _phase("load", (ActiveGroup(group=group, operations=found.preloaded),))
    return [load, _phase("settle", ())] if spec.settle else [load]


def _phase(name: Literal["load", "settle"], groups: tuple[ActiveGroup, ...]) -> Phase:
    return Phase(name=name, groups=groups, only_if_missing=False, duration_ns=None, until=None)


def _weight(statement: int | None, does: str, count: int) -> Weight:
    content = {"kind": does, "statement": statement, "weight": float(count)}
    return Weight.model_validate(content)


def _group(name: str, clients: int, arrival: OnTape, mix: tuple[Weight, ...]) -> Group:
    return Group(
        name=name,
        clients=clients,
        arrival=arrival,
        mix=mix,
        keys=KeyChoice(start=0, count=1, distribution=Sequential(law="sequential")),
        read_fields="all",
        write_fields="all",
        scan_length=ConstantSize(law="constant", size=1),
        check_values="none",
    )
