"""Response times counted in equal steps of a logarithmic axis, for histograms of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvmark.records import Run, TimeName
from kvmark.stats import Counts

MOST_STEPS: Final = 24
"""The axis is as fine as this allows."""

_PER_DECADE: Final = (8, 4, 2, 1)
_MARKS: Final = {"p50": 0.5, "p99": 0.99, "max": 1.0}
# What is faster than all the rest says little, and would take half of the axis.
_FASTEST: Final = 0.01
# The logarithm of a power of ten may lie a hair below the integer it means.
_HAIR: Final = 1e-9


@dataclass(frozen=True, slots=True)
class KindSteps:
    """Operations of one kind that ended ok, by response time."""

    group: str
    operation: str
    #: One count for each step of the axis.
    counts: tuple[int, ...]
    #: The step in which a quantile or the maximum lies, by name. A quantile with fewer than ten
    #: operations beyond it is left out.
    marks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """An axis of equal factors, and the kinds counted along it. Each has at least one operation."""

    time: TimeName
    #: The first edge of each step in nanoseconds, which belongs to it, and the last one's end. The
    #: first is 0 where operations, a hundredth or so, were faster than a step of this axis.
    edges_ns: tuple[float, ...]
    #: How many steps multiply a time by ten.
    per_decade: int
    kinds: tuple[KindSteps, ...]

    @property
    def factor(self) -> float:
        """By how much a step's end is above its begin."""
        return 10 ** (1 / self.per_decade)


def response_steps(run: Run) -> TimeSteps | None:
    """The response times of a run's counted phases, by kind; none where nothing ended ok.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    times: dict[tuple[str, str], list[Counts]] = {}
    for phase in run.counted:
        for total in run.totals(phase.index):
            if total.outcome == "ok" and not total.part:
                place = (total.group, total.operation)
                times.setdefault(place, []).append(run.times(total, "response"))
    return steps_of("response", {place: Counts.merge(parts) for place, parts in times.items()})


def steps_of(time: TimeName, times: Mapping[tuple[str, str], Counts]) -> TimeSteps | None:
    """The counts of each group and operation along one axis; none where there is no count.

    A range of values counts in the step of its upper end, as quantiles do.
    """
    known = {place: counts for place, counts in times.items() if counts.n}
    if not known:
        return None
    all_times = list(known.values())
    per_decade = next(
        (fine for fine in _PER_DECADE if _length(all_times, fine) <= MOST_STEPS),
        _PER_DECADE[-1],
    )
    first, length = _first(all_times, per_decade), _length(all_times, per_decade)
    fastest = min(int(_places(counts.high[:1], per_decade)[0]) for counts in all_times)
    return TimeSteps(
        time=time,
        edges_ns=(
            10 ** (first / per_decade) if fastest >= first else 0.0,
            *(10 ** ((first + step) / per_decade) for step in range(1, length + 1)),
        ),
        per_decade=per_decade,
        kinds=tuple(
            _kind(*place, counts, per_decade, first, length) for place, counts in known.items()
        ),
    )


def _kind(
    group: str, operation: str, counts: Counts, per_decade: int, first: int, length: int
) -> KindSteps:
    found = np.zeros(length, dtype=np.int64)
    np.add.at(found, np.maximum(_places(counts.high, per_decade) - first, 0), counts.count)
    marks = {
        name: max(int(_places(np.array([value_ns]), per_decade)[0]) - first, 0)
        for name, q in _MARKS.items()
        if counts.shows(q) and (value_ns := counts.quantile(q)) is not None
    }
    return KindSteps(group, operation, tuple(found.tolist()), marks)


def _places(values_ns: NDArray[np.int64], per_decade: int) -> NDArray[np.int64]:
    """The step of each value, counted from 1 ns; less than that stands there too."""
    logs = np.log10(np.maximum(values_ns, 1)) * per_decade
    return np.floor(logs + _HAIR).astype(np.int64)


def _first(times: Sequence[Counts], per_decade: int) -> int:
    """The step in which the fastest hundredth of a kind ends."""
    fastest = np.array([counts.quantile(_FASTEST) for counts in times])
    return int(_places(fastest, per_decade).min())


def _length(times: Sequence[Counts], per_decade: int) -> int:
    last = max(int(_places(counts.high, per_decade).max()) for counts in times)
    return last - _first(times, per_decade) + 1
