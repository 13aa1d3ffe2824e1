"""What is in a trace: how its rate moves, what it asks for, which keys, and when they return."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kvmark._engine import Reuse
from kvmark.stats.distributions import (
    GaussianFit,
    Population,
    ZipfFit,
    fit_gaussian,
    fit_population,
    fit_zipf,
)
from kvmark.trace.folder import Trace

_S: Final = 10**9
_FINE_NS: Final = 10**7
"""The length of the slots in which operations are counted first."""
_SLOTS_MAX: Final = 1 << 24
KEYS_MAX: Final = 1 << 17
"""Keys that are followed; of a trace with more, as many are a sample."""
_TOP: Final = 64
_STATEMENTS: Final = 12
CACHES: Final = (0.001, 0.01, 0.1, 0.5)
"""Sizes of caches as shares of the keys."""
_WINDOWS: Final = 10
_COURSE: Final = 100
_ANSWERED: Final = "answered_us"
_US: Final = (pl.col("completed_ns") - pl.col("at_ns")) // 1000
_STEP: Final = pl.lit(10, pl.Int64).pow((_US.clip(1).log10().floor().cast(pl.Int64) - 2).clip(0))
_ANSWERED_US: Final = (_US // _STEP * _STEP).alias(_ANSWERED)
"""How long an answer took, in three digits, so that few values are counted."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """One kind or statement, and its share of the operations."""

    name: str
    operations: int
    share: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations per second, and how they are spread."""

    mean: float | None
    """None where all operations are at one instant."""
    peak: float
    """The most in a second."""
    autocorrelation: float | None
    """Between one second and the next; None of a short or a constant rate."""
    dispersion: Mapping[str, float]
    """Variance over mean of the counts in slots of 10 ms, 1 s and 10 s; 1 of a Poisson process, 0
    of evenly spaced operations, more of bursts. Only slots of which there are 20."""
    course: tuple[tuple[float, float], ...]
    """Seconds since the begin and the rate from there on, in at most 100 equal slots."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Quantiles of a size in bytes, or of a time in the unit that `what` ends with.

    `answered_us` is cut off behind three digits.
    """

    what: str
    share: float
    """Of the operations that say it."""
    mean: float
    p50: int
    p99: int
    largest: int


@dataclass(frozen=True, slots=True)
class CacheHits:
    """The hit ratio of an LRU cache that holds this share of the keys."""

    share: float
    keys: float
    hits: float


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """What is in a trace."""

    source: str
    told: tuple[str, ...]
    operations: int
    clients: int
    span_s: float
    kinds: tuple[TracePart, ...]
    statements: tuple[TracePart, ...]
    outcomes: tuple[TracePart, ...]
    """How operations ended; empty where the trace doesn't say. `unanswered` are those without an
    answer, also where none was asked for."""
    rate: Rate
    sizes: tuple[Sizes, ...]
    keys: float
    """Different keys; an estimate where `sampled` is below 1."""
    sampled: float
    """The share of the keys that was followed, for all figures of keys."""
    top_share: float
    """The share of the operations on the most popular key."""
    popularity: ZipfFit | None
    gaussian: GaussianFit | None
    population: Population | None
    """How operations spread over the keys, and the number of keys that the source draws from."""
    caches: tuple[CacheHits, ...]
    hit_ratios: tuple[tuple[float, float], ...]
    """Keys that an LRU cache holds and its hit ratio of reads, wherever that changes."""
    first_reads: float
    """The share of the reads that are the first operation on their key."""
    unwritten_reads: float
    """The share of the reads whose key the trace hasn't written before."""
    working_set: tuple[float, ...]
    """Different keys in each tenth of the span."""


def describe(trace: Trace) -> TraceAnswer:
    """Reads a trace once, in memory that doesn't grow with it.

    Raises:
        UsageError: a file is damaged.
    """
    pass_ = _Pass(trace.info.end_ns)
    columns = ("at_ns", "kind", "statement", "key", "key_size", "value_size", "ttl_ms", "items")
    ends = tuple(name for name in ("completed_ns", "outcome") if name in trace.optional)
    for batch in trace.batches((*columns, *ends)):
        pass_.add(batch)
    reused = json.loads(pass_.reuse.result())
    operations = trace.info.operations
    keys, distances = float(reused["keys"]), reused["distances"]
    highs = (one["high"] for one in distances)
    return TraceAnswer(
        source=trace.info.source,
        told=trace.info.told,
        operations=operations,
        clients=trace.info.clients,
        span_s=trace.info.end_ns / _S,
        kinds=_parts(pass_.kinds, operations),
        statements=_parts(pass_.statements, operations)[:_STATEMENTS],
        outcomes=_parts(pass_.outcomes, operations),
        rate=_rate(pass_.slots, pass_.slot_ns, operations, trace.info.end_ns),
        sizes=tuple(_sizes(pass_.sizes, operations)),
        keys=keys,
        sampled=reused["sampled"],
        top_share=max(pass_.top.values(), default=0) / max(operations, 1),
        popularity=fit_zipf(reused["counts"], reused["sampled"]),
        gaussian=fit_gaussian(reused["counts"], reused["sampled"]),
        population=fit_population(reused["counts"], reused["sampled"]),
        caches=tuple(
            CacheHits(share, held, hits_within(reused, held))
            for share in CACHES
            for held in [max(1.0, share * keys)]
        ),
        hit_ratios=tuple(zip(highs, accumulate(one["share"] for one in distances), strict=True)),
        first_reads=reused["first_reads"],
        unwritten_reads=reused["unwritten_reads"],
        working_set=tuple(one.distinct() for one in pass_.windows),
    )


def rates(trace: Trace, every_ns: int) -> list[tuple[float, float]]:
    """Seconds since the begin and the operations per second from there on, in equal slots.

    Raises:
        UsageError: a file is damaged.
    """
    counts: NDArray[np.int64] = np.zeros(trace.info.end_ns // every_ns + 1, dtype=np.int64)
    for batch in trace.batches(("at_ns", "items")):
        _count_slots(batch.filter(pl.col("items") > 0), every_ns, counts)
    every_s = every_ns / _S
    return [(place * every_s, float(count) / every_s) for place, count in enumerate(counts)]


@dataclass(slots=True)
class _Distinct:
    """Different keys: those whose hash is small are kept, and the bound falls as they grow many."""

    shift: int = 0
    kept: set[int] = field(default_factory=set)

    def add(self, keys: pl.Series) -> None:
        few = keys.unique()
        self.kept.update(few.filter(few % (1 << self.shift) == 0).to_list())
        while len(self.kept) > KEYS_MAX:
            self.shift += 1
            self.kept = {key for key in self.kept if key % (1 << self.shift) == 0}

    def distinct(self) -> float:
        return float(len(self.kept) << self.shift)


class _Pass:
    """What is counted while a trace is read."""

    def __init__(self, end_ns: int) -> None:
        slots = end_ns // _FINE_NS + 1
        self.slot_ns = _FINE_NS * (1 + slots // _SLOTS_MAX)
        self.slots: NDArray[np.int64] = np.zeros(end_ns // self.slot_ns + 1, dtype=np.int64)
        self.reuse = Reuse(KEYS_MAX)
        self.kinds, self.statements, self.outcomes = Counter[str](), Counter[str](), Counter[str]()
        self.top = Counter[int]()
        names = ("key_size", "value_size", "ttl_ms", _ANSWERED)
        self.sizes = {name: Counter[int]() for name in names}
        self.windows = [_Distinct() for _ in range(_WINDOWS)]
        self._end_ns = end_ns

    def add(self, batch: pl.DataFrame) -> None:
        """The next operations."""
        operations = batch.filter(pl.col("items") > 0)
        _count_slots(operations, self.slot_ns, self.slots)
        self.kinds.update(_counts(operations["kind"]))
        self.statements.update(_counts(operations["statement"]))
        if "outcome" in batch.columns:
            self.outcomes.update(_counts(operations["outcome"].fill_null("unanswered")))
        if "completed_ns" in batch.columns:
            operations = operations.with_columns(_ANSWERED_US)
        for name in self.sizes.keys() & set(operations.columns):
            self.sizes[name].update(_counts(operations[name].drop_nulls()))
        # Operations that name no key, such as PING, must not be taken for the most popular one.
        self._add_keys(batch.filter(pl.col("key_size") > 0))

    def _add_keys(self, batch: pl.DataFrame) -> None:
        reads = batch["kind"].is_in(["read", "scan"]).cast(pl.UInt8)
        self.reuse.add(_bytes(batch["key"], "<u8"), _bytes(reads, "u1"))
        self.top.update(dict(batch["key"].value_counts(sort=True).head(_TOP).iter_rows()))
        window = (batch["at_ns"] * _WINDOWS // (self._end_ns + 1)).alias("window")
        for (place,), part in batch.select("key", window).group_by("window"):
            self.windows[int(str(place))].add(part["key"])


def _bytes(column: pl.Series, kind: str) -> bytes:
    return column.to_numpy().astype(kind).tobytes()


def _count_slots(operations: pl.DataFrame, slot_ns: int, into: NDArray[np.int64]) -> None:
    counted = np.bincount((operations["at_ns"] // slot_ns).to_numpy())
    into[: len(counted)] += counted


def _counts(column: pl.Series) -> dict[Any, int]:
    return dict(column.value_counts().iter_rows())


def _parts(counts: Mapping[str, int], operations: int) -> tuple[TracePart, ...]:
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(TracePart(name, count, count / operations) for name, count in most)


def _rate(slots: NDArray[np.int64], slot_ns: int, operations: int, end_ns: int) -> Rate:
    whole = _slots_of(slots, slot_ns, _S)
    named = {"10 ms": _FINE_NS, "1 s": _S, "10 s": 10 * _S}
    dispersion = {}
    for name, length_ns in named.items():
        counts = _slots_of(slots, slot_ns, length_ns)
        if length_ns >= slot_ns and len(counts) >= 20 and counts.mean() > 0:
            dispersion[name] = float(counts.var(ddof=1) / counts.mean())
    length_ns = max(slot_ns, -(-(end_ns + 1) // _COURSE // slot_ns) * slot_ns)
    course = _slots_of(slots, slot_ns, length_ns)
    return Rate(
        mean=operations * _S / end_ns if end_ns else None,
        peak=float(np.add.reduceat(slots, np.arange(0, len(slots), max(1, _S // slot_ns))).max()),
        autocorrelation=_autocorrelation(whole),
        dispersion=dispersion,
        course=tuple(
            (place * length_ns / _S, float(count) * _S / length_ns)
            for place, count in enumerate(course)
        ),
    )


def _slots_of(slots: NDArray[np.int64], slot_ns: int, length_ns: int) -> NDArray[np.int64]:
    """Counts in longer slots; a last one that isn't whole is left out."""
    together = max(1, length_ns // slot_ns)
    whole = len(slots) // together * together
    summed: NDArray[np.int64] = slots[:whole].reshape(-1, together).sum(axis=1)
    return summed


def _autocorrelation(counts: NDArray[np.int64]) -> float | None:
    if len(counts) < 20 or counts.std() == 0:
        return None
    return float(np.corrcoef(counts[:-1], counts[1:])[0, 1])


def _sizes(found: Mapping[str, Mapping[int, int]], operations: int) -> Iterator[Sizes]:
    for what, counts in found.items():
        if counts:
            values = np.array(sorted(counts), dtype=np.float64)
            weights = np.array([counts[int(value)] for value in values], dtype=np.float64)
            upto, total = np.cumsum(weights), float(weights.sum())
            p50, p99 = (values[np.searchsorted(upto, share * total)] for share in (0.5, 0.99))
            mean = float((values * weights).sum() / total)
            yield Sizes(what, total / operations, mean, int(p50), int(p99), int(values[-1]))


def hits_within(reused: Mapping[str, Any], keys: float) -> float:
    """The share of the reads within a distance; a bucket counts by the part that lies within."""
    hits = 0.0
    for bucket in reused["distances"]:
        low, high = bucket["low"], bucket["high"]
        if high <= keys:
            hits += bucket["share"]
        elif low <= keys:
            hits += bucket["share"] * (keys - low) / (high - low)
    return float(hits)
