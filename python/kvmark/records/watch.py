"""The newest figures of a run that goes, from what is appended to its logs.

Nothing of weight is imported and little is read, because a process that measures does both: a look
takes what is new since the last one, and of that at most its last quarter of a mebibyte.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kvmark.records import files
from kvmark.records.files import Tail

MOST_BYTES: Final = 1 << 18
"""What a look reads at most, some 300 rows: a few milliseconds, however short the intervals are."""

SHOWN_NS: Final = 60 * 10**9
"""How far back moments are kept."""

_TOTAL: Final = "TOTAL"
_NO_FAILURE: Final = ("any", "ok", "miss")
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Moment:
    """An interval, all groups together. Instants count from the run's origin."""

    start_ns: int
    end_ns: int
    #: Operations that ended ok, and those that failed.
    succeeded: int
    failed: int
    #: The highest of its groups' p99, of all that ended; none where nothing did.
    response_ns_p99: int | None


@dataclass(frozen=True, slots=True)
class Minute:
    """The last minute in cells of one length, oldest first; none where no interval lies."""

    cell_ns: int
    #: Operations that ended ok, and those that failed.
    succeeded_per_s: tuple[float | None, ...]
    failed_per_s: tuple[float | None, ...]
    #: The highest p99 of a cell's intervals.
    response_ns_p99: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """The operations of a kind and group that ended ok in the newest interval."""

    group: str
    operation: str
    succeeded_per_s: float
    response_ns_p50: int | None
    response_ns_p99: int | None


@dataclass(frozen=True, slots=True)
class SeenFault:
    """Something broken on purpose: an event of the log."""

    text: str
    #: ``begun``, ``ended``, ``failed`` or ``not_reached``.
    state: str
    #: Since the measurement began.
    at_ns: int
    problem: str


@dataclass(frozen=True, slots=True)
class SeenRun:
    """What is known of a run that goes."""

    #: Those of the last minute, oldest first.
    moments: tuple[Moment, ...] = ()
    kinds: tuple[Kind, ...] = ()
    #: Failed operations of the phase by error class, those that were passed over left out.
    errors: Mapping[str, int] = field(default_factory=dict)
    #: Each event, oldest first.
    faults: tuple[SeenFault, ...] = ()

    @property
    def succeeded_per_s(self) -> float | None:
        """The rate over the last second, or an interval that is longer; none before the first."""
        if not self.moments:
            return None
        end_ns = self.moments[-1].end_ns
        # An interval that began a hair more than a second ago isn't of the last second.
        recent = [one for one in self.moments if one.end_ns > end_ns - 0.9 * _NS_PER_S]
        return _per_s(recent, sum(one.succeeded for one in recent))

    @property
    def response_ns_p99(self) -> int | None:
        """The p99 of the newest interval, of several groups the highest."""
        return self.moments[-1].response_ns_p99 if self.moments else None

    def minute(self, most: int) -> Minute:
        """The last minute in at most so many cells, each a whole number of seconds or intervals."""
        if not self.moments:
            return Minute(0, (), (), ())
        unit_ns = max(10**9, *(one.end_ns - one.start_ns for one in self.moments))
        cell_ns = unit_ns * math.ceil(SHOWN_NS / unit_ns / max(most, 1))
        # Cells stand still while time goes on, so that nothing in them is counted anew.
        cells: dict[int, list[Moment]] = {}
        for one in self.moments:
            cells.setdefault((one.start_ns + one.end_ns) // 2 // cell_ns, []).append(one)
        last = max(cells)
        places = range(max(min(cells), last - max(most, 1) + 1), last + 1)
        shown = [cells.get(place, []) for place in places]
        return Minute(
            cell_ns,
            tuple(_per_s(cell, sum(one.succeeded for one in cell)) for cell in shown),
            tuple(_per_s(cell, sum(one.failed for one in cell)) for cell in shown),
            tuple(map(_highest_p99, shown)),
        )


class Watch:
    """Follows one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._intervals = Tail(folder / files.INTERVAL_LOG)
        self._events = Tail(folder / files.EVENTS)
        self._moments: deque[Moment] = deque()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._phase = -1
        self._newest_ns = -1
        self._errors: Counter[str] = Counter()
        self._faults: list[SeenFault] = []
        self._measured_from_ns = 0

    def look(self) -> SeenRun:
        """Reads what was appended since the last look."""
        for event in self._events.new(MOST_BYTES):
            self._take_event(event)
        for row in self._intervals.new(MOST_BYTES):
            if not row["part"]:
                self._take(row)
        return SeenRun(
            moments=tuple(self._moments),
            kinds=tuple(self._kinds.values()),
            errors=dict(self._errors),
            faults=tuple(self._faults),
        )

    def _take_event(self, event: Mapping[str, Any]) -> None:
        if event.get("kind") == "phase_started" and event.get("name") == "measure":
            self._measured_from_ns = int(event["at_ns"])
        if event.get("kind") == "fault":
            at_ns = int(event["at_ns"]) - self._measured_from_ns
            problem = str(event.get("problem", ""))
            self._faults.append(SeenFault(str(event["fault"]), str(event["state"]), at_ns, problem))

    def _take(self, row: Mapping[str, Any]) -> None:
        if row["phase"] != self._phase:
            self._phase, self._errors, self._kinds = row["phase"], Counter(), {}
        failed = 0 if row["outcome"] in _NO_FAILURE else row["count"]
        if failed:
            self._errors[str(row["outcome"])] += failed
        if row["drain"] or row["end_ns"] <= row["start_ns"]:
            return
        if row["start_ns"] != self._newest_ns:
            self._newest_ns = row["start_ns"]
            # Whoever completes nothing in it has no row.
            self._kinds = {key: Kind(*key, 0.0, None, None) for key in self._kinds}
        is_ok = row["outcome"] == "ok"
        if row["operation"] != _TOTAL:
            self._take_kind(row, is_ok=is_ok)
        self._take_moment(
            Moment(
                row["start_ns"],
                row["end_ns"],
                row["count"] if is_ok else 0,
                failed,
                row["response_ns_p99"] if row["operation"] == _TOTAL else None,
            )
        )

    def _take_moment(self, part: Moment) -> None:
        """What a row says of an interval."""
        if self._moments and self._moments[-1].start_ns == part.start_ns:
            part = _together(self._moments.pop(), part)
        self._moments.append(part)
        while self._moments[0].end_ns <= part.end_ns - SHOWN_NS:
            self._moments.popleft()

    def _take_kind(self, row: Mapping[str, Any], *, is_ok: bool) -> None:
        key = (str(row["group"]), str(row["operation"]))
        if is_ok:
            rate = row["count"] * _NS_PER_S / (row["end_ns"] - row["start_ns"])
            times = (row["response_ns_p50"], row["response_ns_p99"])
            self._kinds[key] = Kind(*key, rate, *times)
        else:
            self._kinds.setdefault(key, Kind(*key, 0.0, None, None))


def _together(one: Moment, other: Moment) -> Moment:
    """Two parts of an interval. A quantile of both lies at most at the higher one."""
    return Moment(
        one.start_ns,
        one.end_ns,
        one.succeeded + other.succeeded,
        one.failed + other.failed,
        _highest_p99((one, other)),
    )


def _highest_p99(moments: Sequence[Moment]) -> int | None:
    known = (one.response_ns_p99 for one in moments)
    return max((p99_ns for p99_ns in known if p99_ns is not None), default=None)


def _per_s(moments: Sequence[Moment], count: int) -> float | None:
    length_ns = sum(one.end_ns - one.start_ns for one in moments)
    return count * _NS_PER_S / length_ns if length_ns else None
