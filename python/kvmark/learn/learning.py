"""Laws of a workload for the parts of a trace, each with its fit and its losses.

Values have one size, or a histogram with equal steps. Operations arrive at a constant rate, at the
changing rate of the trace, or in bursts.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvmark.analysis.trace import CACHES, Rate, TraceAnswer, describe, rates
from kvmark.errors import UsageError
from kvmark.learn import drawn
from kvmark.learn.drawn import MODELLED, OPERATIONS_MAX, KeyOperations, Numbers, Shares
from kvmark.learn.keys import KeysFit, fit_keys
from kvmark.spec.curve import parse_curve
from kvmark.spec.laws import ArrivalProcess
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import WIDTH, yaml_text
from kvmark.trace.folder import Trace

_SEED: Final = 1
_CLIENTS: Final = (16, 256)
"""Least and most operations in flight; between them the number of recorded clients."""
_HASHED_BYTES: Final = 21
"""The least size of a key with its hash in decimal."""

_BUCKETS: Final = 500
_STEPS: Final = 2**0.25
_WEIGHTS: Final = 100_000
_OFF: Final = 0.02
"""The tolerance for the choice of the coarsest steps."""

_S: Final = 10**9
_FINE_NS: Final = 10**7
_SLOTS_MAX: Final = 200_000
_PIECES_MAX: Final = 500
_PIECES_LEAST: Final = 4
_SCALES: Final = {"10 ms": 10**7, "1 s": _S, "10 s": 10 * _S}
_MOVES: Final = 2.0
"""The variance over mean of counts at which a rate counts as changing; 1 is a Poisson process."""
_EVEN: Final = 0.5
_COUNTED: Final = 8.0
"""The mean operations in a slot for the detection of bursts."""
_ARRIVAL_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class LearnedStatistic:
    """A statistic of the trace, and of operations drawn from the workload."""

    name: str
    trace: float
    twin: float


@dataclass(frozen=True, slots=True)
class LearnedPart:
    """One part of a trace, its law, and the losses of the law."""

    name: str
    law: str
    fit: tuple[LearnedStatistic, ...]
    loses: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A workload learned from a trace."""

    trace: str
    operations: int
    """Number of operations that were analysed for keys and values."""
    workload: Mapping[str, Any]
    """The content of its file."""
    parts: tuple[LearnedPart, ...]


def learn(trace: Trace, name: str, records: int | None = None) -> Learned:
    """Fits a workload to a trace; `records` replaces the number of records that fits best.

    Raises:
        UsageError: a file is damaged, or has too few operations.
    """
    answer, recorded = describe(trace), drawn.of_trace(trace)
    keys = fit_keys(recorded.keys)
    valued = recorded.sizes[recorded.sizes > 0]
    sizes = fit_sizes(valued if len(valued) else np.array([1]))
    arrivals = fit_arrivals(trace, answer.rate)
    key_bytes = next((one.p50 for one in answer.sizes if one.what == "key_size"), 20)
    kinds, excluded = _kinds(answer)
    group: dict[str, Any] = {
        "clients": min(_CLIENTS[1], max(_CLIENTS[0], answer.clients)),
        "mix": kinds,
        "write_fields": "all",
        "keys": keys.law,
    }
    if arrivals is not None:
        group |= {"rate": arrivals.rate, "arrival": arrivals.process}
    order = "hashed" if key_bytes >= _HASHED_BYTES else "ordered"
    dataset = {
        "records": keys.records if records is None else records,
        "key": {"prefix": "k", "order": order, "zero_padding": max(1, key_bytes - 1)},
        "fields": {"count": 1, "length": sizes.law},
    }
    workload: dict[str, Any] = {
        "name": name,
        "description": f"Learned from {trace.path.name}.",
        "dataset": dataset,
        "groups": [group],
    }
    fitted = {**workload, "dataset": {**dataset, "records": keys.records}}
    twin = drawn.of_workload(WorkloadSpec.model_validate(fitted), len(recorded.keys), _SEED)
    parts = (
        *_key_parts(kinds, excluded, keys, recorded, twin),
        *_value_parts(sizes, key_bytes, arrivals, recorded, twin),
        *_losses(answer, recorded),
    )
    return Learned(trace.path.name, len(recorded.keys), workload, parts)


def _kinds(answer: TraceAnswer) -> tuple[dict[str, float], dict[str, int]]:
    """The weights of the kinds, and the counts of excluded kinds."""
    counts: Counter[str] = Counter()
    excluded: dict[str, int] = {}
    for one in answer.kinds:
        # All keys have records, so that an insert is an update.
        if one.name in MODELLED:
            counts["update" if one.name == "insert" else one.name] += one.operations
        else:
            excluded[one.name] = one.operations
    total = counts.total()
    if not total:
        raise UsageError("the trace has no operation that can be learned")
    return {kind: float(f"{count / total:.5g}") for kind, count in counts.items()}, excluded


def _key_parts(
    kinds: Mapping[str, float],
    excluded: Mapping[str, int],
    keys: KeysFit,
    trace: KeyOperations,
    twin: KeyOperations,
) -> Iterator[LearnedPart]:
    """The kinds of operations, and the popularity and the reuse of keys."""
    loses = "the order of kinds, and the kinds of operations on each key"
    if "delete" in kinds:
        loses += ", and reads of deleted records"
    if excluded:
        counts = ", ".join(f"{kind} ({count:,})" for kind, count in excluded.items())
        loses += f"; left out: {counts}"
    shares = ", ".join(f"{kind} {100 * share:.3g} %" for kind, share in kinds.items())
    name = "writes among those on the popular 1 % of the keys"
    writes = LearnedStatistic(name, trace.popular_writes, twin.popular_writes)
    yield LearnedPart("kinds", shares, (writes,), loses)
    law = keys.law.get("of", keys.law)
    popularity = f"zipfian, theta {law['theta']:g}, {keys.records:,} records"
    if law.get("shares"):
        popularity = f"shares of {len(law['shares'])} popular keys, the others {popularity}"
    off = LearnedStatistic("largest difference of shares, at any rank", 0.0, keys.popularity_off)
    yield LearnedPart("popularity", popularity, (off,), "changes of popularity over time")
    distinct = float(len(np.unique(trace.keys)))
    hits = zip(CACHES, trace.hit_ratios(distinct), twin.hit_ratios(distinct), strict=True)
    fit = [
        LearnedStatistic(f"hit ratio of {100 * share:g} % of the keys", *ratios)
        for share, *ratios in hits
    ]
    fit.append(LearnedStatistic("largest difference of returns within a gap", 0.0, keys.gaps_off))
    locality = "none except by popularity"
    if "share" in keys.law:
        locality = f"{100 * keys.law['share']:.3g} % of the operations repeat an earlier key"
    loses = "keys that return together; gaps are operations, for any number of records"
    yield LearnedPart("locality", locality, tuple(fit), loses)


def _value_parts(
    sizes: _SizesFit,
    key_bytes: int,
    arrivals: _ArrivalFit | None,
    trace: KeyOperations,
    twin: KeyOperations,
) -> Iterator[LearnedPart]:
    """Reads of written values, sizes, and arrivals."""
    (of_reads, gap), (twin_reads, twin_gap) = trace.rereads, twin.rereads
    rereads = [LearnedStatistic("reads of the last written value", of_reads, twin_reads)]
    if gap is not None and twin_gap is not None:
        rereads.append(LearnedStatistic("median of operations between", gap, twin_gap))
    law, loses = "none: kinds and keys are independent", "earlier or later reads of written keys"
    yield LearnedPart("read after write", law, tuple(rereads), f"{loses} than of others")
    law = f"always {sizes.law} bytes"
    if isinstance(sizes.law, dict):
        law = f"histogram in steps of {sizes.law['block_size']} bytes"
    fit = (
        LearnedStatistic("mean bytes of a value", sizes.mean, sizes.law_mean),
        LearnedStatistic("mean difference of a value, of the mean", 0.0, sizes.off),
        LearnedStatistic("bytes read per operation", trace.read_bytes, twin.read_bytes),
    )
    loses = f"sizes by key, and sizes of keys: all have {key_bytes} bytes"
    yield LearnedPart("sizes", law, fit, loses)
    if arrivals is None:
        yield LearnedPart("arrivals", "closed model", (), "all: they are at one instant")
        return
    slots = (
        LearnedStatistic(f"variance over mean in slots of {name}", *ratios)
        for name, ratios in arrivals.dispersion.items()
    )
    losses = {"steps": "changes of the rate within a step", "onoff": "the instants of bursts"}
    named = (loses for form, loses in losses.items() if form in arrivals.text)
    loses = next(named, "smaller changes of the rate")
    yield LearnedPart("arrivals", arrivals.text, tuple(slots), loses)


def _losses(answer: TraceAnswer, trace: KeyOperations) -> Iterator[LearnedPart]:
    """Parts without a law."""
    loses = f"the keys of each of {answer.clients:,} clients, and the order of its operations"
    yield LearnedPart("sessions", "none", (), loses)
    expiring = next((one.share for one in answer.sizes if one.what == "ttl_ms"), 0.0)
    if expiring:
        loses = f"expiry of {100 * expiring:.3g} % of the records"
        yield LearnedPart("times to live", "none", (), loses)
    if answer.operations > OPERATIONS_MAX:
        loses = f"keys and values after the first {len(trace.keys):,} operations"
        yield LearnedPart("later operations", "none", (), loses)


def workload_text(learned: Learned) -> str:
    """The workload's YAML, with the losses in comments at the top."""
    head = [f"# Learned from {learned.trace}, {learned.operations:,} operations on keys:"]
    for part in learned.parts:
        sentence = f"{part.name}: {part.law}; lost: {part.loses}"
        head += textwrap.wrap(sentence, WIDTH, initial_indent="# - ", subsequent_indent="#   ")
    head.append("# Remove rate and arrival for the closed model.")
    return "\n".join((*head, yaml_text(learned.workload)))


@dataclass(frozen=True, slots=True)
class _SizesFit:
    """The law of sizes in the form of a workload's file, and its distance from the trace."""

    law: dict[str, Any] | int
    off: float
    """The mean difference of a value between law and trace, as a share of the mean."""
    mean: float
    law_mean: float


def fit_sizes(sizes: Numbers) -> _SizesFit:
    """The law nearest to these sizes in bytes; at least one."""
    values, counts = np.unique(sizes, return_counts=True)
    mean = float(np.average(values, weights=counts))
    if len(values) == 1:
        return _SizesFit(int(values[0]), 0.0, mean, mean)
    # From four steps up to the longest value, to steps of a byte.
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
    law = {"distribution": "histogram", "block_size": width, "weights": scaled.tolist()}
    off = float(np.average(moved, weights=counts)) / max(mean, 1.0)
    return _SizesFit(law, off, mean, law_mean)


@dataclass(frozen=True, slots=True)
class _ArrivalFit:
    """The rate in the form of a workload's file, and the dispersion of counts."""

    rate: float | str
    process: ArrivalProcess
    dispersion: Mapping[str, tuple[float, float]]
    """Variance over mean of the counts in slots of each length, of the trace and of the law."""
    text: str

    @property
    def off(self) -> float:
        """The logarithm of the largest factor between trace and law."""
        pairs = self.dispersion.values()
        return max((abs(math.log((1 + law) / (1 + trace))) for trace, law in pairs), default=0.0)


def fit_arrivals(trace: Trace, rate: Rate) -> _ArrivalFit | None:
    """The law with the most similar dispersion; None if all operations are at one instant.

    Raises:
        UsageError: a file is damaged.
    """
    end_ns = trace.info.end_ns
    if rate.mean is None or end_ns < _FINE_NS:
        return None
    slot_ns = max(_FINE_NS, -(-end_ns // _SLOTS_MAX))
    counts = np.array([one for _, one in rates(trace, slot_ns)]) * (slot_ns / _S)
    # The last slot isn't complete.
    counts = counts[:-1] if len(counts) > 1 else counts
    steps, length = _steps(counts, slot_ns)
    # The variance over mean of the counts around the mean of their piece.
    expected = np.repeat(steps, length)
    residuals = counts[: len(expected)] - expected
    within = float(np.mean(residuals**2) / max(float(expected.mean()), 1e-12))
    process: ArrivalProcess = "constant" if within < _EVEN else "poisson"
    law: float | str = float(f"{rate.mean:.6g}")
    if len(steps) > 1:
        length_us = length * slot_ns // 1000
        law = "steps:" + ",".join(f"{_rate(one * _S / slot_ns)}/{length_us}us" for one in steps)
    fits = [_fit(law, process, rate, end_ns)]
    if within > _MOVES:
        bursts = _bursts(counts, slot_ns)
        if bursts is not None:
            fits.append(_fit(bursts, process, rate, end_ns))
    return min(fits, key=lambda one: one.off)


def _steps(counts: Shares, slot_ns: int) -> tuple[Shares, int]:
    """The mean count per slot of each piece, and the number of slots of a piece.

    One piece if the rate is constant.
    """
    length = max(1, round(_S / slot_ns), -(-len(counts) // _PIECES_MAX))
    pieces = len(counts) // length
    summed = counts[: pieces * length].reshape(pieces, length).sum(axis=1)
    if pieces < _PIECES_LEAST or summed.var(ddof=1) <= _MOVES * summed.mean():
        return np.array([counts.mean()]), len(counts)
    return summed / length, length


def _rate(rate: float) -> str:
    return f"{rate:.3f}".rstrip("0").rstrip(".")


def _bursts(counts: Shares, slot_ns: int) -> str | None:
    """Two alternating rates, separated by the counts of slots with several operations."""
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
    # The states alternate: the first complete one follows the first change.
    is_high = high[changes[0] + 1]
    ons, offs = (lengths[::2], lengths[1::2]) if is_high else (lengths[1::2], lengths[::2])
    slot_us = slot_ns * together / 1000
    parts = []
    for state, durations in ((high, ons), (~high, offs)):
        rate = float(summed[state].mean()) / slot_us * 1e6
        parts.append(f"{_rate(rate)}/{round(float(durations.mean()) * slot_us)}us")
    return "onoff:" + ",".join(parts)


def _fit(law: float | str, process: ArrivalProcess, rate: Rate, end_ns: int) -> _ArrivalFit:
    of_process = 1.0 if process == "poisson" else 0.0
    dispersion = {
        name: (of_trace, of_process + _rate_dispersion(law, _SCALES[name], end_ns))
        for name, of_trace in rate.dispersion.items()
    }
    text = law if isinstance(law, str) else f"{law:g} ops/s"
    if text.startswith("steps:"):
        text = f"{text.count(',') + 1} steps"
    return _ArrivalFit(law, process, dispersion, f"{text}, {process} arrivals")


def _rate_dispersion(law: float | str, length_ns: int, end_ns: int) -> float:
    """Variance over mean of the expected operations in slots of a length."""
    if not isinstance(law, str):
        return 0.0
    points = parse_curve(law).points(end_ns, _ARRIVAL_SEED)
    at_ns, rate = (np.array(one, dtype=np.float64) for one in zip(*points, strict=True))
    due = np.concatenate([[0.0], np.cumsum(np.diff(at_ns) * (rate[1:] + rate[:-1]) / 2)]) / _S
    edges = np.arange(0, end_ns + 1, length_ns, dtype=np.float64)
    expected = np.diff(np.interp(edges, at_ns, due))
    return float(expected.var(ddof=1) / expected.mean()) if len(expected) > 1 else 0.0
