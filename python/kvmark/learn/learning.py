"""A trace's parts as laws of a workload, each with how well it fits and what it loses.

Values are all of one size, or have a histogram of equal steps. Operations are due at a constant
rate, at one that follows the trace's, or in bursts.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from kvmark.analysis.trace import Rate, TraceAnswer, describe, rates
from kvmark.errors import UsageError
from kvmark.learn.drawn import (
    CACHES,
    MODELLED,
    OPERATIONS_MAX,
    KeyOperations,
    Numbers,
    of_trace,
    of_workload,
)
from kvmark.learn.keys import KeysFit, fit_keys
from kvmark.spec.curve import parse_curve
from kvmark.spec.workload import WorkloadSpec
from kvmark.trace import Trace

_SEED: Final = 1
_CLIENTS: Final = (16, 256)
"""Least and most operations in flight; between them as many as recorded clients."""
_HASHED_BYTES: Final = 21
"""From here on a key has room for its hash in decimal."""

_WIDTH: Final = 100

_BUCKETS: Final = 500
_STEPS: Final = 2**0.25
_WEIGHTS: Final = 100_000
_OFF: Final = 0.02
"""So far off, the coarsest steps are taken."""

_S: Final = 10**9
_FINE_NS: Final = 10**7
_SLOTS_MAX: Final = 200_000
_PIECES_MAX: Final = 500
_PIECES_LEAST: Final = 4
_SCALES: Final = {"10 ms": 10**7, "1 s": _S, "10 s": 10 * _S}
_MOVES: Final = 2.0
"""Variance over mean of counts from which on a rate moves, where 1 is a Poisson process."""
_EVEN: Final = 0.5
_COUNTED: Final = 8.0
"""Operations in a slot in the mean, so that bursts are told from chance."""
_ARRIVAL_SEED: Final = 7

Shares = NDArray[np.float64]


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
    sizes: _SizesFit, key_bytes: int, trace: KeyOperations, twin: KeyOperations
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


def _arrivals_part(arrivals: _ArrivalFit | None) -> LearnedPart:
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


def workload_text(learned: Learned) -> str:
    """YAML with what is lost in front of it."""
    head = [f"# Learnt of {learned.trace}, {learned.operations:,} operations on keys:"]
    for sentence in sentences(learned.parts):
        head += textwrap.wrap(sentence, _WIDTH, initial_indent="# - ", subsequent_indent="#   ")
    head.append("# Leave rate and arrival out for as fast as clients go.")
    return "\n".join((*head, *_lines(learned.workload, ""), ""))


def _lines(content: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in content.items():
        if isinstance(value, dict) and key not in ("key", "mix"):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        elif key == "groups":
            yield f"{indent}{key}:"
            for group in value:
                first, *others = _lines(group, f"{indent}    ")
                yield f"{indent}  - {first.lstrip()}"
                yield from others
        else:
            # JSON is YAML, and breaks between numbers inside brackets.
            text = value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
            yield from _wrapped(f"{indent}{key}: {text}", f"{indent}  ")


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isalpha()


def _wrapped(line: str, indent: str) -> list[str]:
    if '"' in line:
        return [line]
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False)


@dataclass(frozen=True, slots=True)
class _SizesFit:
    """The law of lengths, in the words of a workload's file, and how far it is from the trace."""

    law: dict[str, Any] | int
    off: float
    """By how much of the mean a value is longer or shorter in the law, in the mean."""
    mean: float
    law_mean: float


def fit_sizes(sizes: Numbers) -> _SizesFit:
    """The law that is nearest to these bytes, of which there is one at least."""
    values, counts = np.unique(sizes, return_counts=True)
    mean = float(np.average(values, weights=counts))
    if len(values) == 1:
        return _SizesFit(int(values[0]), 0.0, mean, mean)
    # From steps of which four reach the longest value to those of a byte.
    widest = max(1.0, float(values[-1]) / 4)
    widths = sorted({max(1, int(np.ceil(widest / _STEPS**one))) for one in range(96)})
    fits = [_of_width(values, counts, width) for width in reversed(widths)]
    return next((one for one in fits if one.off <= _OFF), min(fits, key=lambda one: one.off))


def _of_width(values: Numbers, counts: Numbers, width: int) -> _SizesFit:
    places = np.clip(np.floor(values / width + 0.5).astype(np.int64), 1, _BUCKETS)
    moved = np.abs(places * width - values)
    mean = float(np.average(values, weights=counts))
    weights = np.bincount(places - 1, weights=counts)
    scaled = np.rint(weights * (_WEIGHTS / weights.sum())).astype(np.int64)
    law_mean = float(np.average(np.arange(1, len(weights) + 1) * width, weights=weights))
    law = {
        "distribution": "histogram",
        "block_size": width,
        "weights": [int(one) for one in scaled],
    }
    off = float(np.average(moved, weights=counts)) / max(mean, 1.0)
    return _SizesFit(law, off, mean, law_mean)


@dataclass(frozen=True, slots=True)
class _ArrivalFit:
    """The rate in the words of a workload's file, and how its counts scatter."""

    rate: float | str
    process: Literal["constant", "poisson"]
    dispersion: Mapping[str, tuple[float, float]]
    """Variance over mean of the counts in slots of each length, of the trace and of the law."""
    words: str

    @property
    def off(self) -> float:
        """The largest factor between both, as its logarithm."""
        pairs = self.dispersion.values()
        return max((abs(math.log((1 + law) / (1 + own))) for own, law in pairs), default=0.0)


def fit_arrivals(trace: Trace, rate: Rate) -> _ArrivalFit | None:
    """The law whose counts scatter likest; None where all operations are at one instant.

    Raises:
        UsageError: a file is damaged.
    """
    end_ns = trace.info.end_ns
    if rate.mean is None or end_ns < _FINE_NS:
        return None
    slot_ns = max(_FINE_NS, -(-end_ns // _SLOTS_MAX))
    found = np.array([one for _, one in rates(trace, slot_ns)]) * (slot_ns / _S)
    # The last slot isn't whole.
    counts = found[:-1] if len(found) > 1 else found
    steps, length = _steps(counts, slot_ns)
    within = _within(counts, steps, length)
    process: Literal["constant", "poisson"] = "constant" if within < _EVEN else "poisson"
    law: float | str = float(f"{rate.mean:.6g}")
    if len(steps) > 1:
        law = _held(steps * (_S / slot_ns), length * slot_ns)
    fits = [_fit(law, process, rate, end_ns)]
    if within > _MOVES:
        bursts = _bursts(counts, slot_ns)
        if bursts is not None:
            fits.append(_fit(bursts, process, rate, end_ns))
    return min(fits, key=lambda one: one.off)


def _steps(counts: Shares, slot_ns: int) -> tuple[Shares, int]:
    """Mean counts of the slots of each piece, and how many slots these are.

    One piece where the rate doesn't move.
    """
    length = max(1, round(_S / slot_ns), -(-len(counts) // _PIECES_MAX))
    pieces = len(counts) // length
    if pieces < _PIECES_LEAST:
        return np.array([counts.mean()]), len(counts)
    summed = counts[: pieces * length].reshape(pieces, length).sum(axis=1)
    if summed.var(ddof=1) <= _MOVES * summed.mean():
        return np.array([counts.mean()]), len(counts)
    return summed / length, length


def _within(counts: Shares, steps: Shares, length: int) -> float:
    """Variance over mean of the counts about their piece's mean."""
    expected = np.repeat(steps, length)
    apart = counts[: len(expected)] - expected
    return float(np.mean(apart**2) / max(float(expected.mean()), 1e-12))


def _held(each: Shares, length_ns: int) -> str:
    """A curve that holds each rate for a time."""
    return "steps:" + ",".join(f"{_rate(one)}/{length_ns // 1000}us" for one in each)


def _rate(rate: float) -> str:
    return f"{rate:.3f}".rstrip("0").rstrip(".")


def _bursts(counts: Shares, slot_ns: int) -> str | None:
    """Two rates in turn, told apart by the counts of slots that hold some operations each."""
    together = max(1, math.ceil(_COUNTED / max(float(counts.mean()), 1e-9)))
    slots = len(counts) // together
    if slots < 2 * _PIECES_LEAST:
        return None
    summed = counts[: slots * together].reshape(slots, together).sum(axis=1)
    middle = float(summed.mean())
    for _ in range(20):
        high = summed > middle
        if high.all() or not high.any():
            return None
        middle = float(summed[high].mean() + summed[~high].mean()) / 2
    changes = np.flatnonzero(high[1:] != high[:-1])
    lengths = np.diff(changes)
    if len(lengths) < _PIECES_LEAST:
        return None
    # Stretches in turn: the first whole one is of the state behind the first change.
    is_high = high[changes[0] + 1]
    ons, offs = (lengths[::2], lengths[1::2]) if is_high else (lengths[1::2], lengths[::2])
    slot_us = slot_ns * together / 1000
    words = []
    for state, held in ((high, ons), (~high, offs)):
        rate = float(summed[state].mean()) / slot_us * 1e6
        words.append(f"{_rate(rate)}/{round(float(held.mean()) * slot_us)}us")
    return "onoff:" + ",".join(words)


def _fit(
    law: float | str, process: Literal["constant", "poisson"], rate: Rate, end_ns: int
) -> _ArrivalFit:
    own = 1.0 if process == "poisson" else 0.0
    scales = {name: _SCALES[name] for name in rate.dispersion}
    found = {
        name: (rate.dispersion[name], own + _moved(law, length_ns, end_ns))
        for name, length_ns in scales.items()
    }
    words = law if isinstance(law, str) else f"{law:g} ops/s"
    form, _, steps = words.partition(":")
    shown = f"{steps.count(',') + 1} steps" if form == "steps" else words
    return _ArrivalFit(law, process, found, f"{shown}, {process} arrivals")


def _moved(law: float | str, length_ns: int, end_ns: int) -> float:
    """Variance over mean of the operations expected in slots of a length."""
    if not isinstance(law, str):
        return 0.0
    points = parse_curve(law).points(end_ns, _ARRIVAL_SEED)
    at_ns, rate = (np.array(one, dtype=np.float64) for one in zip(*points, strict=True))
    due = np.concatenate([[0.0], np.cumsum(np.diff(at_ns) * (rate[1:] + rate[:-1]) / 2)]) / _S
    edges = np.arange(0, end_ns + 1, length_ns, dtype=np.float64)
    expected = np.diff(np.interp(edges, at_ns, due))
    return float(expected.var(ddof=1) / expected.mean()) if len(expected) > 1 else 0.0
