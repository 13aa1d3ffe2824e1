"""Traces of operations that are drawn by known laws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kvmark.learn.drawn import KeyOperations, of_workload
from kvmark.spec.workload import WorkloadSpec
from kvmark.trace.folder import COLUMNS, Trace, TraceWriter

S = 10**9
ZIPFIAN = {"distribution": "zipfian", "theta": 0.9}
AGAIN = {"distribution": "again", "share": 0.5, "gaps": [0, 0, 1, 2, 4, 4, 2, 1], "of": ZIPFIAN}


def workload(keys: Mapping[str, Any], records: int = 5000, **more: Any) -> WorkloadSpec:
    """Nine reads to a write."""
    group = {"mix": {"read": 0.9, "update": 0.1}, "write_fields": "all", "keys": keys, **more}
    dataset = {"records": records, "fields": {"count": 1}}
    return WorkloadSpec.model_validate({"dataset": dataset, "groups": [group]})


def drawn(keys: Mapping[str, Any], count: int = 60_000) -> KeyOperations:
    """Operations of such a workload, with a seed that no fit uses."""
    return of_workload(workload(keys), count, seed=99)


def poisson(count: int, rate: float, seed: int = 5) -> NDArray[np.int64]:
    """Instants of a Poisson process."""
    gaps = np.random.default_rng(seed).exponential(S / rate, count)
    return np.cumsum(gaps).astype(np.int64)


def recorded(
    folder: Path, keys: NDArray[np.int64], at_ns: NDArray[np.int64], kinds: Any, **columns: Any
) -> Trace:
    """A trace of operations on keys, which are hashed; columns may have other values."""
    count = len(keys)
    values = {
        "at_ns": at_ns - at_ns[0],
        "client": np.arange(count) % 3,
        "kind": kinds,
        "statement": kinds,
        # What is near each other must not be.
        "key": (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(0x1234567),
        "key_size": np.full(count, 12),
        "value_size": np.arange(count) % 100,
        "ttl_ms": [None] * count,
        "items": np.ones(count),
    }
    frame = pl.DataFrame({**values, **columns}).cast(dict(COLUMNS))
    with TraceWriter(folder / "X.trace", "a test") as writer:
        for part in frame.iter_slices(50_000):
            writer.add(part)
        writer.close(())
    return Trace.open(folder / "X.trace")


def written(folder: Path, operations: KeyOperations, at_ns: NDArray[np.int64]) -> Trace:
    """The operations as a trace."""
    count, kinds = len(operations.keys), np.where(operations.reads, "read", "update")
    sizes = {"key_size": np.full(count, 24), "value_size": operations.sizes}
    return recorded(folder, operations.keys, at_ns, kinds, client=np.arange(count) % 20, **sizes)
