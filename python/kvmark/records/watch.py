"""The newest figures of a running run, from the rows appended to its logs.

The process that measures also watches, so no slow import is needed and little is read: each poll
reads the new lines, at most the last quarter of a mebibyte.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kvmark.records import files
from kvmark.records.files import Tail

MOST_BYTES: Final = 1 << 18
"""The most bytes of a poll, some 300 rows: a few milliseconds, however short the intervals are."""

SHOWN_NS: Final = 60 * 10**9
"""The age at which moments are dropped."""

_TOTAL: Final = "TOTAL"
_NO_FAILURE: Final = ("any", "ok", "miss")
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Moment:
    """An interval of all groups. Instants count from the run's origin."""

    start_ns: int
    end_ns: int
    #: Successful and failed operations.
    succeeded: int
    failed: int
    #: The highest p99 of the groups, over all outcomes; none without a completed operation.
    response_ns_p99: int | None


@dataclass(frozen=True, slots=True)
class Cells:
    """Intervals in cells of equal length, oldest first; none in cells without an interval."""

    #: Successful and failed operations.
    succeeded_per_s: tuple[float | None, ...]
    failed_per_s: tuple[float | None, ...]
    #: The highest p99 of a cell's intervals and groups, over all their operations.
    response_ns_p99: tuple[int | None, ...]

    @classmethod
    def of(cls, moments: Iterable[Moment], cell_ns: int, places: range) -> Cells:
        """These cells, counted from instant 0; an interval belongs to the cell of its middle."""
        cells: dict[int, list[Moment]] = {}
        for one in moments:
            cells.setdefault((one.start_ns + one.end_ns) // 2 // cell_ns, []).append(one)
        shown = [cells.get(place, []) for place in places]
        return cls(
            tuple(_per_s(cell, sum(one.succeeded for one in cell)) for cell in shown),
            tuple(_per_s(cell, sum(one.failed for one in cell)) for cell in shown),
            tuple(_highest_p99(*(one.response_ns_p99 for one in cell)) for cell in shown),
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """The successful operations of a kind and group in the newest interval."""

    group: str
    operation: str
    succeeded_per_s: float = 0.0
    response_ns_p50: int | None = None
    response_ns_p99: int | None = None


@dataclass(frozen=True, slots=True)
class SeenFault:
    """An event of fault injection."""

    text: str
    #: ``begun``, ``ended``, ``failed`` or ``not_reached``.
    state: str
    #: Since the begin of the measurement.
    at_ns: int
    problem: str


@dataclass(frozen=True, slots=True)
class SeenServer:
    """The CPU time that a server, or its machine, used between its newest two samples."""

    name: str
    busy_cores: float
    #: Cores that it can use; none if unknown.
    cores: int | None

    def __str__(self) -> str:
        of = "" if self.cores is None else f" of {self.cores}"
        return f"{self.name} {self.busy_cores:.2f}{of} cores"


@dataclass(frozen=True, slots=True)
class SeenRun:
    """The state of a running run."""

    #: Those of the last minute, oldest first.
    moments: tuple[Moment, ...] = ()
    kinds: tuple[Kind, ...] = ()
    #: Failed operations of the phase by outcome.
    errors: Mapping[str, int] = field(default_factory=dict)
    #: Oldest first.
    faults: tuple[SeenFault, ...] = ()
    #: Those of testbeds, and observed ones.
    servers: tuple[SeenServer, ...] = ()

    @property
    def succeeded_per_s(self) -> float | None:
        """The throughput of the last second, or of the newest interval if that is longer."""
        if not self.moments:
            return None
        end_ns = self.moments[-1].end_ns
        # Intervals that ended nearly a second ago are outside the last second.
        recent = [one for one in self.moments if one.end_ns > end_ns - 0.9 * _NS_PER_S]
        return _per_s(recent, sum(one.succeeded for one in recent))

    @property
    def response_ns_p99(self) -> int | None:
        """The p99 of the newest interval, the highest of all groups."""
        return self.moments[-1].response_ns_p99 if self.moments else None

    def minute(self, most: int) -> Cells:
        """The last minute in at most ``most`` cells, each of whole seconds or intervals."""
        if not self.moments:
            return Cells((), (), ())
        unit_ns = max(10**9, *(one.end_ns - one.start_ns for one in self.moments))
        cell_ns = unit_ns * math.ceil(SHOWN_NS / unit_ns / max(most, 1))
        # Cells have fixed bounds, so that their values don't change while time passes.
        middles_ns = [(one.start_ns + one.end_ns) // 2 for one in self.moments]
        first, last = min(middles_ns) // cell_ns, max(middles_ns) // cell_ns
        places = range(max(first, last - max(most, 1) + 1), last + 1)
        return Cells.of(self.moments, cell_ns, places)


class ServerWatch:
    """Follows the servers of one run."""

    def __init__(self, folder: Path) -> None:
        self._resources = Tail(folder / files.RESOURCE_LOG)
        self._samples: dict[str, tuple[int, float]] = {}
        self._servers: dict[str, SeenServer] = {}

    def look(self) -> tuple[SeenServer, ...]:
        """Reads the lines appended since the last call."""
        for row in self._resources.objects(MOST_BYTES):
            if not files.is_ours(str(row["node"])):
                self._add_sample(row)
        return tuple(self._servers.values())

    def _add_sample(self, row: Mapping[str, Any]) -> None:
        user_s, system_s, name = row["cpu_user_s"], row["cpu_system_s"], str(row["node"])
        if user_s is None or system_s is None:
            return
        at_ns, used_s = int(row["at_wall_ns"]), user_s + system_s
        before_ns, before_s = self._samples.get(name, (at_ns, used_s))
        self._samples[name] = at_ns, used_s
        # A smaller counter is that of a restarted server.
        if at_ns > before_ns and used_s >= before_s:
            busy = (used_s - before_s) * _NS_PER_S / (at_ns - before_ns)
            self._servers[name] = SeenServer(name, busy, row.get("cores"))


class Watch:
    """Follows one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._intervals = Tail(folder / files.INTERVAL_LOG)
        self._events = Tail(folder / files.EVENTS)
        self._servers = ServerWatch(folder)
        self._moments: deque[Moment] = deque()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._phase = -1
        self._newest_ns = -1
        self._errors: Counter[str] = Counter()
        self._faults: list[SeenFault] = []
        self._measured_from_ns = 0

    def look(self) -> SeenRun:
        """Reads the lines appended since the last call."""
        for event in self._events.objects(MOST_BYTES):
            self._add_event(event)
        for row in self._intervals.objects(MOST_BYTES):
            if not row["part"]:
                self._add_row(row)
        return SeenRun(
            moments=tuple(self._moments),
            kinds=tuple(self._kinds.values()),
            errors=dict(self._errors),
            faults=tuple(self._faults),
            servers=self._servers.look(),
        )

    def _add_event(self, event: Mapping[str, Any]) -> None:
        if event.get("kind") == "phase_started" and event.get("name") == "measure":
            self._measured_from_ns = int(event["at_ns"])
        if event.get("kind") == "fault":
            at_ns = int(event["at_ns"]) - self._measured_from_ns
            problem = str(event.get("problem", ""))
            self._faults.append(SeenFault(str(event["fault"]), str(event["state"]), at_ns, problem))

    def _add_row(self, row: Mapping[str, Any]) -> None:
        if row["phase"] != self._phase:
            self._phase, self._errors, self._kinds = row["phase"], Counter(), {}
        failed = 0 if row["outcome"] in _NO_FAILURE else row["count"]
        if failed:
            self._errors[str(row["outcome"])] += failed
        if row["drain"] or row["end_ns"] <= row["start_ns"]:
            return
        if row["start_ns"] != self._newest_ns:
            self._newest_ns = row["start_ns"]
            # A kind without a completed operation in the interval has no row.
            self._kinds = {key: Kind(*key) for key in self._kinds}
        is_ok, is_total = row["outcome"] == "ok", row["operation"] == _TOTAL
        if not is_total:
            self._add_kind(row, is_ok=is_ok)
        succeeded = row["count"] if is_ok else 0
        p99_ns = row["response_ns_p99"] if is_total else None
        self._add_moment(Moment(row["start_ns"], row["end_ns"], succeeded, failed, p99_ns))

    def _add_moment(self, part: Moment) -> None:
        """Adds a row's part of an interval."""
        if self._moments and self._moments[-1].start_ns == part.start_ns:
            before = self._moments.pop()
            part = replace(
                before,
                succeeded=before.succeeded + part.succeeded,
                failed=before.failed + part.failed,
                # The quantile of both parts is at most the higher one.
                response_ns_p99=_highest_p99(before.response_ns_p99, part.response_ns_p99),
            )
        self._moments.append(part)
        while self._moments[0].end_ns <= part.end_ns - SHOWN_NS:
            self._moments.popleft()

    def _add_kind(self, row: Mapping[str, Any], *, is_ok: bool) -> None:
        key = (str(row["group"]), str(row["operation"]))
        if is_ok:
            rate = row["count"] * _NS_PER_S / (row["end_ns"] - row["start_ns"])
            self._kinds[key] = Kind(*key, rate, row["response_ns_p50"], row["response_ns_p99"])
        else:
            self._kinds.setdefault(key, Kind(*key))


def _highest_p99(*values_ns: int | None) -> int | None:
    return max((p99_ns for p99_ns in values_ns if p99_ns is not None), default=None)


def _per_s(moments: Sequence[Moment], count: int) -> float | None:
    length_ns = sum(one.end_ns - one.start_ns for one in moments)
    return count * _NS_PER_S / length_ns if length_ns else None
