"""How clients send: the load model, their pace, and what closed loops leave out.

Everything is computed from two instants of each request, whatever the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvmark.records.audit import LoadModel, OmissionRecord, PaceRecord

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]
Lateness = tuple[float | None, Reals | None]
"""An interval, and how late each request is; none without a pace."""

_TOGETHER_NS: Final = 20_000
"""Requests within this time, without an answer between them, are one pipeline."""
_OVERLAPS: Final = 0.005
_AT_DEPTH: Final = 0.4
_BUSY: Final = 0.95
_IDLE: Final = 0.5
_NEVER_IDLE: Final = 0.8
"""Share of a core from which a thread, and not a schedule, makes clients wait."""
_STEADY: Final = 0.5
"""Quartile range of intervals, as a share of their median, up to which they are a pace."""
_CATCHES_UP: Final = 1.02
"""The mean interval over the median, up to which a client catches up with its pace."""
_EVEN: Final = 0.1
_MANY: Final = 64
_ANCHORED: Final = 0.2
"""Spread of many intervals together, as a multiple of that of as many independent ones."""
_SLOWER: Final = 1.001
"""A pace is taken to be slower by this, so that the error of its estimate doesn't add up."""
_UNSENT: Final = 12
"""Requests that an open load would send by chance at the most outstanding."""
_PARTS: Final = 10
_CERTAIN: Final = 4.0
"""Standard errors."""
_NEAR: Final = 1.5
"""Clients, as a multiple of the most outstanding requests, up to which their number is a bound."""
_LATE_NS: Final = 1_000_000
_PAUSE_NS: Final = 100_000_000
_STALL_NS: Final = 50_000_000
_STALL_INTERVALS: Final = 10


@dataclass(frozen=True)
class Exchanges:
    """Requests by connection and then by time, with their answers in the same order.

    Connections are numbered from 0.
    """

    client: Numbers
    sent_ns: Numbers
    answered_ns: Numbers
    end_ns: int

    @classmethod
    def of(cls, client: Numbers, sent_ns: Numbers, answered_ns: Numbers) -> Exchanges:
        """Requests in any order; without an answer (-1) they are outstanding until the end."""
        end_ns = int(max(sent_ns.max(), answered_ns.max()))
        order = np.lexsort((sent_ns, client))
        _, number = np.unique(client[order], return_inverse=True)
        sent, answered = sent_ns[order], answered_ns[order]
        answered = np.where(answered < 0, end_ns, answered)
        shift = number * (end_ns + 1)
        return cls(number, sent, np.maximum.accumulate(answered + shift) - shift, end_ns)

    @cached_property
    def before(self) -> Numbers:
        """The number of answers before each request, those of earlier connections included."""
        shift = self.client * (self.end_ns + 1)
        found = np.searchsorted(self.answered_ns + shift, self.sent_ns + shift, side="right")
        return np.minimum(found, np.arange(len(found)))

    @cached_property
    def waiting(self) -> Numbers:
        """Outstanding requests of the connection before each request."""
        return np.arange(len(self.sent_ns)) - self.before

    @cached_property
    def pipelines(self) -> Pipelines:
        """The requests in groups that were sent together."""
        apart = np.diff(self.sent_ns) > _TOGETHER_NS
        new = np.r_[True, apart | (np.diff(self.before) > 0) | (np.diff(self.client) > 0)]
        first = np.flatnonzero(new)
        last = np.r_[first[1:] - 1, len(new) - 1]
        return Pipelines(
            client=self.client[first],
            sent_ns=self.sent_ns[first],
            answered_ns=self.answered_ns[last],
            waiting=self.waiting[first],
            depth=self.waiting[last] + 1,
        )


@dataclass(frozen=True)
class Pipelines:
    """Requests sent together: as one, from the first one's sending to the last one's answer."""

    client: Numbers
    sent_ns: Numbers
    answered_ns: Numbers
    waiting: Numbers
    """Outstanding requests before the first, and after the last is sent."""
    depth: Numbers

    @cached_property
    def follows(self) -> Mask:
        """Whether the next one is of the same connection, for all but the last."""
        same: Mask = self.client[1:] == self.client[:-1]
        return same

    @property
    def overlap(self) -> bool:
        """Whether requests are sent while others wait, to no constant depth."""
        deepest = np.zeros(int(self.client.max()) + 1, np.int64)
        np.maximum.at(deepest, self.client, self.depth)
        at_depth = float(np.mean(self.depth == deepest[self.client]))
        return float(np.mean(self.waiting > 0)) > _OVERLAPS and at_depth < _AT_DEPTH


def sharing_clients(sent_ns: Numbers, answered_ns: Numbers) -> tuple[Numbers, bool]:
    """The clients that share a pool of connections, by request, and whether their number is bound.

    A request is of the client that has had its answer for longest, or of a further one if none has.
    Requests are in the order of their sending, without an answer outstanding until the end.
    """
    places = np.arange(len(sent_ns))
    order = np.argsort(answered_ns, kind="stable")
    before = np.searchsorted(answered_ns[order], sent_ns, side="right")
    deepest = np.maximum.accumulate(places - np.minimum(before, places) + 1)
    further = np.diff(deepest, prepend=0) > 0
    # The answer that each request follows, until it is the first request of a client.
    follows = np.where(further, places, order[np.maximum(np.cumsum(~further) - 1, 0)])
    for _ in range(len(places).bit_length()):
        follows = follows[follows]
    _, clients = np.unique(follows, return_inverse=True)
    return clients, _is_bound(sent_ns, answered_ns)


def _is_bound(sent_ns: Numbers, answered_ns: Numbers) -> bool:
    """Whether none is sent at the most outstanding, or fewer the more are, down to none nearby.

    An open load would send some in the time at the most. Its arrivals see as many outstanding as
    there are on average over time (Wolff, "Poisson Arrivals See Time Averages", 1982). Of N clients
    only those without a request send the next one, so that arrivals see fewer, by the variance over
    the number of the others.
    """
    instants = np.concatenate([answered_ns, sent_ns])
    order = np.argsort(instants, kind="stable")
    sends = order >= len(answered_ns)
    level = np.cumsum(np.where(sends, 1, -1))
    lasts_ns = np.maximum(1, np.diff(instants[order]))
    at_most = level[:-1] == level.max()
    unsent = len(sent_ns) * lasts_ns[at_most].sum() / lasts_ns.sum()
    if min(unsent, np.count_nonzero(at_most)) >= _UNSENT:
        return True
    fewer, means, variances = [], [], []
    for part in np.array_split(np.arange(np.flatnonzero(sends)[-1]), _PARTS):
        if not sends[part].any():
            continue
        mean = np.average(level[part], weights=lasts_ns[part])
        variances.append(np.average((level[part] - mean) ** 2, weights=lasts_ns[part]))
        means.append(mean)
        fewer.append(mean - np.mean(level[part][sends[part]] - 1))
    if len(fewer) < _PARTS or np.mean(fewer) <= _CERTAIN * np.std(fewer) / _PARTS**0.5:
        return False
    clients = np.mean(means) + np.mean(variances) / np.mean(fewer)
    return bool(clients <= _NEAR * level.max())


def load_model(pipelines: Pipelines, busiest: float | None) -> tuple[LoadModel, float | None]:
    """The model, and the share of the time in which connections have an outstanding request.

    A pace makes the pause before a request shorter by as much as the answer took longer. An event
    loop does so, too, but its rounds differ, and many together have the sum of their variances.
    Where answers hardly differ, connections with a schedule that mostly pause are paced, unless the
    busiest thread (its share of a core) is what they wait for.
    """
    if pipelines.overlap:
        return "open", None
    alone = pipelines.follows & (pipelines.waiting[:-1] == 0) & (pipelines.waiting[1:] == 0)
    client = pipelines.client[:-1][alone]
    interval = np.diff(pipelines.sent_ns)[alone]
    service = (pipelines.answered_ns - pipelines.sent_ns)[:-1][alone]
    if not interval.sum():
        return "closed", None
    busy = float(service.sum() / interval.sum())
    if busy >= _BUSY:
        return "closed", busy
    usual = service <= np.median(interval)
    slope, error = _slope(client[usual], service[usual], (interval - service)[usual])
    is_paced = slope < -_IDLE
    if 3 * error >= _IDLE:
        is_paced = busy < _IDLE and (busiest or 0.0) < _NEVER_IDLE
    scheduled = is_paced and _is_scheduled(pipelines.client, pipelines.sent_ns)
    return ("paced" if scheduled else "closed"), busy


def _is_scheduled(group: Numbers, sent_ns: Numbers, lag: int = _MANY) -> bool:
    """Whether intervals hardly differ, or those of many requests not much more than single ones."""
    if _unsteadiness(group, sent_ns) <= _EVEN:
        return True
    single, many = (_spread(group, sent_ns, one) for one in (1, lag))
    return many is not None and single is not None and many < _ANCHORED * single * lag**0.5


def _spread(group: Numbers, sent_ns: Numbers, lag: int) -> float | None:
    """The quartile range of the time between requests of a group that are so far apart."""
    between = (sent_ns[lag:] - sent_ns[:-lag])[group[lag:] == group[:-lag]]
    if len(between) < 3:
        return None
    low, high = np.quantile(between, (0.25, 0.75))
    return float(high - low)


def _slope(group: Numbers, x: Numbers, y: Numbers) -> tuple[float, float]:
    """The least squares slope within groups, and its standard error."""
    count = np.maximum(np.bincount(group), 1)
    dx = x - (np.bincount(group, x) / count)[group]
    dy = y - (np.bincount(group, y) / count)[group]
    square = float(dx @ dx)
    if len(x) < 3 or not square:
        return 0.0, np.inf
    slope = float(dx @ dy) / square
    rest = dy - slope * dx
    return slope, float((rest @ rest) / (len(x) - 2) / square) ** 0.5


def _mean_interval(sent_ns: Numbers) -> float:
    """The median of the means over half of the requests: a begin behind schedule doesn't count."""
    half = len(sent_ns) // 2
    return float(np.median(sent_ns[half:] - sent_ns[:-half])) / half


def usual_intervals(group: Numbers, sent_ns: Numbers) -> Reals:
    """The mean interval of each group, or its median if that is far below; 0 if unknown.

    The mean is exact for a client that catches up, also if each interval scatters; it is too large
    for a client that doesn't.
    """
    same = np.diff(group) == 0
    of, interval = group[1:][same], np.diff(sent_ns)[same].astype(np.float64)
    groups = int(group.max()) + 1
    median = np.zeros(groups)
    order = np.lexsort((interval, of))
    starts = np.searchsorted(of[order], np.arange(groups + 1))
    known = starts[1:] > starts[:-1]
    median[known] = interval[order][((starts[1:] + starts[:-1]) // 2)[known]]
    mean = np.zeros(groups)
    first = np.searchsorted(group, np.arange(groups + 1))
    for place in np.flatnonzero(known):
        mean[place] = _mean_interval(sent_ns[first[place] : first[place + 1]])
    return np.where(mean <= median * _CATCHES_UP, mean, median)


def pace(
    exchanges: Exchanges, model: LoadModel, busy: float | None, lateness: Lateness | None = None
) -> PaceRecord:
    """The pace, how far requests are behind it for no reason, and pauses without any request."""
    pauses = _pauses(exchanges)
    interval, late = lateness or (None, None)
    if model != "closed" and lateness is None:
        interval, late = _lateness(exchanges, model)
    limit = max(_LATE_NS, interval or 0.0)
    return PaceRecord(
        model=model,
        busy_share=busy,
        interval_ns=interval,
        late_share=None if late is None else float(np.mean(late > limit)),
        late_ns_p99=None if late is None else float(np.quantile(late, 0.99)),
        pauses=len(pauses),
        paused_share=float(pauses.sum()) / max(1, exchanges.end_ns),
        longest_pause_ns=int(pauses.max(initial=0)),
    )


def pool_pace(
    exchanges: Exchanges, model: LoadModel, busy: float | None, *, is_bound: bool
) -> PaceRecord:
    """The pace of all clients together that share connections, whose own model is given.

    A request isn't late if even the client that was idle for longest had its answer just before.
    """
    order = np.argsort(exchanges.sent_ns, kind="stable")
    sent, together = exchanges.sent_ns[order], np.zeros_like(order)
    lag = min(_MANY * (int(exchanges.client.max()) + 1), len(sent) // 4 + 1)
    idles = busy is not None and busy < _BUSY
    if model == "paced" or (idles and _is_scheduled(together, sent, lag)):
        model = "paced"
    elif is_bound:
        return pace(exchanges, model, busy)
    else:
        model = "open"
    if model == "open" and _unsteadiness(together, sent) > _STEADY:
        return pace(exchanges, model, busy, (None, None))
    interval = _mean_interval(sent)
    late = _behind(together, np.diff(sent) - interval * _SLOWER)
    follows = np.diff(exchanges.client, prepend=-1) == 0
    answered = np.roll(exchanges.answered_ns, 1)
    is_free = ~follows | (exchanges.sent_ns - answered > _LATE_NS)
    return pace(exchanges, model, busy, (interval, np.where(is_free[order], late, 0.0)))


def _lateness(exchanges: Exchanges, model: LoadModel) -> Lateness:
    """The interval, and how late each request is but for slow answers; none without a pace.

    A request is due an interval after the one before it was due, or was sent if that was earlier.
    The pace is that of each connection, or of all together, whichever is steadier.
    """
    sent = exchanges.pipelines if model == "paced" else exchanges
    order = np.argsort(sent.sent_ns, kind="stable")
    alone = (sent.client, sent.sent_ns)
    together = (np.zeros_like(sent.client), sent.sent_ns[order])
    chosen = min((alone, together), key=lambda one: _unsteadiness(*one))
    if _unsteadiness(*chosen) > _STEADY:
        return None, None
    intervals = usual_intervals(*chosen) * _SLOWER
    interval = float(np.median(intervals[intervals > 0]))
    group = chosen[0]
    late = _behind(group, np.diff(chosen[1]) - intervals[group[1:]])
    if chosen is alone and model == "paced":
        # What would be late even if it were sent as soon as it is due and its connection free.
        service = (sent.answered_ns - sent.sent_ns)[:-1]
        late = late - _behind(group, service - intervals[group[1:]])
    return interval / _SLOWER, late


def _unsteadiness(group: Numbers, sent_ns: Numbers) -> float:
    """The quartile range of the intervals as a share of their median."""
    spread = _spread(group, sent_ns, 1)
    median = float(np.median(np.diff(sent_ns)[np.diff(group) == 0])) if spread is not None else 0.0
    return np.inf if spread is None or not median else spread / median


def _behind(group: Numbers, steps: Reals) -> Reals:
    """Sums of steps from each group's begin on, none below 0 (Lindley's recursion)."""
    first = np.r_[True, np.diff(group) != 0]
    total = np.cumsum(np.r_[0.0, steps])
    # Each group begins far below the one before, so that its minimum is its own.
    begins = total[first]
    total -= begins[np.cumsum(first) - 1]
    total -= group * (abs(total).max() * 2 + 1)
    return total - np.minimum.accumulate(total)


def _pauses(exchanges: Exchanges) -> Numbers:
    """Lengths of pauses in which no connection has an outstanding request."""
    sent, answered = np.sort(exchanges.sent_ns), np.sort(exchanges.answered_ns)
    if len(sent) < 2:
        return np.empty(0, np.int64)
    limit = max(_PAUSE_NS, 3 * float(np.quantile(np.diff(sent), 0.99)))
    done = np.searchsorted(answered, sent[1:], side="right") >= np.arange(1, len(sent))
    pauses = (sent[1:] - answered[:-1])[done]
    return pauses[pauses > limit]


def omission(exchanges: Exchanges, answered: Mask) -> OmissionRecord | None:
    """What a closed or paced load left out, by HdrHistogram's correction.

    A connection would have sent a request every usual interval also during a slow answer, and these
    would have waited for its rest. `answered` are the requests with an answer.
    """
    sent = exchanges.pipelines
    depth = np.zeros(int(sent.client.max()) + 1)
    np.maximum.at(depth, sent.client, sent.waiting + 1)
    intervals = (usual_intervals(sent.client, sent.sent_ns) * depth)[exchanges.client][answered]
    service = (exchanges.answered_ns - exchanges.sent_ns)[answered]
    if not len(service):
        return None
    intervals = np.where(intervals > 0, intervals, np.inf)
    more = np.maximum(np.floor(service / intervals).astype(np.int64) - 1, 0)
    ends = np.cumsum(more)
    place = np.arange(int(ends[-1])) - np.repeat(ends - more, more) + 1
    left_out = np.repeat(service, more) - place * np.repeat(intervals, more)
    corrected = np.concatenate([service, left_out.astype(np.int64)])
    stalls = more[(service >= _STALL_NS) & (service >= _STALL_INTERVALS * intervals)].sum()
    quantiles = [np.quantile(each, (0.5, 0.99)).astype(np.int64) for each in (service, corrected)]
    (p50, p99), (corrected_p50, corrected_p99) = (one.tolist() for one in quantiles)
    share = float(stalls / (len(service) + stalls))
    return OmissionRecord(p50, p99, corrected_p50, corrected_p99, share, int(service.max()))


def at_once(exchanges: Exchanges) -> int:
    """The most connections between their first request and their last answer at any time."""
    first = np.flatnonzero(np.r_[True, np.diff(exchanges.client) > 0])
    last = np.r_[first[1:] - 1, len(exchanges.client) - 1]
    begins, ends = np.sort(exchanges.sent_ns[first]), np.sort(exchanges.answered_ns[last])
    begun = np.searchsorted(begins, begins, side="right")
    return int((begun - np.searchsorted(ends, begins)).max())


def unused_share(counts: Numbers, expected: int) -> float:
    """The share of connections with less than a tenth of an equal share of all requests."""
    if not expected:
        return 0.0
    enough = int(np.sum(counts >= counts.sum() / expected / 10))
    return max(0, expected - enough) / expected
