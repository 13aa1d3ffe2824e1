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

SECOND_NS = 10**9
TIMES = ("service", "response", "wait")
NAMES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def drawn(seed: int, number: int) -> list[int]:
    """Durations in nanoseconds with a long tail."""
    generator = random.Random(seed)
    return [int(1000 * generator.paretovariate(1.2)) for _ in range(number)]


def as_kept(values: Sequence[int]) -> Counts:
    """The values with the precision of the engine's histograms."""
    return decode(encode(Counts.of(values)))


def recorded(values: Sequence[int]) -> dict[str, Any]:
    mean = sum(values) / len(values)
    return time_record(as_kept(values), min(values), max(values), mean)


def columns(values: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for time in TIMES:
        counts = as_kept(values)
        least, most = (min(values), max(values)) if values else (None, None)
        found |= {f"{time}_ns_min": least, f"{time}_ns_max": most}
        found[f"{time}_ns_mean"] = sum(values) / len(values) if values else None
        for name, q in NAMES.items():
            quantile = counts.quantile(q)
            known = quantile is not None and values
            found[f"{time}_ns_{name}"] = min(max(quantile, least), most) if known else None
    return found


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
        rows.append({**common, **names, **counts, **columns(values), **own})
        if operation != "TOTAL":
            tag = "READ" if outcome == "ok" else "READ.timeout"
            text = encode(Counts.of(values))
            most = max(values) / 1e6
            lines += [
                f"Tag={tag}-{end},{number}.000000000,1.000000000,{most:.6f},{text}"
                for end in ("st", "rt", "wt")
            ]
    return (
        "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "".join(f"{line}\n" for line in lines).encode(),
    )


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
        for name, value in columns(values).items():
            assert row[name] == pytest.approx(value, rel=1e-12), name
    assert (rows["TOTAL", "any"]["issued"], rows["TOTAL", "any"]["late"]) == (33, 3)
    assert (rows["TOTAL", "any"]["late_busy"], rows["TOTAL", "any"]["read_late"]) == (3, 6)
    lines = {line.split(",")[0]: line.split(",") for line in lines_of_log}
    kept = decode(lines["Tag=READ-rt"][4])
    whole = as_kept(ok)
    assert np.array_equal(kept.low, whole.low)
    assert np.array_equal(kept.count, whole.count)
    assert float(lines["Tag=READ-rt"][3]) == pytest.approx(max(ok) / 1e6, abs=1e-6)
    assert lines["Tag=READ-rt"][1:3] == ["5.000000000", "1.000000000"]


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

    def total(values: Sequence[int], **names: Any) -> dict[str, Any]:
        record = recorded(values)
        own = {"phase": 0, "group": "clients", "operation": "READ", "part": False, "outcome": "ok"}
        counts = {"count": len(values), "in_window": len(values) - 1, "rows": len(values)}
        return {**own, **names, **counts, **dict.fromkeys(TIMES, record)}

    merged = merge_totals([*map(total, parts), total(parts[0], operation="UPDATE")])
    assert [one["operation"] for one in merged] == ["READ", "UPDATE"]
    whole = total(list(chain(*parts)))
    assert (merged[0]["count"], merged[0]["in_window"]) == (1200, 1196)
    for time in TIMES:
        got, wanted = merged[0][time], whole[time]
        assert np.array_equal(decode(got["histogram"]).count, decode(wanted["histogram"]).count)
        for name in wanted.keys() - {"histogram"}:
            assert got[name] == pytest.approx(wanted[name], rel=1e-9), name


def test_the_lag_of_several_generators_is_that_of_all_their_reads() -> None:
    def lag(values: Sequence[int], discarded: int) -> dict[str, Any]:
        record = recorded(values)
        return {**record, "count": len(values), "discarded": discarded}

    parts = [drawn(seed, 200 + seed) for seed in range(3)]
    lags = [lag(values, 1) for values in parts]
    merged = merge_lags([lags[0], None, *lags[1:]])
    assert merged is not None
    whole = lag(list(chain(*parts)), 3)
    assert np.array_equal(decode(merged["histogram"]).count, decode(whole["histogram"]).count)
    for name in whole.keys() - {"histogram"}:
        assert merged[name] == pytest.approx(whole[name], rel=1e-9), name
    assert merge_lags([None, None]) is None


def test_the_lag_is_in_the_merged_log(intervals: Intervals) -> None:
    lags = [drawn(seed, 50) for seed in range(3)]
    for share, values in enumerate(lags):
        rows, log = interval(0, [1000], [])
        line = f"Tag=generator-lag,0.000000000,1.000000000,9.0,{encode(Counts.of(values))}\n"
        take(intervals, share, rows, log + line.encode())
    ((_, merged),) = intervals.ready()
    (line,) = (line for line in merged if line.startswith("Tag=generator-lag,5.000000000,"))
    assert np.array_equal(decode(line.split(",")[4]).count, as_kept(list(chain(*lags))).count)
