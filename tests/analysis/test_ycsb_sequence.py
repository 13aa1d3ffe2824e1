"""The table of the sequence and the published figures beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvmark.analysis import Case, published, ycsb_sequence
from kvmark.analysis.case_table import published_sequence
from kvmark.records import by_case

Draft = Any
Make = Callable[[], Draft]


def test_the_published_table_is_whole() -> None:
    figures = published_sequence()
    assert len(figures) == 7 * 2 * 4
    assert {row.store for row in figures} == {"Redis", "RocksDB"}
    found = published("A", "RocksDB", 1000)
    assert found is not None
    assert (found.runtime_ms, found.throughput) == (587.0, 1703.58)


def test_published_throughput_is_records_over_runtime() -> None:
    for row in published_sequence():
        expected = row.records / row.runtime_ms * 1000
        assert abs(row.throughput - expected) / expected < 0.001


def test_what_was_not_published_has_no_figures() -> None:
    assert published("A", "RocksDB", 1234) is None


def test_repetitions_are_one_row_with_the_published_figures_beside_it(healthy: Make) -> None:
    (row,) = ycsb_sequence(healthy().run() for _ in range(3))
    assert row.case == Case("A", "RocksDB", 1000)
    assert len(row.figures.runs) == 3
    assert row.published is not None
    assert row.published.runtime_ms == 587.0


def test_rows_follow_the_order_of_the_published_sequence(healthy: Make) -> None:
    runs = []
    for name in ("e", "reload", "mine", "delete", "d", "f", "c", "b", "a", "load"):
        draft = healthy()
        draft.plan["name"] = f"ycsb/{name}"
        runs.append(draft.run())
    workloads = [row.case.workload for row in ycsb_sequence(runs)]
    assert workloads == ["load", "A", "B", "C", "F", "D", "delete", "reload", "E", "mine"]


def test_a_load_has_the_records_that_it_inserts(healthy: Make) -> None:
    draft = healthy()
    draft.plan["dataset"]["count"] = 0
    draft.plan["phases"][0]["groups"][0]["operations"] = 6000
    (case,) = by_case([draft.run()])
    assert case.records == 6000


def test_target_rates_are_cases_of_their_own_without_published_figures(
    healthy: Make, healthy_open: Make
) -> None:
    slow, fast = ycsb_sequence([healthy().run(), healthy_open().run()])
    assert (slow.case.target_rate, slow.published) == (10_000.0, None)
    assert fast.case.target_rate is None
    assert fast.published is not None
