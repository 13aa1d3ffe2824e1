"""Lines and the Results block, compared with the published logs."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from kvmark.frontends.cassandra_stress.execution import continues, levels
from kvmark.frontends.cassandra_stress.options import ThreadRamp, read_stress
from kvmark.frontends.cassandra_stress.output import (
    HEAD,
    CollectionCounter,
    Collections,
    CountingRules,
    Figures,
    Garbage,
    Line,
    LineMaker,
    StressResults,
    adjusted_rate,
    line_text,
    relative_stderr,
    results_text,
)

LOGS = [
    "cassandra-stress-direct",
    "cassandra-stress-shotover-debug-4-threads",
    "cassandra-stress-shotover-release-16-threads",
]


def read(log: str) -> Line:
    """A published line."""
    values = [float(part) for part in log.split(",")[1:]]
    rates, times, garbage = values[1:4], values[4:10], values[13:18]
    operations, errors = int(values[0]), int(values[12])
    return Line("total", operations, *rates, *times, *values[10:12], errors, Collections(*garbage))


@pytest.mark.parametrize("name", LOGS)
def test_the_published_stderr_follows_from_the_published_rates(data: Path, name: str) -> None:
    lines = [one for one in (data / f"{name}.log").read_text().splitlines() if one[:6] == "total,"]
    rates = []
    # The last interval was cut off.
    for published in map(read, lines[:-1]):
        rates.append(adjusted_rate(published.row_rate, 1, published.max / 1000))
        # Rates and times are published in few digits.
        assert relative_stderr(rates) == pytest.approx(published.stderr, abs=3e-5)
    assert len(lines) > 60


def test_the_stderr_has_the_population_s_deviation() -> None:
    # Deviation of 1, 2, 3, 4 is √1.25; ÷ √4 ÷ 2.5.
    assert relative_stderr([1.0, 2.0, 3.0, 4.0]) == pytest.approx(1.25**0.5 / 2 / 2.5)
    assert math.isnan(relative_stderr([]))


@pytest.mark.parametrize("name", LOGS)
def test_published_lines_are_printed_identically(data: Path, name: str) -> None:
    log = (data / f"{name}.log").read_text().splitlines()
    assert HEAD in log
    lines = [line for line in log if line.startswith("total,")]
    assert [line_text(read(line)) for line in lines] == lines


def published(data: Path) -> tuple[StressResults, str]:
    """The Results block of a published log, as figures and as text."""
    log = (data / "cassandra-stress-direct.log").read_text()
    block = log[log.index("\n\n\nResults:") + 1 : log.index("\n\nEND")]
    times = (0.5, 0.3, 1.2, 3.3, 15.8, 319.0)
    figures = Figures("WRITE", 934_528, 15_072, 15_072, 15_072, {"service": times}, 934_528, 0)
    return StressResults(figures, (figures,), "service", 62.3, Garbage(15, 1.635)), block


def test_the_published_results_are_printed_identically(data: Path) -> None:
    results, block = published(data)
    ours = results_text(results).splitlines()
    unknown = re.compile("Total GC memory|StdDev GC time")
    theirs = [line for line in block.splitlines() if not unknown.match(line)]
    assert [line for line in ours if not unknown.match(line)] == theirs
    assert sum(bool(unknown.match(line)) for line in ours) == 2


def test_unknown_collections_are_not_printed_as_zero(data: Path) -> None:
    results, _ = published(data)
    unknown = StressResults(results.total, results.operations, "service", 62.3, None)
    lines = [line for line in results_text(unknown).splitlines() if "GC" in line]
    assert len(lines) == 5
    assert all("not known" in line for line in lines)


def row(operation: str, outcome: str, count: int, max_ms: float, **more: Any) -> dict[str, Any]:
    """A row of the engine's log."""
    times = {
        f"{sort}_ns_{name}": max_ms * 1e6
        for sort in ("service", "response")
        for name in ("mean", "p50", "p95", "p99", "p999", "max")
    }
    counts = {"operation": operation, "outcome": outcome, "count": count, "rows": count}
    return {"part": False, "start_ns": 0, "end_ns": 10**9, **counts, **times, **more}


def test_an_interval_s_rows_become_a_line_for_each_operation_and_one_for_all() -> None:
    partitions = {"insert": lambda operations: 2 * operations}
    maker = LineMaker(CountingRules("service", partitions, frozenset({"READ"})))
    rows = [
        row("TOTAL", "any", 110, 9.0),
        row("READ", "ok", 50, 5.0),
        row("READ", "miss", 5, 1.0, rows=0),
        row("READ", "timeout", 5, 9.0, rows=0),
        row("insert", "ok", 50, 2.0, rows=600),
    ]
    read_line, insert, total = maker.lines(rows, Collections())
    assert [line.kind for line in (read_line, insert, total)] == ["READ", "insert", "total"]
    assert (total.operations, total.op_rate, total.partition_rate) == (110, 110, 160)
    assert total.row_rate == 50 + 5 + 600
    assert (read_line.errors, insert.errors, total.errors) == (10, 0, 10)
    assert (read_line.max, total.max) == (5.0, 9.0)
    later = [{**one, "start_ns": 10**9, "end_ns": 2 * 10**9} for one in rows]
    *_, total = maker.lines(later, Collections())
    assert (total.operations, total.time_s) == (220, 2.0)


def test_an_unchecked_missing_record_is_no_error() -> None:
    rows = [row("TOTAL", "any", 5, 9.0), row("q", "miss", 5, 5.0, rows=0)]
    (total,) = LineMaker(CountingRules("service", {}, frozenset())).lines(rows, Collections())
    assert total.errors == 0


def test_collections_before_the_first_sample_do_not_count() -> None:
    counter = CollectionCounter()
    assert math.isnan(counter.count([]).count)
    assert counter.count([{"node": "node-1", "gc_count": 7, "gc_time_s": 1.5}]).count == 0
    later = counter.count([{"node": "node-1", "gc_count": 8, "gc_time_s": 1.6}])
    assert (later.count, later.sum_ms, later.max_ms) == (1, pytest.approx(100), pytest.approx(100))


def test_the_adjusted_rate_divides_by_the_rest_of_the_interval() -> None:
    assert adjusted_rate(100, 1.0, 0.5) == 200
    assert adjusted_rate(100, 1.0, 1.5) == -200
    assert math.isinf(adjusted_rate(100, 1.0, 1.0))


def test_the_ramp_s_levels_are_those_of_current_cassandra_stress() -> None:
    expected = [4, 8, 16, 24, 36, 54, 81, 121, 181, 271, 406, 609, 913]
    assert list(levels(ThreadRamp(4, 1000))) == expected
    assert list(levels(ThreadRamp(10, 10))) == [10]


def test_a_ramp_ends_when_more_clients_bring_no_gain() -> None:
    lines = ("write", "write n=5 -rate auto", "write -rate threads>=4")
    until, counted, endless = (read_stress(one.split()) for one in lines)
    assert continues(until, [100, 200, 300])
    assert not continues(until, [100, 99, 98, 97])
    slow = [100, 101, 102, 103, 104, 105]
    assert not continues(until, slow)
    assert continues(counted, slow)
    assert continues(endless, [100, 99, 98, 97])
