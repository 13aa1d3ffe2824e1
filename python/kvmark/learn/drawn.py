"""Operations on keys, of a trace or drawn from a workload by the engine, and their statistics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kvmark._engine import Reuse, draw_operations
from kvmark.analysis.trace import CACHES, KEYS_MAX, hits_within
from kvmark.errors import UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import WorkloadSpec
from kvmark.trace.folder import ENGINE_KINDS, Trace

OPERATIONS_MAX: Final = 1 << 20
"""The most operations that are analysed: the first ones of a larger trace."""
MODELLED: Final = ("read", "update", "insert", "read_modify_write", "delete")
"""Kinds that can be learned: scans aren't, because hashes of keys have no order."""
_LOADED_MAX: Final = 1 << 21
_LEAST: Final = 1000
_VALUE_UNKNOWN: Final = 100
"""Bytes of values in a trace without sizes."""
_OCTAVES: Final = 40

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KeyOperations:
    """Operations in their order."""

    keys: Numbers
    reads: NDArray[np.bool_]
    """Whether an operation only reads."""
    sizes: Numbers
    """Bytes read or written; 0 for a delete."""

    def hit_ratios(self, keys: float) -> tuple[float, ...]:
        """Hit ratios of reads in LRU caches with the shares `CACHES` of a number of keys."""
        reuse = Reuse(KEYS_MAX)
        reuse.add(self.keys.astype("<u8").tobytes(), self.reads.astype("u1").tobytes())
        reused: dict[str, Any] = json.loads(reuse.result())
        return tuple(hits_within(reused, max(1.0, share * keys)) for share in CACHES)

    @property
    def read_bytes(self) -> float:
        """Bytes read per operation."""
        return float(self.sizes[self.reads].sum() / len(self.keys))

    @property
    def rereads(self) -> tuple[float, float | None]:
        """The share of reads directly after a write of the key, and the median distance.

        The distance is in operations; None without such reads.
        """
        places, keys = _by_key(self.keys)
        reads = self.reads[places]
        after_write = (keys[1:] == keys[:-1]) & reads[1:] & ~reads[:-1]
        gaps = (places[1:] - places[:-1])[after_write]
        share = len(gaps) / max(1, int(self.reads.sum()))
        return share, float(np.median(gaps)) if len(gaps) else None

    @property
    def popular_writes(self) -> float:
        """The share of writes among the operations on the most popular hundredth of the keys."""
        _, place, counts = np.unique(self.keys, return_inverse=True, return_counts=True)
        few = np.argsort(-counts, kind="stable")[: max(1, len(counts) // 100)]
        popular = np.isin(place, few)
        return float((~self.reads[popular]).mean())


def of_trace(trace: Trace) -> KeyOperations:
    """The first operations of a trace on keys, of the kinds that can be learned.

    Raises:
        UsageError: a file is damaged, or there are too few operations.
    """
    parts: list[pl.DataFrame] = []
    for batch in trace.batches(("kind", "key", "key_size", "value_size")):
        parts.append(batch.filter((pl.col("key_size") > 0) & pl.col("kind").is_in(MODELLED)))
        if sum(map(len, parts)) >= OPERATIONS_MAX:
            break
    rows = pl.concat(parts).head(OPERATIONS_MAX) if parts else pl.DataFrame()
    if len(rows) < _LEAST:
        raise UsageError(
            f"{trace.path} has {len(rows):,} operations on keys that can be learned:"
            f" there must be {_LEAST:,}"
        )
    # A read without a size has the size of the key's last operation, as in a replay.
    known = pl.col("value_size").forward_fill().backward_fill().over("key")
    bytes_ = known.fill_null(pl.col("value_size").mean()).fill_null(_VALUE_UNKNOWN)
    deletes = pl.col("kind") == "delete"
    sizes = rows.select(pl.when(deletes).then(0).otherwise(bytes_).cast(pl.Int64)).to_series()
    return KeyOperations(
        keys=rows["key"].rank("dense").cast(pl.Int64).to_numpy(),
        reads=(rows["kind"] == "read").to_numpy(),
        sizes=sizes.to_numpy(),
    )


def of_workload(workload: WorkloadSpec, count: int, seed: int) -> KeyOperations:
    """The first operations of a workload's first group, as the engine draws them.

    A read has the size of the last write of its key, or of the load.

    Raises:
        KvmarkError: no plan can be made of the workload.
    """
    plan = _plan(workload, count, seed, load=workload.is_loaded_first)
    kinds, keys, lengths = _arrays(plan, len(plan.phases) - 1, 0, count)
    loaded = np.zeros(1, np.int64)
    if workload.is_loaded_first:
        loaded = _arrays(plan, 0, 1, min(plan.dataset.count, _LOADED_MAX))[2]
    reads = kinds == ENGINE_KINDS.index("read")
    sizes = _sizes(keys, reads, lengths, loaded)
    sizes[kinds == ENGINE_KINDS.index("delete")] = 0
    return KeyOperations(keys, reads, sizes)


def keys_of_workload(workload: WorkloadSpec, count: int, seed: int) -> Numbers:
    """The keys of these operations.

    Raises:
        KvmarkError: no plan can be made of the workload.
    """
    return _arrays(_plan(workload, count, seed, load=False), 0, 0, count)[1]


def _plan(workload: WorkloadSpec, count: int, seed: int, *, load: bool) -> Plan:
    group = workload.groups[0].model_copy(update={"rates": None, "arrival": None})
    changed = {"groups": (group,), "prepare": (), "faults": ()}
    spec = RunSpec(
        workload=workload.model_copy(update=changed),
        system=parse_system_url("null:"),
        operations=count,
        seed=seed,
        settle=False,
        load="always" if load else "never",
    )
    return compile_run(spec, cores=1)


def _arrays(
    plan: Plan, phase: int, group: int, count: int
) -> tuple[NDArray[np.uint8], Numbers, Numbers]:
    kinds, ordinals, lengths = draw_operations(plan.to_json(), phase, group, count)
    keys = np.frombuffer(ordinals, "<i8").astype(np.int64) - plan.dataset.start
    return np.frombuffer(kinds, np.uint8), keys, np.frombuffer(lengths, "<i8").astype(np.int64)


def _sizes(
    ordinals: Numbers, reads: NDArray[np.bool_], lengths: Numbers, loaded: Numbers
) -> Numbers:
    """The size of each write, and for reads the size of the last write of the key."""
    places, keys = _by_key(ordinals)
    written = ~reads[places]
    # The place of the last write up to each, among the operations by key; -1 without one.
    last = np.maximum.accumulate(np.where(written, np.arange(len(places)), -1))
    starts = np.searchsorted(keys, keys, side="left")
    is_written = last >= starts
    # Lengths of all records have one distribution: the first records represent all.
    first = loaded[keys % len(loaded)]
    sizes = np.empty(len(places), np.int64)
    sizes[places] = np.where(is_written, lengths[places][np.maximum(last, 0)], first)
    return sizes


def _by_key(keys: Numbers) -> tuple[Numbers, Numbers]:
    """The places of the operations, sorted by key and then by order, and their keys."""
    places = np.argsort(keys, kind="stable")
    return places, keys[places]


def gaps_of(keys: Numbers) -> Shares:
    """By i the share of operations whose key was last used 2^i to below 2^(i+1) operations ago.

    The rest to 1 are first operations on a key. These shares determine the size of a working set
    and its misses (Denning and Schwartz, "Properties of the working-set model", CACM 15, 1972).
    """
    places, ordered = _by_key(keys)
    gaps = (places[1:] - places[:-1])[ordered[1:] == ordered[:-1]]
    octaves = np.frexp(gaps.astype(np.float64))[1] - 1
    return np.bincount(octaves, minlength=_OCTAVES) / len(keys)


def counts_of(keys: Numbers) -> Numbers:
    """Operations on each key, largest first."""
    return np.sort(np.unique(keys, return_counts=True)[1])[::-1]
