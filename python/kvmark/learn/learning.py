"""A trace's parts as laws of a workload, each with how well it fits and what it loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark.analysis.trace import TraceAnswer, describe
from kvmark.errors import UsageError
from kvmark.learn.arrivals import ArrivalFit, fit_arrivals
from kvmark.learn.drawn import (
    CACHES,
    MODELLED,
    OPERATIONS_MAX,
    KeyOperations,
    of_trace,
    of_workload,
)
from kvmark.learn.keys import KeysFit, fit_keys
from kvmark.learn.sizes import SizesFit, fit_sizes
from kvmark.spec.workload import WorkloadSpec
from kvmark.trace import Trace

__all__ = ["Learned", "LearnedPart", "Likened", "learn"]

_SEED: Final = 1
_CLIENTS: Final = (16, 256)
"""Least and most operations in flight; between them as many as recorded clients."""
_HASHED_BYTES: Final = 21
"""From here on a key has room for its hash in decimal."""


@dataclass(frozen=True, slots=True)
class Likened:
    """A figure of the trace, and the same of what is drawn of the workload."""

    name: str
    trace: float
    twin: float


@dataclass(frozen=True, slots=True)
class LearnedPart:
    """One part of a trace, the law that stands for it, and what that loses."""

    name: str
    law: str
    fit: tuple[Likened, ...]
    loses: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A workload that is like a trace."""

    trace: str
    operations: int
    """As many as were looked at for all that is said of keys and values."""
    workload: Mapping[str, Any]
    """As its file has it."""
    parts: tuple[LearnedPart, ...]


def learn(trace: Trace, name: str, records: int | None = None) -> Learned:
    """Fits a workload to a trace; `records` is how many it has, if not as many as fit best.

    Raises:
        UsageError: a file is damaged, or there is too little in it.
    """
    answer, looked_at = describe(trace), of_trace(trace)
    keys = fit_keys(looked_at.keys)
    valued = looked_at.sizes[looked_at.sizes > 0]
    sizes = fit_sizes(valued if len(valued) else np.array([1]))
    arrivals = fit_arrivals(trace, answer.rate)
    key_bytes = next((one.p50 for one in answer.sizes if one.what == "key_size"), 20)
    kinds, left_out = _kinds(answer)
    group: dict[str, Any] = {
        "clients": min(_CLIENTS[1], max(_CLIENTS[0], answer.clients)),
        "mix": kinds,
        "write_fields": "all",
        "keys": keys.law,
    }
    if arrivals is not None:
        group |= {"rate": arrivals.rate, "arrival": arrivals.process}
    dataset = {
        "records": keys.records if records is None else records,
        "key": _key(key_bytes),
        "fields": {"count": 1, "length": sizes.law},
    }
    workload: dict[str, Any] = {
        "name": name,
        "description": f"Learnt of {trace.path.name}.",
        "dataset": dataset,
        "groups": [group],
    }
    own = {**workload, "dataset": {**dataset, "records": keys.records}}
    twin = of_workload(WorkloadSpec.model_validate(own), len(looked_at.keys), _SEED)
    parts = (
        _kinds_part(kinds, left_out, looked_at, twin),
        *_key_parts(keys, looked_at, twin),
        _sizes_part(sizes, key_bytes, looked_at, twin),
        _arrivals_part(arrivals),
        *_lost(answer, looked_at),
    )
    return Learned(trace.path.name, len(looked_at.keys), workload, parts)


def _kinds(answer: TraceAnswer) -> tuple[dict[str, float], dict[str, int]]:
    """The weights of the kinds, and what is left out."""
    kept: dict[str, float] = {}
    left_out: dict[str, int] = {}
    for one in answer.kinds:
        # There is a record for each key, so that what makes one writes it.
        kind = "update" if one.name == "insert" else one.name
        if one.name in MODELLED:
            kept[kind] = kept.get(kind, 0.0) + one.operations
        else:
            left_out[one.name] = one.operations
    whole = sum(kept.values())
    if not whole:
        raise UsageError("the trace has no operation that something can be learnt of")
    return {kind: float(f"{count / whole:.5g}") for kind, count in kept.items()}, left_out


def _key(size: int) -> dict[str, Any]:
    """Keys as long as most are."""
    if size >= _HASHED_BYTES:
        return {"prefix": "k", "order": "hashed", "zero_padding": size - 1}
    return {"prefix": "k", "order": "ordered", "zero_padding": max(1, size - 1)}


def _kinds_part(
    kinds: Mapping[str, float],
    left_out: Mapping[str, int],
    trace: KeyOperations,
    twin: KeyOperations,
) -> LearnedPart:
    loses = "which kinds follow one another, and which keys are rather written than read"
    if "delete" in kinds:
        loses += ", and whether what was deleted is read"
    if left_out:
        gone = ", ".join(f"{kind} ({count:,})" for kind, count in left_out.items())
        loses += f"; left out: {gone}"
    shares = ", ".join(f"{kind} {100 * share:.3g} %" for kind, share in kinds.items())
    written = Likened("writes among those on the popular 1 % of the keys", trace.popular_writes,
                      twin.popular_writes)  # fmt: skip
    return LearnedPart("kinds", shares, (written,), loses)


def _key_parts(keys: KeysFit, trace: KeyOperations, twin: KeyOperations) -> Iterator[LearnedPart]:
    law = keys.law.get("of", keys.law)
    shares = law.get("shares")
    words = f"zipfian, theta {law['theta']:g}, {keys.records:,} records"
    if shares:
        words = f"{len(shares)} popular keys as counted, behind them {words}"
    off = Likened("largest difference of shares, at any rank", 0.0, keys.popularity_off)
    yield LearnedPart(
        "popularity", words, (off,), "which keys are popular when: it stays the same all the time"
    )
    different = float(len(np.unique(trace.keys)))
    hits = zip(CACHES, trace.hit_ratios(different), twin.hit_ratios(different), strict=True)
    fit = [Likened(f"hit ratio of {100 * share:g} % of the keys", *both) for share, *both in hits]
    fit.append(Likened("largest difference of returns within a gap", 0.0, keys.gaps_off))
    words = "none beyond what popularity makes"
    if "share" in keys.law:
        words = f"{100 * keys.law['share']:.3g} % of the operations have an earlier one's key"
    loses = "keys that return together; gaps are operations, whatever the number of records"
    yield LearnedPart("locality", words, tuple(fit), loses)
    (of_reads, gap), (twin_reads, twin_gap) = trace.rereads, twin.rereads
    rereads = [Likened("reads of what was written last", of_reads, twin_reads)]
    if gap is not None and twin_gap is not None:
        rereads.append(Likened("median of operations between", gap, twin_gap))
    yield LearnedPart(
        "read after write", "none: kinds are drawn apart from keys", tuple(rereads),
        "that what was written is read sooner, or later, than other keys",
    )  # fmt: skip


def _sizes_part(
    sizes: SizesFit, key_bytes: int, trace: KeyOperations, twin: KeyOperations
) -> LearnedPart:
    law = sizes.law
    words = f"always {law} bytes"
    if isinstance(law, dict):
        words = f"histogram in steps of {law['block_size']} bytes"
    fit = (
        Likened("mean bytes of a value", sizes.mean, sizes.law_mean),
        Likened("a value is off by, of the mean", 0.0, sizes.off),
        Likened("bytes read by operation", trace.read_bytes, twin.read_bytes),
    )
    loses = f"which keys have long values, and lengths of keys: all have {key_bytes} bytes"
    return LearnedPart("sizes", words, fit, loses)


def _arrivals_part(arrivals: ArrivalFit | None) -> LearnedPart:
    if arrivals is None:
        return LearnedPart("arrivals", "as fast as clients go", (), "all: they are at one instant")
    fit = [
        Likened(f"variance over mean in slots of {name}", *both)
        for name, both in arrivals.dispersion.items()
    ]
    loses = "how the rate moves within a step" if "steps" in arrivals.words else ""
    loses = loses or ("when each burst is" if "onoff" in arrivals.words else "what moves less")
    return LearnedPart("arrivals", arrivals.words, tuple(fit), loses)


def _lost(answer: TraceAnswer, trace: KeyOperations) -> Iterator[LearnedPart]:
    """What no law stands for."""
    yield LearnedPart(
        "sessions", "none", (), f"which of {answer.clients:,} clients asks for what, and in turn"
    )
    expiring = next((one.share for one in answer.sizes if one.what == "ttl_ms"), 0.0)
    if expiring:
        yield LearnedPart(
            "times to live", "none", (), f"nothing expires, as {100 * expiring:.3g} % do"
        )
    if answer.operations > OPERATIONS_MAX:
        yield LearnedPart(
            "later operations", "none", (),
            f"keys and values are those of the first {len(trace.keys):,} operations",
        )  # fmt: skip


def sentences(parts: Sequence[LearnedPart]) -> list[str]:
    """Each part in a line: its law and what it loses."""
    return [f"{part.name}: {part.law}; lost: {part.loses}" for part in parts]
