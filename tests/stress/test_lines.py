"""Lines and the Results block, held against the published logs."""

import json
import math
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from kvmark.frontends.cassandra_stress.command_line import Ladder, StressSpec
from kvmark.frontends.cassandra_stress.lines import (
    Collections,
    Line,
    LineMaker,
    LogTail,
    Uncertainty,
    adjusted_rate,
)
from kvmark.frontends.cassandra_stress.ramp import goes_on, levels, target_uncertainty
from kvmark.frontends.cassandra_stress.results import Figures, Garbage, StressResults
from kvmark.frontends.cassandra_stress.text import (
    HEAD,
    ladder_table,
    line_text,
    results_text,
    side_by_side,
)
from kvmark.records import files

LOGS = [
    "cassandra-stress-direct",
    "cassandra-stress-shotover-debug-4-threads",
    "cassandra-stress-shotover-release-16-threads",
]


def read(log: str) -> Line:
    """A published line."""
    values = [float(part) for part in log.split(",")[1:]]
    rates, times, garbage = values[1:4], values[4:10], values[13:18]
    return Line(
        "total",
        int(values[0]),
        *rates,
        *times,
        values[10],
        values[11],
        int(values[12]),
        Collections(*garbage),
    )


@pytest.mark.parametrize("name", LOGS)
def test_the_published_stderr_follows_from_the_published_rates(data: Path, name: str) -> None:
    lines = [one for one in (data / f"{name}.log").read_text().splitlines() if one[:6] == "total,"]
    uncertainty = Uncertainty()
    # The last line is of an interval that was cut off.
    for published in map(read, lines[:-1]):
        uncertainty = uncertainty.with_value(
            adjusted_rate(published.row_rate, 1, published.max / 1000)
        )
        # Rates and times are published in few digits.
        assert uncertainty.relative_stderr == pytest.approx(published.stderr, abs=3e-5)
    assert len(lines) > 60


def test_cassandra_stress_takes_the_population_deviation() -> None:
    # Deviation of 1, 2, 3, 4 is √1.25; ÷ √4 ÷ 2.5.
    found = reduce(Uncertainty.with_value, (1.0, 2.0, 3.0, 4.0), Uncertainty())
    assert found.relative_stderr == pytest.approx(1.25**0.5 / 2 / 2.5)


@pytest.mark.parametrize("name", LOGS)
def test_published_lines_are_printed_as_they_were(data: Path, name: str) -> None:
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


def test_the_published_results_are_printed_as_they_were(data: Path) -> None:
    results, block = published(data)
    ours = results_text(results).splitlines()
    unknown = re.compile("Total GC memory|StdDev GC time")
    theirs = [line for line in block.splitlines() if not unknown.match(line)]
    assert [line for line in ours if not unknown.match(line)] == theirs
    assert sum(bool(unknown.match(line)) for line in ours) == 2


def test_collections_that_nobody_tells_of_are_words_and_not_zeros(data: Path) -> None:
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
    content = {
        "part": False,
        "operation": operation,
        "outcome": outcome,
        "count": count,
        "rows": count,
        "start_ns": 0,
        "end_ns": 10**9,
        **times,
    }
    return {**content, **more}


def test_an_interval_s_rows_become_a_line_for_each_operation_and_one_for_all() -> None:
    maker = LineMaker(
        "service", {"READ": int, "insert": lambda operations: 2 * operations}, frozenset({"READ"})
    )
    rows = [
        row("TOTAL", "any", 110, 9.0),
        row("READ", "ok", 50, 5.0),
        row("READ", "miss", 5, 1.0, rows=0),
        row("READ", "timeout", 5, 9.0, rows=0),
        row("insert", "ok", 50, 2.0, rows=600),
    ]
    (read_line, insert, total), after = maker.take(rows, Collections())
    assert [line.kind for line in (read_line, insert, total)] == ["READ", "insert", "total"]
    assert (total.operations, total.op_rate, total.partition_rate) == (110, 110, 160)
    assert total.row_rate == 50 + 5 + 600
    assert (read_line.errors, insert.errors, total.errors) == (10, 0, 10)
    assert (read_line.max, total.max) == (5.0, 9.0)
    later = [{**one, "start_ns": 10**9, "end_ns": 2 * 10**9} for one in rows]
    (*_, total), _ = after.take(later, Collections())
    assert (total.operations, total.time_s) == (220, 2.0)


def test_a_record_that_nobody_must_have_written_is_no_error() -> None:
    rows = [row("TOTAL", "any", 5, 9.0), row("q", "miss", 5, 5.0, rows=0)]
    (total,), _ = LineMaker("service", {}, frozenset()).take(rows, Collections())
    assert total.errors == 0


def test_what_was_collected_before_the_first_line_is_not_in_it(tmp_path: Path) -> None:
    log = tmp_path / files.RESOURCE_LOG
    tail = LogTail(tmp_path)
    assert math.isnan(tail.collections().count)

    def sample(count: int, time_s: float) -> None:
        with log.open("a") as lines:
            lines.write(
                json.dumps({"node": "node-1", "gc_count": count, "gc_time_s": time_s}) + "\n"
            )

    sample(7, 1.5)
    assert tail.collections().count == 0
    sample(8, 1.6)
    later = tail.collections()
    assert (later.count, later.sum_ms, later.max_ms) == (1, pytest.approx(100), pytest.approx(100))


def test_what_is_not_known_is_not_a_number_in_its_column() -> None:
    rows = [row("TOTAL", "any", 5, 9.0), row("WRITE", "ok", 5, 5.0)]
    (total,), _ = LineMaker("response", {}, frozenset()).take(rows, Collections())
    text = line_text(total)
    assert len(text) == len(HEAD)
    assert text.endswith("NaN,     NaN,     NaN,     NaN,     NaN")


def test_an_interval_longer_than_its_operations_leaves_a_rate() -> None:
    assert adjusted_rate(100, 1.0, 0.5) == 200
    assert adjusted_rate(100, 1.0, 1.5) == -200
    assert math.isinf(adjusted_rate(100, 1.0, 1.0))
    assert math.isnan(Uncertainty().relative_stderr)


def test_the_ladder_s_levels_are_those_of_today_s_cassandra_stress() -> None:
    expected = [4, 8, 16, 24, 36, 54, 81, 121, 181, 271, 406, 609, 913]
    assert list(levels(Ladder(4, 1000))) == expected
    assert list(levels(Ladder(10, 10))) == [10]


def test_a_ladder_ends_when_more_clients_bring_nothing(line: Callable[[str], StressSpec]) -> None:
    until = target_uncertainty(line("write"))
    counted = target_uncertainty(line("write n=5 -rate auto"))
    assert (until, counted) == (0.02, -1.0)
    auto = Ladder(4, 1000)
    assert goes_on(auto, [100, 200, 300], until)
    assert not goes_on(auto, [100, 99, 98, 97], until)
    slow = [100, 101, 102, 103, 104, 105]
    assert not goes_on(auto, slow, until)
    assert goes_on(auto, slow, counted)
    assert goes_on(Ladder(4, 1000, auto=False), [100, 99, 98, 97], until)


def test_the_ladder_s_table_has_a_line_for_each_level(data: Path) -> None:
    line = read((data / "cassandra-stress-direct.log").read_text().splitlines()[2])
    table = ladder_table([("4 threadCount", line), ("16 threadCount", line)]).splitlines()
    assert table[0].endswith(HEAD)
    assert table[1].startswith(" 4 threadCount, total,")
    assert len({len(one) for one in table}) == 1


def test_a_fixed_rate_shows_three_times_side_by_side(data: Path) -> None:
    results, _ = published(data)
    sorts = {"response": (2.0,) * 6, "service": (1.0,) * 6, "wait": (1.0,) * 6}
    total = Figures("total", 1, 1, 1, 1, sorts, 1, 0)
    text = side_by_side(StressResults(total, (), "response", 1, results.garbage))
    assert [line.split()[0] for line in text.splitlines()] == [
        "time",
        "response",
        "service",
        "wait",
    ]
    assert text.splitlines()[1].split()[1:] == ["2.0"] * 6
