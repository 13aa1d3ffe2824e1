"""Intervals and totals of several engines add up to those of one, exactly."""

import json
import random
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest

from kvmark.records.histograms import decode, encode, time_record
from kvmark.run.merging import Intervals, merge_lags, merge_totals, slices
from kvmark.stats import Counts
from runs_on_disk import total_record

SECOND_NS = 10**9
TIMES = ("service", "response", "wait")
NAMES = ("min", "mean", "p50", "p90", "p95", "p99", "p999", "max")


def drawn(seed: int, number: int) -> list[int]:
    """Durations in nanoseconds with a long tail."""
    generator = random.Random(seed)
    return [int(1000 * generator.paretovariate(1.2)) for _ in range(number)]


def recorded(values: Sequence[int]) -> dict[str, Any]:
    mean = sum(values) / len(values)
    return time_record(decode(encode(Counts.of(values))), min(values), max(values), mean)


def columns(values: Sequence[int]) -> dict[str, Any]:
    record = recorded(values) if values else dict.fromkeys(NAMES)
    return {f"{time}_ns_{name}": record[name] for time in TIMES for name in NAMES}


def same(merged: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether counts are equal, and quantiles nearly so."""
    kept, whole = (decode(one["histogram"]) for one in (merged, expected))
    assert np.array_equal(kept.low, whole.low)
    assert np.array_equal(kept.count, whole.count)
    names = expected.keys() - {"histogram"}
    return {name: merged[name] for name in names} == pytest.approx(
        {name: expected[name] for name in names}, rel=1e-9
    )


def interval(number: int, ok: Sequence[int], failed: Sequence[int], **account: Any) -> Any:
    """The two logs' lines of one interval of an engine, in its own time from 0."""
    start_ns = number * SECOND_NS
    common = {
        "phase": 0, "phase_name": "measure", "drain": False,
        "start_ns": start_ns, "end_ns": start_ns + SECOND_NS, "group": "clients",
    }  # fmt: skip
    nothing = dict.fromkeys(("due", "issued", "late", "backlog", "in_flight", "frontier"))
    account = {**nothing, "issued": 0, "late": 0, "in_flight": 0, "frontier": 0, **account}
    sorts = [("TOTAL", "any", [*ok, *failed], account)]
    sorts += [("READ", "ok", list(ok), nothing), ("READ", "timeout", list(failed), nothing)]
    rows, lines = [], []
    for operation, outcome, values, own in sorts:
        if operation != "TOTAL" and not values:
            continue
        names = {"operation": operation, "part": False, "outcome": outcome}
        counts = {"count": len(values), "rows": len(values)}
        rows.append(json.dumps({**common, **names, **counts, **columns(values), **own}) + "\n")
        if operation != "TOTAL":
            tag = "READ" if outcome == "ok" else "READ.timeout"
            lines += [logged(f"{tag}-{end}", values, number) for end in ("st", "rt", "wt")]
    return "".join(rows).encode(), "".join(lines).encode()


def logged(tag: str, values: Sequence[int], number: int = 0) -> str:
    """A line of the log of histograms."""
    text = encode(Counts.of(values))
    return f"Tag={tag},{number}.000000000,1.000000000,{max(values) / 1e6:.6f},{text}\n"


def has_line(lines: Sequence[str], expected: str) -> bool:
    """Whether there is this line, or one with an equal histogram."""
    begin, _, text = expected.strip().rpartition(",")
    (found,) = (line.rpartition(",")[2] for line in lines if line.startswith(begin))
    return np.array_equal(decode(found).count, decode(text).count)


def take(intervals: Intervals, share: int, rows: bytes, log: bytes) -> None:
    for one in slices(rows, log):
        intervals.take(share, one)


@pytest.fixture
def intervals() -> Intervals:
    """Three shares, with a phase that began at 5 s of the run."""
    made = Intervals(3, SECOND_NS, several_groups=False, inserts_start={0: 100})
    made.starts_ns[0] = 5 * SECOND_NS
    made.shifts_ns.update({0: 0, 1: 7, 2: -7})
    return made


def test_an_interval_of_three_shares_is_that_of_one_engine(intervals: Intervals) -> None:
    parts = [drawn(seed, 400 + 100 * seed) for seed in range(3)]
    slow = [drawn(9, 3), [], drawn(8, 2)]
    for share in range(3):
        more = {"issued": 10 + share, "late": 1, "late_busy": share, "read_late": 2}
        take(intervals, share, *interval(0, parts[share], slow[share], **more))
    ((merged, lines_of_log),) = intervals.ready()
    ok, failed = list(chain(*parts)), list(chain(*slow))
    rows = {(row["operation"], row["outcome"]): row for row in merged}
    for key, values in {
        ("TOTAL", "any"): [*ok, *failed], ("READ", "ok"): ok, ("READ", "timeout"): failed,
    }.items():  # fmt: skip
        row = rows[key]
        assert row["count"] == row["rows"] == len(values)
        assert (row["start_ns"], row["end_ns"]) == (5 * SECOND_NS, 6 * SECOND_NS)
        expected = columns(values)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    sums = {
        name: rows["TOTAL", "any"][name] for name in ("issued", "late", "late_busy", "read_late")
    }
    assert sums == {"issued": 33, "late": 3, "late_busy": 3, "read_late": 6}
    assert has_line(lines_of_log, logged("READ-rt", ok, 5))


def test_an_interval_waits_for_the_slowest_share(intervals: Intervals) -> None:
    for share in (0, 1):
        for number in range(2):
            take(intervals, share, *interval(number, [1000], []))
    assert list(intervals.ready()) == []
    take(intervals, 2, *interval(0, [1000], []))
    assert [rows[0]["count"] for rows, _ in intervals.ready()] == [3]


def test_a_lost_or_complete_share_is_not_waited_for(intervals: Intervals) -> None:
    take(intervals, 0, *interval(0, [1000], [], issued=4, in_flight=1, frontier=100))
    intervals.end_phase(0, 0)
    for number in range(2):
        take(intervals, 1, *interval(number, [1000], [], issued=5 + number, in_flight=1))
    assert list(intervals.ready()) == []
    intervals.end(2)
    first, second = (rows[0] for rows, _ in intervals.ready())
    assert (first["count"], second["count"]) == (2, 1)
    # Operations of a complete share stay issued, and aren't in flight.
    assert (first["issued"], second["issued"]) == (9, 10)
    assert (first["in_flight"], second["in_flight"]) == (2, 1)


def test_totals_are_added_exactly() -> None:
    parts = [drawn(seed, 300) for seed in range(4)]

    def total(values: Sequence[int], operation: str = "READ") -> dict[str, Any]:
        more = {"in_window": len(values) - 1, **dict.fromkeys(TIMES, recorded(values))}
        return total_record(operation, len(values), **more)

    merged = merge_totals([*map(total, parts), total(parts[0], "UPDATE")])
    assert [one["operation"] for one in merged] == ["READ", "UPDATE"]
    whole = total(list(chain(*parts)))
    assert (merged[0]["count"], merged[0]["in_window"]) == (1200, 1196)
    assert all(same(merged[0][time], whole[time]) for time in TIMES)


def test_the_lag_of_several_generators_is_that_of_all_their_reads() -> None:
    def lag(values: Sequence[int], discarded: int) -> dict[str, Any]:
        return {**recorded(values), "count": len(values), "discarded": discarded}

    parts = [drawn(seed, 200 + seed) for seed in range(3)]
    first, *others = (lag(values, 1) for values in parts)
    merged = merge_lags([first, None, *others])
    assert merged is not None
    assert same(merged, lag(list(chain(*parts)), 3))
    assert merge_lags([None, None]) is None


def test_the_lag_is_in_the_merged_log(intervals: Intervals) -> None:
    lags = [drawn(seed, 50) for seed in range(3)]
    for share, values in enumerate(lags):
        rows, log = interval(0, [1000], [])
        take(intervals, share, rows, log + logged("generator-lag", values).encode())
    ((_, merged),) = intervals.ready()
    assert has_line(merged, logged("generator-lag", list(chain(*lags)), 5))
